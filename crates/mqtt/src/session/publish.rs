//! A publish from its packet to its acknowledgement.

use bytes::Bytes;
use tidegate_types::record::{Offered, RefuseReason, Token};
use tidegate_types::units::Time;

use super::answers::AckKind;
use super::memory::{Memory, Published, ReleaseOutcome};
use super::record::Facts;
use super::{Effects, End, Phase, Refused, Session, SessionSubscriber};
use crate::publish::Publish;
use crate::{Reason, Version, Violation, property, write};

/// QoS 2 publishes that a session may have unreleased. MQTT 5 clients keep to the receive maximum; older
/// ones do not know it.
const UNRELEASED_MAX: usize = 16 * 1024;

impl<S: SessionSubscriber> Session<S> {
    /// The record of a publish; `None` where it was offered before.
    pub(super) fn publish(
        &mut self,
        version: Version,
        now: Time,
        publish: Publish<'_>,
    ) -> Result<Option<Offered>, Violation> {
        let mut facts = Facts::read(publish.properties, property::IN_PUBLISH, publish.retain)?;
        let key = match facts.topic_alias.take() {
            Some(alias) => {
                self.topics.aliased(alias, publish.topic, self.limits.topic_alias_maximum)?
            }
            None if publish.topic.is_empty() => {
                return Err(Violation::protocol("a publish with neither topic nor topic alias"));
            }
            None => self.topics.key(publish.topic),
        };
        let token = match publish.id {
            None => None,
            Some(id) => {
                let token = self.expect(version, publish.qos, id)?;
                if token.is_none() && !self.answers.memory.take_unpublished(id) {
                    return Ok(None);
                }
                token
            }
        };
        let payload = Bytes::copy_from_slice(publish.payload);
        let packet = publish.id.filter(|_| publish.qos == 2 && self.session_expiry > 0);
        let record = facts.record(self.source, token, key, payload, now);
        Ok(Some(Offered { packet, ..record }))
    }

    /// Notes a publish that is to be acknowledged; `None` for one that was offered before.
    fn expect(&mut self, version: Version, qos: u8, id: u16) -> Result<Option<Token>, Violation> {
        let maximum = usize::from(self.limits.receive_maximum);
        let known = if qos == 2 { self.answers.memory.find(id) } else { None };
        let is_counted = known.is_some_and(|(is_here, _)| is_here);
        // A client that repeats itself without end is stopped as well.
        let is_full = !is_counted && self.answers.open() >= maximum;
        if version == Version::V5 && (is_full || self.answers.len() >= 2 * maximum) {
            return Err(Violation::new(
                Reason::ReceiveMaximumExceeded,
                "more unanswered publishes than the receive maximum",
            ));
        }
        if qos == 1 {
            return Ok(Some(self.answers.expect(id)));
        }
        if known.is_none() && self.answers.memory.len() >= UNRELEASED_MAX {
            return Err(Violation::new(
                Reason::ReceiveMaximumExceeded,
                "more than 16384 publishes with QoS 2 that are not released",
            ));
        }
        Ok(self.answers.expect_once(id))
    }

    /// Takes a PUBREL. Where the session outlives the connection the node must know of it before it is
    /// answered: else a crash would bring the identifier back, and swallow the next publish under it.
    pub(super) fn release(
        &mut self,
        version: Version,
        id: u16,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        match self.answers.memory.release(id) {
            ReleaseOutcome::Done if self.session_expiry > 0 => effects.releases.push(id),
            ReleaseOutcome::Done => self.released(&[id], &mut effects.out),
            ReleaseOutcome::Again => {}
            ReleaseOutcome::Unknown => {
                let before = effects.out.len();
                write::unknown_released(&mut effects.out, version, id);
                self.fits(before, &mut effects.out)?;
            }
            ReleaseOutcome::Early => {
                return Err(Violation::protocol("a release of a publish that is not answered yet"));
            }
        }
        Ok(())
    }

    /// Answers PUBRELs: their identifiers are free.
    pub fn released(&mut self, ids: &[u16], out: &mut Vec<u8>) {
        for &id in ids {
            if self.answers.memory.released(id) {
                write::taken(out, write::PUBCOMP, id);
            }
        }
    }

    /// Notes the node's answer to a publish, without writing anything yet.
    pub fn answer(&mut self, token: Token, result: Result<(), RefuseReason>) {
        self.answers.answer(token, result);
    }

