//! Publishes streams over MQTT, open loop: a record is due when it is due, whoever is slow. Thousands of
//! publishers fit into one process, each with a connection of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::arrivals::{Arrivals, Schedule, Share};
use super::mqtt::{self, Hello, Packet, Reader, Version, Writer};
use super::stamp::{Stamp, wall_ns};
use super::{BEGAN, say};
use crate::query::{self, Sums};

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

/// Streams, published from one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Publish {
    /// Where the contestant listens.
    pub address: SocketAddr,
    /// Which MQTT it speaks.
    pub version: Version,
    pub streams: Vec<Stream>,
    /// For how long, in seconds.
    pub seconds: u32,
    /// How long to wait afterwards for the last acknowledgements, in seconds.
    pub patience: u32,
    /// Of what is random.
    pub seed: u64,
}

/// Records at one rate, from one publisher or from many: then each has a name with a number behind a dot,
/// a topic with a level more, and counts by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Name in stamps and figures.
    pub name: String,
    /// Topic that it is published to.
    pub topic: String,
    /// What is in them.
    pub payload: Payload,
    /// Records a second, of all its publishers together.
    pub per_second: f64,
    /// Publishers; at least one.
    pub publishers: u32,
    /// When records are due.
    pub arrivals: Arrivals,
    /// For contestants whose publishers say themselves what is urgent.
    pub is_urgent: bool,
}

/// What the records of a stream carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// A [`Stamp`], filled up to so many bytes.
    Stamped(usize),
    /// The same with a value in each, and the generator's own sums at the end: for [`crate::query`].
    Measured(usize),
    /// The lines of a file in turn, over and over.
    Lines(PathBuf),
    /// The same with a stamp before each: for contestants that carry no user properties.
    StampedLines(PathBuf),
}

impl Default for Payload {
    fn default() -> Self {
        Payload::Stamped(0)
    }
}

/// What a publisher prints of a stream at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acked {
    pub name: String,
    /// Records handed to the connection.
    pub sent: u64,
    /// Of these, acknowledged as accepted.
    pub accepted: u64,
    /// Of these, acknowledged as refused: their places in the stream.
    pub refused: Vec<u64>,
    /// Of these, not answered at all: their places in the stream.
    #[serde(default)]
    pub unanswered: Vec<u64>,
    /// Sums of the values of what was sent, in windows of time; empty where records carry none.
    #[serde(default, skip_serializing_if = "Sums::is_empty")]
    pub sums: Sums,
}

impl Default for Publish {
    /// Nothing to publish, at MQTT's port of this machine.
    fn default() -> Self {
        Publish {
            address: (std::net::Ipv4Addr::LOCALHOST, 1883).into(),
            version: Version::V5,
            streams: Vec::new(),
            seconds: 0,
            patience: 0,
            seed: 1,
        }
    }
}

impl Publish {
    /// Publishes and prints one [`Acked`] for each publisher.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut publishers = Vec::new();
        for stream in &self.streams {
            let payloads = Arc::new(Payloads::of(&stream.payload)?);
            for place in 0..stream.publishers.max(1) {
                publishers.push(Publisher::connect(&self, stream, place, payloads.clone()).await?);
            }
        }
        let load = Duration::from_secs(self.seconds.into());
        let (start, start_ns) = (Instant::now(), wall_ns());
        say(&format!("{BEGAN}{start_ns}"));
        let end = start + load;
        let last = end + Duration::from_secs(self.patience.into());
        let mut running = JoinSet::new();
        for publisher in publishers {
            running.spawn(publisher.run(start, start_ns, load, last));
        }
        while let Some(acked) = running.join_next().await {
            say(&serde_json::to_string(&acked??)?);
        }
        Ok(())
    }
}

impl Stream {
    /// Name and topic of one of its publishers.
    fn of(&self, place: u32) -> (String, String) {
        match self.publishers {
            0 | 1 => (self.name.clone(), self.topic.clone()),
            _ => (format!("{}.{place}", self.name), format!("{}/{place}", self.topic)),
        }
    }
}

/// Payloads that are at hand before the first one is due.
enum Payloads {
    Stamped(usize),
    Measured(usize),
    Lines(Vec<String>),
    StampedLines(Vec<String>),
}

impl Payloads {
    fn of(payload: &Payload) -> anyhow::Result<Payloads> {
        let lines = |file: &PathBuf| {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("reading {}", file.display()))?;
            let lines: Vec<String> = text.lines().map(Into::into).collect();
            ensure!(!lines.is_empty(), "no lines in {}", file.display());
            Ok(lines)
        };
        Ok(match payload {
            Payload::Stamped(size) => Payloads::Stamped(*size),
            Payload::Measured(size) => Payloads::Measured(*size),
            Payload::Lines(file) => Payloads::Lines(lines(file)?),
            Payload::StampedLines(file) => Payloads::StampedLines(lines(file)?),
        })
    }

    /// `place` is that among the records of all publishers of the stream.
    fn of_record(&self, stamp: &Stamp, place: u64) -> Cow<'_, [u8]> {
        let line = |lines: &'_ [String]| (place % lines.len() as u64) as usize;
        match self {
            Payloads::Stamped(size) => stamp.payload(*size).into(),
            Payloads::Measured(size) => stamp.measured(stamp.value(), *size).into(),
            Payloads::Lines(lines) => lines[line(lines)].as_bytes().into(),
            Payloads::StampedLines(lines) => {
                let mut payload = stamp.payload(0);
                payload.extend_from_slice(lines[line(lines)].as_bytes());
                payload.into()
            }
        }
    }
}

