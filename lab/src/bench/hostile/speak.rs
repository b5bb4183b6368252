//! MQTT 5 by hand, as strangers speak it: bytes that no well-behaved client would send, and answers by their codes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::load::raw::{Splitter, packet, push_text};

/// How long an answer may take, and a write.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Publishes that wait for their acknowledgement at a time.
const WINDOW: usize = 128;
/// Session expiry: a day.
const DAY: u32 = 86_400;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hello<'a> {
    pub(super) id: &'a str,
    /// Whether its session is to outlive the connection.
    pub(super) stays: bool,
    /// Topic and payload of its will.
    pub(super) will: Option<(&'a str, &'a [u8])>,
    pub(super) user: Option<(&'a str, &'a str)>,
    /// The address that it comes from, where it is not to be anybody's.
    pub(super) from: Option<Ipv4Addr>,
}

impl Hello<'_> {
    pub(super) fn packet(self) -> Vec<u8> {
        let mut body = b"\x00\x04MQTT\x05".to_vec();
        let flags = if self.stays { 0 } else { 0x02 }
            | if self.will.is_some() { 0x04 } else { 0 }
            | if self.user.is_some() { 0xc0 } else { 0 };
        body.extend([flags, 0, 0]);
        match self.stays {
            true => {
                body.extend([5, 0x11]);
                body.extend(DAY.to_be_bytes());
            }
            false => body.push(0),
        }
        push_text(&mut body, self.id);
        if let Some((topic, payload)) = self.will {
            body.push(0);
            push_text(&mut body, topic);
            body.extend((payload.len() as u16).to_be_bytes());
            body.extend(payload);
        }
        if let Some((name, password)) = self.user {
            push_text(&mut body, name);
            push_text(&mut body, password);
        }
        packet(0x10, &body)
    }
}

/// A PUBLISH; `id` is there for QoS 1.
pub(super) fn publish(topic: &str, id: Option<u16>, is_retained: bool, payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(topic.len() + payload.len() + 5);
    push_text(&mut body, topic);
    body.extend(id.map(u16::to_be_bytes).into_iter().flatten());
    body.push(0);
    body.extend(payload);
    packet(0x30 | u8::from(id.is_some()) << 1 | u8::from(is_retained), &body)
}

