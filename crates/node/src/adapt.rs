//! Verdicts of adaptation scripts on what waits: BumbleBee, Table I (queue and message).
//!
//! A script runs on the node as it is and sees its own verdicts at once: what it dropped is gone from the
//! queue's length, as the table says. The verdicts come back to the node as edits. A handle of a record that
//! left is harmless: the verdict does nothing and answers with the length as it is.
//!
//! Deviation: the table's `redirect` and `transform` answer nothing; here a redirected record counts as gone
//! from the queue, and one in transformation does not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_types::class::ClassId;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::{Rate, Size};

use crate::io::{Content, Destination, Edit, Input, OutputId, QueueId};
use crate::node::Node;
use crate::rules::RuleId;

/// Whether what is handed to a queue's output gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// It does.
    Up,
    /// Some of the output's connections are down or silent.
    Degraded,
    /// None is up; or of what was handed to any, nothing has been acknowledged for `limits::silence_max`.
    Down,
}

/// What becomes of a record that its script could not look at, or whose verdict cannot be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Otherwise {
    /// It goes as it is: for scripts that only choose when and where.
    #[default]
    Pass,
    /// It is given up: for scripts without which it must not go.
    Drop,
    /// It is held until its scripts have changed, which look at it then; beyond `limits::WITHHELD_MAX` it is given up.
    Hold,
}

/// What a script may know of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueFacts {
    /// The rule of its stream.
    pub rule: RuleId,
    /// Where its records go.
    pub output: OutputId,
    /// Records that wait.
    pub length: u64,
    /// Their bytes.
    pub bytes: Size,
    /// From arrival to confirmation, an average over the newest records; `None` before the first one.
    pub latency: Option<Duration>,
    /// Bytes/s that its uplink carries beside more urgent classes; zero where it is down.
    pub bandwidth: Rate,
    /// Whether it can send.
    pub state: QueueState,
    /// Of its uplink: the newest round trip.
    pub rtt: Option<Duration>,
    /// The shortest.
    pub min_rtt: Option<Duration>,
    /// Bytes handed over and not acknowledged.
    pub in_flight: Size,
    /// Bytes that may be.
    pub window: Size,
    /// The class that serves it.
    pub class: ClassId,
    /// The rate that a script holds it to; `None` where none does.
    pub rate: Option<Rate>,
}

/// The verdicts of one run of a script.
#[derive(Debug, Default)]
pub struct Verdicts {
    edits: Vec<(QueueId, Edit)>,
    otherwise: Otherwise,
    gone: BTreeSet<DeliveryId>,
    /// What the queues' lengths are beside what the node knows.
    changes: BTreeMap<QueueId, i64>,
}

impl Verdicts {
    /// Those of a script that treats what it fails on like this.
    pub fn new(otherwise: Otherwise) -> Self {
        Verdicts { otherwise, ..Verdicts::default() }
    }

    /// Records of a queue, what was decided so far included.
    pub fn length(&self, node: &Node, queue: QueueId) -> u64 {
        let change = self.changes.get(&queue).copied().unwrap_or_default();
        node.queue_length(queue).saturating_add_signed(change)
    }

    /// Whether a verdict took this record out of its queue.
    pub fn is_gone(&self, id: DeliveryId) -> bool {
        !self.gone.is_empty() && self.gone.contains(&id)
    }

    /// What waits in a queue and is not gone, late records first, each list from its front.
    pub fn messages<'a>(
        &'a self,
        node: &'a Node,
        queue: QueueId,
    ) -> impl Iterator<Item = DeliveryId> + 'a {
        node.waiting(queue).filter(|id| !self.gone.contains(id))
    }

    /// Whether a verdict on this record can still have an effect.
    pub fn is_waiting(&self, node: &Node, queue: QueueId, id: DeliveryId) -> bool {
        !self.gone.contains(&id) && node.is_waiting(queue, id)
    }

    /// `drop()`: gives the record up. Answers with the queue's length.
    pub fn drop(&mut self, node: &Node, queue: QueueId, id: DeliveryId) -> u64 {
        self.take(node, queue, id, Edit::Drop(id));
        self.length(node, queue)
    }

    /// `insert(msg)`: adds a record after this one. Answers with the queue's length.
    pub fn insert(
        &mut self,
        node: &Node,
        queue: QueueId,
        after: DeliveryId,
        content: Content,
    ) -> u64 {
        if self.push(node, queue, after, Edit::Insert(after, content)) {
            *self.changes.entry(queue).or_default() += 1;
        }
        self.length(node, queue)
    }

    /// `redirect(dst)`: sends the record by another output.
    pub fn redirect(&mut self, node: &Node, queue: QueueId, id: DeliveryId, to: OutputId) {
        self.take(node, queue, id, Edit::Redirect(id, Destination::Output(to)));
    }

    /// `moveToFront()`: the record goes next.
    pub fn move_to_front(&mut self, node: &Node, queue: QueueId, id: DeliveryId) {
        self.push(node, queue, id, Edit::MoveFront(id));
    }

    /// `moveToBack()`: the record goes last.
    pub fn move_to_back(&mut self, node: &Node, queue: QueueId, id: DeliveryId) {
        self.push(node, queue, id, Edit::MoveBack(id));
    }

    /// Sends something else under the record's identity.
    pub fn replace(&mut self, node: &Node, queue: QueueId, id: DeliveryId, content: Content) {
        self.guard(node, queue, id);
        self.push(node, queue, id, Edit::Replace(id, content));
    }

    /// `transform(args)`: has an endpoint work on the payload.
    pub fn transform(
        &mut self,
        node: &Node,
        queue: QueueId,
        id: DeliveryId,
        endpoint: u16,
        ordered: bool,
    ) {
        self.guard(node, queue, id);
        self.push(node, queue, id, Edit::Transform { id, endpoint, ordered });
    }

    /// The record must not go as it is where what follows cannot be done.
    fn guard(&mut self, node: &Node, queue: QueueId, id: DeliveryId) {
        if self.otherwise != Otherwise::Pass {
            self.push(node, queue, id, Edit::Guard(id, self.otherwise));
        }
    }

    /// What the node is to be told, in the order of the verdicts.
    pub fn inputs(self) -> Vec<Input> {
        let mut inputs: Vec<Input> = Vec::new();
        for (to, edit) in self.edits {
            match inputs.last_mut() {
                Some(Input::Edits { queue, operations, .. }) if *queue == to => {
                    operations.push(edit);
                }
                _ => {
                    inputs.push(Input::Edits { queue: to, generation: 0, operations: vec![edit] });
                }
            }
        }
        inputs
    }

    /// A verdict after which the record is not in the queue any more.
    fn take(&mut self, node: &Node, queue: QueueId, id: DeliveryId, edit: Edit) {
        if self.push(node, queue, id, edit) {
            self.gone.insert(id);
            *self.changes.entry(queue).or_default() -= 1;
        }
    }

    fn push(&mut self, node: &Node, queue: QueueId, id: DeliveryId, edit: Edit) -> bool {
        let is_waiting = self.is_waiting(node, queue, id);
        if is_waiting {
            self.edits.push((queue, edit));
        }
        is_waiting
    }
}
