//! What waits of one class, in its order: messages alone, and runs that a subscriber shares with others.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::message::{Message, MessageReservation, SubscriberMessage};
use crate::message_run::MessageRun;
use crate::subscriptions::Recipient;

/// Bytes that a delivery costs beside its message.
const OVERHEAD: usize = 64;
/// Memory of a place in the outbox or the window, with what a collection has to spare.
pub(super) const PLACE: usize = 112;
/// Memory of a message beside what it says.
pub(super) const MESSAGE: usize = 256;

/// The messages of a run that are still to go to one subscriber.
#[derive(Debug)]
pub(super) struct RunPart {
    pub(super) run: Arc<MessageRun>,
    pub(super) target: Recipient,
    pub(super) charge: MessageReservation,
    /// Messages at its front that are gone.
    gone: usize,
    /// Their memory, which is not free before the last one goes.
    spent: usize,
}

/// A place of the queue.
#[derive(Debug)]
enum Waiting {
    Alone(SubscriberMessage),
    Run(RunPart),
}

/// What a place takes, with what a collection has to spare.
const _: () = assert!(2 * size_of::<Waiting>() <= PLACE);

/// See the file's header.
#[derive(Debug, Default)]
pub(super) struct ClassQueue(VecDeque<Waiting>);

impl ClassQueue {
    /// Its places.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, delivery: SubscriberMessage) {
        self.0.push_back(Waiting::Alone(delivery));
    }

    pub(super) fn push_run(
        &mut self,
        run: Arc<MessageRun>,
        target: Recipient,
        charge: MessageReservation,
    ) {
        self.0.push_back(Waiting::Run(RunPart { run, target, charge, gone: 0, spent: 0 }));
    }

    /// The first message, and the QoS that it goes with.
    pub(super) fn head(&self) -> Option<(&Message, u8)> {
        Some(match self.0.front()? {
            Waiting::Alone(delivery) => (&delivery.message, delivery.qos),
            Waiting::Run(part) => {
                let message = &part.run.messages()[part.gone];
                (message, message.qos.min(part.target.qos))
            }
        })
    }

    /// A run at the front that is not begun, and of which every message is for the subscriber as for any other.
    pub(super) fn whole_run(&self) -> Option<&RunPart> {
        match self.0.front()? {
            Waiting::Run(part) => {
                let Recipient { qos, ids, .. } = &part.target;
                let is_whole = part.gone == 0 && ids.is_none() && part.run.is_plain_for(*qos);
                is_whole.then_some(part)
            }
            Waiting::Alone(_) => None,
        }
    }

    /// Takes what is at the front, all of it.
    pub(super) fn drop_front(&mut self) {
        self.0.pop_front();
    }

    /// Takes the first message at a place; `spent` is the memory of messages that are gone and whose runs are not.
    pub(super) fn take(&mut self, place: usize, spent: &mut usize) -> Option<SubscriberMessage> {
        if let Waiting::Run(part) = self.0.get_mut(place)? {
            let delivery = part.take();
            if part.gone < part.run.messages().len() {
                let more = cost(&delivery) + MESSAGE;
                part.spent += more;
                *spent += more;
            } else {
                *spent -= part.spent;
                self.0.remove(place);
            }
            return Some(delivery);
        }
        match self.0.remove(place)? {
            Waiting::Alone(delivery) => Some(delivery),
            Waiting::Run(_) => None,
        }
    }

    /// The first place of what is not of the journal.
    pub(super) fn first_free(&self) -> Option<usize> {
        self.0.iter().position(|place| match place {
            Waiting::Alone(delivery) => delivery.number == 0,
            Waiting::Run(_) => true,
        })
    }

    /// Takes out what is of the journal.
    pub(super) fn give_back(&mut self, mut returned: impl FnMut(&SubscriberMessage)) {
        self.0.retain(|place| match place {
            Waiting::Alone(delivery) if delivery.number > 0 => {
                returned(delivery);
                false
            }
            _ => true,
        });
    }

    pub(super) fn shrink_to(&mut self, places: usize) {
        self.0.shrink_to(places);
    }
}

impl RunPart {
    fn take(&mut self) -> SubscriberMessage {
        let message = self.run.messages()[self.gone].clone();
        self.gone += 1;
        SubscriberMessage {
            qos: message.qos.min(self.target.qos),
            retain: message.retain && self.target.retain_as_published,
            ids: self.target.ids.clone(),
            charge: self.charge.clone(),
            number: 0,
            message,
        }
    }
}

/// What a delivery costs of an outbox.
pub(super) fn cost(delivery: &SubscriberMessage) -> usize {
    delivery.message.size() + OVERHEAD
}

/// What all deliveries of a run cost.
pub(super) fn cost_of_run(run: &MessageRun) -> usize {
    run.size() + OVERHEAD * run.messages().len()
}
