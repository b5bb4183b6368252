//! Packets that a publishing client seldom sends: of subscribers, and left over from other servers.

use super::{Effects, Session};
use crate::input::mqtt::wire::control::{self, Filters};
use crate::input::mqtt::wire::frame::Frame;
use crate::input::mqtt::wire::{Reason, Version, Violation, write};

impl Session {
    /// Packets of subscribers, the second half of QoS 2, and what is left over from other servers.
    pub(super) fn rare(
        &mut self,
        version: Version,
        frame: Frame<'_>,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        let body = frame.body;
        let out = &mut effects.out;
        let before = out.len();
        match (frame.first >> 4, frame.first & 0x0F) {
            (8, 2) => {
                let filters = Filters::subscribe(version, body)?;
                self.refuse_subscription(version, &filters, out);
            }
            (10, 2) => {
                let Filters { id, valid } = Filters::unsubscribe(version, body)?;
                let code = Reason::NoSubscriptionExisted as u8;
                write::unsubscribed(out, version, id, valid.iter().map(|_| code));
            }
            (6, 2) => {
                let (id, _) = control::acknowledgement(version, body, control::RELEASED)?;
                self.release(version, id, effects)?;
                return Ok(());
            }
            // The rest is left over from another server: this one publishes nothing to clients.
            (5, 0) => {
                let (id, success) = control::acknowledgement(version, body, control::TAKEN)?;
                if success {
                    write::unknown_received(out, version, id);
                }
            }
            (4, 0) => drop(control::acknowledgement(version, body, control::TAKEN)?),
            (7, 0) => drop(control::acknowledgement(version, body, control::RELEASED)?),
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
        self.fits(before, out)
    }

    fn refuse_subscription(&self, version: Version, filters: &Filters, out: &mut Vec<u8>) {
        const WORDS: &str = "this server takes publishes only: it has no subscriptions";
        let code = |valid: &bool| match (version, valid) {
            (Version::V5, true) => Reason::ImplementationSpecific as u8,
            (Version::V5, false) => Reason::TopicFilterInvalid as u8,
            (Version::V31 | Version::V311, _) => 0x80,
        };
        let codes = filters.valid.iter().map(code);
        write::subscribed(out, version, filters.id, codes, self.words(WORDS));
    }
}
