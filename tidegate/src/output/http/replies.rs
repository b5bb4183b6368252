//! What a server answers: a status, its words, and whether and when it wants to hear more.
//!
//! Bytes in, answers out. Bodies are skipped but for their first words; nothing else is kept of them.

use std::time::Duration;

use bytes::{Buf, BytesMut};

use crate::output::protocol::{ProtocolError, words};

/// Longest head of an answer, and longest line between chunks.
const HEAD_MAX: usize = 16 * 1024;
/// Most headers of an answer.
const HEADERS_MAX: usize = 64;
/// Bytes of a body that may be repeated to people.
const WORDS_MAX: usize = 1024;

/// An answer that has come whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The far end takes another request on the connection.
    pub(super) keeps_open: bool,
    /// When to come again.
    pub(super) retry_after: Option<Duration>,
    /// Where to go instead.
    pub(super) location: Option<String>,
    reason: String,
    body: Vec<u8>,
}

impl Answer {
    /// Status and words, as in `422 Unprocessable Content: no such unit`.
    pub(super) fn text(&self) -> String {
        let Answer { status, reason, body, .. } = self;
        let reason = words(reason);
        let space = if reason.is_empty() { "" } else { " " };
        let body = words(String::from_utf8_lossy(body).trim());
        let between = if body.is_empty() { "" } else { ": " };
        format!("{status}{space}{reason}{between}{body}")
    }
}

/// Where in an answer's body the next byte is.
#[derive(Debug)]
enum Body {
    Left(u64),
    /// Before a chunk's size.
    Size,
    Chunk(u64),
    /// The end of line after a chunk.
    ChunkEnd,
    /// Lines after the last chunk.
    Trailers,
    UntilClose,
}

/// The answers of one connection.
#[derive(Debug, Default)]
pub(super) struct Replies {
    open: Option<(Answer, Body)>,
}

impl Replies {
    /// Takes the next answer off `input`, once all of it is there.
    ///
    /// # Errors
    /// It is no answer of HTTP/1.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Answer>, ProtocolError> {
        loop {
            let Some((answer, body)) = &mut self.open else {
                let Some(opened) = head(input)? else { return Ok(None) };
                // 1xx says that an answer will come; there is nothing to switch to.
                let is_interim = (100..200).contains(&opened.0.status);
                self.open = (!is_interim).then_some(opened);
                continue;
            };
            if !body.skip(input, &mut answer.body)? {
                return Ok(None);
            }
            return Ok(self.open.take().map(|(answer, _)| answer));
        }
    }

    /// The connection has ended: the answer that ends with it.
    pub(super) fn ended(&mut self) -> Option<Answer> {
        let (answer, body) = self.open.take()?;
        matches!(body, Body::UntilClose).then_some(answer)
    }
}

