//! MQTT over WebSocket (MQTT 5, 6; RFC 6455): the request that begins it, and frames in and out. No socket is here.
//!
//! What a frame holds is unmasked where it was read and moves to the front: of a frame nothing is kept but its header,
//! so that frames may have any size, and packets may begin and end anywhere in them.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use httparse::Status;
use ring::digest;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

/// Bytes of a request's head.
const HEAD_MAX: usize = 8 * 1024;
/// Lines of it.
const HEADERS_MAX: usize = 100;
/// What stands behind a client's key in the proof that it was read (RFC 6455, 1.3).
const PROOF: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of one frame out: with its header it fills one record of TLS.
const FRAME_MAX: usize = 8 * 1024 - 4;
/// Bytes of the longest header of a frame, and of what a frame of control holds.
const HEADER_MAX: usize = 14;
const CONTROL_MAX: u64 = 125;
const BAD: &str = "400 Bad Request";
/// Characters of an origin that people are shown.
const SHOWN: usize = 100;
/// Subprotocols that we speak: the standard's name, and that of clients of MQTT 3.1.
const SUBPROTOCOLS: [&str; 2] = ["mqtt", "mqttv3.1"];

/// Who may begin a WebSocket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebSocketOptions {
    /// Origins of pages that may; `*` is every one. A client that is no browser names none, and may.
    pub origins: Vec<String>,
}

/// A request that is not granted.
#[derive(Debug)]
pub(super) struct Refusal {
    status: &'static str,
    /// Why, for people.
    pub(super) what: String,
}

impl Refusal {
    fn new(status: &'static str, what: impl Into<String>) -> Self {
        Refusal { status, what: what.into() }
    }

    /// The answer, after which the connection ends.
    pub(super) fn answer(&self) -> Vec<u8> {
        let Refusal { status, what } = self;
        let length = what.len() + 1;
        format!(
            "HTTP/1.1 {status}\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\r\n{what}\n"
        )
        .into_bytes()
    }
}

/// The answer to a request, when its head is complete.
pub(super) fn answer(head: &[u8], options: &WebSocketOptions) -> Option<Result<Vec<u8>, Refusal>> {
    let end = head.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|place| place + 4);
    match end {
        _ if head.len() > HEAD_MAX => {
            let what = format!("the request is longer than {HEAD_MAX} bytes");
            Some(Err(Refusal::new("431 Request Header Fields Too Large", what)))
        }
        None if head.first().is_some_and(|first| !first.is_ascii_uppercase()) => {
            Some(Err(Refusal::new(BAD, "no HTTP: this is MQTT over WebSocket")))
        }
        None => None,
        Some(end) if end < head.len() => {
            Some(Err(Refusal::new(BAD, "bytes came before the request was answered")))
        }
        Some(_) => Some(grant(head, options)),
    }
}

/// The answer to a request (RFC 6455, 4.2).
fn grant(head: &[u8], options: &WebSocketOptions) -> Result<Vec<u8>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(Status::Complete(size)) if size == head.len() => {}
        Ok(_) => return Err(Refusal::new(BAD, "the lines of the request end in different ways")),
        Err(error) => return Err(Refusal::new(BAD, format!("no HTTP: {error}"))),
    }
    if (request.method, request.version) != (Some("GET"), Some(1)) {
        return Err(Refusal::new(BAD, "WebSocket begins with a GET of HTTP/1.1"));
    }
    let values = |name: &'static str| {
        let is_it = move |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(name);
        request.headers.iter().filter(is_it).map(|header| String::from_utf8_lossy(header.value))
    };
    let has = |name, word: &str| {
        let is_it = |one: &str| one.trim().eq_ignore_ascii_case(word);
        values(name).any(|value| value.split(',').any(is_it))
    };
    if !has("Upgrade", "websocket")
        || !has("Connection", "upgrade")
        || !has("Sec-WebSocket-Version", "13")
    {
        let what = "this is MQTT over WebSocket, version 13";
        return Err(Refusal::new("426 Upgrade Required", what));
    }
    for origin in values("Origin") {
        let is_it = |known: &String| known == "*" || known.eq_ignore_ascii_case(&origin);
        if !options.origins.iter().any(is_it) {
            let shown: String = origin.chars().take(SHOWN).collect();
            let what = format!("pages of {shown:?} may not connect: websocket.origins lacks it");
            return Err(Refusal::new("403 Forbidden", what));
        }
    }
    let offered: Vec<_> = values("Sec-WebSocket-Protocol").collect();
    let mut offered = offered.iter().flat_map(|value| value.split(',')).map(str::trim);
    let chosen = offered.find_map(|name| SUBPROTOCOLS.into_iter().find(|known| *known == name));
    let chosen = chosen.ok_or_else(|| {
        Refusal::new(BAD, "the subprotocol mqtt is not offered (Sec-WebSocket-Protocol)")
    })?;
    let is_key = |key: &String| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16);
    let key = values("Sec-WebSocket-Key").next().map(String::from).filter(is_key);
    let key =
        key.ok_or_else(|| Refusal::new(BAD, "Sec-WebSocket-Key is not 16 bytes in base64"))?;
    let proof = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, (key + PROOF).as_bytes());
    let proof = STANDARD.encode(proof);
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {proof}\r\nSec-WebSocket-Protocol: {chosen}\r\n\r\n"
    );
    Ok(answer.into_bytes())
}

