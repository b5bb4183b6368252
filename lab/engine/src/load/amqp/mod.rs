//! A minimal client of AMQP 0-9-1: a consumer, and a publisher with confirms.
//!
//! Its own codec on purpose: a mistake that the node's codec makes must not cancel out here.

mod consumer;
mod publisher;

use anyhow::{Context, bail};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

pub use consumer::{Consumer, Subscription};
pub use publisher::{Confirms, Publisher, publisher};

/// Frame types (AMQP 0-9-1, 2.3.5).
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const FRAME_END: u8 = 0xce;
/// Largest frame that we agree to.
const FRAME_MAX: u32 = 131_072;
/// The one channel that we open.
const CHANNEL: u16 = 1;

/// Class and method numbers (AMQP 0-9-1, 1.8).
type Method = (u16, u16);
const START: Method = (10, 10);
const START_OK: Method = (10, 11);
const TUNE: Method = (10, 30);
const TUNE_OK: Method = (10, 31);
const OPEN: Method = (10, 40);
const OPEN_OK: Method = (10, 41);
const CHANNEL_OPEN: Method = (20, 10);
const CHANNEL_OPEN_OK: Method = (20, 11);

/// Logs in and opens the channel.
async fn open(socket: TcpStream, user: &str, password: &str) -> anyhow::Result<(Reader, Writer)> {
    let (read, write) = socket.into_split();
    let mut reader = Reader { socket: read, buffer: BytesMut::new() };
    let mut writer = Writer { socket: write };
    writer.socket.write_all(b"AMQP\x00\x00\x09\x01").await?;
    reader.answer(START).await?;
    let secret = format!("\0{user}\0{password}");
    let mut login = Arguments::default().table().short("PLAIN");
    login.0.put_u32(u32::try_from(secret.len())?);
    login.0.put_slice(secret.as_bytes());
    writer.say(0, START_OK, login.short("en_US")).await?;
    reader.answer(TUNE).await?;
    let tuned = Arguments::default().number(1).long(FRAME_MAX).number(0); // no heartbeat
    writer.say(0, TUNE_OK, tuned).await?;
    writer.say(0, OPEN, Arguments::default().short("/").short("").bits(0)).await?;
    reader.answer(OPEN_OK).await?;
    writer.say(CHANNEL, CHANNEL_OPEN, Arguments::default().short("")).await?;
    reader.answer(CHANNEL_OPEN_OK).await?;
    Ok((reader, writer))
}

#[derive(Debug)]
struct Writer {
    socket: OwnedWriteHalf,
}

impl Writer {
    async fn say(&mut self, channel: u16, method: Method, body: Arguments) -> anyhow::Result<()> {
        let mut frames = BytesMut::new();
        put_method(&mut frames, channel, method, &body);
        Ok(self.socket.write_all(&frames).await?)
    }
}

#[derive(Debug)]
struct Reader {
    socket: OwnedReadHalf,
    buffer: BytesMut,
}

impl Reader {
    /// The arguments of the next frame, which must be this method.
    async fn answer(&mut self, expected: Method) -> anyhow::Result<Bytes> {
        let closed = || format!("the broker closed the connection instead of {expected:?}");
        let (kind, frame) = self.frame().await?.with_context(closed)?;
        let (method, arguments) = split_method(kind, frame)?;
        if method != expected {
            bail!("expected {expected:?}, got {method:?} {}", String::from_utf8_lossy(&arguments));
        }
        Ok(arguments)
    }

    async fn frame(&mut self) -> anyhow::Result<Option<(u8, Bytes)>> {
        loop {
            match split_frame(&mut self.buffer)? {
                Some((HEARTBEAT, _)) => {}
                Some(frame) => return Ok(Some(frame)),
                None if self.socket.read_buf(&mut self.buffer).await? == 0 => return Ok(None),
                None => {}
            }
        }
    }
}

/// A frame around what is in it.
fn put_frame(frames: &mut BytesMut, kind: u8, channel: u16, body: &[u8]) {
    frames.put_u8(kind);
    frames.put_u16(channel);
    frames.put_u32(u32::try_from(body.len()).expect("a frame of ours is short"));
    frames.put_slice(body);
    frames.put_u8(FRAME_END);
}

