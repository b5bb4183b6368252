//! A subscriber that counts, and notes how long each message took.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::raw::{self, Splitter};

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
        thread::spawn(move || consume(reader, origin, &counter, &noted));
        Ok(Subscriber { stream, count, lives })
    }

    /// How many of so many came, in the end.
    pub fn wait_for(&self, messages: u64) -> u64 {
        let mut last = (0, Instant::now());
        loop {
            let count = self.count.load(Ordering::Relaxed);
            if count != last.0 {
                last = (count, Instant::now());
            }
            if count >= messages || last.1.elapsed() > QUIET {
                return count;
            }
            thread::sleep(Duration::from_millis(1));
        }
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

/// Reads, acknowledges and counts until the connection ends.
fn consume(
    mut stream: TcpStream,
    origin: Instant,
    count: &AtomicU64,
    lives: &Mutex<Vec<(u64, u64)>>,
) {
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; 64 * 1024];
    let (mut answer, mut noted) = (Vec::new(), Vec::new());
    while let Ok(length) = stream.read(&mut buffer) {
        if length == 0 {
            return;
        }
        let now = origin.elapsed().as_nanos() as u64;
        splitter.push(&buffer[..length]);
        let mut messages = 0;
        while let Some((first, body)) = splitter.take() {
            if first & 0xf0 != 0x30 {
                continue;
            }
            messages += 1;
            let mut payload = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
            if first & 0x06 != 0 {
                answer.extend([0x40, 2, body[payload], body[payload + 1]]);
                payload += 2;
            }
            let time = body[payload..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            if time > 0 {
                noted.push((time, now.saturating_sub(time)));
            }
        }
        lives.lock().unwrap_or_else(PoisonError::into_inner).append(&mut noted);
        count.fetch_add(messages, Ordering::Relaxed);
        if !answer.is_empty() && stream.write_all(&answer).is_err() {
            return;
        }
        answer.clear();
    }
}
