//! Runs of messages in an outbox: in one place each, and sent as they are where nothing forbids it.

use std::sync::Arc;

use super::Outbox;
use super::queue::cost_of_run;
use crate::message::MessageReservation;
use crate::message_run::MessageRun;
use crate::subscriptions::Recipient;

impl Outbox {
    /// Puts all messages of a run behind the others of their class, in one place. True where the subscriber is to be
    /// told; `None`, and nothing is done, where not all of it fits: then each message is pushed by itself.
    pub fn push_run(
        &mut self,
        run: &Arc<MessageRun>,
        target: &Recipient,
        charge: &MessageReservation,
    ) -> Option<bool> {
        let (more, cost) = (run.messages().len(), cost_of_run(run));
        let fits = self.count.saturating_add(more) <= self.bounds.count
            && self.held_bytes() + cost <= self.bounds.bytes;
        let is_held = charge.is_set() || !self.needs_charge(run.footprint());
        if !self.is_connected || !fits || !is_held || !self.has_place() {
            return None;
        }
        self.count += more;
        self.bytes += cost;
        self.queue(run.class()).push_run(run.clone(), target.clone(), charge.part());
        Some(std::mem::take(&mut self.is_asleep))
    }

    /// A run that goes now as it is: nothing else waits, and each of its messages is a packet of QoS 0 that says no more
    /// to this subscriber than to others. `take_whole_run` is to follow, or `next`.
    pub fn whole_run(&self) -> Option<&Arc<MessageRun>> {
        let mut queues = self.waiting.iter().filter(|queue| !queue.is_empty());
        let queue = queues.next().filter(|_| !self.window.has_again())?;
        if queues.next().is_some() {
            return None;
        }
        queue.whole_run().map(|part| &part.run)
    }

    /// What `whole_run` said is sent.
    pub fn take_whole_run(&mut self) {
        let queue = self.waiting.iter_mut().find(|queue| !queue.is_empty());
        if let Some(queue) = queue
            && let Some(part) = queue.whole_run()
        {
            self.count -= part.run.messages().len();
            self.bytes -= cost_of_run(&part.run);
            queue.drop_front();
        }
        self.tidy();
    }
}
