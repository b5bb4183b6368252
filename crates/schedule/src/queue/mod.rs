//! The mutable queues: records wait here and nowhere else.
//!
//! One queue per (stream, destination). Queues of one class and one output form a *group*, which knows
//! at any time the queue whose next record is the most urgent one. A queue has two lists: *live*
//! records, and *late* ones past their deadline, so that an old backlog never overtakes fresh data.
//! Insert, move and drop are O(1) in the list and O(log queues) in the group. Byte counts are exact.

mod change;
mod delivery;
mod due;
mod group;
mod handle;
mod hold;
mod list;
mod look;
mod pace;
mod spec;

use std::collections::BTreeSet;

use slotmap::SlotMap;
use tidegate_types::class::ClassId;
use tidegate_types::ids::{OutputId, RuleId};
use tidegate_types::units::Time;

pub use self::delivery::{Delivery, DeliveryState, Progress, Timing};
use self::group::{QueueGroup, Rank};
pub use self::handle::{DeliveryKey, QueueKey, RecordKey};
use self::list::Due;
pub use self::list::{List, ListEnd};
use self::pace::Pace;
pub use self::spec::{Backlog, MoveTarget, QueueSpec, Ranking};
use crate::discipline::Discipline;

#[derive(Debug)]
struct Queue {
    spec: QueueSpec,
    lists: [List; 2],
    /// What the group's index holds for this queue: to be found again for removal.
    ranked: [Option<Rank>; 2],
    /// What the index of deadlines holds for each list.
    due: [Option<Due>; 2],
    pace: Pace,
}

impl Queue {
    fn next_end(&self) -> ListEnd {
        match self.spec.discipline {
            Discipline::Fifo | Discipline::NewestOnly => ListEnd::Front,
            Discipline::Lifo => ListEnd::Back,
        }
    }
}

/// All queues of a node.
#[derive(Debug)]
pub struct Queues {
    ranking: Ranking,
    classes: usize,
    deliveries: SlotMap<DeliveryKey, Delivery>,
    queues: SlotMap<QueueKey, Queue>,
    groups: Vec<QueueGroup>,
    /// Queues that must wait for their own rate, by the time when they need not any more.
    held: BTreeSet<(Time, QueueKey)>,
    /// For each list the next deadline that may pass.
    due: BTreeSet<Due>,
    /// How often a queue was opened or closed.
    changes: u64,
}

impl Queues {
    /// No queue yet, for so many classes and outputs.
    pub fn new(ranking: Ranking, classes: usize, outputs: usize) -> Self {
        let (deliveries, queues) = (SlotMap::with_key(), SlotMap::with_key());
        let (groups, held, due) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut all =
            Queues { ranking, classes, deliveries, queues, groups, held, due, changes: 0 };
        all.extend(outputs);
        all
    }

    /// There are so many outputs now, no fewer than before.
    pub fn extend(&mut self, outputs: usize) {
        self.groups.resize_with(self.classes * outputs, QueueGroup::default);
    }

    #[inline]
    fn group_at(&self, class: ClassId, output: OutputId) -> usize {
        usize::from(output.0) * self.classes + class.index()
    }

    /// A new, empty queue.
    pub fn open(&mut self, spec: QueueSpec) -> QueueKey {
        let (lists, pace) = (Default::default(), Pace::default());
        let queue = Queue { spec, lists, ranked: [None; 2], due: [None; 2], pace };
        self.changes += 1;
        self.queues.insert(queue)
    }

    /// Forgets an empty queue. Panics if it holds records: forgetting one would be a loss.
    pub fn close(&mut self, queue: QueueKey) {
        self.set_rate(Time::ZERO, queue, None);
        if let Some(gone) = self.queues.remove(queue) {
            for due in gone.due.into_iter().flatten() {
                self.due.remove(&due);
            }
            self.changes += 1;
            assert!(gone.lists.iter().all(|list| list.records == 0), "a closed queue is empty");
        }
    }

    /// Adds a delivery to its queue, as the newest.
    #[inline]
    pub fn insert(&mut self, delivery: Delivery) -> DeliveryKey {
        let key = self.deliveries.insert(delivery);
        self.link(key, Timing::Live, ListEnd::Back);
        key
    }

