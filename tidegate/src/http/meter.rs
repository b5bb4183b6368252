//! The clocks of one HTTP connection: how long a client may say nothing, take for a head, and not read.
//!
//! hyper's own clock of a head also runs while a connection is idle. So that clock has the time of an idle connection,
//! and the head's begins here, at its first byte: [`Watched`] sees the bytes, and [`Busy`] knows from when to when an
//! exchange goes on. [`watch`] ends a connection whose time is over.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_types::account::{Account, Kind, Reservation};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

use super::heads::Heads;
use crate::places::Occupant;

/// Bytes of a head that need no room of their own: every connection has as many.
const HEAD_FREE: u64 = 8 << 10;
/// What HTTP/2 begins with, and no method does.
const PREFACE: &[u8] = b"PRI";
/// What is before the minor version of HTTP/1 in a first line, which has no other blank before it.
const VERSION: &[u8] = b" HTTP/1.";
/// What is said where there is no room for a head: to HTTP/1, and to HTTP/2 (GOAWAY, ENHANCE_YOUR_CALM).
const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nx-tidegate-reason: full\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 0\r\n\r\n";
const NO_ROOM_HTTP2: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
/// The first line was looked at.
const LOOKED: u8 = u8::MAX;
/// The first bytes are not [`PREFACE`].
const NO_PREFACE: u8 = u8::MAX;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For a head, from its first byte.
    pub(crate) header: Duration,
    /// Between two requests, and before the first.
    pub(crate) keep_alive: Duration,
    /// For reading anything of what is sent to it.
    pub(crate) write: Duration,
}

/// Why a connection's time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Nothing was asked.
    Idle,
    /// A head did not end.
    Header,
    /// Nothing was read.
    Write,
}

/// What is known of a connection. A time is in microseconds since `born`, and 0 is none.
#[derive(Debug)]
pub(crate) struct Meter {
    born: Instant,
    exchanges: AtomicU32,
    has_served: AtomicBool,
    quiet_since: AtomicU64,
    head_since: AtomicU64,
    blocked_since: AtomicU64,
    /// Bytes of [`PREFACE`] that came, or [`NO_PREFACE`].
    preface: AtomicU8,
    /// How far the first line was looked at.
    version: AtomicU8,
    is_newer: AtomicBool,
    head_bytes: AtomicU64,
    /// Bytes in both directions.
    moved: AtomicU64,
    room: Option<(Account, usize)>,
    share: Mutex<Option<Reservation>>,
    /// Those of HTTP/2.
    heads: Mutex<Heads>,
}

impl Meter {
    /// Of a connection that begins now; a longer head takes so many bytes of an account, if there is one.
    pub(crate) fn new(room: Option<(Account, usize)>) -> Arc<Meter> {
        Arc::new(Meter {
            born: Instant::now(),
            exchanges: AtomicU32::new(0),
            has_served: AtomicBool::new(false),
            quiet_since: AtomicU64::new(0),
            head_since: AtomicU64::new(0),
            blocked_since: AtomicU64::new(0),
            preface: AtomicU8::new(0),
            version: AtomicU8::new(0),
            is_newer: AtomicBool::new(false),
            head_bytes: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            room,
            share: Mutex::default(),
            heads: Mutex::default(),
        })
    }

