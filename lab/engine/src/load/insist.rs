//! Publishes one stream and does not give up: after a lost connection, what was not acknowledged is
//! published again, as QoS 1 wants it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::mqtt::{self, Hello, Packet, Reader, Version, Writer};
use super::publish::{Acked, DUE_PROPERTY};
use super::stamp::{Stamp, wall_ns};

/// Reason codes from here on are refusals.
const FAILURE: u8 = 0x80;
/// Packet ids, from 1.
const IDS: u64 = u16::MAX as u64;
/// Records that may be unacknowledged at once, whatever the broker would take.
const WINDOW: usize = 1000;
/// A refused record is offered again, but not at once.
const PAUSE: Duration = Duration::from_millis(100);

/// A stream that is published whatever happens to the contestant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Insist {
    /// Where the contestant listens, when it does.
    pub address: SocketAddr,
    pub version: Version,
    /// Name in stamps, and topic.
    pub name: String,
    pub size: usize,
    /// Records a second, open loop while the connection stands.
    pub per_second: u32,
    pub records: u64,
}

/// What is published, and what of it is not acknowledged.
struct State {
    job: Insist,
    next: u64,
    open: BTreeSet<u64>,
    accepted: u64,
}

impl Insist {
    fn hello(&self) -> Hello<'_> {
        Hello { version: self.version, ..Hello::new(&self.name) }
    }

    /// Publishes until everything is acknowledged, and prints one [`Acked`].
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut state = State { job: self, next: 0, open: BTreeSet::new(), accepted: 0 };
        while !state.is_done() {
            let socket = super::connect(state.job.address).await?;
            // A contestant that is killed in the middle of anything is what this is for.
            let Ok((reader, writer, window)) = mqtt::hello(socket, state.job.hello()).await else {
                continue;
            };
            let _ = state.publish(reader, writer, usize::from(window).min(WINDOW)).await;
        }
        let State { job, accepted, .. } = state;
        let acked = Acked { name: job.name, sent: job.records, accepted, ..Acked::default() };
        super::say(&serde_json::to_string(&acked)?);
        Ok(())
    }
}

impl State {
    fn is_done(&self) -> bool {
        self.next == self.job.records && self.open.is_empty()
    }

    /// Over one connection, until it breaks or all is done.
    async fn publish(
        &mut self,
        mut reader: Reader,
        mut writer: Writer,
        window: usize,
    ) -> anyhow::Result<()> {
        let again: Vec<u64> = self.open.iter().copied().collect();
        for seq in again {
            self.send(&mut writer, seq).await?;
        }
        let (start, first) = (Instant::now(), self.next);
        while !self.is_done() {
            let offset = Duration::from_secs(self.next - first) / self.job.per_second;
            let may_send = self.next < self.job.records && self.open.len() < window;
            tokio::select! {
                packet = reader.packet() => match packet? {
                    Some(Packet::Acknowledged { id, reason }) => {
                        let found = self.open.iter().copied().find(|seq| seq % IDS + 1 == u64::from(id));
                        let Some(seq) = found else { continue };
                        if reason < FAILURE {
                            self.open.remove(&seq);
                            self.accepted += 1;
                        } else {
                            tokio::time::sleep(PAUSE).await;
                            self.send(&mut writer, seq).await?;
                        }
                    }
                    Some(_) => {}
                    None => return Ok(()),
                },
                () = sleep_until(start + offset), if may_send => {
                    let seq = self.next;
                    self.next += 1;
                    self.open.insert(seq);
                    self.send(&mut writer, seq).await?;
                }
            }
        }
        Ok(writer.goodbye().await?)
    }

    async fn send(&self, writer: &mut Writer, seq: u64) -> anyhow::Result<()> {
        let due_ns = wall_ns();
        let stamp = Stamp { stream: self.job.name.clone(), seq, due_ns };
        let properties = [(DUE_PROPERTY, &*due_ns.to_string())];
        let payload = stamp.payload(self.job.size);
        let id = (seq % IDS) as u16 + 1;
        Ok(writer.publish(&self.job.name, id, &properties, &payload).await?)
    }
}
