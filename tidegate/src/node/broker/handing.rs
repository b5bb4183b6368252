//! Messages of one topic go into the outboxes of who gets them: each is locked and told once.

use std::sync::Arc;

use tidegate_broker::{Message, MessageReservation, MessageRun, Recipient, SubscriberMessage};

use super::gate::Busy;
use super::keeping::{chosen, is_kept};
use super::publisher::Publisher;
use super::seat::Seat;
use super::way::Way;

/// Subscribers that a publisher writes to by itself: for more of them several threads are faster.
const FEW: usize = 8;

/// Messages that are handed out at once.
#[derive(Clone, Copy, Debug)]
struct Handful<'m> {
    messages: &'m [Arc<Message>],
    /// The same, where they are one.
    run: Option<&'m Arc<MessageRun>>,
    /// Bytes of memory.
    footprint: usize,
    /// They go to few subscribers.
    is_for_few: bool,
}

impl<'m> Handful<'m> {
    fn new(
        messages: &'m [Arc<Message>],
        run: Option<&'m Arc<MessageRun>>,
        is_for_few: bool,
    ) -> Self {
        let of_each = || messages.iter().map(|message| message.footprint()).sum();
        let footprint = run.map_or_else(of_each, |run| run.footprint());
        Handful { messages, run, footprint, is_for_few }
    }
}

impl Publisher {
    pub(super) fn hand_out(&mut self, way: &Way) {
        let mut loose = std::mem::take(&mut self.run);
        let account = (way.all.len() > 1).then(|| self.held.account().clone());
        let mut whole = None;
        if !way.all.is_empty() {
            match MessageRun::new(loose, account) {
                Ok(run) => (loose, whole) = (Vec::new(), Some(Arc::new(run))),
                Err(back) => loose = back,
            }
        }
        let run = whole.as_ref().map_or(&loose[..], |run| run.messages());
        let mut waiters = match self.hub.journal() {
            Some(_) => vec![Vec::new(); run.len()],
            None => {
                for message in run.iter().filter(|message| message.retain) {
                    self.hub.retain(message);
                }
                Vec::new()
            }
        };
        if !way.is_empty() {
            self.hub.counts().published(run.len());
        }
        let gate = way.unit.as_ref().map(|(_, gate)| gate);
        for (operator, meter) in &way.operators {
            for message in run {
                operator.clone().take(message, meter, gate.map(Busy::new));
            }
        }
        if let Some((unit, _)) = way.unit.as_ref().filter(|_| self.is_owner)
            && let Some(group) = self.hub.group()
        {
            run.iter().for_each(|message| group.made(message.arrived, *unit, message));
        }
        // Shared by all who get the run.
        let mut charge = MessageReservation::default();
        // Each group's is another one for each message.
        let is_for_few = way.all.len() + way.groups.len() * run.len() <= FEW;
        let handful = Handful::new(run, whole.as_ref(), is_for_few);
        for (seat, target) in &way.all {
            if seat.is_durable() && target.qos > 0 {
                for (message, waiters) in run.iter().zip(&mut waiters) {
                    if message.qos > 0 {
                        waiters.push((seat, target));
                    }
                }
                if run.iter().all(|message| message.qos > 0) {
                    continue;
                }
            }
            self.hand(seat, target, handful, &mut charge);
        }
        for members in &way.groups {
            for (place, message) in run.iter().enumerate() {
                self.turn = self.turn.wrapping_add(1);
                if let Some((seat, target)) = chosen(members, self.turn) {
                    if is_kept(seat, target, message)
                        && let Some(waiters) = waiters.get_mut(place)
                    {
                        waiters.push((seat, target));
                        continue;
                    }
                    let one = Handful::new(std::slice::from_ref(message), None, is_for_few);
                    self.hand(seat, target, one, &mut MessageReservation::default());
                }
            }
        }
        if let Some(journal) = self.hub.journal().cloned() {
            self.keep(&journal, run, waiters);
        }
        self.run = loose;
        self.run.clear();
    }

    /// Puts messages into an outbox.
    fn hand(
        &mut self,
        seat: &Arc<Seat>,
        target: &Recipient,
        Handful { messages, run, footprint, is_for_few }: Handful<'_>,
        charge: &mut MessageReservation,
    ) {
        let mut outbox = seat.outbox();
        if !charge.is_set() && outbox.needs_charge(footprint) {
            // All at once, if they fit: else each is looked at by itself.
            *charge = MessageReservation::of(footprint, self.held.account()).unwrap_or_default();
        }
        let is_whole = !seat.is_durable() || target.qos == 0;
        let run = run.filter(|_| is_whole);
        let whole = run.and_then(|run| outbox.push_run(run, target, charge));
        let is_news = whole.unwrap_or_else(|| {
            let all = messages.iter();
            let all = all.filter(|message| !is_kept(seat, target, message));
            let push = |message: &Arc<Message>| {
                outbox.push(SubscriberMessage {
                    message: message.clone(),
                    qos: message.qos.min(target.qos),
                    retain: message.retain && target.retain_as_published,
                    ids: target.ids.clone(),
                    charge: charge.clone(),
                    number: 0,
                })
            };
            all.map(push).fold(false, |is_news, more| is_news | more)
        });
        let mut times = Vec::new();
        let lent = match is_news && is_for_few {
            true => seat.direct.encode(&mut outbox, &mut times),
            false => None,
        };
        let drops = outbox.take_drops();
        if self.session != Some(seat.id()) && seat.is_crowded(&outbox) {
            self.crowded = Some(seat.clone());
        }
        drop(outbox);
        self.hub.counts().dropped(drops);
        let is_written = lent.is_some_and(|(lent, count)| {
            self.hub.counts().delivered(count);
            self.hub.meters().delivered(&times);
            lent.write()
        });
        if is_news && !is_written {
            seat.ring();
        }
    }
}