    fn now(&self) -> u64 {
        1 + u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX - 1)
    }

    fn at(&self, stamp: u64, more: Duration) -> Instant {
        self.born + Duration::from_micros(stamp) + more
    }

    /// Whether it speaks HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        usize::from(self.preface.load(Relaxed)) == PREFACE.len()
    }

    /// Whether it speaks a newer HTTP/1 than we do.
    pub(crate) fn is_newer(&self) -> bool {
        self.is_newer.load(Relaxed)
    }

    /// A newer minor version is spoken to as the newest that we know (RFC 9110, 2.5); hyper would refuse it. Only a
    /// connection's first line is looked at: its answer ends the connection.
    fn lower_version(&self, bytes: &mut [u8]) {
        let mut state = usize::from(self.version.load(Relaxed));
        for byte in bytes {
            match VERSION.get(state) {
                Some(wanted) if wanted == byte => state += 1,
                Some(_) if *byte == b'\n' => state = LOOKED.into(),
                Some(_) => state = usize::from(*byte == b' '),
                None => {
                    if matches!(byte, b'2'..=b'9') {
                        self.is_newer.store(true, Relaxed);
                        *byte = b'1';
                    }
                    state = LOOKED.into();
                }
            }
            if state == usize::from(LOOKED) {
                break;
            }
        }
        self.version.store(state as u8, Relaxed);
    }

    /// Bytes that passed in both directions.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Whether a head is on its way of which more came than short ones have.
    fn reads_long_head(&self) -> bool {
        self.head_bytes.load(Relaxed) > HEAD_FREE
    }

    /// When its time is over, and why; nobody waits for the client where there is none.
    fn due(&self, patience: &Patience) -> Option<(Instant, Over)> {
        let blocked = self.blocked_since.load(Relaxed);
        if blocked > 0 {
            return Some((self.at(blocked, patience.write), Over::Write));
        }
        if self.exchanges.load(Relaxed) > 0 {
            return None;
        }
        let idle = (self.at(self.quiet_since.load(Relaxed), patience.keep_alive), Over::Idle);
        match self.head_since.load(Relaxed) {
            0 => Some(idle),
            // Frames that are no request come at any time.
            _ if self.is_http2() => Some(idle),
            head => Some((self.at(head, patience.header), Over::Header)),
        }
    }

    /// Bytes came.
    fn note_read(&self, bytes: &[u8]) -> io::Result<()> {
        self.moved.fetch_add(bytes.len() as u64, Relaxed);
        let known = usize::from(self.preface.load(Relaxed));
        if known < PREFACE.len() {
            let begins = bytes.iter().zip(&PREFACE[known..]).all(|(one, other)| one == other);
            let more = (known + bytes.len()).min(PREFACE.len()) as u8;
            self.preface.store(if begins { more } else { NO_PREFACE }, Relaxed);
        }
        if self.is_http2() {
            return self.note_frames(&[&PREFACE[..known % PREFACE.len()], bytes]);
        }
        if self.exchanges.load(Relaxed) > 0 || bytes.is_empty() {
            return Ok(());
        }
        if self.head_since.load(Relaxed) == 0 {
            self.head_since.store(self.now(), Relaxed);
        }
        let length = bytes.len() as u64;
        let head = self.head_bytes.fetch_add(length, Relaxed) + length;
        match &self.room {
            Some((room, most)) if head > HEAD_FREE => {
                let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
                // What follows a head in the same piece is no part of it.
                if share.is_none() && !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
                    let taken = room.reserve(Kind::Packets, *most);
                    *share = Some(taken.map_err(|_| io::ErrorKind::OutOfMemory)?);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Bytes of HTTP/2 came, with what of the preface came before it was known: a head that goes on in further frames has
    /// its room until the last of them.
    fn note_frames(&self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = pieces.iter().fold(false, |_, bytes| heads.meet(bytes));
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.room {
            Some((room, most)) if is_open && share.is_none() => {
                let taken = room.reserve(Kind::Packets, *most);
                *share = Some(taken.map_err(|_| io::ErrorKind::OutOfMemory)?);
            }
            _ if !is_open => *share = None,
            _ => {}
        }
        Ok(())
    }

    fn note_write(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending if self.blocked_since.load(Relaxed) == 0 => {
                self.blocked_since.store(self.now(), Relaxed);
            }
            Poll::Pending => {}
            Poll::Ready(bytes) => {
                self.blocked_since.store(0, Relaxed);
                if let Ok(bytes) = bytes {
                    self.moved.fetch_add(*bytes as u64, Relaxed);
                }
            }
        }
        written
    }
}

impl Occupant for Meter {
    fn idle_since(&self) -> Option<(bool, Instant)> {
        let since = self.quiet_since.load(Relaxed);
        let is_idle = self.exchanges.load(Relaxed) == 0 && self.blocked_since.load(Relaxed) == 0;
        is_idle.then(|| (self.has_served.load(Relaxed), self.at(since, Duration::ZERO)))
    }

    fn blocked_since(&self) -> Option<Instant> {
        let since = self.blocked_since.load(Relaxed);
        (since > 0).then(|| self.at(since, Duration::ZERO))
    }
}

/// An exchange goes on while this lives.
#[derive(Debug)]
pub(crate) struct Busy {
    meter: Arc<Meter>,
    /// Of its head.
    _share: Option<Reservation>,
}

impl Busy {
    /// A head has come.
    pub(crate) fn begin(meter: &Arc<Meter>) -> Busy {
        meter.exchanges.fetch_add(1, Relaxed);
        meter.has_served.store(true, Relaxed);
        meter.head_since.store(0, Relaxed);
        let mut share = None;
        if meter.head_bytes.swap(0, Relaxed) > HEAD_FREE {
            share = meter.share.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        Busy { meter: meter.clone(), _share: share }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.meter.quiet_since.store(self.meter.now(), Relaxed);
        self.meter.exchanges.fetch_sub(1, Relaxed);
    }
}

/// Polls a connection until it is over, or its time is.
pub(crate) async fn watch<C: Future>(
    mut connection: Pin<&mut C>,
    meter: &Meter,
    patience: &Patience,
) -> Result<C::Output, Over> {
    let far = |from: Instant| from + patience.keep_alive;
    let mut armed = far(Instant::now());
    let mut timer = pin!(sleep_until(armed));
    poll_fn(|context| {
        if let Poll::Ready(output) = connection.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        loop {
            let due = meter.due(patience);
            // A time that became later is found out when the timer rings.
            if let Some((at, _)) = due.filter(|(at, _)| *at < armed) {
                armed = at;
                timer.as_mut().reset(armed);
            }
            ready!(timer.as_mut().poll(context));
            let now = Instant::now();
            match due {
                Some((at, over)) if at <= now => return Poll::Ready(Err(over)),
                Some((at, _)) => armed = at,
                None => armed = far(now),
            }
            timer.as_mut().reset(armed);
        }
    })
    .await
}

/// A connection whose bytes are seen.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    meter: Arc<Meter>,
    /// Others had their turn before this read.
    has_yielded: bool,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, meter: Arc<Meter>) -> Watched<S> {
        Watched { stream, meter, has_yielded: false }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Who sends a short head does not wait until all of many long ones are read.
        if self.meter.reads_long_head() && !std::mem::replace(&mut self.has_yielded, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_yielded = false;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let came = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        if self.meter.version.load(Relaxed) != LOOKED {
            self.meter.lower_version(came);
        }
        let noted = self.meter.note_read(came);
        // No answer is under way. A client that does not read it hears it by the end of the connection.
        if noted.is_err() && self.meter.blocked_since.load(Relaxed) == 0 {
            let words = if self.meter.is_http2() { NO_ROOM_HTTP2 } else { NO_ROOM };
            let _ = Pin::new(&mut self.stream).poll_write(context, words);
            let _ = Pin::new(&mut self.stream).poll_flush(context);
        }
        Poll::Ready(noted)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.meter.note_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.meter.note_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS writes when it is flushed.
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.meter.note_write(flushed.map_ok(|()| 0)).map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.meter.note_write(closed.map_ok(|()| 0)).map_ok(drop)
    }
}
