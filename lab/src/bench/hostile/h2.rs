//! HTTP/2 by hand: one connection whose streams send bodies that never end, as far as the far end's windows let them.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a DATA frame: every far end takes these.
const PIECE: usize = 16_384;
/// `POST / HTTP/1.1` of the authority `app`, as the static table of HPACK has it.
const HEAD: &[u8] = b"\x83\x86\x84\x41\x03app";
/// Without a byte either way for so long nothing more comes.
const STILL: Duration = Duration::from_secs(2);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW: u16 = 4;

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    window: i64,
    initial: i64,
    /// Of each stream: its window, and what of its body is left.
    streams: BTreeMap<u32, (i64, usize)>,
    words: Vec<String>,
    is_over: bool,
}

/// Opens so many streams, each with so many bytes of a body and no end; answers with what was refused.
pub(super) fn pour(
    to: SocketAddr,
    streams: u32,
    body: usize,
    time: Duration,
) -> io::Result<Vec<String>> {
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_millis(5)))?;
    stream.set_write_timeout(Some(time))?;
    let mut connection = Connection {
        stream,
        input: Vec::new(),
        window: 65_535,
        initial: 65_535,
        streams: BTreeMap::new(),
        words: Vec::new(),
        is_over: false,
    };
    let mut hello = PREFACE.to_vec();
    hello.extend(frame(SETTINGS, 0, 0, &[]));
    connection.stream.write_all(&hello)?;
    let (begin, mut moved) = (Instant::now(), Instant::now());
    // The settings come first: with them the windows.
    while connection.input.is_empty() && !connection.hear()? && begin.elapsed() < time {}
    for number in 0..streams {
        let id = number * 2 + 1;
        connection.stream.write_all(&frame(HEADERS, END_HEADERS, id, HEAD))?;
        connection.streams.insert(id, (connection.initial, body));
    }
    while begin.elapsed() < time && moved.elapsed() < STILL && !connection.is_over {
        if connection.hear()? | connection.send()? {
            moved = Instant::now();
        }
    }
    // What is held is held a little longer.
    std::thread::sleep(STILL);
    Ok(connection.words)
}

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

impl Connection {
    /// Reads what is there; whether anything was.
    fn hear(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 * 1024];
        let count = match self.stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error)
                if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.is_over |= count == 0;
        self.input.extend(&buffer[..count]);
        while let Some(head) = self.input.first_chunk::<9>().copied() {
            let length = number(&head[..3]) as usize;
            let Some(body) = self.input.get(9..9 + length).map(<[u8]>::to_vec) else { break };
            self.input.drain(..9 + length);
            self.took(head[3], head[4], number(&head[5..]) & 0x7fff_ffff, &body)?;
        }
        Ok(count > 0)
    }

    fn took(&mut self, kind: u8, flags: u8, stream: u32, body: &[u8]) -> io::Result<()> {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for setting in body.chunks_exact(6) {
                    if u16::from_be_bytes([setting[0], setting[1]]) == INITIAL_WINDOW {
                        let initial = i64::from(number(&setting[2..]));
                        let more = initial - self.initial;
                        self.streams.values_mut().for_each(|(window, _)| *window += more);
                        self.initial = initial;
                    }
                }
                self.stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?;
            }
            PING if flags & ACK == 0 => self.stream.write_all(&frame(PING, ACK, 0, body))?,
            WINDOW_UPDATE if stream == 0 => self.window += i64::from(number(body)),
            WINDOW_UPDATE => {
                if let Some((window, _)) = self.streams.get_mut(&stream) {
                    *window += i64::from(number(body));
                }
            }
            RST_STREAM => {
                self.streams.remove(&stream);
                self.words.push(format!("RST_STREAM {}", number(body)));
            }
            GOAWAY => {
                self.words.push(format!("GOAWAY {}", number(&body[4.min(body.len())..])));
                self.is_over = true;
            }
            // An answer before the request has ended: a refusal.
            HEADERS => self.words.push("answered early".to_owned()),
            _ => {}
        }
        Ok(())
    }

    /// Sends what windows let through; whether that was anything.
    fn send(&mut self) -> io::Result<bool> {
        let mut has_sent = false;
        for (id, (window, left)) in &mut self.streams {
            let length = (*left).min(PIECE).min(usize::try_from(*window).unwrap_or_default());
            if length == 0 || self.window < length as i64 {
                continue;
            }
            self.stream.write_all(&frame(DATA, 0, *id, &[b'x'; PIECE][..length]))?;
            (*window, *left) = (*window - length as i64, *left - length);
            self.window -= length as i64;
            has_sent = true;
        }
        Ok(has_sent)
    }
}
