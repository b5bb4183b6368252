//! What a node costs at a given rate: CPU and memory of each component at the edge, beside Mosquitto's.
//! JANUS, section VII.B.4.
//!
//! The link is not the limit. What a component of a node costs is the difference between two nodes: one that
//! accepts and discards, one that sends, one that makes records safe first.

use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};

use super::contestants::{self, Component, Contestant, Destination};
use crate::bench::median;
use crate::load::{Account, Payload, Publish, Stream};
use crate::net::namespace::Link;
use crate::net::spinner::Spinners;
use crate::net::usage::{on_processor, resident_kib};
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};

/// Connections that the records come over.
const PUBLISHERS: u32 = 100;
/// A contestant that does less of the load than this while it is on does not keep up with it.
const KEEPS_UP: f64 = 0.95;
/// From the load's begin until counting begins: buffers have their size then.
const WARM_UP: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Records a second (may be given again)
    #[arg(long = "rate", default_values_t = [1000, 5000])]
    pub(crate) rates: Vec<u32>,
    /// Payload bytes
    #[arg(long, default_value_t = 256)]
    pub(crate) size: usize,
    /// How long is counted, in seconds
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u32,
    /// Runs of each, in turn; figures are medians
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: u32,
    /// Only this one (may be given again)
    #[arg(long, value_parser = contestants::one_of(contestants))]
    pub(crate) only: Vec<Contestant>,
}

/// What a component used.
#[derive(Clone, Debug, PartialEq)]
struct Used {
    component: String,
    /// Part of one processor.
    processor: f64,
    /// MiB: at the end, and the most.
    resident: [f64; 2],
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    used: Vec<Used>,
    /// Records that were done while the load was on, as a part of all: what costs too little because it
    /// is not done says nothing.
    in_time: f64,
    /// Accepted records that did not come.
    lost: u64,
}

fn contestants() -> Vec<Contestant> {
    let node = contestants::node;
    let mut all = vec![
        node("tidegate-accepts", Destination::Nothing, ""),
        node("tidegate-sends", Destination::RabbitMq, ""),
        node("tidegate-keeps-and-sends", Destination::RabbitMq, "[log]\ndirectory = \"log\"\n"),
    ];
    all.extend(contestants::rivals("overhead"));
    all
}

/// Runs it and returns what was found.
///
/// # Errors
/// Links cannot be made here, or a contestant that is there does not work.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    let contestants = if options.only.is_empty() { contestants() } else { options.only.clone() };
    let runs = options.runs.max(1);
    let progress =
        Progress::new("overhead", options.rates.len() * contestants.len() * runs as usize);
    let mut found = Findings::default();
    found.lines.push(format!(
        "{} B each from {PUBLISHERS} publishers, {} s, median of {runs} runs in turn",
        options.size, options.seconds
    ));
    found.lines.push(format!(
        "{:>9} {:<26}{:<14}{:>10}{:>14}{:>12}{:>12}",
        "records/s", "", "component", "CPU", "a record", "resident", "at most"
    ));
    for &rate in &options.rates {
        let expected = WARM_UP + Duration::from_secs(options.seconds.into());
        let run = async |contestant: &Contestant| one(contestant, rate, &options).await;
        let (all, skipped) =
            contestants::in_turns(&progress, &contestants, (runs, expected), run).await?;
        found.lines.extend(skipped);
        for (contestant, runs) in contestants.iter().zip(&all).filter(|(_, runs)| !runs.is_empty())
        {
            let name = &contestant.name;
            found.versions.extend(contestant.versions());
            found.add(told(name, rate, runs));
            let lost =
                runs.iter().map(|run| run.lost).filter(|lost| contestant.is_ours && *lost > 0);
            found.broken.extend(lost.map(|lost| format!("{name}, {rate}/s: {lost} accepted lost")));
        }
    }
    Ok(found)
}

/// One run of one contestant.
async fn one(contestant: &Contestant, rate: u32, options: &Options) -> anyhow::Result<Run> {
    const DRAIN: Duration = Duration::from_secs(20);
    let link = Link::new()?;
    let counted = Duration::from_secs(options.seconds.into());
    let load = WARM_UP + counted;
    let stream = Stream {
        name: "load".into(),
        topic: "plant/load".into(),
        payload: Payload::Stamped(options.size),
        per_second: rate.into(),
        publishers: PUBLISHERS,
        ..Stream::default()
    };
    let job = Publish {
        streams: vec![stream],
        seconds: u32::try_from(load.as_secs())?,
        patience: u32::try_from(DRAIN.as_secs())?,
        ..Publish::default()
    };
    let count = async |edge: &[Component]| count(edge, counted).await;
    let (book, is_to_arrive, used) = contestant.carry(&link, job, (load, 2 * DRAIN), count).await?;
    let Account { sent, accepted, lost, .. } = book.account("");
    let (done, lost) = match is_to_arrive {
        true => (book.tally("load").map_or(0, |tally| tally.in_time), lost),
        false => (accepted, 0),
    };
    Ok(Run { used, in_time: done as f64 / sent.max(1) as f64, lost })
}

