//! Clients that measure: MQTT 3.1.1 as bytes, for they share the machine with what they measure.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time is the beginning of a payload.
const TIME: usize = 8;

/// Nanoseconds: when a record was published, and how long it took.
pub(super) type Taken = (u64, u64);

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let mut left = body.len();
    loop {
        let digit = (left % 128) as u8;
        left /= 128;
        bytes.push(if left > 0 { digit | 0x80 } else { digit });
        if left == 0 {
            break;
        }
    }
    bytes.extend(body);
    bytes
}

fn push_text(body: &mut Vec<u8>, text: &str) {
    // Names here are short.
    body.extend((text.len() as u16).to_be_bytes());
    body.extend(text.as_bytes());
}

/// A PUBLISH of so many bytes, and where its payload begins.
pub(super) fn publish_packet(topic: &str, payload: usize) -> (Vec<u8>, usize) {
    let mut body = Vec::new();
    push_text(&mut body, topic);
    body.resize(body.len() + payload.max(TIME), 0);
    let bytes = packet(0x30, &body);
    let at = bytes.len() - payload.max(TIME);
    (bytes, at)
}

/// Opens a connection and logs in.
///
/// # Errors
/// No connection, or a CONNACK that refuses.
pub(super) fn log_in(address: SocketAddr, name: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut body = b"\x00\x04MQTT\x04\x02\x00\x00".to_vec();
    push_text(&mut body, name);
    stream.write_all(&packet(0x10, &body))?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    match answer {
        [0x20, 2, _, 0] => Ok(stream),
        other => Err(io::Error::other(format!("the node refused {name}: {other:02x?}"))),
    }
}

/// A subscriber that notes how long each record took; its connection ends when it is dropped.
#[derive(Debug)]
pub(super) struct Subscriber {
    stream: TcpStream,
    came: Arc<AtomicU64>,
    taken: Arc<Mutex<Vec<Taken>>>,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Subscriber {
    /// Subscribes to a topic; times count from `origin`.
    ///
    /// # Errors
    /// No connection, or no answer.
    pub(super) fn start(
        address: SocketAddr,
        name: &str,
        topic: &str,
        origin: Instant,
    ) -> io::Result<Self> {
        let mut stream = log_in(address, name)?;
        let mut body = vec![0, 1];
        push_text(&mut body, topic);
        body.push(0);
        stream.write_all(&packet(0x82, &body))?;
        // The SUBACK.
        stream.read_exact(&mut [0; 5])?;
        stream.set_read_timeout(None)?;
        let (came, taken) = (Arc::<AtomicU64>::default(), Arc::<Mutex<Vec<Taken>>>::default());
        let (reader, counter, noted) = (stream.try_clone()?, came.clone(), taken.clone());
        thread::Builder::new().spawn(move || note(reader, origin, &counter, &noted))?;
        Ok(Subscriber { stream, came, taken })
    }

    /// Records that came.
    pub(super) fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    /// All that was noted.
    pub(super) fn taken(&self) -> Vec<Taken> {
        std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads and notes until the connection ends.
fn note(mut stream: TcpStream, origin: Instant, came: &AtomicU64, taken: &Mutex<Vec<Taken>>) {
    let mut buffer = vec![0; 64 * 1024];
    let mut bytes: Vec<u8> = Vec::new();
    let mut noted = Vec::new();
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let now = origin.elapsed().as_nanos() as u64;
        bytes.extend(&buffer[..length]);
        let mut start = 0;
        while let Some((first, body, end)) = split(&bytes[start..]) {
            if first & 0xf0 == 0x30
                && let Some(time) = time_in(&bytes[start + body..start + end])
            {
                noted.push((time, now.saturating_sub(time)));
            }
            start += end;
        }
        bytes.drain(..start);
        came.fetch_add(noted.len() as u64, Ordering::Relaxed);
        taken.lock().unwrap_or_else(PoisonError::into_inner).append(&mut noted);
    }
}

/// The first byte of a packet, and where its body begins and ends; `None` until all of it is there.
fn split(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let first = *bytes.first()?;
    let (mut length, mut shift, mut at) = (0_usize, 0, 1);
    loop {
        let digit = *bytes.get(at)?;
        length |= usize::from(digit & 0x7f) << shift;
        (shift, at) = (shift + 7, at + 1);
        if digit & 0x80 == 0 || shift > 21 {
            break;
        }
    }
    (bytes.len() >= at + length).then_some((first, at, at + length))
}

/// The time in a PUBLISH of QoS 0.
fn time_in(body: &[u8]) -> Option<u64> {
    let topic = usize::from(u16::from_be_bytes(*body.first_chunk()?));
    body.get(2 + topic..)?.first_chunk().map(|time| u64::from_be_bytes(*time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_found_again_with_its_time() {
        let (mut bytes, at) = publish_packet("out/3", 300);
        bytes[at..at + TIME].copy_from_slice(&77_u64.to_be_bytes());
        assert!((0..bytes.len()).all(|end| split(&bytes[..end]).is_none()));
        let (first, body, end) = split(&bytes).unwrap();
        assert_eq!((first, end, time_in(&bytes[body..end])), (0x30, bytes.len(), Some(77)));
        assert_eq!(publish_packet("a", 0).0.len(), 2 + 3 + TIME);
        assert_eq!(time_in(&[0, 9, 1]), None);
    }
}
