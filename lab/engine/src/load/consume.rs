//! One consumer for every broker: prints what comes, a line a record, as fast as it comes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::amqp::{Consumer, Subscription};
use super::mqtt::{self, Hello, Packet, Version};
use super::sink::Tail;
use super::stamp::{Stamp, wall_ns};
use super::{READY, nats, say};
use crate::query::{Answer, Query};

/// Before a broker that broke off is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// The property of a record that may have come before.
const MARK: &str = "tidegate-again";
/// What stands behind the stamp of such a record.
pub(crate) const MARKED: &str = " marked";

/// A consumer: it prints [`READY`] when everything published from now on will reach it, then a line for
/// each record that comes: its stamp, [`MARKED`] if it is, and the time of its arrival. Where records carry values it runs the query
/// of [`crate::query`], and prints a line for each answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Consume {
    /// Where records come from.
    pub from: Source,
    /// Come back after every break, to what the broker has kept meanwhile.
    #[serde(default)]
    pub is_lasting: bool,
    /// Print every record as an [`Arrival`], not only its stamp and time.
    #[serde(default)]
    pub is_whole: bool,
}

/// Where records come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// A subscription at an MQTT broker, QoS 1.
    Mqtt {
        address: SocketAddr,
        filter: String,
        #[serde(default)]
        version: Version,
    },
    /// A queue at an AMQP broker.
    Amqp {
        address: SocketAddr,
        /// User, with the same word as password.
        user: String,
        /// Topic exchange to bind to.
        exchange: String,
        key: String,
        /// A durable queue of this name; else one that goes with the connection.
        queue: Option<String>,
    },
    /// A subscription at a NATS server. With an answer wanted, as JetStream does, it is given.
    Nats { address: SocketAddr, subject: String },
    /// The files of an embedded sink.
    Sink { folder: PathBuf },
}

/// A record as a broker delivers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Under which it is acknowledged.
    pub tag: u64,
    /// Texts beside the payload.
    pub headers: BTreeMap<String, String>,
    pub payload: Bytes,
}

/// A record that came, as a consumer of whole records prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Texts beside the payload.
    pub headers: BTreeMap<String, String>,
    /// The payload as text.
    pub payload: String,
    /// When it came, in nanoseconds since the Unix epoch.
    pub received_ns: u64,
}

impl Consume {
    /// Prints stamps until the connection ends.
    pub fn once(from: Source) -> Consume {
        Consume { from, is_lasting: false, is_whole: false }
    }

    /// Runs until the process is killed, or the broker ends it where nothing lasts.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        loop {
            let end = self.consume().await;
            if !self.is_lasting {
                return end;
            }
            sleep(PAUSE).await;
        }
    }

    async fn consume(&self) -> anyhow::Result<()> {
        let mut subscription = self.from.open(self.is_lasting).await?;
        let mut queries = Queries::new();
        say(READY);
        while let Some(delivery) = subscription.next().await? {
            self.report(&delivery, &mut queries)?;
            subscription.acknowledge(delivery.tag).await?;
        }
        Ok(())
    }

    fn report(&self, delivery: &Delivery, queries: &mut Queries) -> anyhow::Result<()> {
        let received_ns = wall_ns();
        if self.is_whole {
            let payload = String::from_utf8_lossy(&delivery.payload).into_owned();
            let headers = delivery.headers.clone();
            say(&serde_json::to_string(&Arrival { headers, payload, received_ns })?);
        } else {
            let stamp = Stamp::read(&delivery.payload)?;
            let Stamp { stream, seq, due_ns } = &stamp;
            let mark = if delivery.headers.contains_key(MARK) { MARKED } else { "" };
            say(&format!("{stream} {seq} {due_ns}{mark} {received_ns}"));
            for answer in answers(queries, stamp, &delivery.payload) {
                say(&answer.to_string());
            }
        }
        Ok(())
    }
}

type Queries = BTreeMap<String, Query>;

/// The windows that are complete by a record, if it carries a value.
fn answers(queries: &mut Queries, stamp: Stamp, payload: &[u8]) -> Vec<Answer> {
    let Some(value) = Stamp::value_in(payload) else { return Vec::new() };
    let Stamp { stream, seq, due_ns } = stamp;
    let complete = queries.entry(stream.clone()).or_default().take(seq, due_ns, value);
    let answer = |(window, sum)| Answer { stream: stream.clone(), window, sum, at_ns: wall_ns() };
    complete.into_iter().map(answer).collect()
}

/// An open subscription of whatever kind.
enum Open {
    Mqtt(mqtt::Reader, mqtt::Writer),
    Amqp(Box<Consumer>),
    Nats(nats::Client, Option<String>),
    Sink(Tail),
}

impl Source {
    async fn open(&self, is_lasting: bool) -> anyhow::Result<Open> {
        Ok(match self {
            Source::Mqtt { address, filter, version } => {
                let socket = super::connect(*address).await?;
                let hello = Hello { client: "lab-consumer", version: *version, is_lasting };
                let (mut reader, mut writer, _) = mqtt::hello(socket, hello).await?;
                writer.subscribe(filter).await?;
                // A session that the broker kept may bring records before the answer.
                reader.wait_for_subscription().await?;
                Open::Mqtt(reader, writer)
            }
            Source::Amqp { address, user, exchange, key, queue } => {
                let socket = super::connect(*address).await?;
                let queue = queue.as_deref();
                let what = Subscription { user, password: user, exchange, key, queue };
                Open::Amqp(Box::new(Consumer::subscribe(socket, what).await?))
            }
            Source::Nats { address, subject } => {
                let mut client = nats::Client::connect(super::connect(*address).await?).await?;
                client.subscribe(subject).await?;
                Open::Nats(client, None)
            }
            Source::Sink { folder } => Open::Sink(Tail::new(folder)),
        })
    }
}

impl Open {
    /// The next record; `None` at the end of the connection.
    async fn next(&mut self) -> anyhow::Result<Option<Delivery>> {
        match self {
            Open::Mqtt(reader, _) => loop {
                match reader.packet().await? {
                    Some(Packet::Publish { properties, payload, id, .. }) => {
                        let (tag, headers) = (id.map_or(0, u64::from), properties.into_iter());
                        let headers = headers.collect();
                        return Ok(Some(Delivery { tag, headers, payload }));
                    }
                    Some(_) => {}
                    None => return Ok(None),
                }
            },
            Open::Amqp(consumer) => consumer.next().await,
            Open::Nats(client, reply) => {
                let Some(message) = client.next().await? else { return Ok(None) };
                *reply = message.reply;
                Ok(Some(Delivery { payload: message.payload, ..Delivery::default() }))
            }
            Open::Sink(tail) => tail.next().await.map(Some),
        }
    }

    /// The last record is in good hands.
    async fn acknowledge(&mut self, tag: u64) -> anyhow::Result<()> {
        match self {
            // Packet ids begin at 1: QoS 0 wants no answer.
            Open::Mqtt(_, writer) if tag > 0 => Ok(writer.acknowledge(tag as u16).await?),
            Open::Amqp(consumer) => consumer.acknowledge(tag).await,
            Open::Nats(client, reply) => match reply.take() {
                Some(reply) => client.acknowledge(&reply).await,
                None => Ok(()),
            },
            Open::Mqtt(..) | Open::Sink(_) => Ok(()),
        }
    }
}