    /// Forgets publishes that were never offered: the client sends them again.
    pub fn withdraw(&mut self, records: &mut Vec<Offered>) {
        for token in records.drain(..).filter_map(|record| record.token) {
            self.answers.answer(token, Err(RefuseReason::Stopping));
        }
    }

    /// Subscribers did not get these: the client hears nothing of them, and they are published when they come again.
    pub fn take_back(&mut self, again: &mut Vec<Offered>) {
        for id in again.drain(..).filter_map(|record| record.packet) {
            self.answers.memory.is_not_published(id);
        }
    }

    /// Writes the acknowledgements that are due, in the order of the publishes.
    ///
    /// # Errors
    /// A publish was refused and the client's version can be told only by closing.
    pub fn acknowledge(&mut self, out: &mut Vec<u8>) -> Result<(), End> {
        while let Some((id, kind, result)) = self.answers.next() {
            let is_new = self.version == Some(Version::V5);
            let first = if kind == AckKind::AtLeastOnce { write::PUBACK } else { write::PUBREC };
            match result {
                // ReleaseOutcome in the meantime: its PUBREC was written by an earlier connection.
                Ok(()) if kind == AckKind::Again && self.answers.memory.find(id).is_none() => {}
                Ok(()) if kind == AckKind::Again && self.answers.memory.is_unpublished(id) => {}
                Ok(()) => write::taken(out, first, id),
                Err(reason) if is_new => {
                    self.forget(kind, id);
                    write::not_taken(out, first, id, refusal(reason), self.words(reason.name()));
                }
                // A node that stops may take it in its next life.
                Err(reason)
                    if self.limits.refused == Refused::Drop && reason != RefuseReason::Stopping =>
                {
                    self.dropped.push(reason);
                    if kind != AckKind::AtLeastOnce {
                        self.answers.memory.accept(id);
                    }
                    write::taken(out, first, id);
                }
                Err(reason) => {
                    self.forget(kind, id);
                    self.phase = Phase::Ended;
                    return Err(End::Refused { id, reason });
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self, kind: AckKind, id: u16) {
        if kind != AckKind::AtLeastOnce {
            self.answers.memory.forget(id);
        }
    }

    /// Why publishes were acknowledged though the node refused them (`refused = "drop"`), since the last
    /// time this was asked.
    pub fn take_dropped(&mut self) -> Vec<RefuseReason> {
        std::mem::take(&mut self.dropped)
    }

    /// Whether a refusal reaches the client, by a word or by a close.
    pub fn tells_refusals(&self) -> bool {
        self.version == Some(Version::V5) || self.limits.refused == Refused::Close
    }

    /// Goes on with the session of an earlier connection; called before `opened`.
    pub fn resume(&mut self, memory: Memory<S>) {
        self.is_resumed = true;
        self.answers.resume(memory);
    }

    /// The QoS of a record that was received.
    pub fn qos_of(&self, record: &Offered) -> u8 {
        record.token.map_or(0, |token| self.answers.qos_of(token))
    }

    /// Subscribers get this message once the publish with this token is accepted (QoS 2).
    pub fn hold(&mut self, token: Token, published: Published) {
        self.answers.memory.hold(token, published);
    }

    /// What subscribers are to get now.
    pub fn take_accepted(&mut self) -> Vec<Published> {
        self.answers.memory.take_accepted()
    }

    /// Ends the connection's part: what the session remembers. `None` where it ends with the connection.
    pub fn leave(&mut self) -> Option<Memory<S>> {
        let memory = self.answers.leave();
        if let Some(subscriber) = &memory.subscriber {
            subscriber.disconnect();
        }
        (self.session_expiry > 0).then_some(memory)
    }
}

/// The reason code of a PUBACK or PUBREC (MQTT 5, 3.4.2.1, which has neither "packet too large" nor a
/// shutdown). "No matching subscribers" would be a success, so a record without a rule is "not
/// authorized".
fn refusal(reason: RefuseReason) -> Reason {
    match reason {
        RefuseReason::Full | RefuseReason::TooManyStreams | RefuseReason::Storage => {
            Reason::QuotaExceeded
        }
        RefuseReason::NoRule | RefuseReason::Forbidden => Reason::NotAuthorized,
        RefuseReason::Oversize | RefuseReason::Stopping | RefuseReason::Dropped(_) => {
            Reason::ImplementationSpecific
        }
    }
}
