//! Answers that clients take slowly: one stream of HTTP/2 is reset where its client asks for no more of it.
//!
//! A connection of HTTP/1.1 that does not read is seen by its socket (`meter.rs`). One of HTTP/2 may read and leave a
//! stream's window closed; then nobody asks its body for more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use super::meter::Busy;

/// Since when a client could have taken more of an answer.
#[derive(Debug)]
pub(crate) struct Pace {
    born: Instant,
    /// In microseconds since `born`; 0 while the client waits for us.
    handed: AtomicU64,
}

impl Pace {
    pub(crate) fn new() -> Arc<Pace> {
        Arc::new(Pace { born: Instant::now(), handed: AtomicU64::new(0) })
    }

    fn note(&self, is_handed: bool) {
        let now = || 1 + u64::try_from(self.born.elapsed().as_micros()).unwrap_or_default();
        self.handed.store(if is_handed { now() } else { 0 }, Relaxed);
    }

    /// Waits until the client has taken nothing for so long.
    pub(crate) async fn stalls(&self, patience: Duration) {
        let mut next = self.born + patience;
        loop {
            sleep_until(next).await;
            let now = Instant::now();
            next = match self.handed.load(Relaxed) {
                0 => now + patience,
                handed => self.born + Duration::from_micros(handed) + patience,
            };
            if next <= now {
                return;
            }
        }
    }
}

/// What HTTP/2 is handed at once: a frame, for what it was handed waits in it without a bound of ours.
const PIECE: usize = 16 << 10;

/// The body of an answer; its connection is busy as long as it lives.
#[derive(Debug)]
pub(crate) struct Answer<B> {
    body: B,
    /// Of a frame that is handed over in pieces.
    rest: Bytes,
    pace: Option<Arc<Pace>>,
    _busy: Busy,
}

impl<B> Answer<B> {
    pub(crate) fn new(body: B, pace: Option<Arc<Pace>>, busy: Busy) -> Answer<B> {
        pace.iter().for_each(|pace| pace.note(true));
        Answer { body, rest: Bytes::new(), pace, _busy: busy }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let Some(pace) = &this.pace else { return Pin::new(&mut this.body).poll_frame(context) };
        if this.rest.is_empty() {
            let frame = Pin::new(&mut this.body).poll_frame(context);
            pace.note(frame.is_ready());
            match std::task::ready!(frame).transpose()?.map(Frame::into_data) {
                Some(Ok(data)) => this.rest = data,
                Some(Err(other)) => return Poll::Ready(Some(Ok(other))),
                None => return Poll::Ready(None),
            }
        } else {
            pace.note(true);
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}