/// A SUBSCRIBE to many filters with QoS 1.
pub(super) fn subscribe(filters: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<u8> {
    let mut body = vec![0, 1, 0];
    for filter in filters {
        push_text(&mut body, filter.as_ref());
        body.push(1);
    }
    packet(0x82, &body)
}

/// A client that may be anybody.
pub(super) struct Peer {
    pub(super) stream: TcpStream,
    splitter: Splitter,
}

impl Peer {
    /// Connects and says nothing.
    pub(super) fn silent(to: SocketAddr) -> io::Result<Peer> {
        Peer::on(TcpStream::connect_timeout(&to, PATIENCE)?)
    }

    /// The same from an address of its own.
    fn silent_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<Peer> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        rustix::net::bind(&socket, &SocketAddr::from((from, 0)))?;
        rustix::net::connect(&socket, &to)?;
        Peer::on(socket.into())
    }

    fn on(stream: TcpStream) -> io::Result<Peer> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Peer { stream, splitter: Splitter::default() })
    }

    /// Connects and logs in; the CONNACK's code and whether its session was there are the answer too.
    pub(super) fn log_in(to: SocketAddr, hello: Hello<'_>) -> io::Result<(Peer, u8, bool)> {
        let mut peer = match hello.from {
            Some(from) => Peer::silent_from(from, to)?,
            None => Peer::silent(to)?,
        };
        peer.say(&hello.packet())?;
        let (first, body) = peer.hear()?;
        match (first, &body[..]) {
            (0x20, [flags, code, ..]) => Ok((peer, *code, flags & 1 == 1)),
            _ => Err(io::Error::other("no CONNACK")),
        }
    }

    /// Writes all of it.
    pub(super) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next packet: its first byte and its body.
    pub(super) fn hear(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some((first, body)) = self.splitter.take() {
                return Ok((first, body.to_vec()));
            }
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.splitter.push(&buffer[..count]),
            }
        }
    }

    /// The next packet of this kind; those of other kinds are passed to `other`.
    pub(super) fn hear_kind(
        &mut self,
        kind: u8,
        mut other: impl FnMut(u8, &[u8]),
    ) -> io::Result<Vec<u8>> {
        loop {
            let (first, body) = self.hear()?;
            if first & 0xf0 == kind {
                return Ok(body);
            }
            other(first, &body);
        }
    }

    /// Publishes with QoS 1, some at a time, and waits for what is said to each; `refused` hears what is not yes.
    /// Answers with how many were acknowledged.
    pub(super) fn publish_all(
        &mut self,
        messages: impl IntoIterator<Item = (String, Vec<u8>)>,
        is_retained: bool,
        mut refused: impl FnMut(String),
    ) -> io::Result<u64> {
        let mut messages = messages.into_iter().peekable();
        let mut accepted = 0;
        while messages.peek().is_some() {
            let mut open = 0;
            let mut bytes = Vec::new();
            while open < WINDOW && bytes.len() < 1 << 20 {
                let Some((topic, payload)) = messages.next() else { break };
                open += 1;
                bytes.extend(publish(&topic, Some(open as u16), is_retained, &payload));
            }
            self.say(&bytes)?;
            for _ in 0..open {
                let body = self.hear_kind(0x40, |first, body| {
                    refusals(first, body).for_each(&mut refused);
                })?;
                match refusals(0x40, &body).next() {
                    Some(word) => refused(word),
                    None => accepted += 1,
                }
            }
        }
        Ok(accepted)
    }

    /// Closes by a reset, so that thousands of connections leave no port behind.
    pub(super) fn reset(self) {
        // Without it the port waits a minute: no reason to stop.
        let _ = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
    }
}

/// What a packet of the node refuses, in the protocol's words.
pub(super) fn refusals(first: u8, body: &[u8]) -> impl Iterator<Item = String> + use<'_> {
    let (name, codes) = match first & 0xf0 {
        0x20 => ("CONNACK", body.get(1..2)),
        0x40 => ("PUBACK", body.get(2..3)),
        0x90 => ("SUBACK", body.get(3..)),
        0xe0 => ("DISCONNECT", body.get(..1)),
        _ => ("", None),
    };
    let codes = codes.unwrap_or_default().iter();
    codes.filter(|code| **code >= 0x80).map(move |code| format!("{name} {code:#04x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_mqtt_5() {
        let hello = Hello { id: "a", stays: true, will: Some(("w", b"x")), ..Hello::default() };
        let expected = b"\x10\x1a\x00\x04MQTT\x05\x04\x00\x00\x05\x11\x00\x01\x51\x80\x00\x01a\x00\x00\x01w\x00\x01x";
        assert_eq!(hello.packet(), expected);
        assert_eq!(subscribe(["#", "+"]), b"\x82\x0b\x00\x01\x00\x00\x01#\x01\x00\x01+\x01");
        assert_eq!(publish("a", Some(1), true, b"x"), b"\x33\x07\x00\x01a\x00\x01\x00x");
    }

    #[test]
    fn refusals_are_told_by_name_and_code() {
        let told = |first, body: &[u8]| refusals(first, body).collect::<Vec<_>>();
        assert_eq!(told(0x90, &[0, 1, 0, 1, 0x97, 0x80]), ["SUBACK 0x97", "SUBACK 0x80"]);
        assert_eq!(told(0x40, &[0, 1]), [""; 0]);
        assert_eq!(told(0xe0, &[0x89]), ["DISCONNECT 0x89"]);
    }
}
