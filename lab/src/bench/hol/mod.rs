//! Head-of-line blocking on real sockets: alarms and bulk through an uplink that cannot carry both.
//!
//! Each contestant in turn stands in the edge namespace behind a link of 2 Mbit/s and carries the same
//! load, 160 % of the link, to a consumer in the cloud namespace. All processes share one clock.

mod verdict;

use std::time::Duration;

use tokio::time::Instant;

use self::verdict::Outcomes;
use super::contestants::{self, Contestant, Destination, NodeRig};
use clap::Args;

use crate::load::{Book, Payload, Publish, Stream};
use crate::net;
use crate::net::namespace::{Limit, Link, Side};
use crate::net::scratch::Scratch;
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
    /// Only this contestant (may be given again): tidegate, tidegate-native, mosquitto-bridge,
    /// mosquitto-forwarder, nats-leaf, nats-stream, zenoh
    #[arg(long, value_parser = |name: &str| contestants::named(contestants(), name))]
    pub(crate) only: Vec<Contestant>,
}

/// Who can take part.
pub(crate) fn contestants() -> Vec<Contestant> {
    let node = |name, scheduler| {
        let to = Destination::RabbitMq;
        Contestant::Tidegate(NodeRig { name, scheduler, has_log: false, to, streams: STREAMS })
    };
    vec![
        node(OURS, "tidegate"),
        // One queue for everything: what the order of service alone brings.
        node("tidegate-native", "native"),
        Contestant::MosquittoBridge,
        Contestant::MosquittoForwarder,
        Contestant::NatsLeaf,
        Contestant::NatsStream,
        Contestant::Zenoh,
    ]
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
    let mut skipped = Vec::new();
    let mut outcomes = Outcomes::new();
    let runs = options.runs.max(1);
    let contestants = if options.only.is_empty() { contestants() } else { options.only.clone() };
    let progress = Progress::new("hol", contestants.len() * runs as usize);
    let expected = Duration::from_secs((options.seconds + options.seconds / 2).into());
    for run in 1..=runs {
        for contestant in &contestants {
            let name = contestant.name();
            progress.step(&format!("{name}, run {run} of {runs}"), Some(expected));
            match run_one(contestant, &options).await {
                Ok(outcome) => outcomes.entry(name).or_default().push(outcome),
                Err(error) => skipped.push(net::skipped(name, error)?),
            }
        }
    }
    drop(progress);
    skipped.dedup();
    let mut found = verdict::findings(&contestants, &outcomes);
    found.lines.splice(0..0, skipped);
    Ok(found)
}

async fn run_one(contestant: &Contestant, options: &Options) -> anyhow::Result<Outcome> {
    let link = Link::new()?;
    link.limit(Side::Edge, Limit::TWO_MEGABIT)?;
    let scratch = Scratch::new()?;
    let mut rig = contestant.start(&link, &scratch).await?;
    let Options { seconds, drain, .. } = *options;
    let streams = vec![stream(ALARM, 5.0, true), stream(BULK, 20.0, false)];
    let job = Publish { streams, seconds, patience: drain, ..Publish::default() };
    let mut publisher = rig.entrance.publish(&link, job)?;
    let load = Duration::from_secs(seconds.into());
    let until = Instant::now() + load + Duration::from_secs(drain.into());
    let mut book = Book::new(load);
    book.follow(&mut publisher, rig.consumer.as_mut(), until).await?;
    drop(rig);
    let bits = Limit::TWO_MEGABIT.bits_per_second as f64;
    Ok(Outcome { book, link_bytes: bits / 8.0 * load.as_secs_f64() })
}
