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
    let mut bytes = Vec::with_capacity(body.len() + 5);
    bytes.push(first);
    push_length(&mut bytes, body.len());
    bytes.extend(body);
    bytes
}

/// A variable byte integer.
pub(crate) fn push_length(bytes: &mut Vec<u8>, mut left: usize) {
    loop {
        let digit = (left % 128) as u8;
        left /= 128;
        bytes.push(if left > 0 { digit | 0x80 } else { digit });
        if left == 0 {
            return;
        }
    }
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
        let (first, rest) = bytes.split_first()?;
        let (length, digits) = length_in(rest)?;
        let (place, end) = (1 + digits, 1 + digits + length);
        if bytes.len() < end {
            return None;
        }
        let body = self.start + place;
        self.start += end;
        Some((*first, &self.bytes[body..self.start]))
    }
}

/// Hands over each packet until the connection ends; what is added to the answers is written after each read.
pub fn hear(
    mut stream: TcpStream,
    mut each: impl FnMut(u8, &[u8], &mut Vec<u8>),
) -> io::Result<()> {
    let (mut splitter, mut buffer, mut answers) =
        (Splitter::default(), vec![0; 256 * 1024], Vec::new());
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        splitter.push(&buffer[..length]);
        while let Some((first, body)) = splitter.take() {
            each(first, body, &mut answers);
        }
        stream.write_all(&answers)?;
        answers.clear();
    }
}

/// The payload of a PUBLISH, in MQTT 5 behind its properties, whose PUBACK is added to the answers; `None` where it is
/// no PUBLISH.
pub fn payload<'a>(
    first: u8,
    body: &'a [u8],
    has_properties: bool,
    answers: &mut Vec<u8>,
) -> Option<&'a [u8]> {
    let (length, rest) = body.split_first_chunk::<2>().filter(|_| first >> 4 == 3)?;
    let mut rest = rest.get(usize::from(u16::from_be_bytes(*length))..)?;
    if first & 0x06 != 0 {
        let (id, after) = rest.split_first_chunk::<2>()?;
        answers.extend([0x40, 2, id[0], id[1]]);
        rest = after;
    }
    if has_properties {
        let (size, place) = length_in(rest)?;
        rest = rest.get(place + size..)?;
    }
    Some(rest)
}

/// A variable byte integer, and how many bytes it takes; `None` while it is not complete.
pub(super) fn length_in(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0;
    for (place, digit) in bytes.iter().enumerate().take(4) {
        length |= usize::from(digit & 0x7f) << (7 * place);
        if digit & 0x80 == 0 {
            return Some((length, place + 1));
        }
    }
    None
}

/// Serves a publisher as a broker that forgets all: `took` gets the payload of each PUBLISH.
pub fn serve(stream: TcpStream, mut took: impl FnMut(&[u8])) -> io::Result<()> {
    let mut is_new = false;
    stream.set_nodelay(true)?;
    hear(stream, |first, body, answers| match first >> 4 {
        1 => {
            is_new = body.get(6) == Some(&5);
            answers.extend(if is_new { &[0x20, 3, 0, 0, 0][..] } else { &[0x20, 2, 0, 0] });
        }
        12 => answers.extend([0xd0, 0]),
        _ => payload(first, body, is_new, answers).into_iter().for_each(&mut took),
    })
}

/// Publishes `each` records by so many clients at once, each to a topic of its own, as [`saturate`] does.
pub fn saturate_by(
    address: SocketAddr,
    publishers: u64,
    topic: &str,
    qos: u8,
    payload: &[u8],
    each: u64,
) -> io::Result<()> {
    at_once(publishers, |number| {
        let mut stream = log_in(address, &format!("publisher-{number}"))?;
        saturate(&mut stream, &format!("{topic}{number}"), qos, payload, each)
    })
}

/// Does something with the numbers from 0 on, each in a thread.
pub fn at_once(count: u64, work: impl Fn(u64) -> io::Result<()> + Sync) -> io::Result<()> {
    let work = &work;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        all.into_iter().try_for_each(|one| one.join().expect("a publisher does not panic"))
    })
}

/// Opens a connection and logs in.
pub fn log_in(address: SocketAddr, client_id: &str) -> io::Result<TcpStream> {
    connect(address, client_id, &connect_packet(client_id))
}

/// The same for a client whose session may last.
pub(super) fn log_in_as(
    address: SocketAddr,
    client_id: &str,
    is_lasting: bool,
) -> io::Result<TcpStream> {
    connect(address, client_id, &connect_with(if is_lasting { 0 } else { 0x02 }, client_id))
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
pub(crate) fn saturate(
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

    #[test]
    fn the_payload_stands_behind_the_id_and_the_properties() {
        let mut answers = Vec::new();
        let body = b"\x00\x01t\x01\x02\x02\x01\x01payload";
        assert_eq!(payload(0x32, body, true, &mut answers), Some(&b"payload"[..]));
        assert_eq!(payload(0x30, b"\x00\x01tx", false, &mut answers), Some(&b"x"[..]));
        assert_eq!(answers, [0x40, 2, 1, 2]);
        assert_eq!(payload(0x32, &body[..4], true, &mut answers), None);
        assert_eq!(payload(0x40, &body[..4], true, &mut answers), None);
    }
}
