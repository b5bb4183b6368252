//! `lab bench fleet` and `fleet-faults`: four real nodes on emulated 4G uplinks, orchestrators that are elected
//! at etcd, RabbitMQ; a busy node borrows what the idle ones have left.
//! Source: papers/janus.txt, §VII (Table IV at 4G), in the link mode of `lab sim janus-tables`.

pub(crate) mod outage;
mod place;

use std::path::Path;
use std::time::Duration;

use clap::Args;

use self::place::{CLASSES, NODES};
use crate::play::{self, Played};
use crate::progress::Progress;
use crate::report::{Findings, figure};
use crate::rig;
use crate::rig::versions::Program;
use crate::sim::quantity::Span;
use crate::sim::{Point, four_g};
use crate::world::{Delivered, Records};

/// What nodes need to find each other and to be judged; not measured.
const WARM_UP: u64 = 10;
/// The busy node's records a second, as in the paper.
const BUSY: [f64; 3] = [30.0, 300.0, 5000.0];
/// How far the real nodes may be from the simulation.
const NEAR: f64 = 0.15;
/// A take-over takes at most this, seconds.
const TAKE_OVER: f64 = 3.0;

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Options {
    /// How long is measured, after 10 s of warm-up
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Of arrivals and links
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What to run where things fail.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FaultOptions {
    /// Of links
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Records a second of the busy node's bulk: more than its uplink carries, less than all do
    #[arg(long, default_value_t = 3500)]
    pub(crate) bulk: u32,
}

/// Runs the fleet and the same nodes alone, and tells both beside the simulation.
pub(crate) async fn run(options: Options, say: fn(&str)) -> anyhow::Result<Findings> {
    let Options { seconds, seed } = options;
    let progress = Progress::new("fleet", 3);
    progress.step("in virtual time", None);
    let virtually = tokio::task::spawn_blocking(move || four_g(seconds as f64, seed)).await??;
    let mut really = Vec::new();
    let mut broken = Vec::new();
    let program = rig::tidegate_program()?;
    for (name, is_fleet) in [("alone", false), ("fleet", true)] {
        let length = WARM_UP + seconds;
        progress.step(name, Some(Duration::from_secs(length)));
        let values: &[_] = if is_fleet { &[] } else { &[("fleet", "")] };
        let (mut world, _keys) = place::world(BUSY, values, &program)?;
        (world.name, world.seed) = (name.into(), seed);
        (world.length, world.drain) = (Some(Span::seconds(length)), Span::seconds(1));
        world.fault.clear();
        world.check.clear();
        world.process.retain(|process| is_fleet || process.host != "control");
        let Played { records, broken: own, .. } =
            play::play(&world, Path::new(""), None, say).await?;
        broken.extend(own);
        really.push(point(&records, Duration::from_secs(length)));
    }
    drop(progress);
    Ok(Findings { versions: versions(), broken, ..compared(&[really[0], really[1]], &virtually) })
}

fn versions() -> std::collections::BTreeMap<String, String> {
    Program::all_with_versions(&[Program::Tidegate, Program::RabbitMq]).into_iter().collect()
}

/// What real nodes showed from the warm-up on.
fn point(records: &Records, length: Duration) -> Point {
    let from = Duration::from_secs(WARM_UP);
    let rate = |one: &Delivered| one.rate(from, length);
    let p99 = |name: &str| {
        let took = records.get(name).and_then(|one| since(one, from).quantile(0.99));
        took.map_or(f64::NAN, |took| took.as_secs_f64())
    };
    Point {
        all: records.values().map(rate).sum(),
        p99: CLASSES.map(|class| p99(&format!("{class}1"))),
        lender_p99: (2..=NODES).map(|gate| p99(&format!("ls{gate}"))).fold(0.0, f64::max),
    }
}

/// What was due from then on.
fn since(one: &Delivered, from: Duration) -> Delivered {
    let came = one.came.iter().filter(|came| came.due >= from).copied().collect();
    Delivered { came, ..one.clone() }
}

/// Nodes alone and as a fleet, real and in virtual time.
fn compared(really: &[Point; 2], virtually: &[Point; 2]) -> Findings {
    let mut lines = vec![
        "4G: 18 Mbit/s and 50 ms each; the busy node gets 30 ls, 300 nm, 5,000 lt records/s of 844 bytes".into(),
        format!(
            "{:<26}{:>10}{:>12}{:>12}{:>12}{:>16}",
            "", "records/s", "ls p99 s", "nm p99", "lt p99", "lenders' ls p99"
        ),
    ];
    let mut figures = Vec::new();
    for (place, name) in ["alone", "fleet"].into_iter().enumerate() {
        for (kind, point) in [("really", really[place]), ("virtually", virtually[place])] {
            let Point { all, p99: [ls, nm, lt], lender_p99 } = point;
            lines.push(format!(
                "{:<26}{all:>10.0}{ls:>12.3}{nm:>12.3}{lt:>12.3}{lender_p99:>16.3}",
                format!("{name}, {kind}")
            ));
        }
        let key = |what: &str| format!("fleet_{name}_{what}");
        let point = really[place];
        figures.push(figure(&key("all"), point.all, "records/s"));
        figures.push(figure(&key("ls_p99"), point.p99[0] * 1e3, "ms"));
        figures.push(figure(&key("lenders_ls_p99"), point.lender_p99 * 1e3, "ms"));
        figures.push(figure(&key("all_over_simulated"), point.all / virtually[place].all, "1"));
    }
    let gain = |points: &[Point; 2]| points[1].all / points[0].all;
    figures.push(figure("fleet_all_over_alone", gain(really), "1"));
    figures.push(figure("fleet_all_over_alone_simulated", gain(virtually), "1"));
    let near = |what: &str, real: f64, simulated: f64| {
        let ratio = real / simulated;
        let word = if (ratio - 1.0).abs() <= NEAR { "keeps" } else { "MISSES" };
        format!("{word}: {what} is {ratio:.3} of the simulation's, within {NEAR}")
    };
    lines.push(near("the fleet's throughput", really[1].all, virtually[1].all));
    lines.push(near("what the fleet gains", gain(really), gain(virtually)));
    (lines, figures).into()
}

/// Runs the fleet through its faults.
pub(crate) async fn faults(options: FaultOptions, say: fn(&str)) -> anyhow::Result<Findings> {
    let busy = [BUSY[0], BUSY[1], f64::from(options.bulk)];
    // Publishers of nodes that are killed come back with what was not acknowledged: they send evenly.
    let log = "[log]\ndirectory = \"log-{gate}\"\n";
    let values = [("arrivals", "constant"), ("log", log)];
    let (mut world, _keys) = place::world(busy, &values, &rig::tidegate_program()?)?;
    (world.name, world.seed) = ("fleet-faults".into(), options.seed);
    let played = play::play(&world, Path::new(""), None, say).await?;
    let mut found = Findings { versions: versions(), ..Findings::default() };
    found.broken.extend(played.broken.iter().cloned());
    found.add(told(&played, world.fault[0].at.0));
    Ok(found)
}

/// What a run with faults showed, and what is broken.
fn told(played: &Played, killed: Duration) -> Findings {
    let (mut lines, mut broken, mut figures) = (Vec::new(), Vec::new(), Vec::new());
    match take_over(&played.said, killed) {
        Some((led, found)) => {
            lines.push(format!(
                "take-over: another leads {led:.2} s after kill -9 of the leader, the last node knows it after \
                 {found:.2} s"
            ));
            figures.push(figure("fleet_faults_take_over", led, "s"));
            figures.push(figure("fleet_faults_take_over_last_node", found, "s"));
            if found > TAKE_OVER {
                lines.push(format!("MISSES: {TAKE_OVER} s"));
            }
        }
        None => broken.push("nobody followed the leader, or orch1 was none".into()),
    }
    let sum = |of: fn(&Delivered) -> u64| played.records.values().map(of).sum::<u64>();
    let (accepted, came) = (sum(|one| one.accepted), sum(|one| one.came.len() as u64));
    let lost = accepted.saturating_sub(came);
    let twice = sum(|one| one.duplicates);
    lines
        .push(format!("{accepted} records accepted, {came} came, {lost} lost, {twice} came twice"));
    if lost > 0 {
        broken.push(format!("{lost} accepted records did not come"));
    }
    figures.push(figure("fleet_faults_accepted", accepted as f64, "records"));
    figures.push(figure("fleet_faults_lost", lost as f64, "records"));
    figures.push(figure("fleet_faults_twice", twice as f64, "records"));
    Findings { lines, figures, broken, ..Findings::default() }
}

/// Seconds from the leader's kill until another orchestrator leads, and until the last of the nodes has found it.
fn take_over(said: &[(Duration, String)], killed: Duration) -> Option<(f64, f64)> {
    let leads = |line: &str| line.contains("leading from now on");
    said.iter().find(|(at, line)| *at < killed && line.starts_with("[orch1]") && leads(line))?;
    let after = || said.iter().filter(|(at, _)| *at >= killed);
    let led = after().find(|(_, line)| leads(line)).map(|(at, _)| *at)?;
    let finds = |gate: usize| {
        let own = format!("[gate{gate}]");
        let found = |line: &str| line.starts_with(&own) && line.contains("it leads");
        after().find(|(_, line)| found(line)).map(|(at, _)| *at)
    };
    let found = (1..=NODES).map(finds).collect::<Option<Vec<_>>>()?.into_iter().max()?;
    Some(((led - killed).as_secs_f64(), (found - killed).as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_is_one() {
        let (world, _keys) = place::world(BUSY, &[], Path::new("tidegate")).unwrap();
        assert_eq!((world.hosts.len(), world.link.len(), world.source.len()), (7, 9, 12));
        assert_eq!((world.process.len(), world.fault.len(), world.check.len()), (12, 10, 12));
    }

    #[test]
    fn a_take_over_is_read_from_what_was_said() {
        let said = |at: f64, line: &str| (Duration::from_secs_f64(at), line.to_owned());
        let mut lines = vec![
            said(0.0, "[orch1] INFO leading from now on revision=3"),
            said(1.0, "[gate1] INFO it leads orchestrator=a"),
            said(17.2, "[orch3] INFO leading from now on revision=9"),
        ];
        assert_eq!(take_over(&lines, Duration::from_secs(15)), None);
        for (gate, at) in [(1, 17.3), (2, 17.4), (3, 17.25), (4, 17.5)] {
            lines.push(said(at, &format!("[gate{gate}] INFO it leads orchestrator=b")));
        }
        let (led, found) = take_over(&lines, Duration::from_secs(15)).unwrap();
        assert!((led - 2.2).abs() < 1e-9 && (found - 2.5).abs() < 1e-9, "{led} {found}");
        lines.remove(0);
        assert_eq!(take_over(&lines, Duration::from_secs(15)), None);
    }

    #[test]
    fn what_is_far_from_the_simulation_is_named() {
        let point = |all| Point { all, p99: [0.1; 3], lender_p99: 0.06 };
        let found = compared(&[point(3000.0), point(4000.0)], &[point(3000.0), point(5600.0)]);
        let missed = found.lines.iter().filter(|line| line.starts_with("MISSES"));
        assert_eq!(missed.count(), 2, "{found:#?}");
        assert_eq!(found.value("fleet_fleet_all_over_simulated"), Some(0.714));
    }
}
