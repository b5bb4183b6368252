//! What publishers were promised, and what a consumer got.

use std::collections::BTreeMap;

use anyhow::Context;
use tokio::time::{Instant, timeout_at};

use crate::load::stamp::Stamp;
use crate::load::{Acked, Tally};
use crate::net::process::Process;

/// What the consumer has got, by stream.
#[derive(Debug, Default)]
pub(super) struct Book(BTreeMap<String, Tally>);

impl Book {
    /// Different records.
    pub(super) fn got(&self) -> u64 {
        self.0.values().map(Tally::got).sum()
    }

    /// Copies after the first.
    pub(super) fn duplicates(&self) -> u64 {
        self.0.values().map(|tally| tally.duplicates).sum()
    }

    fn take(&mut self, line: Option<String>) -> anyhow::Result<()> {
        let line = line.context("the consumer ended")?;
        if line == crate::load::READY {
            return Ok(());
        }
        let stamp: Stamp = line.parse()?;
        self.0.entry(stamp.stream.clone()).or_default().take(&stamp, stamp.due_ns, u64::MAX);
        Ok(())
    }

    /// Until then, or until so many different records came.
    pub(super) async fn keep(
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

    /// While something else goes on; returns what that returns.
    pub(super) async fn during<T>(
        &mut self,
        consumer: &mut Process,
        other: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::pin!(other);
        loop {
            tokio::select! {
                ended = &mut other => return ended,
                line = consumer.line() => self.take(line)?,
            }
        }
    }
}

/// What all publishers were told, when they have ended.
pub(super) async fn acknowledged(publishers: Vec<Process>) -> anyhow::Result<Vec<Acked>> {
    let mut all = Vec::new();
    for mut publisher in publishers {
        let line = publisher.line().await;
        let line =
            line.with_context(|| format!("a publisher ended:\n{}", publisher.last_lines()))?;
        all.push(serde_json::from_str::<Acked>(&line)?);
    }
    Ok(all)
}
