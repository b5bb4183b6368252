//! A subscriber that counts, and notes how long each message took.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::raw;

/// A silence after which what is missing counts as lost.
const QUIET: Duration = Duration::from_secs(2);

/// A client that has subscribed to everything. Its connection ends when it is dropped.
pub struct Subscriber {
    stream: TcpStream,
    count: Arc<AtomicU64>,
    lives: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Subscriber {
    /// Subscribes to a filter; times in payloads count from `origin`.
    pub fn to(
        address: SocketAddr,
        name: &str,
        filter: &str,
        qos: u8,
        origin: Instant,
    ) -> io::Result<Self> {
        let mut stream = raw::log_in(address, name)?;
        stream.write_all(&raw::subscribe_packet(filter, qos))?;
        // The SUBACK: five bytes.
        stream.read_exact(&mut [0; 5])?;
        stream.set_read_timeout(None)?;
        let (count, lives) = (Arc::<AtomicU64>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (reader, counter, noted) = (stream.try_clone()?, count.clone(), lives.clone());
        thread::spawn(move || {
            raw::hear(reader, |first, body, answers| {
                let Some(payload) = raw::payload(first, body, false, answers) else { return };
                let now = origin.elapsed().as_nanos() as u64;
                let time = payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                if time > 0 {
                    let mut lives = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    lives.push((time, now.saturating_sub(time)));
                }
                counter.fetch_add(1, Ordering::Relaxed);
            })
        });
        Ok(Subscriber { stream, count, lives })
    }

    /// How many of so many came, in the end.
    pub fn wait_for(&self, messages: u64) -> u64 {
        until_quiet(&self.count, messages)
    }

    /// Nanoseconds from the time in each payload to its arrival.
    pub fn delays(&self) -> Vec<u64> {
        self.lives().into_iter().map(|(_, took)| took).collect()
    }

    /// The time in each payload, and the nanoseconds from then to its arrival.
    pub fn lives(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut *self.lives.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How far a counter comes: to so many, or until it rests for [`QUIET`].
pub fn until_quiet(count: &AtomicU64, all: u64) -> u64 {
    let mut last = (0, Instant::now());
    loop {
        let count = count.load(Ordering::Relaxed);
        if count != last.0 {
            last = (count, Instant::now());
        }
        if count >= all || last.1.elapsed() > QUIET {
            return count;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
