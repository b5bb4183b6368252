//! What an HTTP sidecar costs: latency and CPU of a request through our proxy, with queues and a script over
//! them, and through Envoy without, and with those queues as its external processor. BumbleBee, Fig. 16.
//!
//! Requests are due at random times (Poisson), whatever became of earlier ones; their time counts from when
//! they were due. Contestants take turns, and what is told are medians over the rounds.

mod contestants;
pub(super) mod load;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;

use self::contestants::Contestant;
use self::load::{Answered, Load};
use crate::bench::median;
use crate::net::NetError;
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::net::usage::{of_threads, raise_open_files};
use crate::progress::Progress;
use crate::report::{Findings, figure};
use crate::rig::versions::Program;

/// Quantiles that are compared: those of the paper. The last two say as much of the machine as of a proxy: they are for
/// a quiet one.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];
/// From the first request until counting begins: connections are made and buffers have their size then.
const WARM_UP: Duration = Duration::from_secs(2);
/// What is promised: latency of our proxy with queues and script, as a part of Envoy's.
const LATENCY_MAX: f64 = 0.8;
/// Who runs on one thread and on two, and the connections of that load.
const SCALING: [(&str, [Contestant; 2]); 2] = [
    ("envoy", [Contestant::Envoy, Contestant::EnvoyTwo]),
    ("tidegate", [Contestant::Script, Contestant::ScriptTwo]),
];
const SATURATED: u32 = 64;
/// CPU of a request, likewise.
const CPU_MAX: f64 = 0.7;

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Connections (may be given again)
    #[arg(long = "connections", default_values_t = [100, 1000])]
    pub(crate) connections: Vec<u32>,
    /// Requests a second, over all connections
    #[arg(long, default_value_t = 500)]
    pub(crate) rate: u32,
    /// How long is counted, in seconds
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u32,
    /// Rounds; in each one everybody has a turn
    #[arg(long, default_value_t = 5)]
    pub(crate) runs: u32,
    /// Only these, by name (may be given again)
    #[arg(long = "only", value_name = "CONTESTANT")]
    pub(crate) only: Vec<String>,
}

/// What came of one turn.
#[derive(Clone, Debug, Default)]
struct Turn {
    /// Milliseconds, as in `QUANTILES`.
    took: [f64; QUANTILES.len()],
    /// Microseconds of CPU of one request, of all processes between, and of the busiest thread there.
    cpu: f64,
    busiest: f64,
    /// Requests a second that were answered.
    rate: f64,
    /// Requests that failed, by what came in the place of their answers.
    failed: BTreeMap<String, u64>,
}

/// Runs it and returns what was found.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    raise_open_files();
    let runs = options.runs.max(1);
    let mut found = Findings::default();
    found.lines.push(format!(
        "{} requests/s, {} B pages, {} s a turn, medians of {runs} rounds",
        options.rate,
        load::BODY,
        options.seconds
    ));
    let mut contestants = Contestant::ALL.to_vec();
    let is_wanted = |one: &Contestant| options.only.iter().any(|name| name == one.name());
    contestants.retain(|one| options.only.is_empty() || is_wanted(one));
    if let Err(error) = Program::Envoy.path() {
        found.lines.push(format!("skipped: envoy: {error}"));
        contestants.retain(|one| !one.needs_envoy());
    }
    let steps = options.connections.len() * contestants.len() * runs as usize;
    let progress = Progress::new("sidecar", steps);
    for &connections in &options.connections {
        let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); contestants.len()];
        for round in 0..runs {
            for (place, contestant) in contestants.iter().enumerate() {
                let took = WARM_UP + Duration::from_secs(u64::from(options.seconds));
                progress.step(&format!("{} {connections}", contestant.name()), Some(took));
                let load = (options.rate, options.seconds);
                let turn = turn(*contestant, connections, load, u64::from(round)).await?;
                turns[place].push(turn);
            }
        }
        tell(connections, &contestants, &turns, &mut found);
    }
    let mut scales = Vec::new();
    for (name, pair) in SCALING {
        if !pair.iter().all(|one| contestants.contains(one)) {
            continue;
        }
        let mut all = [Vec::new(), Vec::new()];
        for round in 0..runs {
            for (turns, contestant) in all.iter_mut().zip(pair) {
                let load = (0, options.seconds);
                turns.push(turn(contestant, SATURATED, load, u64::from(round)).await?);
            }
        }
        scales.push(scaling(name, &all, &mut found));
    }
    if let [envoy, own] = scales[..] {
        found.figures.push(figure("sidecar_scaling_over_envoy", own / envoy, "1"));
    }
    found.versions =
        Program::all_with_versions(&[Program::Tidegate, Program::Envoy]).into_iter().collect();
    Ok(found)
}

