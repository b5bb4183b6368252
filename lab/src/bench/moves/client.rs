//! Publishers of the benchmark, each with a thread of its own.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::load::raw::{self, Splitter};

/// Publishes that wait for their PUBACK.
const WINDOW: usize = 1000;
/// Longest wait for answers after the last publish.
const PATIENCE: Duration = Duration::from_secs(60);
/// MQTT 5: use another server.
const ELSEWHERE: u8 = 0x9C;
/// MQTT 5: the property that names it.
const SERVER_REFERENCE: u8 = 0x1C;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Old,
    New,
}

/// Who publishes with QoS 1, and what was not acknowledged again at the node that it is told to use.
pub(super) struct Publisher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<(u64, u64)>>,
}

impl Publisher {
    pub(super) fn start(
        address: SocketAddr,
        version: Version,
        pause: Duration,
    ) -> io::Result<Self> {
        let client = Client::open(address, version)?;
        let stop = Arc::<AtomicBool>::default();
        let ending = stop.clone();
        let thread = thread::spawn(move || publish(client, pause, &ending));
        Ok(Publisher { stop, thread })
    }

    /// How many it has published, and how often it went to another node; all are acknowledged.
    pub(super) fn finish(self) -> io::Result<(u64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("a publisher panicked"))?
    }
}

fn publish(mut client: Client, pause: Duration, stop: &AtomicBool) -> io::Result<(u64, u64)> {
    let start = Instant::now();
    let (mut sent, mut followed) = (0u64, 0);
    let mut until = None;
    // In order; acknowledgements come in the same one.
    let mut open: VecDeque<u64> = VecDeque::new();
    loop {
        if stop.load(Ordering::Relaxed) {
            let until = *until.get_or_insert(Instant::now() + PATIENCE);
            if open.is_empty() {
                return Ok((sent, followed));
            }
            if Instant::now() > until {
                return Err(io::Error::other(format!("{} are not acknowledged", open.len())));
            }
        } else if start.elapsed() >= pause.mul_f64(sent as f64) && open.len() < WINDOW {
            sent += 1;
            open.push_back(sent);
            client.publish(sent)?;
            continue;
        }
        match client.hear()? {
            Heard::Nothing => {}
            Heard::Acknowledged(id) => open.retain(|number| *number as u16 != id),
            Heard::Elsewhere(address) => {
                followed += 1;
                client = Client::open(address, client.version)?;
                for number in &open {
                    client.publish(*number)?;
                }
            }
        }
    }
}

enum Heard {
    Nothing,
    Acknowledged(u16),
    Elsewhere(SocketAddr),
}

struct Client {
    stream: TcpStream,
    splitter: Splitter,
    version: Version,
}

/// How long a publisher listens before it looks at the time again.
const LISTEN: Duration = Duration::from_micros(500);

impl Client {
    fn open(address: SocketAddr, version: Version) -> io::Result<Client> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let (name, level) = match version {
            Version::Old => ("old", 4),
            Version::New => ("new", 5),
        };
        let mut body = b"\x00\x04MQTT".to_vec();
        body.extend([level, 2, 0, 0]);
        if version == Version::New {
            body.push(0);
        }
        raw::push_text(&mut body, name);
        stream.write_all(&raw::packet(0x10, &body))?;
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        let mut connack = vec![0; usize::from(head[1])];
        stream.read_exact(&mut connack)?;
        if head[0] != 0x20 || connack.get(1) != Some(&0) {
            return Err(io::Error::other(format!("CONNACK {connack:?}")));
        }
        stream.set_read_timeout(Some(LISTEN))?;
        Ok(Client { stream, splitter: Splitter::default(), version })
    }

    fn publish(&mut self, number: u64) -> io::Result<()> {
        let mut body = Vec::new();
        raw::push_text(&mut body, "bench/raw");
        body.extend((number as u16).to_be_bytes());
        let publisher = match self.version {
            Version::Old => 0u64,
            Version::New => {
                body.push(0);
                1
            }
        };
        body.extend(publisher.to_be_bytes());
        body.extend(number.to_be_bytes());
        self.stream.write_all(&raw::packet(0x32, &body))
    }

    fn hear(&mut self) -> io::Result<Heard> {
        if let Some(heard) = self.heard()? {
            return Ok(heard);
        }
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(io::Error::other("a node closed a publisher's connection")),
            Ok(count) => {
                self.splitter.push(&buffer[..count]);
                Ok(self.heard()?.unwrap_or(Heard::Nothing))
            }
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Ok(Heard::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    fn heard(&mut self) -> io::Result<Option<Heard>> {
        let Some((first, body)) = self.splitter.take() else { return Ok(None) };
        match (first, body) {
            (0x40, [high, low, ..]) => {
                Ok(Some(Heard::Acknowledged(u16::from_be_bytes([*high, *low]))))
            }
            (0xE0, [ELSEWHERE, _, SERVER_REFERENCE, _, _, text @ ..]) => {
                let text = String::from_utf8_lossy(text);
                let address = text.parse().map_err(|_| io::Error::other(text.into_owned()))?;
                Ok(Some(Heard::Elsewhere(address)))
            }
            other => Err(io::Error::other(format!("unexpected packet {other:?}"))),
        }
    }
}
