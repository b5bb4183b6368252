//! Bodies: short ones are read and belong to their message; all others stream through, frame by frame,
//! without a copy.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::answer::Failure;
use super::connection::STREAM_WINDOW;
use super::exit::Exit;
use super::room::{Room, Share};
use super::upload::{BodyError, Clock, Upload};
use crate::config::BodyMode;

/// A body on its way through.
#[derive(Debug)]
pub(super) struct Passing {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
    rest: Option<Incoming>,
    /// What happens when it is over, one way or the other.
    exit: Option<Box<Exit>>,
    /// Of a client's.
    clock: Option<Box<Clock>>,
    /// What of it may be held here.
    _share: Option<Share>,
}

/// What was read of a body.
#[derive(Debug)]
pub(super) struct Gathered {
    /// Its bytes; all of them where there is no rest.
    pub(super) data: Bytes,
    trailers: Option<HeaderMap>,
    rest: Option<Incoming>,
    share: Option<Share>,
}

impl Gathered {
    /// Nothing of it was read.
    ///
    /// # Errors
    /// There is no room for what comes before it is sent on.
    pub(super) fn streamed(rest: Incoming, room: &Rc<Room>) -> Result<Gathered, Failure> {
        let most = rest.size_hint().upper().unwrap_or(u64::MAX).min(STREAM_WINDOW.into());
        let share = match rest.is_end_stream() {
            true => None,
            false => Some(room.hold(most)?),
        };
        Ok(Gathered { data: Bytes::new(), trailers: None, rest: Some(rest), share })
    }

    /// What of it is part of the message.
    pub(super) fn payload(&self) -> Bytes {
        if self.is_whole() { self.data.clone() } else { Bytes::new() }
    }

    /// Whether it is all here, so that a script may see and change it.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }
}

/// Reads as much of a body as belongs to its message: all of it or nothing, but for one whose length
/// nobody told, of which the beginning may have been read. Its bytes are taken from `room` before they come.
///
/// # Errors
/// The sender broke off (`broken`), or there is no room.
pub(super) async fn gather(
    mut body: Incoming,
    mode: BodyMode,
    max: u64,
    room: &Rc<Room>,
    broken: Failure,
) -> Result<Gathered, Failure> {
    let hint = body.size_hint();
    let is_short = match mode {
        BodyMode::Head => hint.exact() == Some(0),
        BodyMode::Length => hint.upper().is_some_and(|upper| upper <= max),
        BodyMode::Whole => hint.lower() <= max,
    };
    if !is_short {
        return Gathered::streamed(body, room);
    }
    let most = hint.upper().unwrap_or(max).min(max);
    let mut share = match body.is_end_stream() {
        true => None,
        false => Some(room.hold(most)?),
    };
    // Nearly always there is one frame, which is handed on as it came.
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame.map_err(|_| broken)?.into_data() {
            Ok(next) if first.is_empty() && all.is_empty() => first = next,
            Ok(next) => {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&next);
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        if (first.len() + all.len()) as u64 > max {
            let data = if all.is_empty() { first } else { all.freeze() };
            return Ok(Gathered { data, trailers, rest: Some(body), share });
        }
    }
    let data = if all.is_empty() { first } else { all.freeze() };
    share.iter_mut().for_each(|share| share.shrink_to(data.len()));
    Ok(Gathered { data, trailers, rest: None, share })
}

impl Passing {
    /// Nothing.
    pub(super) fn empty() -> Passing {
        Passing::whole(Bytes::new())
    }

    /// These bytes.
    pub(super) fn whole(data: Bytes) -> Passing {
        let data = (!data.is_empty()).then_some(data);
        Passing { data, trailers: None, rest: None, exit: None, clock: None, _share: None }
    }

    /// What was read, and the rest.
    pub(super) fn gathered(gathered: Gathered) -> Passing {
        let Gathered { data, trailers, rest, share } = gathered;
        Passing { trailers, rest, _share: share, ..Passing::whole(data) }
    }

    /// A client's, which may not stop for ever.
    pub(super) fn of_client(self, upload: &Rc<Upload>) -> Passing {
        Passing { clock: Some(Box::new(Clock::new(upload.clone()))), ..self }
    }

    /// With other bytes in the place of those that were read.
    pub(super) fn with_data(self, data: Bytes) -> Passing {
        Passing { data: (!data.is_empty()).then_some(data), ..self }
    }

    /// With something that happens at its end.
    pub(super) fn with_exit(self, exit: Exit) -> Passing {
        if self.is_end_stream() {
            // Nobody asks an empty body for its end.
            exit.complete();
            return self;
        }
        Passing { exit: Some(Box::new(exit)), ..self }
    }

    /// Whether more of it is to come.
    pub(super) fn goes_on(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| !rest.is_end_stream())
    }

    fn note(&mut self, bytes: usize) {
        if let Some(exit) = &mut self.exit {
            exit.bytes += bytes as u64;
        }
    }

    /// It was handed over to the last byte.
    fn complete(&mut self) {
        if let Some(exit) = self.exit.take() {
            exit.complete();
        }
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Some(data) = this.data.take() {
            this.note(data.len());
            if this.is_end_stream() {
                this.complete();
            }
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(rest) = &mut this.rest {
            let mut frame = Pin::new(rest).poll_frame(context).map_err(BodyError::Broken);
            if let Some(clock) = &mut this.clock {
                frame = clock.look(frame, context);
            }
            let frame = std::task::ready!(frame);
            match &frame {
                Some(Ok(frame)) => {
                    this.note(frame.data_ref().map_or(0, Bytes::len));
                    // Nobody asks for more after the trailers.
                    if frame.is_trailers() || this.is_end_stream() {
                        this.complete();
                    }
                }
                Some(Err(_)) => {}
                None => this.complete(),
            }
            return Poll::Ready(frame);
        }
        let trailers = this.trailers.take();
        this.complete();
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none()
            && self.trailers.is_none()
            && self.rest.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let own = self.data.as_ref().map_or(0, |data| data.len() as u64);
        match &self.rest {
            None => SizeHint::with_exact(own),
            Some(rest) => {
                let mut hint = rest.size_hint();
                hint.set_lower(hint.lower() + own);
                if let Some(upper) = hint.upper() {
                    hint.set_upper(upper + own);
                }
                hint
            }
        }
    }
}
