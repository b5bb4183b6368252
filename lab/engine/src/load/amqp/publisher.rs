//! Publishes with confirms: the broker says of each record when it is in good hands.

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{
    Arguments, BODY, CHANNEL, FRAME_MAX, HEADER, Method, Reader, Writer, open, put_frame,
    put_method, split_method,
};

const CONFIRM_SELECT: Method = (85, 10);
const CONFIRM_SELECT_OK: Method = (85, 11);
const PUBLISH: Method = (60, 40);
const ACK: Method = (60, 80);
const NACK: Method = (60, 120);
/// Class of content, and the only property that we give: delivery mode 2, kept over a restart.
const BASIC: u16 = 60;
const DELIVERY_MODE: u16 = 1 << 12;
const PERSISTENT: u8 = 2;
/// What a frame takes beside its body.
const FRAME_OVERHEAD: usize = 8;

#[derive(Debug)]
pub struct Publisher {
    writer: Writer,
    exchange: String,
}

/// The half on which confirms come.
#[derive(Debug)]
pub struct Confirms {
    reader: Reader,
}

/// The broker has taken, or will not take, the record of a tag: the n-th published, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    pub tag: u64,
    /// Of all older ones too.
    pub is_multiple: bool,
    /// Whether it is taken.
    pub is_taken: bool,
}

/// Logs in and asks for confirms.
pub async fn publisher(
    socket: TcpStream,
    (user, password): (&str, &str),
    exchange: &str,
) -> anyhow::Result<(Publisher, Confirms)> {
    let (mut reader, mut writer) = open(socket, user, password).await?;
    writer.say(CHANNEL, CONFIRM_SELECT, Arguments::default().bits(0)).await?;
    reader.answer(CONFIRM_SELECT_OK).await?;
    Ok((Publisher { writer, exchange: exchange.into() }, Confirms { reader }))
}

impl Publisher {
    /// Sends a record; its [`Confirm`] follows.
    pub async fn publish(&mut self, key: &str, payload: &[u8]) -> std::io::Result<()> {
        let mut frames = BytesMut::with_capacity(payload.len() + 256);
        let arguments = Arguments::default().number(0).short(&self.exchange).short(key).bits(0);
        put_method(&mut frames, CHANNEL, PUBLISH, &arguments);
        let mut header = BytesMut::new();
        header.put_u16(BASIC);
        header.put_u16(0); // weight
        header.put_u64(payload.len() as u64);
        header.put_u16(DELIVERY_MODE);
        header.put_u8(PERSISTENT);
        put_frame(&mut frames, HEADER, CHANNEL, &header);
        for body in payload.chunks(FRAME_MAX as usize - FRAME_OVERHEAD) {
            put_frame(&mut frames, BODY, CHANNEL, body);
        }
        self.writer.socket.write_all(&frames).await
    }
}

impl Confirms {
    /// The next one; `None` at the end of the connection.
    pub async fn next(&mut self) -> anyhow::Result<Option<Confirm>> {
        let Some((kind, frame)) = self.reader.frame().await? else { return Ok(None) };
        let (method, mut arguments) = split_method(kind, frame)?;
        anyhow::ensure!(
            [ACK, NACK].contains(&method),
            "expected a confirm, got {method:?} {}",
            String::from_utf8_lossy(&arguments)
        );
        let (tag, bits) = (arguments.try_get_u64()?, arguments.try_get_u8()?);
        Ok(Some(Confirm { tag, is_multiple: bits & 1 != 0, is_taken: method == ACK }))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::super::{CHANNEL_OPEN_OK, OPEN_OK, START, TUNE, split_frame};
    use super::*;

    #[tokio::test]
    async fn a_record_of_several_frames_is_published_and_confirmed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let payload = vec![b'x'; FRAME_MAX as usize + 10];
        let broker = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut script = BytesMut::new();
            let answers: [(Method, &[u8]); 6] = [
                (START, b"\x00\x09"),
                (TUNE, &[0; 8]),
                (OPEN_OK, &[0]),
                (CHANNEL_OPEN_OK, &[0; 4]),
                (CONFIRM_SELECT_OK, &[]),
                (NACK, &[0, 0, 0, 0, 0, 0, 0, 7, 1]),
            ];
            for (method, arguments) in answers {
                put_method(&mut script, CHANNEL, method, &Arguments(arguments.into()));
            }
            socket.write_all(&script).await.unwrap();
            let mut said = BytesMut::new();
            while socket.read_buf(&mut said).await.unwrap() > 0 {}
            said
        };
        let client = async {
            let socket = TcpStream::connect(address).await.unwrap();
            let (mut publisher, mut confirms) =
                publisher(socket, ("me", "word"), "amq.topic").await.unwrap();
            publisher.publish("plant.bulk", &payload).await.unwrap();
            let confirm = confirms.next().await.unwrap().unwrap();
            assert_eq!(confirm, Confirm { tag: 7, is_multiple: true, is_taken: false });
        };
        let (mut said, ()) = tokio::join!(broker, client);
        said.advance(8); // the protocol's name
        let mut frames = Vec::new();
        while let Some(frame) = split_frame(&mut said).unwrap() {
            frames.push(frame);
        }
        let bodies: Vec<usize> =
            frames.iter().filter(|(kind, _)| *kind == BODY).map(|(_, body)| body.len()).collect();
        assert_eq!(bodies, [FRAME_MAX as usize - FRAME_OVERHEAD, 10 + FRAME_OVERHEAD]);
        let (_, header) = frames.iter().find(|(kind, _)| *kind == HEADER).unwrap();
        assert_eq!(header[4..12], (payload.len() as u64).to_be_bytes());
        assert!(frames.iter().any(|(_, body)| body.windows(10).any(|text| text == b"plant.bulk")));
    }
}
