//! Bodies: short ones are read and belong to their message; all others stream through, frame by frame,
//! without a copy.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::exit::Exit;
use crate::config::BodyMode;

/// A body on its way through.
#[derive(Debug)]
pub(super) struct Passing {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
    rest: Option<Incoming>,
    /// What happens when it is over, one way or the other.
    exit: Option<Box<Exit>>,
}

/// What was read of a body.
#[derive(Debug)]
pub(super) struct Gathered {
    /// Its bytes; all of them where there is no rest.
    pub(super) data: Bytes,
    trailers: Option<HeaderMap>,
    rest: Option<Incoming>,
}

impl Gathered {
    /// Nothing of it was read.
    pub(super) fn streamed(rest: Incoming) -> Gathered {
        Gathered { data: Bytes::new(), trailers: None, rest: Some(rest) }
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
/// nobody told, of which the beginning may have been read.
///
/// # Errors
/// The sender broke off.
pub(super) async fn gather(
    mut body: Incoming,
    mode: BodyMode,
    max: u64,
) -> Result<Gathered, hyper::Error> {
    let hint = body.size_hint();
    let is_short = match mode {
        BodyMode::Head => hint.exact() == Some(0),
        BodyMode::Length => hint.upper().is_some_and(|upper| upper <= max),
        BodyMode::Whole => hint.lower() <= max,
    };
    if !is_short {
        return Ok(Gathered { data: Bytes::new(), trailers: None, rest: Some(body) });
    }
    // Nearly always there is one frame, which is handed on as it came.
    let mut data = Bytes::new();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(next) if data.is_empty() => data = next,
            Ok(next) => {
                let mut more = Vec::with_capacity(data.len() + next.len());
                more.extend_from_slice(&data);
                more.extend_from_slice(&next);
                data = more.into();
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        if data.len() as u64 > max {
            return Ok(Gathered { data, trailers, rest: Some(body) });
        }
    }
    Ok(Gathered { data, trailers, rest: None })
}

impl Passing {
    /// Nothing.
    pub(super) fn empty() -> Passing {
        Passing::whole(Bytes::new())
    }

    /// These bytes.
    pub(super) fn whole(data: Bytes) -> Passing {
        let data = (!data.is_empty()).then_some(data);
        Passing { data, trailers: None, rest: None, exit: None }
    }

    /// What comes, as it comes.
    pub(super) fn stream(rest: Incoming) -> Passing {
        Passing { data: None, trailers: None, rest: Some(rest), exit: None }
    }

    /// What was read, and the rest.
    pub(super) fn gathered(gathered: Gathered) -> Passing {
        let Gathered { data, trailers, rest } = gathered;
        Passing { trailers, rest, ..Passing::whole(data) }
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
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        if let Some(data) = this.data.take() {
            this.note(data.len());
            if this.is_end_stream() {
                this.complete();
            }
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(rest) = &mut this.rest {
            let frame = std::task::ready!(Pin::new(rest).poll_frame(context));
            match &frame {
                Some(Ok(frame)) => {
                    this.note(frame.data_ref().map_or(0, Bytes::len));
                    if this.is_end_stream() {
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
