//! MQTT 3.1.1 by hand, as bytes: a load generator must cost less than what it measures.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long any answer may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A CONNECT with a clean session and no keepalive.
pub fn connect_packet(client_id: &str) -> Vec<u8> {
    connect_with(0x02, client_id)
}

/// The same with these flags.
fn connect_with(flags: u8, client_id: &str) -> Vec<u8> {
    let mut body = b"\x00\x04MQTT\x04".to_vec();
    body.extend([flags, 0, 0]);
    push_text(&mut body, client_id);
    packet(0x10, &body)
}

/// A PUBLISH; `id` is there for QoS 1.
pub fn publish_packet(topic: &str, id: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(topic.len() + payload.len() + 4);
    push_text(&mut body, topic);
    if let Some(id) = id {
        body.extend(id.to_be_bytes());
    }
    body.extend(payload);
    packet(if id.is_some() { 0x32 } else { 0x30 }, &body)
}

/// A SUBSCRIBE to one filter.
pub fn subscribe_packet(filter: &str, qos: u8) -> Vec<u8> {
    let mut body = vec![0, 1];
    push_text(&mut body, filter);
    body.push(qos);
    packet(0x82, &body)
}

/// A text behind its length.
pub fn push_text(body: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("texts of the load are short");
    body.extend(length.to_be_bytes());
    body.extend(text.as_bytes());
}

/// A packet: its first byte, the length of its body, its body.
pub fn packet(first: u8, body: &[u8]) -> Vec<u8> {
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

/// Splits a byte stream into packets: (first byte, body).
#[derive(Debug, Default)]
pub struct Splitter {
    bytes: Vec<u8>,
    start: usize,
}

impl Splitter {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend(bytes);
    }

    /// The next whole packet.
    pub fn take(&mut self) -> Option<(u8, &[u8])> {
        let bytes = &self.bytes[self.start..];
        let first = *bytes.first()?;
        let (mut length, mut shift, mut place) = (0usize, 0, 1);
        loop {
            let digit = *bytes.get(place)?;
            length |= usize::from(digit & 0x7f) << shift;
            (shift, place) = (shift + 7, place + 1);
            if digit & 0x80 == 0 {
                break;
            }
        }
        let end = place + length;
        if bytes.len() < end {
            return None;
        }
        let body = self.start + place;
        self.start += end;
        Some((first, &self.bytes[body..self.start]))
    }
}

/// Opens a connection and logs in.
pub fn log_in(address: SocketAddr, client_id: &str) -> io::Result<TcpStream> {
    connect(address, client_id, &connect_packet(client_id))
}

/// Subscribes a client whose session lasts, with QoS 1, and goes away: what it would get is kept for it.
pub fn subscribe_for_later(address: SocketAddr, client_id: &str, filter: &str) -> io::Result<()> {
    let mut stream = connect(address, client_id, &connect_with(0, client_id))?;
    stream.write_all(&subscribe_packet(filter, 1))?;
    let (mut splitter, mut buffer) = (Splitter::default(), [0; 64]);
    wait_for(&mut stream, &mut splitter, &mut buffer, 0x90, 1)?;
    stream.write_all(&[0xe0, 0])
}

fn connect(address: SocketAddr, client_id: &str, hello: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(hello)?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    match answer {
        [0x20, 2, _, 0] => Ok(stream),
        other => Err(io::Error::other(format!("{address} refused {client_id}: {other:02x?}"))),
    }
}

/// Publishes `count` records as fast as the far end takes them; returns when all are processed: for
/// QoS 1 acknowledged, for QoS 0 followed by an answered PINGREQ.
///
/// # Errors
/// The connection breaks, or an answer takes longer than a minute.
pub fn saturate(
    stream: &mut TcpStream,
    topic: &str,
    qos: u8,
    payload: &[u8],
    count: u64,
) -> io::Result<()> {
    const CHUNK: u64 = 256;
    let mut sent = 0;
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; 16 * 1024];
    while sent < count {
        let chunk = CHUNK.min(count - sent);
        let mut bytes = Vec::new();
        for number in 0..chunk {
            let id = (qos == 1).then_some((number + 1) as u16);
            bytes.extend(publish_packet(topic, id, payload));
        }
        stream.write_all(&bytes)?;
        sent += chunk;
        let mut open = if qos == 1 { chunk } else { 0 };
        while open > 0 {
            open -= wait_for(stream, &mut splitter, &mut buffer, 0x40, open)?;
        }
    }
    stream.write_all(&[0xc0, 0])?;
    wait_for(stream, &mut splitter, &mut buffer, 0xd0, 1).map(drop)
}

/// Waits until at least one packet of a kind came; returns how many, at most `most`.
fn wait_for(
    stream: &mut TcpStream,
    splitter: &mut Splitter,
    buffer: &mut [u8],
    kind: u8,
    most: u64,
) -> io::Result<u64> {
    let mut seen = 0;
    loop {
        while let Some((first, _)) = splitter.take() {
            seen += u64::from(first == kind);
            if seen == most {
                return Ok(seen);
            }
        }
        if seen > 0 {
            return Ok(seen);
        }
        match stream.read(buffer)? {
            0 => return Err(io::Error::other("the far end closed the connection")),
            length => splitter.push(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_split_wherever_the_reads_end() {
        let bytes = [publish_packet("a/b", Some(7), &[1; 300]), connect_packet("x")].concat();
        for cut in 1..bytes.len() {
            let mut splitter = Splitter::default();
            let mut seen = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                splitter.push(part);
                while let Some((first, body)) = splitter.take() {
                    seen.push((first, body.len()));
                }
            }
            assert_eq!(seen, [(0x32, 307), (0x10, 13)], "cut at {cut}");
        }
    }
}
