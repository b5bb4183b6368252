//! Publishes streams at fixed rates, open loop: a record is due when it is due, whoever is slow.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::mqtt::{self, Packet, Reader};
use super::stamp::{Stamp, wall_ns};

/// Name of the user property with the time at which a record was due, in nanoseconds since 1970.
const DUE_PROPERTY: &str = "source-time-ns";
/// Reason codes from here on are refusals.
const FAILURE: u8 = 0x80;

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

/// Records of one size at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Name in stamps and figures.
    pub name: String,
    /// Topic that it is published to.
    pub topic: String,
    /// Payload bytes.
    pub size: usize,
    /// Records a second.
    pub per_second: u32,
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
    /// Of these, acknowledged as refused.
    pub refused: u64,
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
            let socket = super::connect(address).await?;
            let connection = mqtt::hello(socket, &format!("load-{}", stream.name)).await?;
            connections.push((stream, connection));
        }
        for (stream, (reader, writer, window)) in connections {
            let count = u64::from(stream.per_second) * u64::from(seconds);
            let patience = Duration::from_secs(patience.into());
            publishers.spawn(publish(stream, count, reader, writer, window, patience));
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

#[derive(Debug, Default)]
struct Answers {
    accepted: AtomicU64,
    refused: AtomicU64,
}

async fn publish(
    stream: Stream,
    count: u64,
    reader: Reader,
    mut writer: mqtt::Writer,
    window: u16,
    patience: Duration,
) -> anyhow::Result<Acked> {
    let credit = Arc::new(Semaphore::new(window.into()));
    let answers = Arc::new(Answers::default());
    let mut listener = tokio::spawn(listen(reader, count, credit.clone(), answers.clone()));
    let (start, start_ns) = (Instant::now(), wall_ns());
    for seq in 0..count {
        let offset = Duration::from_secs(seq) / stream.per_second;
        sleep_until(start + offset).await;
        let due_ns = start_ns + u64::try_from(offset.as_nanos())?;
        credit.acquire().await?.forget();
        let stamp = Stamp { stream: stream.name.clone(), seq, due_ns };
        let id = (seq % u64::from(u16::MAX)) as u16 + 1;
        let properties = [(DUE_PROPERTY, &*due_ns.to_string())];
        let payload = stamp.payload(stream.size);
        let written = writer.publish(&stream.topic, id, &properties, &payload).await;
        written.with_context(|| format!("{}: record {seq}", stream.name))?;
    }
    if let Ok(ended) = timeout(patience, &mut listener).await {
        ended??;
        // The contestant may be gone by now; everything is acknowledged.
        let _ = writer.goodbye().await;
    }
    let count_of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (accepted, refused) = (count_of(&answers.accepted), count_of(&answers.refused));
    Ok(Acked { name: stream.name, sent: count, accepted, refused })
}

/// Counts acknowledgements until every record has one; each gives credit for one more record.
async fn listen(
    mut reader: Reader,
    count: u64,
    credit: Arc<Semaphore>,
    answers: Arc<Answers>,
) -> anyhow::Result<()> {
    let mut left = count;
    while left > 0 {
        match reader.packet().await? {
            Some(Packet::Acknowledged { reason, .. }) => {
                let counter = if reason < FAILURE { &answers.accepted } else { &answers.refused };
                counter.fetch_add(1, Ordering::Relaxed);
                credit.add_permits(1);
                left -= 1;
            }
            Some(_) => {}
            None => bail!("the connection ended with {left} records unacknowledged"),
        }
    }
    Ok(())
}
