//! The job that sends records: over one connection of TCP, or to a node's MQTT listener.

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::record::Records;
use super::socket::{self, Kind};
use crate::load::raw;
use crate::load::stamp::wall_ns;

/// What is sent, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendRecords {
    pub to: SocketAddrV4,
    /// How; over MQTT if left out, each stream by a client of its own.
    pub kind: Option<Kind>,
    /// Payload bits a second, each record when it is due; as fast as it goes if left out.
    pub rate: Option<f64>,
    /// When it begins, nanoseconds since the Unix epoch.
    pub begin_ns: u64,
    /// How long it lasts, in seconds.
    pub seconds: f64,
    pub streams: u32,
    pub most: u32,
    pub seed: u64,
}

/// What was sent: one line when all is over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    pub records: u64,
    pub bytes: u64,
}

/// Where a stream's records go.
enum To {
    Tcp(TcpStream),
    Mqtt(Vec<TcpStream>),
}

impl SendRecords {
    #[expect(clippy::print_stdout, reason = "the result of a job")]
    pub fn run(&self) -> anyhow::Result<()> {
        let mut to = self.connect()?;
        let mut records = Records::new(self.streams, self.most, self.seed);
        let mut sent = Sent::default();
        let end_ns = self.begin_ns + (self.seconds * 1e9) as u64;
        let mut due = self.begin_ns as f64;
        let mut bytes = Vec::new();
        loop {
            let due_ns =
                if self.rate.is_some() { due as u64 } else { wall_ns().max(self.begin_ns) };
            if due_ns >= end_ns {
                break;
            }
            if let Some(early) = due_ns.checked_sub(wall_ns()) {
                std::thread::sleep(Duration::from_nanos(early));
            }
            let record = records.next(due_ns);
            due += f64::from(record.size) * 8e9 / self.rate.unwrap_or(f64::INFINITY);
            bytes.clear();
            record.write(&mut bytes);
            match &mut to {
                To::Tcp(stream) => stream.write_all(&bytes)?,
                To::Mqtt(clients) => {
                    let topic = format!("media/{}", record.stream);
                    let packet = raw::publish_packet(&topic, None, &bytes);
                    clients[record.stream as usize].write_all(&packet)?;
                }
            }
            sent.records += 1;
            sent.bytes += u64::from(record.size);
        }
        println!("{}", serde_json::to_string(&sent)?);
        // Who hears the end of the connection before the last record drops that.
        if let To::Mqtt(clients) = &mut to {
            for client in clients {
                client.write_all(&[0xe0, 0])?;
            }
        }
        let _ = std::io::stdin().read(&mut [0]);
        Ok(())
    }

    fn connect(&self) -> anyhow::Result<To> {
        if let Some(kind) = &self.kind {
            let stream = socket::connect(kind, self.to);
            return Ok(To::Tcp(stream.with_context(|| format!("connecting to {}", self.to))?));
        }
        let client = |number: u32| {
            let mut stream = TcpStream::connect(self.to).context("the node's MQTT listener")?;
            stream.set_nodelay(true)?;
            stream.write_all(&raw::connect_packet(&format!("source-{number}")))?;
            let mut answer = [0; 4];
            stream.read_exact(&mut answer)?;
            anyhow::ensure!(answer == [0x20, 2, 0, 0], "the node says {answer:?}");
            Ok(stream)
        };
        Ok(To::Mqtt((0..self.streams).map(client).collect::<anyhow::Result<_>>()?))
    }
}