/// Why nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The far end said so.
    Closed,
    /// It broke the protocol.
    Broken {
        /// The code that it is told.
        code: u16,
        /// How.
        what: &'static str,
    },
}

/// A frame of which not all has come.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    kind: OpCode,
    /// Turned so that its first byte is for the next one that comes.
    mask: [u8; 4],
    left: u64,
}

/// A WebSocket that is open, as the server sees it.
#[derive(Debug, Default)]
pub(super) struct WebSocket {
    /// Of a header, as far as it has come.
    header: Vec<u8>,
    frame: Option<Incoming>,
    /// Whether a message goes on in the next frame of data.
    goes_on: bool,
    /// What the present frame of control holds, as far as it has come.
    control: Vec<u8>,
    /// What the answer to the latest ping holds.
    pong: Option<Vec<u8>>,
    ended: Option<Ended>,
    /// Frames that are not wholly written.
    out: Vec<u8>,
    /// Bytes of a packet that they hold.
    taken: usize,
}

impl WebSocket {
    /// Why nothing more comes, if nothing does.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Whether frames wait to be written.
    pub(super) fn has_to_write(&self) -> bool {
        !self.out.is_empty() || self.pong.is_some()
    }

    /// Takes what was read, and leaves at its front what was in frames of data: returns how much that is.
    pub(super) fn receive(&mut self, bytes: &mut [u8]) -> usize {
        let (mut read, mut kept) = (0, 0);
        while read < bytes.len() && self.ended.is_none() {
            let Some(frame) = &mut self.frame else {
                read += self.begin(&bytes[read..]);
                continue;
            };
            let most = usize::try_from(frame.left).unwrap_or(usize::MAX);
            let count = most.min(bytes.len() - read);
            let come = read..read + count;
            frame.unmask(&mut bytes[come.clone()]);
            let (kind, is_whole) = (frame.kind, frame.left == 0);
            if is_whole {
                self.frame = None;
            }
            if let OpCode::Control(kind) = kind {
                self.control.extend_from_slice(&bytes[come]);
                if is_whole {
                    self.heed(kind);
                }
            } else {
                bytes.copy_within(come, kept);
                kept += count;
            }
            read += count;
        }
        kept
    }

    /// Takes bytes of a header: returns how many.
    fn begin(&mut self, bytes: &[u8]) -> usize {
        let held = self.header.len();
        let count = bytes.len().min(HEADER_MAX - held);
        self.header.extend_from_slice(&bytes[..count]);
        let mut cursor = Cursor::new(&self.header);
        match FrameHeader::parse(&mut cursor) {
            Ok(None) => count,
            Ok(Some((header, length))) => {
                // The rest of what was taken is behind the header.
                let end = usize::try_from(cursor.position()).unwrap_or(HEADER_MAX);
                self.header.clear();
                self.open(&header, length);
                end - held
            }
            Err(_) => {
                self.header.clear();
                self.fail("a frame of an unknown kind");
                count
            }
        }
    }

