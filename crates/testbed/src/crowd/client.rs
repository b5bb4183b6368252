//! A client of MQTT 3.1.1 that keeps its session, as plain as its bytes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long an answer to a CONNECT may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A packet from the server: its first byte and its body.
pub(super) type Packet = (u8, Vec<u8>);

#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of it that were handed out.
    start: usize,
    /// Whether its session was there.
    pub(super) is_present: bool,
}

impl Client {
    /// Connects, with a will of QoS 2 to a topic of its own.
    pub(super) fn connect(
        address: SocketAddr,
        name: &str,
        will: Option<u64>,
    ) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut body = b"\0\x04MQTT\x04".to_vec();
        body.extend([if will.is_some() { 0x14 } else { 0 }, 0, 0]);
        push(&mut body, name.as_bytes());
        if let Some(number) = will {
            push(&mut body, format!("w/{name}").as_bytes());
            push(&mut body, &number.to_be_bytes());
        }
        let mut client = Client { stream, buffer: Vec::new(), start: 0, is_present: false };
        client.send(0x10, &body)?;
        match client.next(PATIENCE)? {
            Some((0x20, body)) if body.get(1) == Some(&0) => {
                client.is_present = body[0] == 1;
                Ok(client)
            }
            other => Err(io::Error::other(format!("no CONNACK: {other:?}"))),
        }
    }

    pub(super) fn subscribe(&mut self, filter: &str, qos: u8) -> io::Result<()> {
        self.subscribe_all(&[filter.to_owned()], qos)
    }

    pub(super) fn subscribe_all(&mut self, filters: &[String], qos: u8) -> io::Result<()> {
        let mut body = vec![0, 1];
        for filter in filters {
            push(&mut body, filter.as_bytes());
            body.push(qos);
        }
        self.send(0x82, &body)
    }

    /// Waits for a packet that begins so, and passes over others.
    pub(super) fn wait_for(&mut self, first: u8) -> io::Result<()> {
        while self.next(PATIENCE)?.ok_or(io::ErrorKind::TimedOut)?.0 != first {}
        Ok(())
    }

    pub(super) fn publish(
        &mut self,
        topic: &str,
        flags: u8,
        id: u16,
        payload: &[u8],
    ) -> io::Result<()> {
        let mut body = Vec::with_capacity(topic.len() + payload.len() + 4);
        push(&mut body, topic.as_bytes());
        body.extend(id.to_be_bytes());
        body.extend(payload);
        self.send(0x30 | flags, &body)
    }

    pub(super) fn send(&mut self, first: u8, body: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(body.len() + 5);
        bytes.push(first);
        let mut left = body.len();
        loop {
            let more = if left > 127 { 0x80 } else { 0 };
            bytes.push((left % 128) as u8 | more);
            left /= 128;
            if left == 0 {
                break;
            }
        }
        bytes.extend(body);
        self.stream.write_all(&bytes)
    }

    /// The next packet; none where nothing came for so long.
    ///
    /// # Errors
    /// The connection ended.
    pub(super) fn next(&mut self, patience: Duration) -> io::Result<Option<Packet>> {
        let until = Instant::now() + patience;
        loop {
            if let Some(packet) = self.split() {
                return Ok(Some(packet));
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else { return Ok(None) };
            self.buffer.drain(..std::mem::take(&mut self.start));
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.buffer.extend(&bytes[..count]),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn split(&mut self) -> Option<Packet> {
        let bytes = &self.buffer[self.start..];
        let (mut length, mut at) = (0, 1);
        loop {
            let byte = *bytes.get(at)?;
            length |= usize::from(byte & 127) << (7 * (at - 1));
            at += 1;
            if byte & 128 == 0 {
                break;
            }
        }
        let packet = (bytes[0], bytes.get(at..at + length)?.to_vec());
        self.start += at + length;
        Some(packet)
    }
}

fn push(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend((bytes.len() as u16).to_be_bytes());
    body.extend(bytes);
}

/// The packet identifier and the payload of a PUBLISH.
pub(super) fn published(first: u8, body: &[u8]) -> Option<(Option<u16>, &[u8])> {
    let (length, rest) = body.split_first_chunk::<2>().filter(|_| first >> 4 == 3)?;
    let rest = rest.get(usize::from(u16::from_be_bytes(*length))..)?;
    if first & 6 == 0 {
        return Some((None, rest));
    }
    let (id, payload) = rest.split_first_chunk::<2>()?;
    Some((Some(u16::from_be_bytes(*id)), payload))
}
