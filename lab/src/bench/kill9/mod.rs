//! A program at the edge is killed again and again while publishers insist: does every acknowledged
//! record arrive?
//!
//! Beside that the broker in the cloud is killed and started again, and the link is cut. Publishers speak
//! QoS 1 and publish again what was not acknowledged.

mod contestant;
mod faults;

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::time::Instant;

pub(crate) use self::contestant::Contestant;
use self::faults::Survivors;
use crate::load::{Account, Book, Insist, Job};
use crate::net;
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};
use crate::rig;
use crate::rig::brokers::lab;

/// Publishers, each a stream.
const PUBLISHERS: u32 = 4;
/// Payload of a record.
const SIZE: usize = 256;
/// Time for what still waits after the last acknowledgement.
const DRAIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// tidegate, mosquitto or nats (may be given again); all of them if left out
    #[arg(long, value_enum)]
    pub(crate) only: Vec<Contestant>,
    /// How often the contestant is killed
    #[arg(long, default_value_t = 40)]
    pub(crate) kills: u32,
    /// How often the broker in the cloud is killed and started again
    #[arg(long, default_value_t = 4)]
    pub(crate) restarts: u32,
    /// How often the link is cut for 3 s
    #[arg(long, default_value_t = 2)]
    pub(crate) cuts: u32,
    /// Records a second, all publishers together
    #[arg(long, default_value_t = 2000)]
    pub(crate) per_second: u32,
    /// Records in all
    #[arg(long, default_value_t = 100_000)]
    pub(crate) records: u64,
    /// Of the times of the kills
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Runs it and returns what was found; a record that Tidegate acknowledged and that did not arrive breaks the
/// run.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    let mut table = vec![format!(
        "{:<11}{:>6}{:>10}{:>10}{:>10}{:>8}{:>12}{:>12}",
        "", "kills", "sent", "accepted", "arrived", "lost", "duplicates", "start p50"
    )];
    let mut figures = Vec::new();
    let mut found = Findings::default();
    let _awake = Spinners::start()?;
    let all = Contestant::ALL.to_vec();
    let contestants = if options.only.is_empty() { all } else { options.only.clone() };
    let progress = Progress::new("kill9", contestants.len());
    for contestant in contestants {
        let expected = faults::expected(&options);
        progress.step(contestant.name(), Some(expected));
        match one(contestant, &options).await {
            Ok(result) => {
                if contestant == Contestant::Tidegate && result.lost > 0 {
                    found
                        .broken
                        .push(format!("tidegate lost {} acknowledged records", result.lost));
                }
                found.versions.extend(contestant.versions());
                table.push(result.row(contestant, &options));
                figures.extend(result.figures(contestant));
            }
            Err(error) => table.push(net::skipped(contestant.name(), error)?),
        }
    }
    (found.lines, found.figures) = (table, figures);
    Ok(found)
}

/// What came of one contestant.
struct Outcome {
    sent: u64,
    accepted: u64,
    arrived: u64,
    lost: u64,
    duplicates: u64,
    start: Duration,
}

async fn one(contestant: Contestant, options: &Options) -> anyhow::Result<Outcome> {
    let (link, scratch) = (Link::new()?, Scratch::new()?);
    let cloud = contestant.start_cloud(&link, &scratch).await?;
    if !contestant.has_cloud() {
        // Its consumer subscribes at the contestant itself: once, before it counts.
        let first = contestant.start(&link, &scratch).await?.quietly();
        drop(rig::client(&link, contestant.consumer()).await?);
        first.kill().await;
    }
    let mut consumer = match contestant.has_cloud() {
        true => rig::client(&link, contestant.consumer()).await?,
        false => {
            let mut command = lab(&link, Side::Cloud)?;
            contestant.consumer().add_to(&mut command);
            Process::start("consumer", command)?
        }
    };
    let publishers = publishers(contestant, options, &link)?;
    let mut book = Book::new(Duration::MAX);
    let faults = faults::all(contestant, options, &link, &scratch, cloud);
    let survivors = book.during(&mut consumer, faults).await?;
    for line in book.during(&mut consumer, acknowledged(publishers)).await? {
        book.promise(&line)?;
    }
    let Account { sent, accepted, .. } = book.account("");
    book.keep(&mut consumer, Instant::now() + DRAIN, accepted).await?;
    let lost = book.account("").lost;
    let Survivors { contestant: _alive, cloud: _serving, mut starts } = survivors;
    starts.sort_unstable();
    let start = starts.get(starts.len() / 2).copied().unwrap_or_default();
    let (arrived, duplicates) = (book.got(), book.duplicates());
    Ok(Outcome { sent, accepted, arrived, lost, duplicates, start })
}

/// What all publishers were told, when they have ended.
async fn acknowledged(publishers: Vec<Process>) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for mut publisher in publishers {
        let line = publisher.line().await;
        all.push(line.with_context(|| format!("a publisher ended:\n{}", publisher.last_lines()))?);
    }
    Ok(all)
}

fn publishers(
    contestant: Contestant,
    options: &Options,
    link: &Link,
) -> anyhow::Result<Vec<Process>> {
    let mut publishers = Vec::new();
    for place in 0..PUBLISHERS {
        let insist = Insist {
            address: rig::edge_listener(),
            version: contestant.version(),
            name: format!("p{place}"),
            size: SIZE,
            per_second: (options.per_second / PUBLISHERS).max(1),
            records: options.records / u64::from(PUBLISHERS),
        };
        let mut command = lab(link, Side::Edge)?;
        Job::Insist(insist).add_to(&mut command);
        publishers.push(Process::start("publisher", command)?);
    }
    Ok(publishers)
}

impl Outcome {
    fn row(&self, contestant: Contestant, options: &Options) -> String {
        let Outcome { sent, accepted, arrived, lost, duplicates, start } = self;
        format!(
            "{:<11}{:>6}{sent:>10}{accepted:>10}{arrived:>10}{lost:>8}{duplicates:>12}{:>9.0} ms",
            contestant.name(),
            options.kills,
            start.as_secs_f64() * 1e3,
        )
    }

    fn figures(&self, contestant: Contestant) -> Vec<Figure> {
        let name = |what: &str| format!("kill9_{}_{what}", contestant.name());
        let records = |what: &str, value: u64| figure(&name(what), value as f64, "records");
        vec![
            records("sent", self.sent),
            records("accepted", self.accepted),
            records("arrived", self.arrived),
            records("duplicates", self.duplicates),
            figure(&name("start_p50"), self.start.as_secs_f64() * 1e3, "ms"),
            records("lost_accepted", self.lost),
        ]
    }
}