    fn open(&mut self, header: &FrameHeader, length: u64) {
        let Some(mask) = header.mask else {
            return self.fail("a frame is not masked");
        };
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return self.fail("a frame is of an extension that was not agreed on");
        }
        match header.opcode {
            OpCode::Control(_) if length > CONTROL_MAX || !header.is_final => {
                return self.fail("a frame of control is too long, or in pieces");
            }
            OpCode::Control(_) => self.control.clear(),
            OpCode::Data(Data::Text) => {
                let what = "a frame of text: MQTT is in binary ones";
                self.ended = Some(Ended::Broken { code: 1003, what });
                return;
            }
            OpCode::Data(kind) => {
                if self.goes_on != (kind == Data::Continue) {
                    return self.fail("a message begins in another one, or goes on without one");
                }
                self.goes_on = !header.is_final;
            }
        }
        match header.opcode {
            OpCode::Control(kind) if length == 0 => self.heed(kind),
            kind if length > 0 => self.frame = Some(Incoming { kind, mask, left: length }),
            _ => {}
        }
    }

    /// A frame of control is complete.
    fn heed(&mut self, kind: Control) {
        match kind {
            // One answer is enough for several pings.
            Control::Ping => self.pong = Some(std::mem::take(&mut self.control)),
            Control::Close => self.ended = Some(Ended::Closed),
            Control::Pong | Control::Reserved(_) => {}
        }
    }

    fn fail(&mut self, what: &'static str) {
        self.ended = Some(Ended::Broken { code: 1002, what });
    }

    /// Frames that are to be written now: what waits is left as it is, else the next bytes of packets go in.
    pub(super) fn outgoing(&mut self, bytes: &[u8]) -> &[u8] {
        if self.out.is_empty() {
            if let Some(pong) = self.pong.take() {
                self.put(OpCode::Control(Control::Pong), &pong);
            }
            if !bytes.is_empty() {
                self.taken = bytes.len().min(FRAME_MAX);
                self.put(OpCode::Data(Data::Binary), &bytes[..self.taken]);
            }
        }
        &self.out
    }

    /// So many bytes of these are written: where that is all of them, returns how many of packets they held.
    pub(super) fn written(&mut self, count: usize) -> Option<usize> {
        self.out.drain(..count);
        self.out.is_empty().then(|| {
            self.out = Vec::new();
            std::mem::take(&mut self.taken)
        })
    }

    /// Says the last word, behind what waits.
    pub(super) fn close(&mut self) -> &[u8] {
        let code = match self.ended {
            Some(Ended::Broken { code, .. }) => code,
            Some(Ended::Closed) | None => 1000,
        };
        self.put(OpCode::Control(Control::Close), &code.to_be_bytes());
        &self.out
    }

    fn put(&mut self, opcode: OpCode, bytes: &[u8]) {
        let header = FrameHeader { opcode, ..FrameHeader::default() };
        let length = bytes.len() as u64;
        self.out.reserve(header.len(length) + bytes.len());
        header.format(length, &mut self.out).expect("a list takes all that is written");
        self.out.extend_from_slice(bytes);
    }
}

impl Incoming {
    /// Its next bytes, in the clear.
    fn unmask(&mut self, bytes: &mut [u8]) {
        let mask = u32::from_ne_bytes(self.mask);
        let mut words = bytes.chunks_exact_mut(4);
        for word in &mut words {
            let clear = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]) ^ mask;
            word.copy_from_slice(&clear.to_ne_bytes());
        }
        let rest = words.into_remainder();
        rest.iter_mut().zip(self.mask).for_each(|(byte, mask)| *byte ^= mask);
        self.mask.rotate_left(rest.len());
        self.left -= bytes.len() as u64;
    }
}

/// Plays bytes to a listener as a client would, in pieces, and checks what must always hold. The first byte says how
/// large the pieces are.
pub fn exercise(data: &[u8]) {
    let Some((&piece, data)) = data.split_first() else { return };
    let options = WebSocketOptions { origins: vec!["https://a.example".into()] };
    let end = data.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(0, |place| place + 4);
    let (head, frames) = data.split_at(end);
    if let Some(answer) = answer(head, &options) {
        let text = answer.unwrap_or_else(|refusal| refusal.answer());
        assert!(text.starts_with(b"HTTP/1.1 ") && text.windows(4).any(|it| it == b"\r\n\r\n"));
    }
    let whole = run(frames, frames.len().max(1));
    assert_eq!(run(frames, usize::from(piece).max(1)), whole, "pieces change nothing");
}

/// What was in the frames, and how it ended.
fn run(frames: &[u8], piece: usize) -> (Vec<u8>, Option<Ended>) {
    let (mut socket, mut all) = (WebSocket::default(), Vec::new());
    for piece in frames.chunks(piece) {
        let mut bytes = piece.to_vec();
        let kept = socket.receive(&mut bytes);
        all.extend_from_slice(&bytes[..kept]);
        assert!(socket.header.len() < HEADER_MAX && socket.control.len() as u64 <= CONTROL_MAX);
        let count = socket.outgoing(&[]).len();
        assert!(count as u64 <= CONTROL_MAX + 2);
        assert_eq!(socket.written(count), Some(0));
    }
    (all, socket.ended())
}

#[cfg(test)]
mod tests;
