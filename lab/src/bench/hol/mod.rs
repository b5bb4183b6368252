//! Head-of-line blocking on real sockets: alarms and bulk through an uplink that cannot carry both.
//!
//! Each contestant in turn stands in the edge namespace behind a link of 2 Mbit/s and carries the same
//! load, 160 % of the link, to a consumer in the cloud namespace. All processes share one clock.

mod contestants;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, timeout_at};

use super::figure;
use crate::load::stamp::{Stamp, wall_ns};
use crate::load::{Acked, Job, Payload, Publish, Stream, Tally};
use crate::net::NetError;
use crate::net::namespace::{Limit, Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Axis, Curve, Findings, Mark, Plot};
use crate::rig::brokers::lab;

pub use contestants::Contestant;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who, in this order; several runs are interleaved.
    pub contestants: Vec<Contestant>,
    /// How long the load is on, in seconds.
    pub seconds: u32,
    /// How long to wait afterwards for what still waits, in seconds.
    pub drain: u32,
    /// How often each contestant runs; figures are medians.
    pub runs: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options { contestants: Contestant::ALL.to_vec(), seconds: 30, drain: 60, runs: 1 }
    }
}

/// Payload bytes of an alarm.
const ALARM_SIZE: usize = 200;
/// Payload bytes of a bulk record.
const BULK_SIZE: usize = 20_000;

/// Alarms: small and rare.
fn alarm() -> Stream {
    stream("alarm", ALARM_SIZE, 5)
}

/// Bulk: 160 % of the link by itself.
fn bulk() -> Stream {
    stream("bulk", BULK_SIZE, 20)
}

fn stream(name: &str, size: usize, per_second: u32) -> Stream {
    let topic = format!("plant/{name}");
    Stream { name: name.into(), topic, payload: Payload::Stamped(size), per_second }
}

/// One run of one contestant.
#[derive(Clone, Debug)]
pub struct Outcome {
    acked: BTreeMap<String, Acked>,
    tallies: BTreeMap<String, Tally>,
    /// Payload bytes of a link without headers, while the load was on.
    link_bytes: f64,
}

/// Runs the contestants and returns what was found.
///
/// # Errors
/// Links cannot be made here, or a contestant that is there does not work. A contestant whose program is
/// missing is left out and says so.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    let mut found = Findings::default();
    let mut outcomes: BTreeMap<&str, Vec<Outcome>> = BTreeMap::new();
    let runs = options.runs.max(1);
    let progress = Progress::new("hol", options.contestants.len() * runs as usize);
    let expected = Duration::from_secs((options.seconds + options.seconds / 2).into());
    for run in 1..=runs {
        for contestant in &options.contestants {
            let name = contestant.name();
            progress.step(&format!("{name}, run {run} of {runs}"), Some(expected));
            match run_one(*contestant, &options).await {
                Ok(outcome) => {
                    found.versions.extend(contestant.versions());
                    outcomes.entry(name).or_default().push(outcome);
                }
                Err(error) => match error.downcast_ref::<NetError>() {
                    Some(missing @ NetError::Missing { .. }) => {
                        found.lines.push(format!("skipped: {name}: {missing}"));
                    }
                    _ => return Err(error.context(name)),
                },
            }
        }
    }
    drop(progress);
    for (name, outcomes) in &outcomes {
        for outcome in outcomes {
            found.lines.push(format!("{name}: slowest alarms:{}", slowest(outcome)));
        }
    }
    for (name, outcomes) in &outcomes {
        found.lines.extend(figures(name, outcomes));
    }
    let names = options.contestants.iter().map(|contestant| contestant.name());
    let names: Vec<&str> = names.filter(|name| outcomes.contains_key(name)).collect();
    found.plots = plots(&names, &outcomes);
    Ok(found)
}

