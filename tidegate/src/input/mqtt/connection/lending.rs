//! What the connection of a subscriber lends while it waits: who publishes writes to its client then.

use std::mem::{replace, take};
use std::sync::Arc;
use std::time::Duration;

use tidegate_broker::Outbox;
use tidegate_mqtt::session::PublishLayout;
use tidegate_types::units::Time;

use super::{Connection, KEPT};
use crate::input::mqtt::traffic::Traffic;
use crate::node::broker::{DirectLine, Seat, Subscriber};
use crate::support::tls::SecondHand;

/// A client's socket, and how it wants publishes.
#[derive(Debug)]
struct SocketLine {
    socket: SecondHand,
    layout: PublishLayout,
    out: Vec<u8>,
    traffic: Arc<Traffic>,
}

impl DirectLine for SocketLine {
    fn encode(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        times: &mut Vec<(u32, Duration)>,
    ) -> usize {
        self.layout.write(now, outbox, &mut self.out, times)
    }

    fn write(&mut self) -> bool {
        if !self.out.is_empty() {
            // Of an error the connection hears when it goes on.
            let written = self.socket.try_write(&self.out).unwrap_or(0);
            self.traffic.sent(written);
            self.out.drain(..written);
        }
        if self.out.is_empty() && self.out.capacity() > KEPT {
            self.out = Vec::new();
        }
        self.out.is_empty()
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl Connection<'_> {
    /// It waits now: others may write to its client, if nothing of its own is to be written.
    pub(super) fn lend(&mut self, seat: Option<&Arc<Seat>>) {
        let Connection { stream, session, effects, gates, .. } = self;
        let is_idle = effects.out.is_empty() && gates.awaited().is_none();
        if let Some(seat) = seat.filter(|_| is_idle) {
            let line = || {
                let (layout, traffic) = (session.layout()?, stream.traffic().clone());
                let (socket, out) = (stream.second()?, Vec::new());
                Some(Box::new(SocketLine { socket, layout, out, traffic }) as Box<dyn DirectLine>)
            };
            self.lends = seat.lend(&mut effects.out, line);
        }
    }

    /// It writes by itself again.
    pub(super) fn take_back(&mut self) {
        if take(&mut self.lends)
            && let Some(subscriber) = self.session.subscriber()
        {
            let mut later = replace(&mut self.effects.out, subscriber.seat().take_back());
            self.effects.out.append(&mut later);
        }
    }

    /// It ends: nobody else writes any more.
    pub(super) fn lend_no_more(&mut self) {
        self.take_back();
        let seat = self.session.subscriber().map(Subscriber::seat);
        seat.into_iter().for_each(|seat| seat.end_line());
    }
}
