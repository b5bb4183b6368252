//! A turn of a connection: what can be done without waiting for the client.

use tidegate_broker::journal::Note;

use super::Connection;
use super::leaving::Leaving;
use super::local::others_first;
use crate::input::mqtt::clients::Line;
use crate::input::mqtt::session::{End, SessionStep as Step};
use crate::input::mqtt::terms::Orders;
use crate::node::contract::Source;

/// What a turn has come to.
pub(super) struct Turn {
    pub(super) step: Step,
    /// Nothing more may be offered after it.
    pub(super) held: bool,
    /// There is more to deliver.
    pub(super) has_more: bool,
}

impl Connection<'_> {
    /// Does what can be done without waiting for the client.
    pub(super) async fn turn(
        &mut self,
        Line { source, paused }: &mut Line,
        orders: &Orders,
        leaving: &mut Leaving<'_>,
    ) -> Result<Turn, End> {
        if let Some(terms) = orders.take_terms() {
            self.review(&terms)?;
        }
        let step = if self.is_held(*paused) { Step::Wait } else { self.receive(source.now()) };
        self.take_step(source).await?;
        if let Step::Ask(request) = &step
            && self.ask(request)
        {
            self.begin_session(source, paused).await?;
        }
        while let Some(notice) = source.try_notice() {
            self.heed(notice, paused);
        }
        let acknowledged = self.acknowledge();
        // Who leaves gets no messages any more: they are its next connection's.
        let has_more = !leaving.is_so() && self.deliver(source.now());
        self.flush().unwrap_or_else(|end| self.unheard(end, leaving));
        acknowledged?;
        if let Some(reference) = self.referral.take_if(|_| self.session.unanswered() == 0) {
            return Err(End::Elsewhere(reference));
        }
        // What began the turn may have ended in it: a pause and its end can come together.
        Ok(Turn { step, held: self.is_held(*paused), has_more })
    }

    /// Nothing more may be offered.
    fn is_held(&self, paused: bool) -> bool {
        paused || self.crowded.is_some() || self.referral.is_some()
    }

    /// Does what was received: subscribers here get it, and the node is offered it.
    pub(super) async fn take_step(&mut self, source: &Source) -> Result<(), End> {
        if !self.effects.records.is_empty() && self.buffer.lets_others_first() {
            others_first().await;
        }
        if !self.effects.records.is_empty() {
            self.shared.options.clients.traffic().published(self.effects.records.len());
        }
        self.sift();
        if let Some(journal) = self.door.hub().journal().filter(|_| !self.effects.again.is_empty())
        {
            journal.clone().ready().await;
            self.publish_again();
        }
        self.admit(source).await?;
        if !self.effects.records.is_empty() {
            let records = &mut self.effects.records;
            source.offer_all(records).await.map_err(|_| End::Stopping)?;
        }
        if !self.effects.releases.is_empty() {
            if let Some(subscriber) = self.session.subscriber() {
                subscriber.write(&Note::Released(subscriber.id(), self.effects.releases.clone()));
            }
            let releases = &mut self.effects.releases;
            source.release(releases).await.map_err(|_| End::Stopping)?;
        }
        Ok(())
    }

    /// Writes the answers that are due.
    pub(super) fn acknowledge(&mut self) -> Result<(), End> {
        let acknowledged = self.session.acknowledge(&mut self.effects.out);
        for reason in self.session.take_dropped() {
            self.shared.intake.counts().dropped(reason.name());
        }
        self.publish_accepted();
        acknowledged
    }
}