    /// Adds a delivery whose time is past, or that was read back from disk: as the newest of the late
    /// ones, unless its queue keeps strict order.
    pub fn insert_late(&mut self, delivery: Delivery) -> DeliveryKey {
        let is_strict = self.queues[delivery.queue].spec.strict_order;
        let timing = match self.ranking {
            Ranking::Deadline if !is_strict => Timing::Late,
            _ => Timing::Live,
        };
        let key = self.deliveries.insert(delivery);
        self.link(key, timing, ListEnd::Back);
        key
    }

    /// The delivery, if the handle is not stale.
    #[inline]
    pub fn get(&self, key: DeliveryKey) -> Option<&Delivery> {
        self.deliveries.get(key)
    }

    /// The delivery, for its progress to be changed; its size and place are changed by the queues only.
    #[inline]
    pub fn get_mut(&mut self, key: DeliveryKey) -> Option<&mut Delivery> {
        self.deliveries.get_mut(key)
    }

    /// Its place among the records of its class: the smaller goes first.
    #[inline]
    pub fn rank_of(&self, delivery: &Delivery) -> (u64, u64) {
        let first = match self.ranking {
            Ranking::Deadline => delivery.deadline.as_nanos(),
            Ranking::Arrival => delivery.order,
        };
        (first, delivery.order)
    }

    /// Takes a waiting delivery out of its list; it stays known until `forget`.
    /// Answers false for a stale handle or one that does not wait.
    #[inline]
    pub fn take(&mut self, key: DeliveryKey) -> bool {
        match self.deliveries.get(key).map(Delivery::place) {
            Some(DeliveryState::Waiting(timing)) => {
                self.unlink(key, timing);
                true
            }
            _ => false,
        }
    }

    /// Puts a taken delivery back as the next of its queue. Late ones stay late.
    pub fn put_back(&mut self, key: DeliveryKey, now: Time) {
        let delivery = &mut self.deliveries[key];
        assert_eq!(delivery.place, DeliveryState::Taken, "only a taken delivery can be put back");
        let queue = &self.queues[delivery.queue];
        delivery.spec = queue.spec;
        let delivery = &self.deliveries[key];
        let is_late = self.is_past(delivery.deadline, now);
        let timing = if is_late && !queue.spec.strict_order { Timing::Late } else { Timing::Live };
        self.link(key, timing, queue.next_end());
    }

    /// Adds a taken delivery to the list of what its connection has sent and nobody confirmed, as the
    /// newest.
    #[inline]
    pub fn await_fate(&mut self, list: &mut List, key: DeliveryKey) {
        let delivery = &mut self.deliveries[key];
        assert_eq!(
            delivery.place,
            DeliveryState::Taken,
            "only a taken delivery can be unconfirmed"
        );
        delivery.place = DeliveryState::Unconfirmed;
        list.push(&mut self.deliveries, key, ListEnd::Back);
    }

    /// Takes an unconfirmed delivery off its connection's list; false if it is not unconfirmed.
    #[inline]
    pub fn take_unconfirmed(&mut self, list: &mut List, key: DeliveryKey) -> bool {
        let Some(delivery) = self.deliveries.get_mut(key) else { return false };
        if delivery.place != DeliveryState::Unconfirmed {
            return false;
        }
        delivery.place = DeliveryState::Taken;
        list.unlink(&mut self.deliveries, key);
        true
    }

    /// Forgets a delivery, waiting or taken, and returns it; `None` for a stale handle.
    #[inline]
    pub fn forget(&mut self, key: DeliveryKey) -> Option<Delivery> {
        match self.deliveries.get(key)?.place {
            DeliveryState::Waiting(timing) => self.unlink(key, timing),
            DeliveryState::Taken => {}
            DeliveryState::Unconfirmed => {
                unreachable!("it is taken off its connection's list first")
            }
        }
        self.deliveries.remove(key)
    }

    /// What a queue is.
    pub fn spec(&self, queue: QueueKey) -> Option<QueueSpec> {
        self.queues.get(queue).map(|queue| queue.spec)
    }

    /// The most urgent ready records of a class for an output: the live one and the late one. Live records
    /// found past their deadline move to the late lists first.
    pub fn heads(
        &mut self,
        class: ClassId,
        output: OutputId,
        now: Time,
    ) -> [Option<DeliveryKey>; 2] {
        self.heads_of((class, output), now, |_| true)
    }