/// What a second thread gains under all the load that there can be: answers a second, and what the busiest thread needs
/// for one, which bounds them where there are processors enough.
fn scaling(name: &str, [one, two]: &[Vec<Turn>; 2], found: &mut Findings) -> f64 {
    let of = |turns: &[Turn], value: fn(&Turn) -> f64| median(turns.iter().map(value).collect());
    let rates = [one, two].map(|turns| of(turns, |turn| turn.rate));
    let busiest = [one, two].map(|turns| of(turns, |turn| turn.busiest));
    let scale = busiest[0] / busiest[1];
    found.lines.push(format!(
        "  {name}, saturated: one thread {:.0}/s, two {:.0}/s; busiest thread {:.1} and {:.1} us a request: {scale:.2}",
        rates[0], rates[1], busiest[0], busiest[1]
    ));
    for turns in [one, two] {
        let failed: BTreeMap<_, _> = turns.iter().flat_map(|turn| turn.failed.clone()).collect();
        found.broken.extend(failed.into_keys().map(|why| format!("{name}, saturated: {why}")));
    }
    found.figures.push(figure(
        &format!("sidecar_{name}_saturated_ratio"),
        rates[1] / rates[0],
        "1",
    ));
    found.figures.push(figure(&format!("sidecar_{name}_scaling"), scale, "1"));
    scale
}

async fn turn(
    contestant: Contestant,
    connections: u32,
    (rate, seconds): (u32, u32),
    seed: u64,
) -> anyhow::Result<Turn> {
    let scratch = Scratch::new()?;
    let mut server = JoinSet::new();
    let behind = load::serve(&mut server).await?;
    let (to, processes) = contestant.start(&scratch, behind).await?;
    let used = || {
        let all = processes.iter().filter_map(Process::id).map(of_threads);
        let all = all.collect::<std::io::Result<Vec<_>>>().map_err(|source| NetError::Io {
            doing: format!("reading what {} uses", contestant.name()),
            source,
        });
        Ok::<_, NetError>(all?.into_iter().flatten().collect::<BTreeMap<_, _>>())
    };
    let counted = Duration::from_secs(u64::from(seconds));
    let (per_second, warm_up) = (f64::from(rate), WARM_UP);
    let load = Load { to, connections, per_second, warm_up, counted, seed };
    let mut before = None;
    let answered: Answered = load::send(load, || before = used().ok()).await?;
    let (before, after) = (before.unwrap_or_default(), used()?);
    let spent = |(thread, after): (_, Duration)| {
        after.saturating_sub(before.get(thread).copied().unwrap_or_default()).as_secs_f64() * 1e6
    };
    let requests = answered.took.len() as f64 + answered.failed as f64;
    Ok(Turn {
        took: QUANTILES.map(|(_, part)| answered.quantile(part)),
        cpu: after.iter().map(|(thread, after)| spent((thread, *after))).sum::<f64>() / requests,
        busiest: after.iter().map(|(thread, after)| spent((thread, *after))).fold(0.0, f64::max)
            / requests,
        rate: requests / counted.as_secs_f64(),
        failed: answered.why,
    })
}