/// What components use for so long after the warm-up.
async fn count(components: &[Component], counted: Duration) -> anyhow::Result<Vec<Used>> {
    let used = || components.iter().map(|one| on_processor(one.id)).collect::<Result<Vec<_>, _>>();
    sleep(WARM_UP).await;
    let (begin, before) = (Instant::now(), used()?);
    sleep(counted).await;
    let (took, after) = (begin.elapsed().as_secs_f64(), used()?);
    let mut all = Vec::new();
    for (Component { name, id, .. }, (before, after)) in
        components.iter().zip(before.iter().zip(after))
    {
        let resident = resident_kib(*id)?.map(|kib| kib as f64 / 1024.0);
        let processor = (after - *before).as_secs_f64() / took;
        all.push(Used { component: name.clone(), processor, resident });
    }
    Ok(all)
}

/// A line and the figures of each component, and of all together where there are several.
fn told(name: &str, rate: u32, runs: &[Run]) -> (Vec<String>, Vec<Figure>) {
    let (mut lines, mut figures) = (Vec::new(), Vec::new());
    let mut add = |component: &str, of: &dyn Fn(&[Used]) -> [f64; 3]| {
        let values: Vec<[f64; 3]> = runs.iter().map(|run| of(&run.used)).collect();
        let at = |place: usize| median(values.iter().map(|value| value[place]).collect());
        let [processor, now, most] = [at(0), at(1), at(2)];
        let each_us = processor / f64::from(rate) * 1e6;
        lines.push(format!(
            "{rate:>9} {name:<26}{component:<14}{:>8.2} %{each_us:>11.2} us{now:>8.1} MiB{most:>8.1} MiB",
            processor * 100.0
        ));
        let plain = |text: &str| text.replace(['-', ' '], "_");
        let key = format!("overhead_{}_{}_{rate}", plain(name), plain(component));
        figures.push(figure(&format!("{key}_cpu"), processor * 100.0, "%"));
        figures.push(figure(&format!("{key}_cpu_each"), each_us, "us"));
        figures.push(figure(&format!("{key}_resident"), now, "MiB"));
        figures.push(figure(&format!("{key}_resident_most"), most, "MiB"));
    };
    for (place, Used { component, .. }) in runs[0].used.iter().enumerate() {
        add(component, &|run| {
            let Used { processor, resident, .. } = &run[place];
            [*processor, resident[0], resident[1]]
        });
    }
    if runs[0].used.len() > 1 {
        let sum = |run: &[Used], of: fn(&Used) -> f64| run.iter().map(of).sum::<f64>();
        add("together", &|run| {
            [
                sum(run, |one| one.processor),
                sum(run, |one| one.resident[0]),
                sum(run, |one| one.resident[1]),
            ]
        });
    }
    let in_time = median(runs.iter().map(|run| run.in_time).collect());
    let key = format!("overhead_{}_{rate}_done_in_time", name.replace('-', "_"));
    figures.push(figure(&key, in_time, "1"));
    if in_time < KEEPS_UP {
        let part = in_time * 100.0;
        lines.push(format!("{:>9} {name} did not keep up: {part:.0} % was done in time", ""));
    }
    (lines, figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_stand_by_themselves_and_together() {
        let used = |component: &str, processor| Used {
            component: component.into(),
            processor,
            resident: [8.0, 9.0],
        };
        let run = |a, b| Run {
            used: vec![used("mosquitto", a), used("forwarder", b)],
            in_time: 0.5,
            lost: 0,
        };
        let (lines, figures) =
            told("mosquitto-forwarder", 1000, &[run(0.01, 0.02), run(0.03, 0.04), run(0.02, 0.03)]);
        assert_eq!(lines.len(), 4);
        assert!(lines[3].ends_with("did not keep up: 50 % was done in time"), "{lines:#?}");
        for expected in [
            "FIGURE overhead_mosquitto_forwarder_mosquitto_1000_cpu 2 %",
            "FIGURE overhead_mosquitto_forwarder_forwarder_1000_cpu_each 30 us",
            "FIGURE overhead_mosquitto_forwarder_together_1000_cpu 5 %",
            "FIGURE overhead_mosquitto_forwarder_together_1000_resident_most 18 MiB",
        ] {
            let is_there = figures.iter().any(|figure| figure.to_string() == expected);
            assert!(is_there, "{expected}: {figures:#?}");
        }
    }
}