/// Latency of alarms: all of them as a distribution, and over time.
fn plots(names: &[&str], outcomes: &BTreeMap<&str, Vec<Outcome>>) -> Vec<Plot> {
    let alarm = alarm();
    let tallies = |name: &str| outcomes[name].iter().filter_map(|one| one.tallies.get(&alarm.name));
    let cdf = |name: &&str| {
        let mut all: Vec<f64> = tallies(name).flat_map(Tally::sorted_ms).collect();
        all.sort_by(f64::total_cmp);
        Curve::cdf(name, &all)
    };
    let series = |name: &&str| {
        let due = |(seq, latency)| (seq as f64 / f64::from(alarm.per_second), latency);
        let last = tallies(name).next_back().map(Tally::by_place).unwrap_or_default();
        Curve::new(name, Mark::Line, last.into_iter().map(due).collect())
    };
    let latency = || Axis::log("latency from due to received", "ms");
    vec![
        Plot {
            title: "Alarms through 2 Mbit/s at 160 % load".into(),
            x: latency(),
            y: Axis::linear("part of the alarms that came", "1"),
            curves: names.iter().map(cdf).collect(),
        },
        Plot {
            title: "Alarms through 2 Mbit/s at 160 % load, last run".into(),
            x: Axis::linear("when the alarm was due", "s"),
            y: latency(),
            curves: names.iter().map(series).collect(),
        },
    ]
}

async fn run_one(contestant: Contestant, options: &Options) -> anyhow::Result<Outcome> {
    let link = Link::new()?;
    link.limit(Side::Edge, Limit::TWO_MEGABIT)?;
    let scratch = Scratch::new()?;
    let mut rig = contestant.start(&link, &scratch).await?;
    let job = Job::Publish(Publish {
        address: rig.address,
        streams: vec![alarm(), bulk()],
        seconds: options.seconds,
        patience: options.drain,
    });
    let mut command = lab(&link, Side::Edge)?;
    job.add_to(&mut command);
    let publisher = Process::start("publisher", command)?;
    let outcome = listen(publisher, &mut rig.consumer, options).await;
    drop(rig.servers);
    outcome
}

/// Keeps the book until everything that was accepted has come, or the time to drain is over.
async fn listen(
    mut publisher: Process,
    consumer: &mut Process,
    options: &Options,
) -> anyhow::Result<Outcome> {
    let load = Duration::from_secs(options.seconds.into());
    let end_ns = wall_ns() + u64::try_from(load.as_nanos())?;
    let deadline = Instant::now() + load + Duration::from_secs(options.drain.into());
    let mut acked: BTreeMap<String, Acked> = BTreeMap::new();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut publishing = true;
    let book = async {
        loop {
            let all_came = || {
                let came = |(name, acked): (&String, &Acked)| {
                    tallies.get(name).map_or(0, Tally::got) >= acked.accepted
                };
                acked.iter().all(came)
            };
            if !publishing && all_came() {
                return Ok(());
            }
            tokio::select! {
                line = publisher.line(), if publishing => match line {
                    Some(line) => {
                        let of_stream: Acked = serde_json::from_str(&line)
                            .with_context(|| format!("the publisher says {line}"))?;
                        acked.insert(of_stream.name.clone(), of_stream);
                    }
                    None => publishing = false,
                },
                line = consumer.line() => {
                    let line = line.context("the consumer ended")?;
                    let stamp: Stamp = line.parse()?;
                    let received = line.rsplit(' ').next().unwrap_or_default().parse()?;
                    tallies.entry(stamp.stream.clone()).or_default().take(&stamp, received, end_ns);
                }
            }
        }
    };
    // The end of the time to drain is a result, not a failure: the figures show what did not come.
    timeout_at(deadline, book).await.unwrap_or(anyhow::Ok(()))?;
    let bits = Limit::TWO_MEGABIT.bits_per_second as f64;
    Ok(Outcome { acked, tallies, link_bytes: bits / 8.0 * load.as_secs_f64() })
}

