//! Publishes streams at fixed rates, open loop: a record is due when it is due, whoever is slow.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::mqtt::{self, Hello, Packet, Reader};
use super::stamp::{Stamp, wall_ns};

/// Name of the user property with the time at which a record was due, in nanoseconds since 1970.
pub const DUE_PROPERTY: &str = "source-time-ns";
/// Name of the user property with the publisher's name of the stream.
pub const STREAM_PROPERTY: &str = "lab-stream";
/// Name of the user property with the record's place in the stream, from 0.
pub const SEQ_PROPERTY: &str = "lab-seq";
/// Reason codes from here on are refusals.
const FAILURE: u8 = 0x80;
/// Packet ids, from 1.
const IDS: u64 = u16::MAX as u64;

/// The streams of one publisher, each on a connection of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Publish {
    /// Where the contestant listens.
    pub address: SocketAddr,
    /// What to publish.
    pub streams: Vec<Stream>,
    /// For how long, in seconds.
    pub seconds: u32,
    /// How long to wait afterwards for the last acknowledgements, in seconds.
    pub patience: u32,
}

/// Records at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Name in stamps and figures.
    pub name: String,
    /// Topic that it is published to.
    pub topic: String,
    /// What is in them.
    pub payload: Payload,
    /// Records a second.
    pub per_second: u32,
}

/// What the records of a stream carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// A [`Stamp`], filled up to so many bytes.
    Stamped(usize),
    /// The lines of a file in turn, over and over.
    Lines(PathBuf),
}

/// What a publisher prints of a stream at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acked {
    /// Its stream.
    pub name: String,
    /// Records handed to the connection.
    pub sent: u64,
    /// Of these, acknowledged as accepted.
    pub accepted: u64,
    /// Of these, acknowledged as refused: their places in the stream.
    pub refused: Vec<u64>,
}

impl Publish {
    /// Publishes and prints one [`Acked`] a stream.
    ///
    /// # Errors
    /// The contestant cannot be reached or ends the connection.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Publish { address, streams, seconds, patience } = self;
        let mut publishers = JoinSet::new();
        let mut connections = Vec::new();
        for stream in streams {
            let payloads = Payloads::of(&stream)?;
            let socket = super::connect(address).await?;
            let connection =
                mqtt::hello(socket, Hello::new(&format!("load-{}", stream.name))).await?;
            connections.push((stream, payloads, connection));
        }
        for (stream, payloads, connection) in connections {
            let count = u64::from(stream.per_second) * u64::from(seconds);
            let patience = Duration::from_secs(patience.into());
            publishers.spawn(publish(stream, payloads, count, connection, patience));
        }
        while let Some(acked) = publishers.join_next().await {
            let line = serde_json::to_string(&acked??)?;
            #[expect(clippy::print_stdout, reason = "a client tells its parent by lines")]
            {
                println!("{line}");
            }
        }
        Ok(())
    }
}

/// Payloads that are at hand before the first one is due.
enum Payloads {
    Stamped { stream: String, size: usize },
    Lines(Vec<String>),
}

impl Payloads {
    fn of(stream: &Stream) -> anyhow::Result<Payloads> {
        Ok(match &stream.payload {
            Payload::Stamped(size) => {
                Payloads::Stamped { stream: stream.name.clone(), size: *size }
            }
            Payload::Lines(file) => {
                let text = std::fs::read_to_string(file);
                let text = text.with_context(|| format!("reading {}", file.display()))?;
                let lines: Vec<String> = text.lines().map(Into::into).collect();
                ensure!(!lines.is_empty(), "no lines in {}", file.display());
                Payloads::Lines(lines)
            }
        })
    }

    fn at(&self, seq: u64, due_ns: u64) -> Cow<'_, [u8]> {
        match self {
            Payloads::Stamped { stream, size } => {
                let stamp = Stamp { stream: stream.clone(), seq, due_ns };
                stamp.payload(*size).into()
            }
            Payloads::Lines(lines) => lines[(seq % lines.len() as u64) as usize].as_bytes().into(),
        }
    }
}

/// What became of the records, shared by the halves of a connection.
#[derive(Debug, Default)]
struct Answers {
    accepted: u64,
    refused: Vec<u64>,
}

async fn publish(
    stream: Stream,
    payloads: Payloads,
    count: u64,
    (reader, mut writer, window): (Reader, mqtt::Writer, u16),
    patience: Duration,
) -> anyhow::Result<Acked> {
    let credit = Arc::new(Semaphore::new(window.into()));
    let answers = Arc::new(Mutex::new(Answers::default()));
    let mut listener = tokio::spawn(listen(reader, count, credit.clone(), answers.clone()));
    let (start, start_ns) = (Instant::now(), wall_ns());
    for seq in 0..count {
        let offset = Duration::from_secs(seq) / stream.per_second;
        sleep_until(start + offset).await;
        let due_ns = start_ns + u64::try_from(offset.as_nanos())?;
        credit.acquire().await?.forget();
        let id = (seq % IDS) as u16 + 1;
        let (due, place) = (due_ns.to_string(), seq.to_string());
        let properties =
            [(DUE_PROPERTY, &*due), (STREAM_PROPERTY, &*stream.name), (SEQ_PROPERTY, &*place)];
        let payload = payloads.at(seq, due_ns);
        let written = writer.publish(&stream.topic, id, &properties, &payload).await;
        written.with_context(|| format!("{}: record {seq}", stream.name))?;
    }
    if let Ok(ended) = timeout(patience, &mut listener).await {
        ended??;
        // The contestant may be gone by now; everything is acknowledged.
        let _ = writer.goodbye().await;
    }
    let Answers { accepted, refused } = std::mem::take(&mut *lock(&answers));
    Ok(Acked { name: stream.name, sent: count, accepted, refused })
}

/// Counts acknowledgements until every record has one; each gives credit for one more record.
async fn listen(
    mut reader: Reader,
    count: u64,
    credit: Arc<Semaphore>,
    answers: Arc<Mutex<Answers>>,
) -> anyhow::Result<()> {
    let (mut left, mut answered) = (count, 0);
    while left > 0 {
        match reader.packet().await? {
            Some(Packet::Acknowledged { id, reason }) => {
                let mut answers = lock(&answers);
                let place = unwrapped(id, answered);
                answered = answered.max(place);
                if reason < FAILURE {
                    answers.accepted += 1;
                } else {
                    answers.refused.push(place);
                }
                credit.add_permits(1);
                left -= 1;
            }
            Some(_) => {}
            None => bail!("the connection ended with {left} records unacknowledged"),
        }
    }
    Ok(())
}

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    answers.lock().expect("no holder panics")
}

/// The place in the stream of an acknowledged packet id, which is near the newest answered one.
fn unwrapped(id: u16, newest: u64) -> u64 {
    let ahead = (u64::from(id - 1) + IDS - newest % IDS) % IDS;
    if ahead <= IDS / 2 { newest + ahead } else { newest.saturating_sub(IDS - ahead) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_come_round_again_are_told_apart() {
        assert_eq!([unwrapped(1, 0), unwrapped(7, 0), unwrapped(1, 65_530)], [0, 6, 65_535]);
        assert_eq!([unwrapped(65_535, 65_540), unwrapped(3, 131_075)], [65_534, 131_072]);
    }
}
