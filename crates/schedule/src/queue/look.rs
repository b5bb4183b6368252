//! What stands in the queues, for whoever only looks.

use std::ops::Range;

use tidegate_types::class::ClassId;
use tidegate_types::ids::{OutputId, RuleId};

use super::{Backlog, DeliveryKey, DeliveryState, List, QueueKey, QueueSpec, Queues, Timing};

impl Queues {
    /// What waits in a class for an output.
    #[inline]
    pub fn backlog(&self, class: ClassId, output: OutputId) -> Backlog {
        let group = &self.groups[self.group_at(class, output)];
        Backlog {
            live_records: group.records[Timing::Live as usize],
            late_records: group.records[Timing::Late as usize],
            bytes: group.bytes,
        }
    }

    /// What waits in a class for some outputs, by their index.
    pub fn backlog_over(&self, class: ClassId, outputs: Range<usize>) -> Backlog {
        outputs.fold(Backlog::default(), |all, output| {
            let one = self.backlog(class, OutputId(output as u16));
            Backlog {
                live_records: all.live_records + one.live_records,
                late_records: all.late_records + one.late_records,
                bytes: all.bytes + one.bytes,
            }
        })
    }

    /// Records of a class that wait for some outputs, by their index, and whose deadline has passed: the late ones, and
    /// those that keep their place.
    pub fn overdue_over(&self, class: ClassId, outputs: Range<usize>) -> u64 {
        let groups =
            outputs.map(|output| &self.groups[self.group_at(class, OutputId(output as u16))]);
        groups.map(|group| group.records[Timing::Late as usize] + group.overdue).sum()
    }

    /// Whether a delivery waits in this queue.
    #[inline]
    pub fn is_waiting_in(&self, queue: QueueKey, key: DeliveryKey) -> bool {
        self.deliveries.get(key).is_some_and(|delivery| {
            delivery.queue == queue && matches!(delivery.place(), DeliveryState::Waiting(_))
        })
    }

    /// What waits in one queue; zero for a stale handle.
    pub fn backlog_of(&self, queue: QueueKey) -> Backlog {
        let Some(queue) = self.queues.get(queue) else { return Backlog::default() };
        let [live, late] = &queue.lists;
        Backlog {
            live_records: live.records,
            late_records: late.records,
            bytes: live.bytes + late.bytes,
        }
    }

    /// The oldest delivery of a class on a list, of the records of some rules.
    pub fn oldest_on(
        &self,
        list: &List,
        class: ClassId,
        is_it: impl Fn(DeliveryKey, RuleId) -> bool,
    ) -> Option<DeliveryKey> {
        let mut all = std::iter::successors(list.front, |&key| self.deliveries[key].next);
        let is_meant = |key, spec: &QueueSpec| spec.class == class && is_it(key, spec.rule);
        all.find(|&key| is_meant(key, &self.deliveries[key].spec))
    }

    /// The oldest waiting delivery of a queue.
    #[inline]
    pub fn oldest(&self, queue: QueueKey) -> Option<DeliveryKey> {
        let lists = &self.queues.get(queue)?.lists;
        lists[Timing::Late as usize].front.or(lists[Timing::Live as usize].front)
    }

    /// All waiting deliveries of a queue, late ones first, each list from its front.
    #[inline]
    pub fn waiting(&self, queue: QueueKey) -> impl Iterator<Item = DeliveryKey> + '_ {
        let lists = self.queues.get(queue).map(|queue| queue.lists).unwrap_or_default();
        let fronts = [lists[Timing::Late as usize].front, lists[Timing::Live as usize].front];
        fronts
            .into_iter()
            .flat_map(|front| std::iter::successors(front, |&key| self.deliveries[key].next))
    }

    /// The waiting delivery behind one of the same queue, or the first one; `None` at the end, and where
    /// that one waits no more.
    pub fn waiting_after(
        &self,
        queue: QueueKey,
        before: Option<DeliveryKey>,
    ) -> Option<DeliveryKey> {
        let Some(before) = before else { return self.oldest(queue) };
        let delivery = self.deliveries.get(before).filter(|delivery| delivery.queue == queue)?;
        match delivery.place() {
            DeliveryState::Waiting(Timing::Late) => {
                delivery.next.or(self.queues.get(queue)?.lists[Timing::Live as usize].front)
            }
            DeliveryState::Waiting(Timing::Live) => delivery.next,
            _ => None,
        }
    }

    /// Grows whenever a queue is opened or closed.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// All queues, in the order of their handles.
    #[inline]
    pub fn queues(&self) -> impl Iterator<Item = QueueKey> + '_ {
        self.queues.keys()
    }

    /// All deliveries, waiting or taken, in the order of their handles.
    #[inline]
    pub fn keys(&self) -> impl Iterator<Item = DeliveryKey> + '_ {
        self.deliveries.keys()
    }

    /// How many deliveries are known.
    #[inline]
    pub fn len(&self) -> usize {
        self.deliveries.len()
    }

    /// Whether nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }
}