impl Body {
    /// Skips what is there; whether it was the rest.
    fn skip(&mut self, input: &mut BytesMut, said: &mut Vec<u8>) -> Result<bool, ProtocolError> {
        let mut take = |input: &mut BytesMut, bytes: usize| {
            let taken = input.split_to(bytes);
            said.extend_from_slice(&taken[..bytes.min(WORDS_MAX.saturating_sub(said.len()))]);
        };
        loop {
            let there = input.len();
            match self {
                Body::Left(left) | Body::Chunk(left) => {
                    let bytes = (*left).min(there as u64);
                    take(input, bytes as usize);
                    *left -= bytes;
                    if *left > 0 {
                        return Ok(false);
                    }
                    match self {
                        Body::Chunk(_) => *self = Body::ChunkEnd,
                        _ => return Ok(true),
                    }
                }
                Body::UntilClose => {
                    take(input, there);
                    return Ok(false);
                }
                Body::Size => match httparse::parse_chunk_size(input) {
                    Ok(httparse::Status::Complete((end, size))) => {
                        input.advance(end);
                        *self = if size == 0 { Body::Trailers } else { Body::Chunk(size) };
                    }
                    Ok(httparse::Status::Partial) if there <= HEAD_MAX => return Ok(false),
                    _ => return Err(malformed("a chunk without its size")),
                },
                Body::ChunkEnd | Body::Trailers => {
                    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
                        if there > HEAD_MAX {
                            return Err(malformed("a line without an end"));
                        }
                        return Ok(false);
                    };
                    let line = input.split_to(end + 1);
                    let is_empty = line.trim_ascii().is_empty();
                    match self {
                        Body::ChunkEnd if !is_empty => {
                            return Err(malformed("a chunk that is too long"));
                        }
                        Body::ChunkEnd => *self = Body::Size,
                        _ if is_empty => return Ok(true),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Takes the head of an answer off `input`, and says what body follows.
fn head(input: &mut BytesMut) -> Result<Option<(Answer, Body)>, ProtocolError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut reply = httparse::Response::new(&mut headers);
    let end = match reply.parse(input) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) if input.len() <= HEAD_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(malformed("a head that is too long")),
        Err(error) => return Err(malformed(&error.to_string())),
    };
    let status = reply.code.unwrap_or_default();
    let all = |name: &'static str| {
        let named =
            reply.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.filter_map(|header| std::str::from_utf8(header.value).ok())
    };
    let has = |name, token: &str| {
        all(name)
            .flat_map(|value| value.split(','))
            .any(|word| word.trim().eq_ignore_ascii_case(token))
    };
    let is_chunked = has("transfer-encoding", "chunked");
    let body = if matches!(status, 100..=199 | 204 | 304) {
        Body::Left(0)
    } else if is_chunked {
        Body::Size
    } else if all("transfer-encoding").next().is_some() {
        Body::UntilClose
    } else {
        let mut lengths = all("content-length");
        let first = lengths.next();
        if lengths.any(|other| Some(other) != first) {
            return Err(malformed("an answer of two lengths"));
        }
        let length = first.map(|text| text.trim().parse());
        let length = length.transpose().map_err(|_| malformed("an answer without a length"))?;
        length.map_or(Body::UntilClose, Body::Left)
    };
    let is_new = reply.version == Some(1);
    let stays = if is_new { !has("connection", "close") } else { has("connection", "keep-alive") };
    // Two ways to say where the answer ends: none of them is relied on for a second answer.
    let is_odd = is_chunked && all("content-length").next().is_some();
    let answer = Answer {
        status,
        keeps_open: stays && !is_odd && !matches!(body, Body::UntilClose),
        retry_after: all("retry-after")
            .next()
            .and_then(|text| retry_after(text, all("date").next())),
        location: all("location").next().map(words),
        reason: reply.reason.unwrap_or_default().into(),
        body: Vec::new(),
    };
    input.advance(end);
    Ok(Some((answer, body)))
}

/// When to come again: seconds, or a time by the far end's own clock, which says what time it is.
fn retry_after(text: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text.trim()).ok()?;
    let now = httpdate::parse_http_date(date?.trim()).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

fn malformed(what: &str) -> ProtocolError {
    ProtocolError::Malformed { protocol: "HTTP/1.1", what: what.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All answers of these bytes, which come in pieces of `piece`.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<Answer>, ProtocolError> {
        let (mut replies, mut input, mut all) = (Replies::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            input.extend_from_slice(piece);
            while let Some(answer) = replies.next(&mut input)? {
                all.push(answer);
            }
        }
        all.extend(replies.ended());
        Ok(all)
    }

    #[test]
    fn answers_end_where_they_say() {
        let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
            HTTP/1.1 422 Unprocessable Content\r\ntransfer-encoding: chunked\r\n\r\n\
            5;a=b\r\nno su\r\n7\r\nch unit\r\n0\r\ntrailer: x\r\n\r\n\
            HTTP/1.1 503\r\nRetry-After: 7\r\nConnection: keep-alive, close\r\ncontent-length: 0\r\n\r\n\
            HTTP/1.0 500 Oops\r\n\r\nwords until the end";
        for piece in [1, 2, 7, text.len()] {
            let all = read(text, piece).unwrap();
            let told: Vec<_> =
                all.iter().map(|answer| (answer.text(), answer.keeps_open)).collect();
            let expected = [
                ("204 No Content", true),
                ("200 OK: ok", true),
                ("422 Unprocessable Content: no such unit", true),
                ("503", false),
                ("500 Oops: words until the end", false),
            ];
            assert_eq!(told, expected.map(|(text, open)| (text.to_string(), open)), "{piece}");
            assert_eq!(all[3].retry_after, Some(Duration::from_secs(7)));
        }
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        for text in ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok"] {
            assert_eq!(read(text.as_bytes(), 99).unwrap(), []);
        }
    }

    #[test]
    fn a_time_to_come_again_is_counted_by_the_far_ends_clock() {
        let at = "Wed, 21 Oct 2015 07:28:30 GMT";
        let now = "Wed, 21 Oct 2015 07:28:00 GMT";
        assert_eq!(retry_after(at, Some(now)), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(now, Some(at)), Some(Duration::ZERO), "it is over");
        assert_eq!((retry_after(at, None), retry_after("soon", Some(now))), (None, None));
    }

    #[test]
    fn what_is_no_answer_is_told() {
        for wrong in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nmany\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nokay\r\n",
        ] {
            let error = read(wrong.as_bytes(), 99).unwrap_err().to_string();
            assert!(error.starts_with("the far end does not speak HTTP/1.1: "), "{error}");
        }
        assert!(read(&[b"HTTP/1.1 200 OK\r\na: ", &[b'x'; HEAD_MAX][..]].concat(), 4096).is_err());
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            parts in prop::collection::vec(prop::sample::select(vec![
                "HTTP/1.1 ", "200", " OK", "\r\n", "\r\n\r\n", "content-length: ", "3", "transfer-encoding: chunked",
                "0", "abc", ":", "connection: close", "HTTP/1.0 ", "\0", "ü",
            ]), 0..24),
            piece in 1_usize..9,
        ) {
            let text = parts.concat();
            let whole = read(text.as_bytes(), text.len().max(1));
            let cut = read(text.as_bytes(), piece);
            prop_assert_eq!(whole.is_err(), cut.is_err());
            if let (Ok(whole), Ok(cut)) = (whole, cut) {
                prop_assert_eq!(whole, cut);
            }
        }
    }
}
