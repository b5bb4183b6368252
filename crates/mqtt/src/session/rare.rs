//! Packets that are rarer than publishes and pings.

use tidegate_broker::{AckOutcome, Outbox};

use super::{Effects, Request, Session, SessionStep, SessionSubscriber};
use crate::control::{self, Filters};
use crate::frame::{ControlPacket, Front};
use crate::{Version, Violation, write};

impl<S: SessionSubscriber> Session<S> {
    /// Packets of subscribers, and the second half of QoS 2.
    pub(super) fn rare(
        &mut self,
        version: Version,
        frame: ControlPacket<'_>,
        effects: &mut Effects,
    ) -> Result<Option<SessionStep>, Violation> {
        let body = frame.body;
        let out = &mut effects.out;
        let before = out.len();
        // MQTT 3.1, 2.1: these may be sent again, and then say so.
        let flags = match (version, frame.first >> 4) {
            (Version::V31, 6 | 8 | 10) => frame.first & 0x07,
            _ => frame.first & 0x0F,
        };
        match (frame.first >> 4, flags) {
            (8, 2) => {
                let filters = Filters::subscribe(version, body)?;
                return Ok(Some(SessionStep::Ask(Request { filters, subscribes: true })));
            }
            (10, 2) => {
                let filters = Filters::unsubscribe(version, body)?;
                return Ok(Some(SessionStep::Ask(Request { filters, subscribes: false })));
            }
            (6, 2) => {
                let (id, _) = control::acknowledgement(version, body, control::RELEASED)?;
                self.release(version, id, effects)?;
                return Ok(None);
            }
            (5, 0) => {
                let (id, is_taken) = control::acknowledgement(version, body, control::TAKEN)?;
                let told = self.told(|outbox| outbox.received(id, is_taken))?;
                match (told, is_taken) {
                    (_, false) => {}
                    // It is sent again soon, and answered then.
                    (AckOutcome::Unknown, true) if self.is_restoring() => {}
                    (AckOutcome::Unknown, true) => write::unknown_received(out, version, id),
                    (_, true) => write::release(out, id),
                }
            }
            (7, 0) => {
                let (id, _) = control::acknowledgement(version, body, control::RELEASED)?;
                self.told(|outbox| outbox.completed(id))?;
            }
            (1, 0) => return Err(Violation::protocol("a second connect packet")),
            (15, _) if version == Version::V5 => {
                return Err(Violation::protocol("an auth packet without an authentication method"));
            }
            (0 | 15, _) => return Err(Violation::protocol("a packet of a reserved type")),
            (2 | 9 | 11 | 13, _) => {
                return Err(Violation::protocol("a packet that only servers send"));
            }
            _ => return Err(Violation::malformed("a packet with wrong flags or length")),
        }
        self.fits(before, out).map(|()| None)
    }

    fn is_restoring(&self) -> bool {
        self.subscriber().is_some_and(S::is_restoring)
    }

    /// Passes an acknowledgement on. One of the wrong kind for its publish ends the connection; one that
    /// nobody waits for may be left over from another server.
    fn told(&self, tell: impl FnOnce(&mut Outbox) -> AckOutcome) -> Result<AckOutcome, Violation> {
        known(self.outbox().map_or(AckOutcome::Unknown, |mut outbox| tell(&mut outbox)))
    }

    /// Takes the PUBACKs at the front: the outbox, which publishers want too, is locked once for all of them. Returns the
    /// bytes that are done with.
    pub(super) fn acknowledged(&self, version: Version, bytes: &[u8]) -> Result<usize, Violation> {
        let (mut outbox, mut done) = (self.outbox(), 0);
        while let Front::Complete(frame) = self.front(&bytes[done..])?
            && frame.first == write::PUBACK
        {
            let (id, _) = control::acknowledgement(version, frame.body, control::TAKEN)?;
            if let Some(outbox) = &mut outbox {
                known(outbox.acknowledged(id))?;
            }
            done += frame.size;
        }
        Ok(done)
    }
}

fn known(told: AckOutcome) -> Result<AckOutcome, Violation> {
    match told {
        AckOutcome::Wrong => {
            Err(Violation::protocol("an acknowledgement of the wrong kind for its publish"))
        }
        told => Ok(told),
    }
}
