//! A subscriber that counts, and notes how long each message took.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::raw;

/// A silence after which what is missing counts as lost.
pub const QUIET: Duration = Duration::from_secs(2);
/// How long a subscription may take.
const PATIENCE: Duration = Duration::from_secs(10);
const SUBACK: u8 = 0x90;
/// What comes twice comes within this.
const TWICE: Duration = Duration::from_millis(200);

/// A message that came: the first two numbers of its payload, and when, in nanoseconds since the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub numbers: [u64; 2],
    pub at_ns: u64,
}

/// A client that has subscribed. Its connection ends when it is dropped.
pub struct Subscriber {
    stream: TcpStream,
    count: Arc<AtomicU64>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Subscriber {
    /// Subscribes to a filter; times count from `origin`. A payload that begins with zeros is only counted.
    pub fn to(
        address: SocketAddr,
        name: &str,
        filter: &str,
        qos: u8,
        origin: Instant,
    ) -> io::Result<Self> {
        Subscriber::open(address, (name, false), filter, qos, origin)
    }

    /// The same of a client whose session may last.
    pub fn open(
        address: SocketAddr,
        (name, is_lasting): (&str, bool),
        filter: &str,
        qos: u8,
        origin: Instant,
    ) -> io::Result<Self> {
        let mut stream = raw::log_in_as(address, name, is_lasting)?;
        stream.set_read_timeout(None)?;
        let (granted, is_granted) = mpsc::sync_channel(1);
        let (count, seen) = (Arc::<AtomicU64>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (reader, counter, noted) = (stream.try_clone()?, count.clone(), seen.clone());
        thread::spawn(move || {
            raw::hear(reader, |first, body, answers| {
                if first == SUBACK {
                    // There is one.
                    let _ = granted.try_send(());
                }
                let Some(payload) = raw::payload(first, body, false, answers) else { return };
                let at_ns = origin.elapsed().as_nanos() as u64;
                let numbers = [0, 8].map(|place| {
                    let bytes = payload.get(place..).and_then(<[u8]>::first_chunk);
                    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
                });
                if numbers != [0, 0] {
                    let mut seen = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.push(Seen { numbers, at_ns });
                }
                counter.fetch_add(1, Ordering::Relaxed);
            })
        });
        // What a session that lasts still has to get may come before it.
        stream.write_all(&raw::subscribe_packet(filter, qos))?;
        is_granted.recv_timeout(PATIENCE).map_err(io::Error::other)?;
        Ok(Subscriber { stream, count, seen })
    }

    /// How many of so many came, in the end.
    pub fn wait_for(&self, messages: u64) -> u64 {
        until_quiet(&self.count, messages, QUIET)
    }

    /// What came until so many have or nothing more does for `patience`, and what comes twice soon after.
    pub fn finish(self, messages: u64, patience: Duration) -> Vec<Seen> {
        until_quiet(&self.count, messages, patience);
        thread::sleep(TWICE);
        self.seen()
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Nanoseconds from the time in each payload to its arrival.
    pub fn delays(&self) -> Vec<u64> {
        self.lives().into_iter().map(|(_, took)| took).collect()
    }

    /// The time in each payload, and the nanoseconds from then to its arrival.
    pub fn lives(&self) -> Vec<(u64, u64)> {
        let life = |Seen { numbers: [time, _], at_ns }| (time, at_ns.saturating_sub(time));
        self.seen().into_iter().map(life).filter(|(time, _)| *time > 0).collect()
    }
}

/// How far a counter comes: to so many, or until it rests for `quiet`.
pub fn until_quiet(count: &AtomicU64, all: u64, quiet: Duration) -> u64 {
    let mut last = (0, Instant::now());
    loop {
        let count = count.load(Ordering::Relaxed);
        if count != last.0 {
            last = (count, Instant::now());
        }
        if count >= all || last.1.elapsed() > quiet {
            return count;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
