//! A node that starts with a large backlog in its log: how soon do live records go, and what does the drain
//! cost them?
//!
//! Three nodes in turn carry the same live records over the same emulated link: one with nothing else, one
//! with live bulk beside that is more than the link carries, and one that was killed with the backlog in its
//! log. At the end the link is made fast, and everything that was ever acknowledged has to arrive.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::time::{Instant, timeout};

use super::insist;
use crate::link::{Change, Options as LinkOptions, Profile, Service};
use crate::load::mqtt::Version;
use crate::load::stamp::wall_ns;
use crate::load::{Book, Consume, Job, Payload, Publish, Stream, Tally};
use crate::net::namespace::{Link, Side};
use crate::net::process::{Process, Quiet};
use crate::net::pump::Way;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::net::usage;
use crate::progress::Progress;
use crate::report::{Axis, Curve, Findings, Mark, Plot, figure};
use crate::rig::versions::Program;
use crate::rig::{self, CONNECT};
use crate::sim::Amount;

/// The link, each way.
const BITS_PER_SECOND: u64 = 40_000_000;
const DELAY: Duration = Duration::from_millis(20);
const QUEUE: u64 = 256 * 1024;
/// The link once live records are measured: what is left must still arrive.
const FAST: u64 = 2_000_000_000;

/// Payload of the records that fill the log, and their rate together.
const OLD_SIZE: usize = 16_000;
const OLD_PER_SECOND: u32 = 4_000;

/// The live records whose latency counts.
const LIVE: (usize, f64) = (200, 20.0);
/// Live bulk: 160 % of the link.
const BULK: (usize, f64) = (16_000, 500.0);
const STREAMS: &str = "[[stream]]\ntopics = [\"live\"]\nlatency = \"50ms\"\n\
                       [[stream]]\ntopics = [\"#\"]\nlatency = \"5s\"\n";
/// How long answers and records may take that are due at the end of the load.
const LATE: Duration = Duration::from_secs(5);
/// Time for all of the backlog over the fast link, by the gibibyte.
const DRAIN: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Options {
    /// Payload in the log
    #[arg(long, default_value = "1GiB")]
    pub(crate) size: Amount,
    /// For how long live records are measured, in seconds
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u32,
}

/// Runs it and returns what was found; an acknowledged record that does not arrive breaks the run.
///
/// # Errors
/// Links cannot be emulated here, or a program is missing or does not work.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    let progress = Progress::new("backlog", 3);
    let expected = Some(Duration::from_secs(u64::from(options.seconds) + 20));
    progress.step("live records alone", expected);
    let alone = beside(options, &[]).await.context("live records alone")?;
    progress.step("beside live bulk", expected);
    let bulk = stream("bulk", BULK);
    let busy = beside(options, &[bulk]).await.context("live records beside live bulk")?;
    progress.step("beside the backlog", None);
    let late = after_a_kill(options).await.context("live records beside the backlog")?;
    drop(progress);
    Ok(findings(options, [alone, busy], &late))
}

/// What came of the node with the backlog.
struct Outcome {
    live: Tally,
    /// Since the start of the process: it is ready, the first live record has arrived.
    ready: Duration,
    first: Duration,
    /// Bytes that it had read from files and sockets when it was ready.
    read: u64,
    /// The most memory that it ever had, in KiB.
    memory: u64,
    accepted: u64,
    lost: u64,
    duplicates: u64,
}

/// A link with a broker behind it, and a consumer there.
struct Ground {
    link: Link,
    scratch: Scratch,
    consumer: Process,
    _broker: Quiet,
}

impl Ground {
    async fn new() -> anyhow::Result<Ground> {
        let way = || LinkOptions::new(BITS_PER_SECOND, DELAY, QUEUE);
        let link = Link::emulated([way(), way()], 1)?;
        let scratch = Scratch::new()?;
        let _broker = rig::raise(&link, &scratch, &rig::rabbitmq()).await?.quietly();
        let consume = Consume::once(rig::everything());
        let consumer = rig::client(&link, Job::Consume(consume)).await?;
        Ok(Ground { link, scratch, consumer, _broker })
    }

    /// Starts the node, and waits until it says `ready`. Its log may take twice the backlog.
    async fn node(&self, options: Options, ready: &str) -> anyhow::Result<Process> {
        let log = format!(
            "{STREAMS}[log]\ndirectory = \"log\"\nbound = \"{}MiB\"\n",
            1024 + 2 * (options.size.0 >> 20)
        );
        rig::raise(&self.link, &self.scratch, &rig::node(rig::TO_RABBITMQ, &log, ready)).await
    }

    /// Publishes streams to the node for the time of the measurement.
    fn publisher(&self, options: Options, streams: Vec<Stream>) -> anyhow::Result<Process> {
        let job = Publish {
            address: rig::edge_listener(),
            streams,
            seconds: options.seconds,
            patience: LATE.as_secs() as u32,
            ..Publish::default()
        };
        rig::started(&self.link, Side::Edge, "publisher", &Job::Publish(job))
    }

    fn change(&self, change: Change) -> anyhow::Result<()> {
        let wire = self.link.wire().context("the link is emulated")?;
        wire.change(Way::Uplink, change);
        Ok(())
    }
}

fn stream(name: &str, (size, per_second): (usize, f64)) -> Stream {
    let payload = Payload::Stamped(size);
    Stream { name: name.into(), topic: name.into(), payload, per_second, ..Stream::default() }
}

