//! Publishers that insist, and what they were promised: of every benchmark that takes a node away from under them.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use crate::load::mqtt::Version;
use crate::load::{Account, Book, Insist, Job};
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::rig;

/// Payload of a record that stands for any.
pub(super) const SIZE: usize = 256;
/// Publishers, each a stream.
pub(super) const PUBLISHERS: u32 = 4;
/// Time for what still waits after the last acknowledgement.
pub(super) const DRAIN: Duration = Duration::from_secs(60);

/// Starts publishers at the edge, each of a stream `name` and its number.
pub(super) fn publishers(
    link: &Link,
    name: &str,
    version: Version,
    size: usize,
    per_second: u32,
    records: u64,
) -> anyhow::Result<Vec<Process>> {
    let start = |place| {
        let address = rig::edge_listener();
        let (name, per_second) = (format!("{name}{place}"), (per_second / PUBLISHERS).max(1));
        let records = records / u64::from(PUBLISHERS);
        let insist = Insist { address, version, name, size, per_second, records };
        rig::started(link, Side::Edge, "publisher", &Job::Insist(insist))
    };
    (0..PUBLISHERS).map(start).collect()
}

/// What all publishers were told, when they have ended.
pub(super) async fn promised(publishers: Vec<Process>) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for mut publisher in publishers {
        let line = publisher.line().await;
        all.push(line.with_context(|| format!("a publisher ended:\n{}", publisher.last_lines()))?);
    }
    Ok(all)
}

/// What became of all records.
pub(super) struct Outcome {
    pub(super) sent: u64,
    pub(super) accepted: u64,
    pub(super) arrived: u64,
    pub(super) lost: u64,
    pub(super) duplicates: u64,
}

/// Waits for what was promised, and closes the book.
pub(super) async fn close(
    mut book: Book,
    promised: Vec<String>,
    consumer: &mut Process,
) -> anyhow::Result<Outcome> {
    promised.iter().try_for_each(|line| book.promise(line))?;
    let Account { sent, accepted, .. } = book.account("");
    book.keep(consumer, Instant::now() + DRAIN, accepted).await?;
    let (arrived, duplicates, lost) = (book.got(), book.duplicates(), book.account("").lost);
    Ok(Outcome { sent, accepted, arrived, lost, duplicates })
}
