//! Clients that measure: MQTT 3.1.1 on blocking sockets, for they share the machine with what they measure.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_mqtt::Version;
use tidegate_mqtt::client::{Login, connect, subscribe};
use tidegate_mqtt::frame::{ControlPacket, Front, front};
use tidegate_mqtt::publish::{Publish, PublishHead};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time is the beginning of a payload.
const TIME: usize = 8;

/// Nanoseconds: when a record was published, and how long it took.
pub(super) type Taken = (u64, u64);

/// A PUBLISH of so many bytes, and where its payload begins.
pub(super) fn publish_packet(topic: &str, payload: usize) -> (Vec<u8>, usize) {
    let payload = payload.max(TIME);
    let head = PublishHead {
        topic: topic.as_bytes(),
        qos: 0,
        id: None,
        again: false,
        retain: false,
        properties: None,
        payload,
    };
    let mut bytes = Vec::new();
    assert!(head.write(&mut bytes, usize::MAX), "names here are short");
    let at = bytes.len();
    bytes.resize(at + payload, 0);
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
    let mut hello = Vec::new();
    connect(&mut hello, &Login::new(Version::V311, name));
    stream.write_all(&hello)?;
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
        let mut ask = Vec::new();
        subscribe(&mut ask, Version::V311, 1, &[(topic.to_owned(), 0)]);
        stream.write_all(&ask)?;
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
        while let Ok(Front::Complete(packet)) = front(&bytes[start..], u32::MAX) {
            noted.extend(time_in(&packet).map(|time| (time, now.saturating_sub(time))));
            start += packet.size;
        }
        bytes.drain(..start);
        came.fetch_add(noted.len() as u64, Ordering::Relaxed);
        taken.lock().unwrap_or_else(PoisonError::into_inner).append(&mut noted);
    }
}

/// The time in a PUBLISH.
fn time_in(packet: &ControlPacket<'_>) -> Option<u64> {
    if packet.first >> 4 != 3 {
        return None;
    }
    let publish = Publish::read(Version::V311, packet.first & 0x0f, packet.body).ok()?;
    publish.payload.first_chunk().map(|time| u64::from_be_bytes(*time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_found_again_with_its_time() {
        let (mut bytes, at) = publish_packet("out/3", 300);
        bytes[at..at + TIME].copy_from_slice(&77_u64.to_be_bytes());
        let Ok(Front::Complete(packet)) = front(&bytes, u32::MAX) else { panic!("it is whole") };
        assert_eq!((packet.size, time_in(&packet)), (bytes.len(), Some(77)));
        assert_eq!(publish_packet("a", 0).0.len(), 2 + 3 + TIME);
        assert_eq!(time_in(&ControlPacket { body: &[0, 9, 1], ..packet }), None);
    }
}
