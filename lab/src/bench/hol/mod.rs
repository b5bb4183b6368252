//! Head-of-line blocking on real sockets: alarms and bulk through an uplink that cannot carry both.
//!
//! Each contestant in turn stands in the edge namespace behind a link of 2 Mbit/s and carries the same
//! load, 160 % of the link, to a consumer in the cloud namespace. All processes share one clock.

mod verdict;

use std::time::Duration;

use clap::Args;

use super::contestants::{self, Contestant, Destination};
use crate::load::{Book, Payload, Publish, Stream};
use crate::net::namespace::{Limit, Link, Side};
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::Findings;

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// How long the load is on
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u32,
    /// How long to wait afterwards for what still waits, in seconds
    #[arg(long, default_value_t = 60)]
    pub(crate) drain: u32,
    /// Runs of each, in turn; figures are medians
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: u32,
    /// Only this contestant (may be given again)
    #[arg(long, value_parser = contestants::one_of(contestants))]
    pub(crate) only: Vec<Contestant>,
}

/// Who can take part.
pub(crate) fn contestants() -> Vec<Contestant> {
    let node = |name, tables: &str| contestants::node(name, Destination::RabbitMq, tables);
    let mut all = vec![
        node(OURS, STREAMS),
        // One queue for everything: what the order of service alone brings.
        node("tidegate-native", &format!("scheduler = \"native\"\n{STREAMS}")),
    ];
    all.extend(contestants::rivals("hol"));
    all
}

/// The contestant that the target is about.
const OURS: &str = "tidegate";
/// What a node is told about the streams.
const STREAMS: &str = "[[stream]]\ntopics = [\"plant/alarm\"]\nlatency = \"50ms\"\n\
                       [[stream]]\ntopics = [\"plant/bulk\"]\nlatency = \"1s\"\n";

/// Names of the loads, and payload bytes: alarms, and what is 160 % of the link by itself.
const ALARM: (&str, usize) = ("alarm", 200);
const BULK: (&str, usize) = ("bulk", 20_000);

fn stream((name, size): (&str, usize), per_second: f64, is_urgent: bool) -> Stream {
    let (topic, payload) = (format!("plant/{name}"), Payload::Measured(size));
    Stream { name: name.into(), topic, payload, per_second, is_urgent, ..Stream::default() }
}

/// One run of one contestant.
#[derive(Clone, Debug)]
struct Outcome {
    book: Book,
    /// Payload bytes of a link without headers, while the load was on.
    link_bytes: f64,
}

/// Runs the contestants and returns what was found.
///
/// # Errors
/// Links cannot be made here, or a contestant that is there does not work. A contestant whose program is
/// missing is left out and says so.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    let runs = options.runs.max(1);
    let contestants = if options.only.is_empty() { contestants() } else { options.only.clone() };
    let progress = Progress::new("hol", contestants.len() * runs as usize);
    let expected = Duration::from_secs((options.seconds + options.seconds / 2).into());
    let one = async |contestant: &Contestant| run_one(contestant, &options).await;
    let (outcomes, skipped) =
        contestants::in_turns(&progress, &contestants, (runs, expected), one).await?;
    drop(progress);
    let mut found = verdict::findings(contestants.into_iter().zip(outcomes).collect());
    found.lines.splice(0..0, skipped);
    Ok(found)
}

async fn run_one(contestant: &Contestant, options: &Options) -> anyhow::Result<Outcome> {
    let link = Link::new()?;
    link.limit(Side::Edge, Limit::TWO_MEGABIT)?;
    let Options { seconds, drain, .. } = *options;
    let streams = vec![stream(ALARM, 5.0, true), stream(BULK, 20.0, false)];
    let job = Publish { streams, seconds, patience: drain, ..Publish::default() };
    let times = [seconds, drain].map(|time| Duration::from_secs(time.into()));
    let (book, ..) = contestant.carry(&link, job, times.into(), async |_| Ok(())).await?;
    let bits = Limit::TWO_MEGABIT.bits_per_second as f64;
    Ok(Outcome { book, link_bytes: bits / 8.0 * times[0].as_secs_f64() })
}
