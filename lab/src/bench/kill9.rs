//! The node is killed again and again while publishers insist: does every acknowledged record arrive?

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, timeout_at};

use super::figure;
use crate::load::stamp::Stamp;
use crate::load::{Acked, Insist, Job, Tally};
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::rig;
use crate::rig::brokers::{self, lab};

/// Publishers, each a stream.
const PUBLISHERS: u32 = 4;
/// Payload of a record.
const SIZE: usize = 256;
/// Time for what still waits after the last acknowledgement.
const DRAIN: Duration = Duration::from_secs(60);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often the node is killed.
    pub kills: u32,
    /// Records a second, all publishers together.
    pub per_second: u32,
    /// Records in all.
    pub records: u64,
    /// Of the times of the kills.
    pub seed: u64,
}

/// Runs it and returns the lines to print.
///
/// # Errors
/// Something cannot be started, or an acknowledged record did not arrive.
pub async fn run(options: Options) -> anyhow::Result<Vec<String>> {
    let (link, scratch) = (Link::new()?, Scratch::new()?);
    let _rabbitmq = brokers::rabbitmq(&link, &scratch).await?.quietly();
    let mut consumer = rig::client(&link, Job::ConsumeAmqp(rig::everything(false))).await?;
    let directory = scratch.path().join("log");
    // The next life waits until the kernel has taken the lock from the last one.
    let log = format!("[log]\ndirectory = \"{}\"\nstandby = true\n", directory.display());
    let mut publishers = Vec::new();
    for place in 0..PUBLISHERS {
        let insist = Insist {
            address: rig::edge_listener(),
            name: format!("p{place}"),
            size: SIZE,
            per_second: (options.per_second / PUBLISHERS).max(1),
            records: options.records / u64::from(PUBLISHERS),
        };
        let mut command = lab(&link, Side::Edge)?;
        Job::Insist(insist).add_to(&mut command);
        publishers.push(Process::start("publisher", command)?);
    }
    let acked = tokio::spawn(async move {
        let mut all = Vec::new();
        for mut publisher in publishers {
            let line = publisher.line().await;
            let line =
                line.with_context(|| format!("a publisher ended:\n{}", publisher.last_lines()))?;
            all.push(serde_json::from_str::<Acked>(&line)?);
        }
        anyhow::Ok(all)
    });
    let mut book = Book::default();
    let mut random = oorandom::Rand32::new(options.seed);
    let mut restarts = Vec::new();
    for _ in 0..options.kills {
        let started = Instant::now();
        let node = rig::tidegate(&link, &scratch, "tidegate", &log).await?;
        restarts.push(started.elapsed());
        let life = Duration::from_millis(random.rand_range(200..1500).into());
        book.keep(&mut consumer, Instant::now() + life, u64::MAX).await?;
        drop(node); // killed
    }
    let _node = rig::tidegate(&link, &scratch, "tidegate", &log).await?.quietly();
    let acked = book.until(&mut consumer, acked).await?;
    let accepted: u64 = acked.iter().map(|acked| acked.accepted).sum();
    book.keep(&mut consumer, Instant::now() + DRAIN, accepted).await?;
    restarts.sort_unstable();
    verdict(&options, &acked, &book, &restarts)
}

/// What the consumer has got.
#[derive(Debug, Default)]
struct Book(BTreeMap<String, Tally>);

impl Book {
    fn got(&self) -> u64 {
        self.0.values().map(Tally::got).sum()
    }

    fn take(&mut self, line: Option<String>) -> anyhow::Result<()> {
        let stamp: Stamp = line.context("the consumer ended")?.parse()?;
        self.0.entry(stamp.stream.clone()).or_default().take(&stamp, stamp.due_ns, u64::MAX);
        Ok(())
    }

    /// Until then, or until so many different records came.
    async fn keep(
        &mut self,
        consumer: &mut Process,
        until: Instant,
        most: u64,
    ) -> anyhow::Result<()> {
        let keep = async {
            while self.got() < most {
                self.take(consumer.line().await)?;
            }
            anyhow::Ok(())
        };
        timeout_at(until, keep).await.unwrap_or(Ok(()))
    }

    /// Until all publishers have ended.
    async fn until(
        &mut self,
        consumer: &mut Process,
        mut acked: tokio::task::JoinHandle<anyhow::Result<Vec<Acked>>>,
    ) -> anyhow::Result<Vec<Acked>> {
        loop {
            tokio::select! {
                acked = &mut acked => return acked?,
                line = consumer.line() => self.take(line)?,
            }
        }
    }
}

fn verdict(
    options: &Options,
    acked: &[Acked],
    book: &Book,
    restarts: &[Duration],
) -> anyhow::Result<Vec<String>> {
    let sent: u64 = acked.iter().map(|acked| acked.sent).sum();
    let accepted: u64 = acked.iter().map(|acked| acked.accepted).sum();
    let duplicates: u64 = book.0.values().map(|tally| tally.duplicates).sum();
    let lost = accepted.saturating_sub(book.got());
    let records =
        |name: &str, value: u64| figure(&format!("kill9_{name}"), value as f64, "records");
    let restart = restarts.get(restarts.len() / 2).copied().unwrap_or_default();
    let lines = vec![
        figure("kill9_kills", options.kills.into(), "kills"),
        records("sent", sent),
        records("accepted", accepted),
        records("arrived", book.got()),
        records("duplicates", duplicates),
        figure("kill9_start_to_output_up_p50", restart.as_secs_f64() * 1e3, "ms"),
        records("lost_accepted", lost),
    ];
    anyhow::ensure!(lost == 0, "{}\nacknowledged records did not arrive", lines.join("\n"));
    Ok(lines)
}
