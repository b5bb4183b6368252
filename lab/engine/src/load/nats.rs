//! A minimal client of NATS's text protocol: subscribe, and ask JetStream for something.
//!
//! Its own codec, as with MQTT.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use bytes::{Buf, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest line of the protocol that we take: INFO is the longest.
const LINE_MAX: usize = 64 * 1024;
const READ: usize = 64 * 1024;
/// Where answers to our requests go.
const INBOX: &str = "_INBOX.lab";

/// A connection. Messages come without their headers: we do not ask for any.
#[derive(Debug)]
pub struct Client<S = TcpStream> {
    socket: S,
    buffer: BytesMut,
    subscriptions: u32,
}

/// Something from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Message { reply: Option<String>, payload: Bytes },
    Ping,
    Pong,
    Other,
}

/// A message of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where an acknowledgement goes, if one is wanted.
    pub reply: Option<String>,
    pub payload: Bytes,
}

/// Requests that set something up, one after the other; each answer must hold no error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    pub address: SocketAddr,
    /// Subject and body of each.
    pub requests: Vec<(String, serde_json::Value)>,
}

impl Ask {
    /// Asks, and prints [`super::READY`] when all is answered.
    ///
    /// # Errors
    /// The server is not there, or an answer has an error.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut client = Client::connect(super::connect(self.address).await?).await?;
        for (subject, body) in self.requests {
            let answer = client.request(&subject, body.to_string().as_bytes()).await?;
            let answer: serde_json::Value = serde_json::from_slice(&answer)
                .with_context(|| format!("{subject} is answered by {answer:?}"))?;
            let error = &answer["error"];
            ensure!(error.is_null(), "{subject} is answered by {error}");
        }
        super::say(super::READY);
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub async fn connect(socket: S) -> anyhow::Result<Client<S>> {
        let mut client = Client { socket, buffer: BytesMut::new(), subscriptions: 0 };
        client
            .write("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":false}\r\n")
            .await?;
        client.settle().await?;
        Ok(client)
    }

    /// Subscribes to a subject; when this returns the server knows.
    pub async fn subscribe(&mut self, subject: &str) -> anyhow::Result<()> {
        self.subscriptions += 1;
        self.write(&format!("SUB {subject} {}\r\n", self.subscriptions)).await?;
        self.settle().await
    }

    /// Publishes a message, in parts; returns when it is written.
    pub async fn publish(&mut self, subject: &str, parts: &[&[u8]]) -> anyhow::Result<()> {
        let size: usize = parts.iter().map(|part| part.len()).sum();
        self.write(&format!("PUB {subject} {size}\r\n")).await?;
        for part in parts.iter().chain([&&b"\r\n"[..]]) {
            self.socket.write_all(part).await?;
        }
        Ok(self.socket.flush().await?)
    }

