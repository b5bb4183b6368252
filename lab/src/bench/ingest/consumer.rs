//! The consumer that a contestant forwards to, and that costs as little as counting can.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::raw::{self, Splitter};

/// A consumer that counts: a server that acknowledges every PUBLISH, or a client that subscribed.
pub(super) struct Consumer {
    pub(super) address: SocketAddr,
    count: Arc<AtomicU64>,
}

impl Consumer {
    pub(super) fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let count = Arc::new(AtomicU64::new(0));
        let counter = count.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counter = counter.clone();
                thread::spawn(move || consume(stream, &counter));
            }
        });
        Ok(Consumer { address, count })
    }

    pub(super) fn subscribe(address: SocketAddr, qos: u8) -> io::Result<Self> {
        let mut stream = raw::log_in(address, "consumer")?;
        stream.write_all(&raw::subscribe_packet("#", qos))?;
        let count = Arc::new(AtomicU64::new(0));
        let counter = count.clone();
        thread::spawn(move || consume(stream, &counter));
        Ok(Consumer { address, count })
    }

    /// How many of `records` came, in the end.
    pub(super) fn wait_for(&self, records: u64) -> u64 {
        let start = Instant::now();
        let mut last = (0, Instant::now());
        loop {
            let count = self.count.load(Ordering::Relaxed);
            if count != last.0 {
                last = (count, Instant::now());
            }
            // Nothing for two seconds: what is missing was lost on the way.
            let is_quiet = last.1.elapsed() > Duration::from_secs(2);
            if count >= records || is_quiet || start.elapsed() > Duration::from_secs(120) {
                return count;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Answers CONNECT (3.1.1 or 5), PUBLISH with QoS 1 and PINGREQ until the connection ends.
fn consume(mut stream: TcpStream, count: &AtomicU64) {
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut answer = Vec::new();
    let _ = stream.set_read_timeout(None);
    while let Ok(length) = stream.read(&mut buffer) {
        if length == 0 {
            return;
        }
        splitter.push(&buffer[..length]);
        answer.clear();
        while let Some((first, body)) = splitter.take() {
            match first & 0xf0 {
                0x10 if body.get(6) == Some(&5) => answer.extend([0x20, 3, 0, 0, 0]),
                0x10 => answer.extend([0x20, 2, 0, 0]),
                0x30 => {
                    count.fetch_add(1, Ordering::Relaxed);
                    let topic = usize::from(u16::from_be_bytes([body[0], body[1]]));
                    if first & 0x06 != 0 {
                        answer.extend([0x40, 2, body[topic + 2], body[topic + 3]]);
                    }
                }
                0xc0 => answer.extend([0xd0, 0]),
                _ => {}
            }
        }
        if !answer.is_empty() && stream.write_all(&answer).is_err() {
            return;
        }
    }
}