/// One connection, and what it has to publish.
struct Publisher {
    name: String,
    topic: String,
    payloads: Arc<Payloads>,
    schedule: Schedule,
    /// Which of its stream's publishers it is, and how many there are.
    place: (u64, u64),
    reader: Reader,
    writer: Writer,
    /// Records that may be unacknowledged at once.
    window: usize,
    /// Of these, by packet id.
    open: BTreeMap<u16, u64>,
    sent: u64,
    accepted: u64,
    refused: Vec<u64>,
    sums: Sums,
}

impl Publisher {
    async fn connect(
        all: &Publish,
        stream: &Stream,
        place: u32,
        payloads: Arc<Payloads>,
    ) -> anyhow::Result<Publisher> {
        let publishers = stream.publishers.max(1);
        let share = Share { per_second: stream.per_second, place, publishers, seed: all.seed };
        let schedule = stream.arrivals.schedule(share)?;
        let (name, topic) = stream.of(place);
        let socket = super::connect(all.address).await?;
        let client = format!("load-{name}");
        let hello = Hello { version: all.version, ..Hello::new(&client) };
        let (reader, writer, window) = mqtt::hello(socket, hello).await?;
        Ok(Publisher {
            name,
            topic,
            payloads,
            schedule,
            place: (place.into(), publishers.into()),
            reader,
            writer,
            window: window.into(),
            open: BTreeMap::new(),
            sent: 0,
            accepted: 0,
            refused: Vec::new(),
            sums: Sums::new(),
        })
    }

    /// Publishes what is due while the load is on, and waits for answers until `last`.
    async fn run(
        mut self,
        start: Instant,
        start_ns: u64,
        load: Duration,
        last: Instant,
    ) -> anyhow::Result<Acked> {
        let mut due = self.schedule.next().filter(|due| *due < load);
        while due.is_some() || !self.open.is_empty() {
            let next = start + due.unwrap_or_default();
            tokio::select! {
                packet = self.reader.packet() => self.hear(packet?)?,
                () = sleep_until(next), if due.is_some() && self.may_send() => {
                    let offset = u64::try_from(due.unwrap_or_default().as_nanos())?;
                    self.send(start_ns + offset).await?;
                    due = self.schedule.next().filter(|due| *due < load);
                }
                () = sleep_until(last) => break,
            }
        }
        // The contestant may be gone by now; what matters is answered.
        let _ = self.writer.goodbye().await;
        let Publisher { name, sent, accepted, refused, open, sums, .. } = self;
        let unanswered = open.into_values().collect();
        Ok(Acked { name, sent, accepted, refused, unanswered, sums })
    }

    /// Whether the contestant takes one more without an answer, and the next id is free.
    fn may_send(&self) -> bool {
        self.open.len() < self.window && !self.open.contains_key(&id_of(self.sent))
    }

    fn hear(&mut self, packet: Option<Packet>) -> anyhow::Result<()> {
        match packet {
            Some(Packet::Acknowledged { id, reason }) => {
                let seq = self.open.remove(&id);
                let seq = seq.with_context(|| format!("{}: an answer to nothing", self.name))?;
                if reason < FAILURE {
                    self.accepted += 1;
                } else {
                    self.refused.push(seq);
                }
            }
            Some(_) => {}
            None => bail!("{}: connection ended, {} unanswered", self.name, self.open.len()),
        }
        Ok(())
    }

    async fn send(&mut self, due_ns: u64) -> anyhow::Result<()> {
        let seq = self.sent;
        let id = id_of(seq);
        let (place, publishers) = self.place;
        let stamp = Stamp { stream: self.name.clone(), seq, due_ns };
        let payload = self.payloads.of_record(&stamp, seq * publishers + place);
        if matches!(*self.payloads, Payloads::Measured(_)) {
            query::add(&mut self.sums, due_ns, stamp.value());
        }
        let (due, seq_text) = (due_ns.to_string(), seq.to_string());
        let properties =
            [(DUE_PROPERTY, &*due), (STREAM_PROPERTY, &*self.name), (SEQ_PROPERTY, &*seq_text)];
        self.open.insert(id, seq);
        self.sent += 1;
        let written = self.writer.publish(&self.topic, id, &properties, &payload).await;
        written.with_context(|| format!("{}: record {seq}", self.name))
    }
}

/// Packet id of a place: they come round.
fn id_of(seq: u64) -> u16 {
    (seq % IDS) as u16 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_of_a_stream_have_names_and_topics_of_their_own() {
        let stream = |publishers| Stream {
            name: "alarm".into(),
            topic: "plant/alarm".into(),
            publishers,
            ..Stream::default()
        };
        assert_eq!(stream(1).of(0), ("alarm".into(), "plant/alarm".into()));
        assert_eq!(stream(9).of(7), ("alarm.7".into(), "plant/alarm/7".into()));
        assert_eq!(Stamp::group_of(&stream(9).of(7).0), "alarm");
    }

    #[test]
    fn rows_carry_a_stamp_where_they_must() {
        let rows = vec!["first".to_owned(), "second".to_owned()];
        let stamp = Stamp { stream: "a.1".into(), seq: 1, due_ns: 7 };
        let stamped = Payloads::StampedLines(rows.clone());
        let payload = stamped.of_record(&stamp, 3);
        assert_eq!(&payload[..], b"a.1 1 7 second");
        assert_eq!(Stamp::read(&payload).unwrap(), stamp);
        assert_eq!(&Payloads::Lines(rows).of_record(&stamp, 4)[..], b"first");
    }
}