    /// The next message of any subscription; `None` at the end of the connection.
    pub async fn next(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            match self.event().await? {
                None => return Ok(None),
                Some(Event::Message { reply, payload }) => {
                    return Ok(Some(Message { reply, payload }));
                }
                Some(Event::Ping) => self.write("PONG\r\n").await?,
                Some(_) => {}
            }
        }
    }

    /// Acknowledges a message of JetStream.
    pub async fn acknowledge(&mut self, reply: &str) -> anyhow::Result<()> {
        self.write(&format!("PUB {reply} 4\r\n+ACK\r\n")).await
    }

    async fn request(&mut self, subject: &str, body: &[u8]) -> anyhow::Result<Bytes> {
        if self.subscriptions == 0 {
            self.subscribe(INBOX).await?;
        }
        self.write(&format!("PUB {subject} {INBOX} {}\r\n", body.len())).await?;
        self.socket.write_all(&[body, b"\r\n"].concat()).await?;
        let answer = self.next().await?;
        Ok(answer.with_context(|| format!("nobody answers {subject}"))?.payload)
    }

    /// Waits until the server has done all that it was told.
    ///
    /// # Errors
    /// The connection is gone, or the server says an error.
    pub async fn settle(&mut self) -> anyhow::Result<()> {
        self.write("PING\r\n").await?;
        loop {
            match self.event().await?.context("the server closed the connection")? {
                Event::Pong => return Ok(()),
                Event::Ping => self.write("PONG\r\n").await?,
                _ => {}
            }
        }
    }

    async fn write(&mut self, line: &str) -> anyhow::Result<()> {
        self.socket.write_all(line.as_bytes()).await?;
        Ok(self.socket.flush().await?)
    }

    async fn event(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(event) = split(&mut self.buffer)? {
                return Ok(Some(event));
            }
            self.buffer.reserve(READ);
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// The first whole event of what was read.
fn split(buffer: &mut BytesMut) -> anyhow::Result<Option<Event>> {
    let Some(end) = buffer.windows(2).take(LINE_MAX).position(|two| two == b"\r\n") else {
        ensure!(buffer.len() < LINE_MAX, "a line that does not end");
        return Ok(None);
    };
    let line = std::str::from_utf8(&buffer[..end])?;
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let event = match word.to_ascii_uppercase().as_str() {
        "MSG" => {
            // subject, subscription, perhaps a subject for the answer, size
            let words: Vec<&str> = rest.split_whitespace().collect();
            let size: usize = words.last().context("MSG without a size")?.parse()?;
            let reply = (words.len() == 4).then(|| words[2].to_owned());
            let whole = end + 2 + size + 2;
            if buffer.len() < whole {
                return Ok(None);
            }
            let mut payload = buffer.split_to(whole).freeze();
            payload.advance(end + 2);
            payload.truncate(size);
            return Ok(Some(Event::Message { reply, payload }));
        }
        "PING" => Event::Ping,
        "PONG" => Event::Pong,
        "INFO" | "+OK" => Event::Other,
        _ => bail!("the server says {line}"),
    };
    buffer.advance(end + 2);
    Ok(Some(event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_split_when_they_are_whole() {
        let text = b"INFO {}\r\nMSG a.b 1 5\r\nhe\r\nl\r\nMSG a 1 re.ply 0\r\n\r\nPING\r\n";
        let expected = [
            Event::Other,
            Event::Message { reply: None, payload: Bytes::from_static(b"he\r\nl") },
            Event::Message { reply: Some("re.ply".into()), payload: Bytes::new() },
            Event::Ping,
        ];
        for cut in 0..text.len() {
            let mut buffer = BytesMut::new();
            let mut events = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                buffer.extend_from_slice(part);
                while let Some(event) = split(&mut buffer).unwrap() {
                    events.push(event);
                }
            }
            assert_eq!(events, expected, "cut at {cut}");
        }
    }

    #[test]
    fn errors_are_told() {
        let refused = |text: &str| split(&mut BytesMut::from(text)).is_err();
        assert!(refused("-ERR 'Slow Consumer'\r\n") && refused("MSG a 1 five\r\n"));
        assert!(refused("HTTP/1.1 400 Bad Request\r\n"));
    }

    #[tokio::test]
    async fn a_request_is_answered_and_a_ping_meanwhile() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let answer = b"INFO {}\r\nPONG\r\nPING\r\nPONG\r\nMSG _INBOX.lab 1 2\r\n{}\r\n";
            socket.write_all(answer).await.unwrap();
            let mut said = String::new();
            socket.read_to_string(&mut said).await.unwrap();
            said
        };
        let client = async {
            let socket = TcpStream::connect(address).await.unwrap();
            let mut client = Client::connect(socket).await.unwrap();
            assert_eq!(client.request("$JS.API.INFO", b"{}").await.unwrap(), &b"{}"[..]);
        };
        let (said, ()) = tokio::join!(server, client);
        assert!(
            said.contains("PONG\r\n") && said.contains("PUB $JS.API.INFO _INBOX.lab 2\r\n{}\r\n")
        );
    }
}
