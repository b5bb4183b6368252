//! What a connection owes the journal of sessions: no word to the client before what it tells is safe.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::Arc;

use tidegate_broker::Message;
use tidegate_broker::journal::{SessionNote, WillNote};
use tidegate_types::class::ClassId;
use tidegate_types::headers::RETAIN;
use tidegate_types::record::SourceId;
use tidegate_types::units::Time;

use super::arrival::payer;
use super::{Connection, KEPT, failed};
use crate::input::mqtt::session::End;
use crate::node::broker::Payer;
use crate::node::journal::Journal;

/// Bytes that may wait for the journal until the client is not read any more.
const HELD_MAX: usize = 64 * 1024;

/// Words to the client, in the order of writing, and what must be safe before each of them.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Bytes at the front that may be written.
    free: usize,
    /// Ends of what follows, and the marks that must be safe before.
    closed: VecDeque<(usize, u64)>,
}

impl Gates {
    /// So many bytes are to be written, of which the last ones must not go before `mark` is safe. Says how many may go.
    pub(super) fn open(&mut self, end: usize, mark: u64, journal: &Journal) -> usize {
        let known = self.closed.back().map_or(self.free, |(end, _)| *end);
        if end > known {
            match self.closed.back_mut() {
                Some((last, of)) if *of >= mark => *last = end,
                _ => self.closed.push_back((end, mark)),
            }
        }
        while let Some((end, _)) = self.closed.front().filter(|(_, mark)| journal.is_safe(*mark)) {
            self.free = *end;
            self.closed.pop_front();
        }
        self.free
    }

    /// So many bytes are written.
    pub(super) fn written(&mut self, count: usize) {
        self.free -= count;
        self.closed.iter_mut().for_each(|(end, _)| *end -= count);
    }

    /// Whether something may be written that the client does not take.
    pub(super) fn has_free(&self) -> bool {
        self.free > 0
    }

    /// The mark that the last word waits for.
    pub(super) fn last(&self) -> Option<u64> {
        self.closed.back().map(|(_, mark)| *mark)
    }

    /// The next mark that is waited for.
    pub(super) fn awaited(&self) -> Option<u64> {
        self.closed.front().map(|(_, mark)| *mark)
    }
}

/// Waits until a mark is safe, for ever where there is none.
pub(super) async fn safe(journal: Option<&Arc<Journal>>, mark: Option<u64>) {
    match (journal, mark) {
        (Some(journal), Some(mark)) => journal.safe(mark).await,
        _ => pending().await,
    }
}

impl Connection<'_> {
    /// What must be safe before anything that is written now.
    fn mark(&mut self) -> u64 {
        let seat = self.session.subscriber().map_or(0, |subscriber| subscriber.seat().mark());
        self.mark.max(seat).max(self.door.publisher().mark())
    }

    /// How much of what is to be written may go.
    pub(super) fn free(&mut self) -> usize {
        let end = self.effects.out.len();
        if self.door.hub().journal().is_none() {
            return end;
        }
        let mark = self.mark();
        self.door.hub().journal().map_or(end, |journal| self.gates.open(end, mark, journal))
    }

    /// So many bytes are written.
    pub(super) fn has_written(&mut self, count: usize) {
        if self.door.hub().journal().is_some() {
            self.gates.written(count);
        }
    }

    /// Whether the client does not take what it may have.
    pub(super) fn has_words(&self) -> bool {
        match self.door.hub().journal() {
            Some(_) => self.gates.has_free(),
            None => !self.effects.out.is_empty(),
        }
    }

    /// Whether so much waits for the journal that the client is not read.
    pub(super) fn holds_much(&self) -> bool {
        self.gates.awaited().is_some() && self.effects.out.len() > HELD_MAX
    }

    /// Writes what the socket takes now.
    pub(super) fn flush(&mut self) -> Result<(), End> {
        let mut free = self.free();
        while free > 0 || self.stream.has_to_write() {
            match self.stream.try_write(&self.effects.out[..free]) {
                Ok(written) => {
                    drop(self.effects.out.drain(..written));
                    free -= written;
                    self.has_written(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(failed(error)),
            }
        }
        let out = &mut self.effects.out;
        if out.is_empty() && out.capacity() > KEPT {
            *out = Vec::new();
        }
        Ok(())
    }

    /// Before the client is let in: the journal knows its session and its will, and the end of an older one.
    pub(super) fn endure(&mut self, client: &Arc<str>) {
        let Some(journal) = self.door.hub().journal().cloned() else { return };
        let expiry = self.session.session_expiry();
        let will = self.session.will().map(|(will, delay)| {
            let record = will.clone().record(SourceId(0), Time::ZERO);
            let retain = record.properties.find(RETAIN).is_some_and(|value| value == "1");
            let message = Arc::new(Message {
                topic: record.key,
                payload: record.payload,
                properties: record.properties,
                qos: will.qos(),
                retain,
                arrived: Time::ZERO,
                expires: None,
                class: ClassId(0),
                deadline: Time::ZERO,
                source_unix_ns: record.source_unix_ns,
                meter: None,
            });
            let nanos =
                |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
            WillNote { message, ttl: record.ttl.map(nanos), delay: nanos(delay), due: 0 }
        });
        // While the disk takes nothing, who is promised nothing new comes in: it may take what fills the disk.
        let is_promised = will.is_some() || !expiry.is_zero() && !self.session.is_resumed();
        let waits = is_promised || !journal.is_failing();
        let is_noted = self.session.subscriber().is_some_and(|one| one.seat().is_noted());
        if !expiry.is_zero() || will.is_some() || is_noted {
            self.take_seat(client);
            let user = self.grants.user().map(Into::into);
            let payer = payer(self.grants.user(), self.peer.ip()).into();
            if let Some(subscriber) = self.session.subscriber() {
                let note = SessionNote {
                    session: subscriber.id(),
                    client: client.clone(),
                    user,
                    payer,
                    expiry: u32::try_from(expiry.as_secs()).unwrap_or(u32::MAX),
                    ends: 0,
                    will,
                };
                subscriber.endure(note, waits);
            }
        }
        if waits {
            self.mark = journal.pen().urge();
        }
    }

    /// Gives the session its place at the broker, if it has none.
    pub(super) fn take_seat(&mut self, client: &Arc<str>) {
        if self.session.subscriber().is_some() {
            return;
        }
        let hub = self.door.hub();
        let user = payer(self.grants.user(), self.peer.ip());
        let subscriptions = hub.subscriptions_of(&user, self.quota.subscriptions);
        let payer = Payer { client: client.clone(), account: self.account.clone(), subscriptions };
        let subscriber = hub.subscriber(&payer);
        // What it publishes with QoS 2 is known by its packet identifier from the first one on.
        self.door.publisher().speak_for(subscriber.id());
        self.session.set_subscriber(subscriber);
    }

    /// QoS 2 publishes that a crash kept from subscribers.
    pub(super) fn publish_again(&mut self) {
        for record in std::mem::take(&mut self.effects.again) {
            let publisher = self.door.publisher();
            let message = publisher.message(&record, 2);
            publisher.publish_once((record.packet, message));
        }
    }
}