/// Live records at a node that starts with an empty log, with these streams beside.
async fn beside(options: Options, others: &[Stream]) -> anyhow::Result<Tally> {
    let mut ground = Ground::new().await?;
    let _node = ground.node(options, "output is up").await?.quietly();
    let streams = [&[stream("live", LIVE)], others].concat();
    let mut publisher = ground.publisher(options, streams)?;
    let mut book = Book::new(Duration::MAX);
    let until = Instant::now() + Duration::from_secs(options.seconds.into()) + LATE;
    book.follow(&mut publisher, Some(&mut ground.consumer), until).await?;
    book.tally("live").cloned().context("no live record arrived")
}

/// Live records at a node that was killed with a backlog, and all of the backlog.
async fn after_a_kill(options: Options) -> anyhow::Result<Outcome> {
    let mut ground = Ground::new().await?;
    ground.change(Change::Up(false))?;
    let mut book = Book::new(Duration::MAX);
    fill(&ground, options, &mut book).await?;
    ground.change(Change::Up(true))?;

    let (start, start_ns) = (Instant::now(), wall_ns());
    let node = ground.node(options, "ready").await?;
    let ready = start.elapsed();
    let id = node.id().context("the node has ended")?;
    let read = usage::read_bytes(id)?;
    let _node = node.quietly();
    let mut publisher = ground.publisher(options, vec![stream("live", LIVE)])?;
    let until = Instant::now() + Duration::from_secs(options.seconds.into()) + LATE;
    book.follow(&mut publisher, Some(&mut ground.consumer), until).await?;
    let live = book.tally("live").cloned().context("no live record arrived")?;
    let &(due_ns, latency) = live.series().first().context("no live record arrived")?;
    let first = Duration::from_nanos(due_ns.saturating_sub(start_ns));
    let first = first + Duration::from_secs_f64(latency / 1e3);

    ground.change(Change::Service(Service::Rate(Profile::constant(FAST))))?;
    let accepted = book.account("").accepted;
    let patience = DRAIN * (1 + (options.size.0 >> 30) as u32);
    book.keep(&mut ground.consumer, Instant::now() + patience, accepted).await?;
    let [_, memory] = usage::resident_kib(id)?;
    let (lost, duplicates) = (book.account("").lost, book.duplicates());
    Ok(Outcome { live, ready, first, read, memory, accepted, lost, duplicates })
}

/// Fills the log of a node whose link carries nothing, and kills it.
async fn fill(ground: &Ground, options: Options, book: &mut Book) -> anyhow::Result<()> {
    let node = ground.node(options, "ready").await?.quietly();
    let (link, records) = (&ground.link, options.size.0 / OLD_SIZE as u64);
    let fillers = insist::publishers(link, "old.", Version::V5, OLD_SIZE, OLD_PER_SECOND, records)?;
    // A disk of 10 MB/s is slow.
    let patience = CONNECT + Duration::from_secs(options.size.0 / 10_000_000);
    let promised = timeout(patience, insist::promised(fillers)).await;
    for line in promised.context("the log fills too slowly")?? {
        book.promise(&line)?;
    }
    node.kill().await;
    Ok(())
}

fn findings(options: Options, [alone, busy]: [Tally; 2], late: &Outcome) -> Findings {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let all = [("alone", &alone), ("busy", &busy), ("drain", &late.live)];
    let mut lines =
        vec![format!("{:<8}{:>10}{:>12}{:>12}{:>12}", "live", "arrived", "p50", "p99", "slowest")];
    let mut figures = vec![
        figure("backlog_bytes", options.size.0 as f64, "B"),
        figure("backlog_ready", ms(late.ready), "ms"),
        figure("backlog_first_live", ms(late.first), "ms"),
        figure("backlog_read_until_ready", late.read as f64 / f64::from(1 << 20), "MiB"),
        figure("backlog_memory_peak", late.memory as f64 / 1024.0, "MiB"),
    ];
    for (name, tally) in all {
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| ms(tally.quantile(part)));
        let got = tally.got();
        lines.push(format!("{name:<8}{got:>10}{p50:>9.1} ms{p99:>9.1} ms{most:>9.1} ms"));
        figures.push(figure(&format!("backlog_{name}_p50"), p50, "ms"));
        figures.push(figure(&format!("backlog_{name}_p99"), p99, "ms"));
    }
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        for (than, tally) in [("alone", &alone), ("busy", &busy)] {
            let ratio = ms(late.live.quantile(part)) / ms(tally.quantile(part)).max(1e-6);
            figures.push(figure(&format!("backlog_over_{than}_{name}"), ratio, "1"));
        }
    }
    figures.push(figure("backlog_accepted", late.accepted as f64, "records"));
    figures.push(figure("backlog_duplicates", late.duplicates as f64, "records"));
    figures.push(figure("backlog_lost_accepted", late.lost as f64, "records"));
    let curves = all.map(|(name, tally)| Curve::new(name, Mark::Line, tally.distribution()));
    let plot = Plot {
        title: "Live records: alone, beside live bulk, beside the backlog".into(),
        x: Axis::log("latency", "ms"),
        y: Axis::linear("part of the records", "1"),
        curves: curves.into(),
    };
    let broken = (late.lost > 0)
        .then(|| format!("{} acknowledged records did not arrive", late.lost))
        .into_iter()
        .collect();
    let versions = Program::all_with_versions(&[Program::Tidegate, Program::RabbitMq]);
    let versions = versions.into_iter().collect();
    Findings { lines, figures, plots: vec![plot], versions, broken }
}
