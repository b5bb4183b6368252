//! The last bytes of a client that is gone, or that a newer connection of its own has replaced: what it sent
//! before counts, its goodbye too.
//!
//! A client that publishes with QoS 0, says DISCONNECT, closes and connects again at once is heard of by its
//! new connection first: its words wait in the old socket.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::Connection;
use super::safety::Gates;
use crate::input::mqtt::session::{End, SessionStep};
use crate::input::mqtt::terms::Orders;

/// Bytes that are read: what a socket holds, and no more from who never stops.
const REST_MAX: usize = 8 << 20;

/// Whether a connection only takes what is there already, and what it ends with then.
pub(super) struct Leaving<'a> {
    orders: &'a Orders,
    /// How long what was sent may take to be handled.
    patience: Duration,
    end: Option<(End, Instant)>,
    /// Bytes that may still be read.
    left: usize,
}

impl<'a> Leaving<'a> {
    pub(super) fn new(orders: &'a Orders, patience: Duration) -> Self {
        Leaving { orders, patience, end: None, left: REST_MAX }
    }

    /// Whether it is so.
    pub(super) fn is_so(&mut self) -> bool {
        if self.orders.is_replaced.load(Ordering::Relaxed) {
            self.begin(End::TakenOver);
        }
        self.end.is_some()
    }

    /// It ends so, unless the client has said another end already.
    pub(super) fn begin(&mut self, end: End) {
        self.end.get_or_insert_with(|| (end, Instant::now() + self.patience));
    }

    /// When it ends, whatever is there.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.end.as_ref().map(|(_, until)| *until)
    }

    /// What it ends with.
    pub(super) fn end(&self) -> End {
        self.end.as_ref().map_or(End::TakenOver, |(end, _)| end.clone())
    }

    /// Waits until it is replaced, or is to be looked at again. Whoever gives the order polls this.
    pub(super) async fn ordered(&self) {
        poll_fn(|_| {
            let is_replaced = self.orders.is_replaced.load(Ordering::Relaxed) && self.end.is_none();
            match is_replaced || self.orders.has_terms() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

impl Connection<'_> {
    /// The client takes nothing any more; what it said before is still to be heard.
    pub(super) fn unheard(&mut self, end: End, leaving: &mut Leaving<'_>) {
        self.effects.out.clear();
        self.gates = Gates::default();
        leaving.begin(end);
    }

    /// Reads more of what is there already, if `step` can go on with it; true where there was more.
    ///
    /// # Errors
    /// Nothing more is there: the end.
    pub(super) fn read_rest(
        &mut self,
        step: &SessionStep,
        leaving: &mut Leaving<'_>,
    ) -> Result<bool, End> {
        // What waits for the node, or for a subscriber, goes on by itself.
        if !matches!(step, SessionStep::Read(_)) && !self.buffer.bytes().is_empty() {
            return Ok(false);
        }
        if let Some(excess) = self.buffer.excess()
            && self.room.is_none()
        {
            self.room = self.shared.room.take(&self.account, excess).ok();
            self.room.as_ref().ok_or_else(|| leaving.end())?;
        }
        match self.buffer.read(&mut self.stream) {
            Ok(Some(count)) if (1..=leaving.left).contains(&count) => {
                leaving.left -= count;
                Ok(true)
            }
            _ => Err(leaving.end()),
        }
    }
}
