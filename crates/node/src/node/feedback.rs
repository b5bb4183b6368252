//! The end of deliveries: what the far end answers, what expires and what is given up. Each gets its fate
//! once, and what nothing needs any more is freed.

use std::sync::Arc;

use tidegate_log::Lever;
use tidegate_schedule::queue::{Delivery, DeliveryKey, DeliveryState};
use tidegate_types::limits::RELAY_ANSWER_MAX;
use tidegate_types::record::{DeliveryId, DropReason, Fate};
use tidegate_types::units::Size;

use super::durability::Ending;
use super::holdings::Held;
use super::{Node, ahead};
use crate::io::{Destination, Event, Output, PathId, PathState, Refusal};

/// Answers.
impl Node {
    /// The far end has these records.
    pub(super) fn confirmed(&mut self, destination: Destination, ids: &[DeliveryId]) {
        ahead::deliveries(&self.base.holdings, ids);
        for &id in ids {
            let key = DeliveryKey::from(id);
            if let Some(number) = self.egress.ended(&mut self.base, destination, key) {
                self.egress.takes_again(&mut self.base, destination);
                self.base.holdings.handed(self.base.now, key, number);
                self.finish(key, Fate::Confirmed);
            }
        }
    }

    /// By which paths of a link these records went.
    pub(super) fn carried(&mut self, ids: &[DeliveryId], by: &Arc<str>) {
        for &id in ids {
            self.deeds.note(&self.base, id.into(), Lever::Path, true, || by.clone());
        }
    }

    /// The far end will not have these records, now or ever.
    pub(super) fn refused(
        &mut self,
        destination: Destination,
        ids: &[DeliveryId],
        reason: Refusal,
    ) {
        for &id in ids {
            let key = DeliveryKey::from(id);
            match reason {
                Refusal::Final(reason) => {
                    if self.egress.ended(&mut self.base, destination, key).is_some() {
                        self.finish(key, Fate::Dropped(reason));
                    }
                }
                Refusal::Retry => {
                    let given_back = self.egress.given_back(&mut self.base, destination, key);
                    let Some(goes_again) = given_back else { continue };
                    self.egress.refused_for_now(self.base.now, destination);
                    if goes_again {
                        self.send_again(key, false);
                    }
                }
            }
        }
    }

    /// A connection came up or went down; what was under way on it is sent again.
    pub(super) fn path_state(&mut self, path: PathId, state: PathState) {
        let (lost, event) = self.egress.path_state(&mut self.base, path, state);
        for key in lost {
            self.send_again(key, true);
        }
        if let Some(event) = event {
            self.base.outbox.report(event);
        }
    }

    /// A whole destination came up or went down.
    pub(super) fn destination_state(&mut self, destination: Destination, up: bool) {
        let Destination::Output(output) = destination else {
            return self.base.unsupported("a destination that is no output");
        };
        for path in self.egress.destination_state(output, up) {
            self.path_state(path, PathState::Down);
        }
    }

    /// Back to the head of its queue, to be sent from its first byte.
    fn send_again(&mut self, key: DeliveryKey, was_lost: bool) {
        self.base.holdings.begin_again(key, was_lost);
        self.come_back(key);
    }

    /// A delivery that was out of its queue is the next of it again; or ends, if a newer record has taken its
    /// place.
    pub(super) fn come_back(&mut self, key: DeliveryKey) {
        if self.base.holdings.is_outdated(key) {
            self.finish(key, Fate::Dropped(DropReason::Superseded));
        } else {
            self.base.holdings.put_back(self.base.now, key);
            self.leave_gone(key);
        }
    }
}

