//! Clients and servers of HTTP/1.1 in the lab's own process: one message at a time, bodies that tell their length or
//! come in chunks.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const HEAD_MAX: usize = 64 * 1024;

/// A request or an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// `POST /detect HTTP/1.1`, or `HTTP/1.1 200 OK`.
    first: String,
    headers: Vec<(String, String)>,
    /// What follows the head.
    pub(super) body: Bytes,
}

impl Message {
    /// A request with a body.
    pub(super) fn post(path: &str, headers: &[(&str, &str)], body: Bytes) -> Message {
        let own = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let headers = std::iter::once(("host".into(), "app.example".into())).chain(own);
        Message { first: format!("POST {path} HTTP/1.1"), headers: headers.collect(), body }
    }

    /// A request without a body, to a status page.
    pub(super) fn get(path: &str) -> Message {
        let headers = vec![("host".into(), "localhost".into())];
        Message { first: format!("GET {path} HTTP/1.1"), headers, body: Bytes::new() }
    }

    /// An answer with this status.
    pub(super) fn answer(status: u16, body: impl Into<Bytes>) -> Message {
        let first = format!("HTTP/1.1 {status} {}", if status == 200 { "OK" } else { "No" });
        Message { first, headers: Vec::new(), body: body.into() }
    }

    /// A header, by its name in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The path of a request, the status of an answer.
    pub(super) fn second(&self) -> &str {
        self.first.split(' ').nth(1).unwrap_or_default()
    }

    /// The body as a text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    async fn write(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut text = format!("{}\r\n", self.first);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n", self.body.len()));
        let mut all = BytesMut::from(text.as_bytes());
        all.extend_from_slice(&self.body);
        stream.write_all(&all).await
    }

    /// The next message; `None` at the end of the connection.
    async fn read(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Option<Message>> {
        let head = loop {
            if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break buffer.split_to(at + 4);
            }
            if buffer.len() > HEAD_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if stream.read_buf(buffer).await? == 0 {
                return Ok(None);
            }
        };
        let text = String::from_utf8_lossy(&head);
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        let pairs = lines.filter_map(|line| line.split_once(':'));
        let pairs = pairs.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        let mut message = Message { first, headers: pairs.collect(), body: Bytes::new() };
        if message.header("transfer-encoding").is_some() {
            message.body = chunks(stream, buffer).await?;
            return Ok(Some(message));
        }
        let length = message.header("content-length").and_then(|text| text.parse().ok());
        message.body = exactly(stream, buffer, length.unwrap_or(0)).await?.freeze();
        Ok(Some(message))
    }
}

/// So many bytes.
async fn exactly(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    length: usize,
) -> io::Result<BytesMut> {
    fill(stream, buffer, length).await?;
    Ok(buffer.split_to(length))
}

/// Reads until so many bytes are there.
async fn fill(stream: &mut TcpStream, buffer: &mut BytesMut, length: usize) -> io::Result<()> {
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// A body in chunks, without trailers.
async fn chunks(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Bytes> {
    let mut body = BytesMut::new();
    loop {
        let line = loop {
            if let Some(at) = buffer.windows(2).position(|two| two == b"\r\n") {
                break buffer.split_to(at + 2);
            }
            fill(stream, buffer, buffer.len() + 1).await?;
        };
        let size = String::from_utf8_lossy(&line);
        let size = size.trim().split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        let chunk = exactly(stream, buffer, size + 2).await?;
        if !chunk.ends_with(b"\r\n") {
            return Err(io::ErrorKind::InvalidData.into());
        }
        body.extend_from_slice(&chunk[..size]);
        if size == 0 {
            return Ok(body.freeze());
        }
    }
}

/// Sends a request and waits for its answer.
pub(super) async fn ask(stream: &mut TcpStream, request: &Message) -> io::Result<Message> {
    request.write(stream).await?;
    let answer = Message::read(stream, &mut BytesMut::new()).await?;
    answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

pub(super) type Handler = Arc<dyn Fn(Message) -> Message + Send + Sync>;

/// Answers whoever connects, until the set ends.
pub(super) fn serve(
    listener: TcpListener,
    tasks: &mut JoinSet<()>,
    handler: Handler,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let handler = handler.clone();
            let _ = stream.set_nodelay(true);
            connections.spawn(async move {
                let mut buffer = BytesMut::new();
                // Who goes away is no mistake.
                while let Ok(Some(request)) = Message::read(&mut stream, &mut buffer).await {
                    if handler(request).write(&mut stream).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_asked_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let echo = |request: Message| {
            let said = format!("{} {:?} {}", request.second(), request.header("a"), request.text());
            Message::answer(200, said)
        };
        serve(listener, &mut tasks, Arc::new(echo)).unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        for body in ["one", ""] {
            let request = Message::post("/p", &[("a", "b")], Bytes::from_static(body.as_bytes()));
            let answer = ask(&mut stream, &request).await.unwrap();
            let said = format!("/p Some(\"b\") {body}");
            assert_eq!((answer.second(), answer.text()), ("200", said));
        }
    }

    #[tokio::test]
    async fn bodies_in_chunks_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let echo = |request: Message| Message::answer(200, request.body);
        serve(listener, &mut tasks, Arc::new(echo)).unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request: &[u8] = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n\
                               3\r\none\r\nb;x=y\r\n, two more.\r\n0\r\n\r\n";
        for part in request.chunks(5) {
            stream.write_all(part).await.unwrap();
        }
        let mut buffer = BytesMut::new();
        let answer = Message::read(&mut stream, &mut buffer).await.unwrap().unwrap();
        assert_eq!(answer.text(), "one, two more.");
    }
}
