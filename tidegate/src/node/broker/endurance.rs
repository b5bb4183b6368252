//! A subscriber whose session outlives the process: what the journal hears of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_broker::DeliveryNews;
use tidegate_broker::journal::{Note, SessionNote};

use super::seat::Subscriber;

impl Subscriber {
    /// Begins, or goes on with, a session that outlives the process: the journal hears of it, and, where its client `waits`
    /// for that, the client of nothing before that is safe.
    pub fn endure(&self, note: SessionNote, waits: bool) {
        self.seat.is_noted.store(true, Ordering::Relaxed);
        if note.expiry > 0 {
            self.seat.is_durable.store(true, Ordering::Relaxed);
        }
        let note = Note::Session(Box::new(note));
        match self.hub.journal() {
            Some(journal) if !waits => journal.write_soon(&note),
            _ => self.write(&note),
        }
    }

    /// Its client is away until the session ends, or its will is due.
    pub fn away(&self, lasting: Duration, will: Option<Duration>) {
        let Some(journal) = self.hub.journal().filter(|_| self.seat.is_noted()) else { return };
        let mut pen = journal.pen();
        let now = pen.wall();
        let Some(kept) = pen.ledger().session(self.id()).filter(|_| !pen.is_frozen()) else {
            return;
        };
        let after = |span: Duration| {
            now.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)).max(1)
        };
        let mut note = kept.note.clone();
        note.ends = after(lasting);
        note.will = note.will.filter(|_| will.is_some());
        if let (Some(note), Some(delay)) = (&mut note.will, will) {
            note.due = after(delay);
        }
        pen.write(&Note::Session(Box::new(note)));
    }

    /// Writes something that must be safe before the next word to its client.
    pub(crate) fn write(&self, note: &Note) {
        if let Some(journal) = self.hub.journal() {
            self.seat.mark.store(journal.write(note), Ordering::Relaxed);
        }
    }

    /// What the journal is to hear of its deliveries.
    pub fn note(&self, news: DeliveryNews) {
        let Some(journal) = self.hub.journal() else { return };
        let DeliveryNews { done, flights, returned } = news;
        if !returned.is_empty() {
            journal.change(|ledger| ledger.give_back(self.id(), &returned));
        }
        let mut pen = journal.pen();
        if !flights.is_empty() {
            pen.write(&Note::Flights(self.id(), flights));
            self.seat.mark.store(pen.urge(), Ordering::Relaxed);
        }
        if !done.is_empty() {
            pen.write(&Note::Done(self.id(), done));
        }
    }
}