/// Lines, figures and the verdict of so many connections.
fn tell(connections: u32, contestants: &[Contestant], turns: &[Vec<Turn>], found: &mut Findings) {
    let heads: String = QUANTILES.iter().map(|(name, _)| format!("{name:>10}")).collect();
    found.lines.push(format!("{connections} connections{:<8}{heads}{:>16}", "", "CPU a request"));
    let mut medians = Vec::new();
    let mut figures = Vec::new();
    for (contestant, turns) in contestants.iter().zip(turns) {
        let of = |value: &dyn Fn(&Turn) -> f64| median(turns.iter().map(value).collect());
        let took: [f64; QUANTILES.len()] =
            std::array::from_fn(|place| of(&|turn| turn.took[place]));
        let cpu = of(&|turn| turn.cpu);
        let mut why: BTreeMap<&str, u64> = BTreeMap::new();
        for (word, count) in turns.iter().flat_map(|turn| &turn.failed) {
            *why.entry(word).or_default() += count;
        }
        let failed: u64 = why.values().sum();
        let name = contestant.name();
        let times: String = took.iter().map(|took| format!("{took:>7.3} ms")).collect();
        found.lines.push(format!(
            "  {name:<22}{times}{cpu:>13.0} us{}",
            if failed > 0 { format!("  {failed} failed") } else { String::new() }
        ));
        if failed > 0 {
            let why: Vec<String> =
                why.iter().map(|(why, count)| format!("{count} {why}")).collect();
            found.broken.push(format!("{name}: {failed} requests failed: {}", why.join("; ")));
        }
        let key = format!("sidecar_{}_{connections}", name.replace('-', "_"));
        for ((quantile, _), took) in QUANTILES.iter().zip(took) {
            figures.push(figure(&format!("{key}_{quantile}"), took, "ms"));
        }
        if *contestant != Contestant::Direct {
            figures.push(figure(&format!("{key}_cpu"), cpu, "us"));
        }
        medians.push((*contestant, took, cpu));
    }
    let of = |wanted| medians.iter().find(|(contestant, ..)| *contestant == wanted).copied();
    let pairs = [
        ("script_over_envoy", Contestant::Script, Contestant::Envoy),
        ("lifo_over_envoy", Contestant::Lifo, Contestant::Envoy),
        ("two_over_two", Contestant::ScriptTwo, Contestant::EnvoyTwo),
        ("both_over_off", Contestant::Both, Contestant::Off),
        ("ext_proc_queue_over_envoy", Contestant::EnvoyQueue, Contestant::Envoy),
        ("ext_proc_script_over_envoy", Contestant::EnvoyScript, Contestant::Envoy),
    ];
    for (name, one, other) in pairs {
        let (Some(one), Some(other)) = (of(one), of(other)) else { continue };
        let took: [f64; QUANTILES.len()] =
            std::array::from_fn(|place| one.1[place] / other.1[place]);
        let cpu = one.2 / other.2;
        let goal = match name {
            "script_over_envoy" | "lifo_over_envoy" => {
                format!(" (goals: {LATENCY_MAX}, CPU {CPU_MAX})")
            }
            _ => String::new(),
        };
        let ratios: String = QUANTILES
            .iter()
            .zip(took)
            .map(|((quantile, _), ratio)| format!("{quantile} {ratio:.2}, "))
            .collect();
        found.lines.push(format!("  {name}: {ratios}CPU {cpu:.2}{goal}"));
        for ((quantile, _), ratio) in QUANTILES.iter().zip(took) {
            figures.push(figure(&format!("sidecar_{name}_{connections}_{quantile}"), ratio, "1"));
        }
        figures.push(figure(&format!("sidecar_{name}_{connections}_cpu"), cpu, "1"));
    }
    found.figures.extend(figures);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_medians() {
        let turn = |took: f64, cpu| Turn { took: [took; QUANTILES.len()], cpu, ..Turn::default() };
        let turns =
            [vec![turn(1.0, 300.0), turn(2.0, 100.0), turn(9.0, 200.0)], vec![turn(1.0, 50.0)]];
        let mut found = Findings::default();
        tell(100, &[Contestant::Envoy, Contestant::Script], &turns, &mut found);
        for wanted in [
            "FIGURE sidecar_envoy_100_p50 2 ms",
            "FIGURE sidecar_envoy_100_cpu 200 us",
            "FIGURE sidecar_script_over_envoy_100_p999 0.5 1",
            "FIGURE sidecar_script_over_envoy_100_cpu 0.25 1",
        ] {
            assert!(found.printed().iter().any(|line| line == wanted), "{wanted}: {found:#?}");
        }
    }
}