/// When the slowest alarms were due, and how late they came: whether a p99 is a start, a stall or the rule.
fn slowest(outcome: &Outcome) -> String {
    let alarm = alarm();
    let Some(tally) = outcome.tallies.get(&alarm.name) else { return " none came".into() };
    let show = |(latency, seq): (Duration, u64)| {
        let due = seq as f64 / f64::from(alarm.per_second);
        format!(" {} ms (due at {due:.1} s)", latency.as_millis())
    };
    tally.slowest(5).into_iter().map(show).collect()
}

/// Every figure of a contestant: the median of its runs.
fn figures(name: &str, outcomes: &[Outcome]) -> Vec<String> {
    let name = name.replace('-', "_");
    let mut lines = Vec::new();
    let mut add = |what: &str, unit: &str, value: &dyn Fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = outcomes.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        lines.push(figure(&format!("hol_{name}_{what}"), values[values.len() / 2], unit));
    };
    for stream in [alarm(), bulk()] {
        let stream = &stream.name;
        let of = |outcome: &Outcome| outcome.tallies.get(stream).cloned().unwrap_or_default();
        let acked = |outcome: &Outcome, count: fn(&Acked) -> u64| {
            outcome.acked.get(stream).map_or(0.0, |acked| count(acked) as f64)
        };
        let ms = |latency: Duration| latency.as_secs_f64() * 1000.0;
        add(&format!("{stream}_p50"), "ms", &|outcome| ms(of(outcome).quantile(0.5)));
        add(&format!("{stream}_p99"), "ms", &|outcome| ms(of(outcome).quantile(0.99)));
        let records = "records";
        add(&format!("{stream}_sent"), records, &|outcome| acked(outcome, |acked| acked.sent));
        add(&format!("{stream}_accepted"), records, &|o| acked(o, |acked| acked.accepted));
        add(&format!("{stream}_refused"), records, &|o| {
            acked(o, |acked| acked.refused.len() as u64)
        });
        add(&format!("{stream}_got"), records, &|outcome| of(outcome).got() as f64);
        add(&format!("{stream}_duplicates"), records, &|outcome| of(outcome).duplicates as f64);
        add(&format!("{stream}_out_of_order"), records, &|o| of(o).out_of_order as f64);
        add(&format!("{stream}_lost_accepted"), records, &|outcome| {
            (acked(outcome, |acked| acked.accepted) - of(outcome).got() as f64).max(0.0)
        });
    }
    add("goodput_ratio", "1", &|outcome| {
        let bytes = |stream: Stream, size: usize| {
            let in_time = outcome.tallies.get(&stream.name).map_or(0, |tally| tally.in_time);
            in_time as f64 * size as f64
        };
        (bytes(alarm(), ALARM_SIZE) + bytes(bulk(), BULK_SIZE)) / outcome.link_bytes
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_and_count_what_was_lost() {
        let outcome = |latency: u64| {
            let mut tally = Tally::default();
            let stamp = Stamp { stream: "alarm".into(), seq: 0, due_ns: 0 };
            tally.take(&stamp, latency * 1_000_000, u64::MAX);
            let acked = Acked { name: "alarm".into(), sent: 3, accepted: 2, refused: vec![0] };
            Outcome {
                acked: [("alarm".to_owned(), acked)].into(),
                tallies: [("alarm".to_owned(), tally)].into(),
                link_bytes: 2000.0,
            }
        };
        let lines = figures("a-b", &[outcome(9), outcome(1), outcome(5)]);
        let has = |line: &str| assert!(lines.iter().any(|other| other == line), "{lines:#?}");
        has("FIGURE hol_a_b_alarm_p99 5 ms");
        has("FIGURE hol_a_b_alarm_lost_accepted 1 records");
        has("FIGURE hol_a_b_bulk_got 0 records");
        has("FIGURE hol_a_b_goodput_ratio 0.1 1");
    }
}