    /// The same of the records of some rules.
    pub fn heads_of(
        &mut self,
        (class, output): (ClassId, OutputId),
        now: Time,
        is_of: impl Fn(RuleId) -> bool,
    ) -> [Option<DeliveryKey>; 2] {
        let place = self.group_at(class, output);
        if self.groups[place].records == [0, 0] {
            return [None; 2];
        }
        let mut live = self.groups[place].first(Timing::Live);
        while let Some(late) = live.filter(|rank| self.is_past(rank.deadline(), now)) {
            self.turn_late(late.queue, place);
            live = self.groups[place].first(Timing::Live);
        }
        let head = |timing: Timing| {
            let mut ranks = self.groups[place].ranked(timing);
            let rank = ranks.find(|rank| is_of(self.queues[rank.queue].spec.rule))?;
            let queue = &self.queues[rank.queue];
            // A strict queue keeps all its records in the live list, wherever it is ranked.
            let list = if queue.spec.strict_order { Timing::Live } else { timing };
            queue.lists[list as usize].at(queue.next_end())
        };
        [head(Timing::Live), head(Timing::Late)]
    }

    /// Whether a record of this deadline is late.
    #[inline]
    fn is_past(&self, deadline: Time, now: Time) -> bool {
        self.ranking == Ranking::Deadline && deadline < now
    }

    fn link(&mut self, key: DeliveryKey, timing: Timing, end: ListEnd) {
        let queue = &mut self.queues[self.deliveries[key].queue];
        queue.lists[timing as usize].push(&mut self.deliveries, key, end);
        self.linked(key, timing);
    }

    /// Puts one behind a neighbour of its list, or at its front.
    fn link_after(&mut self, key: DeliveryKey, timing: Timing, before: Option<DeliveryKey>) {
        let list = &mut self.queues[self.deliveries[key].queue].lists[timing as usize];
        match before {
            Some(before) => list.push_after(&mut self.deliveries, key, before),
            None => list.push(&mut self.deliveries, key, ListEnd::Front),
        }
        self.linked(key, timing);
    }

    /// Counts one that stands in its list now.
    fn linked(&mut self, key: DeliveryKey, timing: Timing) {
        let delivery = &mut self.deliveries[key];
        delivery.place = DeliveryState::Waiting(timing);
        let (queue_key, size) = (delivery.queue, delivery.size);
        let is_overdue = timing == Timing::Live && delivery.progress.is_violated;
        let queue = &mut self.queues[queue_key];
        let spec = queue.spec;
        let place = self.group_at(spec.class, spec.output);
        self.groups[place].records[timing as usize] += 1;
        self.groups[place].overdue += u64::from(is_overdue);
        self.groups[place].bytes += size;
        self.rank(queue_key);
        self.expect(key, timing);
    }

    fn unlink(&mut self, key: DeliveryKey, timing: Timing) {
        let queue_key = self.deliveries[key].queue;
        let queue = &mut self.queues[queue_key];
        queue.lists[timing as usize].unlink(&mut self.deliveries, key);
        let spec = queue.spec;
        self.deliveries[key].place = DeliveryState::Taken;
        let is_overdue = timing == Timing::Live && self.deliveries[key].progress.is_violated;
        let place = self.group_at(spec.class, spec.output);
        self.groups[place].records[timing as usize] -= 1;
        self.groups[place].overdue -= u64::from(is_overdue);
        self.groups[place].bytes -= self.deliveries[key].size;
        self.rank(queue_key);
    }

    /// Brings the group's index in step with the heads of a queue's lists.
    fn rank(&mut self, queue_key: QueueKey) {
        let queue = &self.queues[queue_key];
        let end = queue.next_end();
        let mut wanted = [None; 2];
        for timing in [Timing::Live, Timing::Late] {
            let Some(head) = queue.lists[timing as usize].at(end) else { continue };
            let delivery = &self.deliveries[head];
            if !delivery.ready {
                continue;
            }
            let (first, order) = self.rank_of(delivery);
            // A strict queue that was found late stays so until its head is in time again.
            let was_late = queue.ranked[Timing::Late as usize];
            let stays_late =
                queue.spec.strict_order && was_late.is_some_and(|rank| rank.first >= first);
            let rank = Rank { first, order, queue: queue_key };
            wanted[if stays_late { Timing::Late } else { timing } as usize] = Some(rank);
        }
        if queue.pace.is_held() {
            wanted = [None; 2];
        }
        let (spec, ranked) = (queue.spec, queue.ranked);
        if ranked != wanted {
            let place = self.group_at(spec.class, spec.output);
            self.groups[place].replace(ranked, wanted);
            self.queues[queue_key].ranked = wanted;
        }
    }

