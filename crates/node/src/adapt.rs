//! Verdicts of adaptation scripts on what waits: BumbleBee, Table I (queue and message).
//!
//! A script runs on the node's queues as they are and sees its own verdicts at once: what it dropped is gone from the
//! queue's length, as the table says. The verdicts come back to the node as edits. A handle of a record that
//! left is harmless: the verdict does nothing and answers with the length as it is.
//!
//! Deviation: the table's `redirect` and `transform` answer nothing; here a redirected record counts as gone
//! from the queue, and one in transformation does not.

use std::collections::BTreeMap;
use std::time::Duration;

use slotmap::SparseSecondaryMap;
use tidegate_schedule::queue::{DeliveryKey, Queues};
use tidegate_types::class::ClassId;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::{Rate, Size};

use crate::io::{Content, Destination, Edit, Input, Otherwise, OutputId, QueueId, TcpState};
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
    /// Bytes/s that its uplink carries beside more urgent classes: as it was measured, or as far as is known. Zero
    /// where it is down and only there; `None` where nothing is known.
    pub bandwidth: Option<Rate>,
    /// Whether it can send.
    pub state: QueueState,
    /// The TCP connections of its output, as the kernel sees them together; `None` where there is none.
    pub connections: Option<TcpState>,
    /// The one by which its records go.
    pub connection: Option<TcpState>,
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
    gone: SparseSecondaryMap<DeliveryKey, ()>,
    /// What the queues' lengths are beside what the node knows.
    changes: BTreeMap<QueueId, i64>,
}

impl Verdicts {
    /// Those of a script that treats what it fails on like this.
    pub fn new(otherwise: Otherwise) -> Self {
        Verdicts { otherwise, ..Verdicts::default() }
    }

    /// Records of a queue, what was decided so far included.
    pub fn length(&self, queues: &Queues, queue: QueueId) -> u64 {
        let change = self.changes.get(&queue).copied().unwrap_or_default();
        queues.backlog_of(queue.into()).records().saturating_add_signed(change)
    }

    /// Whether a verdict took this record out of its queue.
    pub fn is_gone(&self, id: DeliveryId) -> bool {
        !self.gone.is_empty() && self.gone.contains_key(id.into())
    }

    /// What waits in a queue and is not gone, late records first, each list from its front.
    pub fn messages<'a>(
        &'a self,
        queues: &'a Queues,
        queue: QueueId,
    ) -> impl Iterator<Item = DeliveryId> + 'a {
        queues.waiting(queue.into()).map(DeliveryId::from).filter(|id| !self.is_gone(*id))
    }

    /// Whether a verdict on this record can still have an effect.
    pub fn is_waiting(&self, queues: &Queues, queue: QueueId, id: DeliveryId) -> bool {
        !self.is_gone(id) && queues.is_waiting_in(queue.into(), id.into())
    }

    /// `drop()`: gives the record up. Answers with the queue's length.
    pub fn drop(&mut self, queues: &Queues, queue: QueueId, id: DeliveryId) -> u64 {
        self.take(queues, queue, id, Edit::Drop(id));
        self.length(queues, queue)
    }

    /// `insert(msg)`: adds a record after this one. Answers with the queue's length.
    pub fn insert(
        &mut self,
        queues: &Queues,
        queue: QueueId,
        after: DeliveryId,
        content: Content,
    ) -> u64 {
        if self.push(queues, queue, after, Edit::Insert(after, content)) {
            *self.changes.entry(queue).or_default() += 1;
        }
        self.length(queues, queue)
    }

    /// `redirect(dst)`: sends the record by another output.
    pub fn redirect(&mut self, queues: &Queues, queue: QueueId, id: DeliveryId, to: OutputId) {
        self.take(queues, queue, id, Edit::Redirect(id, Destination::Output(to)));
    }

    /// `moveToFront()`: the record goes next.
    pub fn move_to_front(&mut self, queues: &Queues, queue: QueueId, id: DeliveryId) {
        self.push(queues, queue, id, Edit::MoveFront(id));
    }

    /// `moveToBack()`: the record goes last.
    pub fn move_to_back(&mut self, queues: &Queues, queue: QueueId, id: DeliveryId) {
        self.push(queues, queue, id, Edit::MoveBack(id));
    }

    /// Sends something else under the record's identity.
    pub fn replace(&mut self, queues: &Queues, queue: QueueId, id: DeliveryId, content: Content) {
        self.guard(queues, queue, id);
        self.push(queues, queue, id, Edit::Replace(id, content));
    }

    /// `transform(args)`: has an endpoint work on the payload.
    pub fn transform(
        &mut self,
        queues: &Queues,
        queue: QueueId,
        id: DeliveryId,
        endpoint: u16,
        ordered: bool,
    ) {
        self.guard(queues, queue, id);
        self.push(queues, queue, id, Edit::Transform { id, endpoint, ordered });
    }

    /// The record must not go as it is where what follows cannot be done.
    fn guard(&mut self, queues: &Queues, queue: QueueId, id: DeliveryId) {
        if self.otherwise != Otherwise::Pass {
            self.push(queues, queue, id, Edit::Guard(id, self.otherwise));
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
                _ => inputs.push(Input::Edits { queue: to, operations: vec![edit] }),
            }
        }
        inputs
    }

    /// A verdict after which the record is not in the queue any more.
    fn take(&mut self, queues: &Queues, queue: QueueId, id: DeliveryId, edit: Edit) {
        if self.push(queues, queue, id, edit) {
            self.gone.insert(id.into(), ());
            *self.changes.entry(queue).or_default() -= 1;
        }
    }

    fn push(&mut self, queues: &Queues, queue: QueueId, id: DeliveryId, edit: Edit) -> bool {
        let is_waiting = self.is_waiting(queues, queue, id);
        if is_waiting {
            self.edits.push((queue, edit));
        }
        is_waiting
    }
}
