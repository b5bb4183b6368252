//! What the connection of a subscriber lends while it waits: who publishes writes to its client then.

use std::mem::{replace, take};
use std::sync::Arc;
use std::time::Duration;

use tidegate_broker::Outbox;
use tidegate_mqtt::session::PublishLayout;

use super::{Connection, KEPT};
use crate::input::mqtt::traffic::Traffic;
use crate::node::broker::{DirectLine, LineOwner, Seat};
use crate::node::contract::Clock;
use crate::support::tls::WriteHandle;

/// A client's socket, and how it wants publishes.
#[derive(Debug)]
struct SocketLine {
    socket: WriteHandle,
    layout: PublishLayout,
    clock: Clock,
    out: Vec<u8>,
    traffic: Arc<Traffic>,
}

impl DirectLine for SocketLine {
    fn encode(&mut self, outbox: &mut Outbox, times: &mut Vec<(u32, Duration)>) -> (usize, bool) {
        self.layout.write(self.clock.now(), outbox, &mut self.out, times)
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
        let Connection { stream, session, effects, gates, line, shared, .. } = self;
        let is_idle = effects.out.is_empty() && gates.awaited().is_none();
        if let Some(seat) = seat.filter(|_| is_idle) {
            let owner = line.get_or_insert_with(|| Box::new(LineOwner::new(seat)));
            let clock = shared.intake.clock();
            let line = || {
                let (layout, traffic) = (session.layout()?, stream.traffic().clone());
                let (socket, out) = (stream.second()?, Vec::new());
                Some(Box::new(SocketLine { socket, layout, clock, out, traffic })
                    as Box<dyn DirectLine>)
            };
            self.lends = owner.lend(&mut effects.out, line);
        }
    }

    /// It writes by itself again.
    pub(super) fn reclaim(&mut self) {
        if take(&mut self.lends)
            && let Some(owner) = &self.line
        {
            let mut later = replace(&mut self.effects.out, owner.reclaim());
            self.effects.out.append(&mut later);
        }
    }

    /// It ends: nobody else writes any more.
    pub(super) fn lend_no_more(&mut self) {
        self.reclaim();
        self.line = None;
    }
}