/// Time.
impl Node {
    /// Drops what expired and lets in what waited for room; what waited may have expired meanwhile.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some(key) = self.base.holdings.pop_expired(self.base.now) {
                self.time_is_over(key);
            }
            self.readmit();
            if self.base.holdings.next_expiry().is_none_or(|at| at > self.base.now) {
                break;
            }
        }
    }

    /// A delivery is given up, if it still waits.
    fn time_is_over(&mut self, key: DeliveryKey) {
        if !self.base.holdings.take(key) {
            return self.await_answer(key);
        }
        let content = self.base.holdings.content(key);
        let is_expired =
            content.is_none_or(|record| record.expires.is_some_and(|at| at <= self.base.now));
        let reason = if is_expired { DropReason::Expired } else { DropReason::GivenBack };
        self.finish(key, Fate::Dropped(reason));
    }

    /// What is under way already is finished, for its bytes are spent. But a neighbour's that gets no answer
    /// from the far end goes back a little later, as one that may have arrived.
    fn await_answer(&mut self, key: DeliveryKey) {
        let Some(&Delivery { spec, arrived, .. }) = self.base.holdings.delivery(key) else {
            return;
        };
        if self.base.options.rules.get(spec.rule).relays.is_none() {
            return;
        }
        let until = arrived + RELAY_ANSWER_MAX;
        if self.base.now < until {
            self.base.holdings.expire_at(until, key);
        } else if self.egress.recall(&mut self.base, key) {
            // Of one that is handed over in part, the rest goes first.
            self.finish(key, Fate::Dropped(DropReason::GivenBack));
        }
    }
}

/// The end.
impl Node {
    /// Gives a delivery its fate, once, and frees what nothing needs any more.
    pub(super) fn finish(&mut self, key: DeliveryKey, fate: Fate) {
        let Some(ended) = self.base.holdings.end(self.base.now, key, fate) else {
            return;
        };
        if let Some(leg) = &ended.leg {
            let by = self.egress.carrier(ended.delivery.spec.output);
            let by = by.filter(|_| fate == Fate::Confirmed);
            let deeds = self.deeds.end(&self.base, (key, &ended.delivery), by.is_some());
            self.durability.note_fate(self.base.now, leg, Ending { fate, by, deeds });
        }
        if fate == Fate::Confirmed {
            self.preparation.note_latency(self.base.now, &self.base.options, &ended.delivery);
        }
        if let Some(held) = ended.released {
            self.released(held);
        }
    }

    /// A record of which every delivery has its fate is forgotten: others may have its room.
    fn released(&mut self, held: Held) {
        self.admission.made_room(
            &mut self.base,
            held.stream,
            held.dropped != Some(DropReason::Full),
        );
        self.base.holdings.note_idle(held.stream);
        let verdict = held.verdict();
        if let Some(owed) = held.owed {
            self.base.answer(owed.reply, verdict);
            self.durability.left_ahead(owed.ahead, held.size);
        }
        self.check_drained();
    }

    /// Drops a record whose sender is gone, unless some of it is under way.
    pub(super) fn give_up(&mut self, key: DeliveryKey) {
        let Some(delivery) = self.base.holdings.delivery(key) else { return };
        let is_unsent = delivery.progress.picked == Size::ZERO;
        if is_unsent && delivery.place() != DeliveryState::Unconfirmed {
            self.finish(key, Fate::Dropped(DropReason::Withdrawn));
        }
    }

    /// Accepts nothing more.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
        self.base.refuse_blocked();
        self.check_drained();
    }

    /// Gives up everything that is held, but for what the log has: that stays there and is sent after the
    /// next start.
    pub(super) fn discard(&mut self) {
        self.is_stopping = true;
        self.base.refuse_blocked();
        self.egress.recall_all(&mut self.base);
        let keys: Vec<DeliveryKey> = self.base.holdings.queues().keys().collect();
        for key in keys {
            let Some(&Delivery { record, progress, .. }) = self.base.holdings.delivery(key) else {
                continue;
            };
            if progress.picked > Size::ZERO && !progress.is_handed() {
                self.base.outbox.push(Output::Cancel(key.into()));
            }
            match self.base.holdings.logged_of(record) {
                Some(_) => self.leave(record),
                None => self.finish(key, Fate::Dropped(DropReason::Stopped)),
            }
        }
        self.check_drained();
    }

    /// A node that stops is drained when nothing is in memory and the log knows every fate.
    pub(super) fn check_drained(&mut self) {
        let is_empty = self.is_stopping && self.base.holdings.is_empty();
        if is_empty && self.durability.log().is_settled() && !self.is_drained {
            self.is_drained = true;
            self.base.outbox.report(Event::Drained);
        }
    }
}