    /// The next live record of this queue is past its deadline.
    fn turn_late(&mut self, queue_key: QueueKey, group: usize) {
        let queue = &self.queues[queue_key];
        if queue.spec.strict_order {
            let [live, _] = queue.ranked;
            self.groups[group].replace(queue.ranked, [None, live]);
            self.queues[queue_key].ranked = [None, live];
            return;
        }
        // Where the newest goes first and is late, all are: the oldest moves first, so that the late
        // list too is in order of arrival.
        let front = queue.lists[Timing::Live as usize].front.expect("a ranked queue has a head");
        self.unlink(front, Timing::Live);
        self.link(front, Timing::Late, ListEnd::Back);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::units::Size;

    use super::*;

    const CLASS: ClassId = ClassId(0);
    const OUTPUT: OutputId = OutputId(0);

    fn spec(discipline: Discipline, strict_order: bool) -> QueueSpec {
        QueueSpec {
            rule: RuleId(0),
            class: CLASS,
            output: OUTPUT,
            home: OUTPUT,
            discipline,
            strict_order,
        }
    }

    struct Bench {
        queues: Queues,
        order: u64,
    }

    impl Bench {
        fn new(ranking: Ranking) -> Self {
            Bench { queues: Queues::new(ranking, 1, 1), order: 0 }
        }

        fn open(&mut self, discipline: Discipline, strict_order: bool) -> QueueKey {
            self.queues.open(spec(discipline, strict_order))
        }

        fn insert(&mut self, queue: QueueKey, deadline_ms: u64) -> DeliveryKey {
            self.order += 1;
            let queue = (queue, self.queues.queues[queue].spec);
            let delivery = Delivery::new(RecordKey::default(), queue, Size(10), self.order);
            let deadline = Time::from_millis(deadline_ms);
            self.queues.insert(Delivery { deadline, ..delivery })
        }

        fn head(&mut self, timing: Timing, now_ms: u64) -> Option<DeliveryKey> {
            self.queues.heads(CLASS, OUTPUT, Time::from_millis(now_ms))[timing as usize]
        }

        fn drain(&mut self, timing: Timing, now_ms: u64) -> Vec<DeliveryKey> {
            std::iter::from_fn(|| {
                let head = self.head(timing, now_ms)?;
                self.queues.forget(head);
                Some(head)
            })
            .collect()
        }
    }

    #[test]
    fn earliest_deadline_first_across_queues_and_fifo_inside() {
        let mut bench = Bench::new(Ranking::Deadline);
        let (a, b) = (bench.open(Discipline::Fifo, false), bench.open(Discipline::Fifo, false));
        let a1 = bench.insert(a, 30);
        let b1 = bench.insert(b, 20);
        let a2 = bench.insert(a, 10); // behind a1, whatever its deadline
        let b2 = bench.insert(b, 40);
        assert_eq!(bench.drain(Timing::Live, 0), [b1, a1, a2, b2]);
        assert!(bench.queues.is_empty());
    }

    #[test]
    fn of_some_rules_the_head_is_the_most_urgent_of_theirs() {
        let mut bench = Bench::new(Ranking::Deadline);
        let mut of = |rule| {
            bench.queues.open(QueueSpec { rule: RuleId(rule), ..spec(Discipline::Fifo, false) })
        };
        let (first, other) = (of(1), of(2));
        let [late, live] = [10, 60].map(|at| bench.insert(other, at));
        for at in [5, 50] {
            bench.insert(first, at);
        }
        let mut heads = |rule| {
            bench.queues.heads_of((CLASS, OUTPUT), Time::from_millis(20), |of| of == RuleId(rule))
        };
        assert_eq!((heads(2), heads(3)), ([Some(live), Some(late)], [None; 2]));
    }

    #[test]
    fn by_arrival_everything_is_one_fifo_and_nothing_is_late() {
        let mut bench = Bench::new(Ranking::Arrival);
        let (a, b) = (bench.open(Discipline::Fifo, false), bench.open(Discipline::Fifo, false));
        let all = [bench.insert(a, 30), bench.insert(b, 20), bench.insert(a, 10)];
        assert_eq!(bench.head(Timing::Late, 99), None);
        assert_eq!(bench.drain(Timing::Live, 99), all);
    }

    #[test]
    fn past_the_deadline_a_record_waits_among_the_late() {
        let mut bench = Bench::new(Ranking::Deadline);
        let queue = bench.open(Discipline::Fifo, false);
        let (old, older) = (bench.insert(queue, 10), bench.insert(queue, 20));
        let fresh = bench.insert(queue, 100);
        assert_eq!(bench.head(Timing::Live, 50), Some(fresh));
        assert_eq!(bench.queues.backlog(CLASS, OUTPUT).late_records, 2);
        assert_eq!(bench.drain(Timing::Late, 50), [old, older]);
    }

    #[test]
    fn the_newest_goes_first_where_asked() {
        let mut bench = Bench::new(Ranking::Deadline);
        let queue = bench.open(Discipline::Lifo, false);
        let [a, b, c] = [10, 20, 30].map(|deadline| bench.insert(queue, deadline));
        assert_eq!(bench.head(Timing::Live, 25), Some(c));
        // Once the newest is late, all are, and the late list is newest first as well.
        assert_eq!(bench.head(Timing::Live, 40), None);
        assert_eq!(bench.drain(Timing::Late, 40), [c, b, a]);
    }

    #[test]
    fn in_strict_order_nothing_overtakes_a_late_record() {
        let mut bench = Bench::new(Ranking::Deadline);
        let queue = bench.open(Discipline::Fifo, true);
        let [late, fresh] = [10, 100].map(|deadline| bench.insert(queue, deadline));
        assert_eq!(bench.head(Timing::Live, 50), None);
        assert_eq!(bench.head(Timing::Late, 50), Some(late));
        bench.queues.forget(late);
        assert_eq!(bench.head(Timing::Live, 50), Some(fresh));
    }

    #[test]
    fn a_taken_record_comes_back_as_the_next() {
        let mut bench = Bench::new(Ranking::Deadline);
        let queue = bench.open(Discipline::Fifo, false);
        let [first, second] = [50, 60].map(|deadline| bench.insert(queue, deadline));
        assert!(bench.queues.take(first));
        assert!(!bench.queues.take(first), "it does not wait any more");
        assert_eq!(bench.head(Timing::Live, 0), Some(second));
        bench.queues.put_back(first, Time::ZERO);
        assert_eq!(bench.head(Timing::Live, 0), Some(first));
    }

    #[test]
    fn an_unready_head_holds_only_its_own_queue() {
        let mut bench = Bench::new(Ranking::Deadline);
        let (a, b) = (bench.open(Discipline::Fifo, false), bench.open(Discipline::Fifo, false));
        let queue = (a, spec(Discipline::Fifo, false));
        let delivery = Delivery::new(RecordKey::default(), queue, Size(5), 0);
        let deadline = Time::from_millis(1);
        let held = bench.queues.insert(Delivery { ready: false, deadline, ..delivery });
        let ready = bench.insert(b, 50);
        assert_eq!(bench.head(Timing::Live, 0), Some(ready));
        bench.queues.resize(held, Size(7));
        assert_eq!(bench.head(Timing::Live, 0), Some(held));
        assert_eq!(bench.queues.backlog(CLASS, OUTPUT).bytes, Size(17));
    }

    #[test]
    fn what_is_unconfirmed_stands_in_the_order_of_sending() {
        let mut bench = Bench::new(Ranking::Deadline);
        let queue = bench.open(Discipline::Fifo, false);
        let all = [50, 60, 70].map(|deadline| bench.insert(queue, deadline));
        let mut list = List::default();
        for key in all {
            assert!(!bench.queues.take_unconfirmed(&mut list, key), "it waits");
            bench.queues.take(key);
            bench.queues.await_fate(&mut list, key);
        }
        assert!(bench.queues.take_unconfirmed(&mut list, all[1]));
        assert!(!bench.queues.take_unconfirmed(&mut list, all[1]), "once");
        assert_eq!((list.at(ListEnd::Front), list.at(ListEnd::Back)), (Some(all[0]), Some(all[2])));
        assert_eq!((list.records(), bench.queues.backlog_of(queue)), (2, Backlog::default()));
    }

    #[test]
    fn stale_handles_are_harmless() {
        let mut bench = Bench::new(Ranking::Deadline);
        let queue = bench.open(Discipline::Fifo, false);
        let gone = bench.insert(queue, 10);
        assert!(bench.queues.forget(gone).is_some());
        assert!(bench.queues.forget(gone).is_none());
        assert!(!bench.queues.take(gone) && !bench.queues.move_to(gone, MoveTarget::Next));
        bench.queues.resize(gone, Size(1));
        assert_eq!(bench.queues.backlog_of(queue), Backlog::default());
    }
}