fn put_method(frames: &mut BytesMut, channel: u16, method: Method, arguments: &Arguments) {
    let numbers = [method.0.to_be_bytes(), method.1.to_be_bytes()].concat();
    put_frame(frames, METHOD, channel, &[&numbers, &arguments.0[..]].concat());
}

/// Arguments of a method, in the order of its definition.
#[derive(Debug, Default)]
struct Arguments(BytesMut);

impl Arguments {
    fn number(mut self, number: u16) -> Self {
        self.0.put_u16(number);
        self
    }

    fn long(mut self, number: u32) -> Self {
        self.0.put_u32(number);
        self
    }

    fn longlong(mut self, number: u64) -> Self {
        self.0.put_u64(number);
        self
    }

    fn bits(mut self, bits: u8) -> Self {
        self.0.put_u8(bits);
        self
    }

    /// Names of ours are short; a longer one than AMQP can carry is a mistake.
    fn short(mut self, text: &str) -> Self {
        self.0.put_u8(u8::try_from(text.len()).expect("a name of ours is short"));
        self.0.put_slice(text.as_bytes());
        self
    }

    fn table(mut self) -> Self {
        self.0.put_u32(0);
        self
    }
}

fn split_frame(buffer: &mut BytesMut) -> anyhow::Result<Option<(u8, Bytes)>> {
    const HEAD: usize = 7;
    if buffer.len() < HEAD {
        return Ok(None);
    }
    let size = u32::from_be_bytes([buffer[3], buffer[4], buffer[5], buffer[6]]);
    if size > FRAME_MAX || buffer.starts_with(b"AMQP") {
        bail!("the broker speaks another protocol");
    }
    let end = HEAD + size as usize;
    if buffer.len() <= end {
        return Ok(None);
    }
    if buffer[end] != FRAME_END {
        bail!("a frame without its end");
    }
    let mut frame = buffer.split_to(end + 1).freeze();
    let kind = frame[0];
    frame.advance(HEAD);
    frame.truncate(size as usize);
    Ok(Some((kind, frame)))
}

fn split_method(kind: u8, mut frame: Bytes) -> anyhow::Result<(Method, Bytes)> {
    if kind != METHOD || frame.len() < 4 {
        bail!("expected a method, got a frame of type {kind}");
    }
    Ok(((frame.get_u16(), frame.get_u16()), frame))
}

/// Bytes behind their length.
fn take_long(bytes: &mut Bytes) -> anyhow::Result<Bytes> {
    let size = bytes.try_get_u32()? as usize;
    if bytes.len() < size {
        bail!("a text that ends too early");
    }
    Ok(bytes.split_to(size))
}

fn take_short(bytes: &mut Bytes) -> anyhow::Result<String> {
    let size = if bytes.has_remaining() { usize::from(bytes.get_u8()) } else { 0 };
    if bytes.len() < size {
        bail!("a name that ends too early");
    }
    Ok(String::from_utf8(bytes.split_to(size).to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_split_when_they_are_whole() {
        let whole = [&[METHOD, 0, 1, 0, 0, 0, 5][..], &[0, 60, 0, 60, 7, FRAME_END]].concat();
        let mut buffer = BytesMut::from(&whole[..whole.len() - 1]);
        assert!(split_frame(&mut buffer).unwrap().is_none());
        buffer.put_slice(&[FRAME_END, METHOD]);
        let (kind, frame) = split_frame(&mut buffer).unwrap().unwrap();
        assert_eq!(split_method(kind, frame).unwrap(), ((60, 60), Bytes::from_static(&[7])));
        assert_eq!(buffer.len(), 1);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let refused = |bytes: &[u8]| split_frame(&mut BytesMut::from(bytes)).is_err();
        assert!(refused(b"AMQP\x00\x00\x09\x01"));
        assert!(refused(&[METHOD, 0, 0, 0xff, 0xff, 0xff, 0xff]));
        assert!(refused(&[METHOD, 0, 0, 0, 0, 0, 0, 7]));
        assert!(split_method(BODY, Bytes::from_static(&[0; 4])).is_err());
    }
}
