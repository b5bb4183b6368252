//! A client's connection as bytes of MQTT: TCP, with TLS or without, and with WebSocket or without. It works by
//! readiness, as [`Stream`] does.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;

use super::session::End;
use super::traffic::Traffic;
use super::websocket::{Ended, WebSocket, WebSocketOptions, answer};
use crate::support::tls::{Stream, WriteHandle};

/// Room for the head of a usual request.
const HEAD: usize = 1024;
/// Reads that brought frames of control alone, until others have their turn.
const ROUNDS: usize = 8;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Transport {
    /// What is below.
    pub(super) stream: Stream,
    web: Option<Box<WebSocket>>,
    /// Where bytes of packets are counted.
    traffic: Arc<Traffic>,
}

/// What a client did that WebSocket forbids.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Broken(pub(super) &'static str);

impl Transport {
    /// Of packets, until something else is agreed on.
    pub(super) fn new(stream: Stream, traffic: Arc<Traffic>) -> Self {
        Transport { stream, web: None, traffic }
    }

    /// Agrees on WebSocket: what comes and goes is in frames from then on.
    ///
    /// # Errors
    /// The connection ends, or the request is not granted, which the client is told.
    pub(super) async fn upgrade(&mut self, options: &WebSocketOptions) -> Result<(), End> {
        let failed = |error: io::Error| End::Failed(error.kind());
        let mut head = BytesMut::with_capacity(HEAD);
        let answer = loop {
            self.stream.readable().await.map_err(failed)?;
            match self.stream.try_read(&mut head) {
                Ok(0) => return Err(End::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(failed(error)),
            }
            if let Some(answer) = answer(&head, options) {
                break answer;
            }
            head.reserve(HEAD);
        };
        let granted = match &answer {
            Ok(granted) => self.stream.write_all(granted).await,
            Err(refusal) => self.stream.write_all(&refusal.answer()).await,
        };
        if let Err(refusal) = answer {
            return Err(End::NoWebSocket(refusal.what.into()));
        }
        self.web = Some(Box::default());
        granted.map_err(failed)
    }

    /// Waits until `try_read` has something to do. Cancel-safe.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.web {
            Some(web) if web.ended().is_some() => Poll::Ready(Ok(())),
            _ => self.stream.poll_readable(context),
        }
    }

    /// As [`Stream::try_read`].
    pub(super) fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let count = self.take(buffer)?;
        self.traffic.received(count);
        Ok(count)
    }

    fn take(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let Some(web) = &mut self.web else { return self.stream.try_read(buffer) };
        for _ in 0..ROUNDS {
            match web.ended() {
                Some(Ended::Closed) => return Ok(0),
                Some(Ended::Broken { what, .. }) => return Err(io::Error::other(Broken(what))),
                None => {}
            }
            let before = buffer.len();
            if self.stream.try_read(buffer)? == 0 {
                return Ok(0);
            }
            let kept = web.receive(&mut buffer[before..]);
            buffer.truncate(before + kept);
            if kept > 0 {
                return Ok(kept);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Waits until `try_write` has something to do. Cancel-safe.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    /// Where bytes of packets are counted.
    pub(super) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// By what others write packets as they are, once; none where something is in between.
    pub(super) fn second(&mut self) -> Option<WriteHandle> {
        if self.web.is_some() { None } else { self.stream.second() }
    }

    /// Whether something is to be written that no packet holds: `try_write`, be it of nothing, does it.
    pub(super) fn has_to_write(&self) -> bool {
        self.stream.has_to_write() || self.web.as_ref().is_some_and(|web| web.has_to_write())
    }

    /// As [`Stream::try_write`].
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.put(bytes)?;
        self.traffic.sent(count);
        Ok(count)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Transport { stream, web: Some(web), .. } = self else {
            return self.stream.try_write(bytes);
        };
        loop {
            let waiting = web.outgoing(bytes);
            if waiting.is_empty() && !stream.has_to_write() {
                return Ok(0);
            }
            let written = stream.try_write(waiting)?;
            if let Some(taken) = web.written(written) {
                return Ok(taken.min(bytes.len()));
            }
        }
    }

    /// Writes all of `bytes`.
    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() || self.has_to_write() {
            self.writable().await?;
            match self.try_write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says that nothing more will be written. What comes from then on is for nobody, in frames or not.
    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        if let Some(mut web) = self.web.take() {
            self.stream.write_all(web.close()).await?;
        }
        self.stream.shutdown().await
    }
}
