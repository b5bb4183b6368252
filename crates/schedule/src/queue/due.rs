//! Records whose deadline passes while they wait.
//!
//! A list of a queue stands in the order of arrival, and the records of one stream share a bound: their deadlines pass
//! in the order of the list. So each list needs one entry in the index, that of its oldest record that was not counted
//! yet, and a record that leaves in time costs nothing. Where a script has moved records, or a reload changed the bound,
//! one can be counted as late as those before it.

use std::time::Duration;

use tidegate_types::ids::RuleId;
use tidegate_types::units::Time;

use super::list::Due;
use super::{Delivery, DeliveryKey, DeliveryState, ListEnd, QueueKey, Queues, Ranking, Timing};

/// Longest time from a deadline to its count: what passes within it is counted in one walk.
const SLACK: Duration = Duration::from_millis(100);

impl Queues {
    /// When [`Queues::pass_deadlines`] has something to do.
    #[inline]
    pub fn next_due(&self) -> Option<Time> {
        if self.deliveries.is_empty() {
            return None;
        }
        self.due.first().map(|due| due.deadline + SLACK)
    }

    /// Finds the waiting records whose deadline has passed. Each is told once, by the rule of its stream, and joins the
    /// late ones unless its queue keeps its order.
    pub fn pass_deadlines(&mut self, now: Time, mut violated: impl FnMut(RuleId)) {
        while let Some(due) = self.due.first().copied().filter(|due| due.deadline + SLACK <= now) {
            self.forget_due(due.queue, due.timing);
            self.pass(now, due, &mut violated);
        }
    }

    /// A delivery stands in its list: its deadline may be the next one to pass there.
    pub(super) fn expect(&mut self, key: DeliveryKey, timing: Timing) {
        let delivery = &self.deliveries[key];
        let queue = &self.queues[delivery.queue];
        let is_next = queue.due[timing as usize].is_none_or(|due| delivery.deadline < due.deadline);
        if is_next && !delivery.progress.is_violated {
            let due = Due { deadline: delivery.deadline, queue: delivery.queue, timing, key };
            self.forget_due(due.queue, timing);
            self.queues[due.queue].due[timing as usize] = Some(due);
            self.due.insert(due);
        }
    }

    /// Takes a list's entry out of the index.
    pub(super) fn forget_due(&mut self, queue: QueueKey, timing: Timing) {
        if let Some(due) = self.queues[queue].due[timing as usize].take() {
            self.due.remove(&due);
        }
    }

    /// Goes through a list from its oldest record that was not counted.
    fn pass(&mut self, now: Time, due: Due, violated: &mut impl FnMut(RuleId)) {
        let Due { queue, timing, key, .. } = due;
        let spec = self.queues[queue].spec;
        let group = self.group_at(spec.class, spec.output);
        let turns =
            timing == Timing::Live && !spec.strict_order && self.ranking == Ranking::Deadline;
        let oldest =
            |queues: &Queues| queues.queues[queue].lists[timing as usize].at(ListEnd::Front);
        let stands = |delivery: &Delivery| {
            delivery.queue == queue && delivery.place == DeliveryState::Waiting(timing)
        };
        let mut at = match self.deliveries.get(key) {
            Some(delivery) if stands(delivery) && !turns => Some(key),
            // Those that were counted are elsewhere, or this one left in time and so did all before it.
            _ => oldest(self),
        };
        while let Some(key) = at {
            let delivery = &mut self.deliveries[key];
            if !delivery.progress.is_violated {
                if delivery.deadline >= now {
                    break;
                }
                delivery.progress.is_violated = true;
                violated(delivery.spec.rule);
                self.groups[group].overdue += u64::from(timing == Timing::Live);
            }
            at = delivery.next;
            if turns {
                self.unlink(key, Timing::Live);
                self.link(key, Timing::Late, ListEnd::Back);
            }
        }
        // Where a script moved records, the one at the front may be the next although the walk began behind it.
        for key in [at, oldest(self)].into_iter().flatten() {
            self.expect(key, timing);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::class::ClassId;
    use tidegate_types::ids::OutputId;
    use tidegate_types::units::Size;

    use super::super::*;
    use super::*;

    /// One queue of records with deadlines in milliseconds.
    struct Bench {
        queues: Queues,
        queue: (QueueKey, QueueSpec),
        order: u64,
    }

    impl Bench {
        fn new(ranking: Ranking, discipline: Discipline, strict_order: bool) -> Self {
            let (class, output) = (ClassId(0), OutputId(0));
            let spec = QueueSpec {
                rule: RuleId(3),
                class,
                output,
                home: output,
                discipline,
                strict_order,
            };
            let mut queues = Queues::new(ranking, 1, 1);
            let queue = queues.open(spec);
            Bench { queues, queue: (queue, spec), order: 0 }
        }

        fn delivery(&mut self, deadline: u64) -> Delivery {
            self.order += 1;
            let delivery = Delivery::new(RecordKey::default(), self.queue, Size(10), self.order);
            Delivery { deadline: Time::from_millis(deadline), ..delivery }
        }

        fn insert(&mut self, deadline: u64) -> DeliveryKey {
            let delivery = self.delivery(deadline);
            self.queues.insert(delivery)
        }

        /// Records found late at this time.
        fn late(&mut self, now: u64) -> usize {
            let mut rules = Vec::new();
            self.queues.pass_deadlines(Time::from_millis(now), |rule| rules.push(rule));
            assert!(rules.iter().all(|rule| *rule == RuleId(3)), "{rules:?}");
            rules.len()
        }

        fn late_records(&self) -> u64 {
            self.queues.backlog_of(self.queue.0).late_records
        }

        fn overdue(&self) -> u64 {
            self.queues.overdue_over(self.queue.1.class, 0..1)
        }

        fn next(&self) -> Option<Time> {
            self.queues.next_due()
        }
    }

    #[test]
    fn each_record_is_late_once_whatever_the_discipline() {
        for (ranking, discipline, strict, joins) in [
            (Ranking::Deadline, Discipline::Fifo, false, true),
            (Ranking::Deadline, Discipline::Lifo, false, true),
            (Ranking::Deadline, Discipline::Fifo, true, false),
            (Ranking::Arrival, Discipline::Fifo, false, false),
        ] {
            let mut bench = Bench::new(ranking, discipline, strict);
            for deadline in [100, 150, 400, 900] {
                bench.insert(deadline);
            }
            assert_eq!(bench.next(), Some(Time::from_millis(200)));
            assert_eq!(
                [bench.late(199), bench.late(200), bench.late(200)],
                [0, 2, 0],
                "{discipline:?}"
            );
            assert_eq!(bench.late_records(), if joins { 2 } else { 0 });
            assert_eq!(bench.overdue(), 2, "{ranking:?} {strict}");
            assert_eq!(bench.next(), Some(Time::from_millis(500)));
            assert_eq!([bench.late(1000), bench.late(9000)], [2, 0], "{ranking:?} {strict}");
            assert_eq!(bench.next(), None);
            assert_eq!(bench.overdue(), 4);
            let waiting: Vec<DeliveryKey> = bench.queues.waiting(bench.queue.0).collect();
            for key in waiting {
                bench.queues.forget(key);
            }
            assert_eq!(bench.overdue(), 0, "{ranking:?} {strict}");
        }
    }

    #[test]
    fn what_leaves_in_time_is_not_late_and_the_next_one_is() {
        for strict in [false, true] {
            let mut bench = Bench::new(Ranking::Deadline, Discipline::Fifo, strict);
            let first = bench.insert(100);
            let second = bench.insert(200);
            bench.insert(300);
            for sent in [first, second] {
                bench.queues.forget(sent);
            }
            assert_eq!([bench.late(250), bench.late(450)], [0, 1], "{strict}");
        }
    }

    #[test]
    fn what_comes_back_is_counted_if_it_was_not() {
        for strict in [false, true] {
            let mut bench = Bench::new(Ranking::Deadline, Discipline::Fifo, strict);
            let keys = [100, 110, 120].map(|deadline| bench.insert(deadline));
            for key in &keys[..2] {
                bench.queues.take(*key);
            }
            assert_eq!(bench.late(300), 1);
            for key in keys[..2].iter().rev() {
                bench.queues.put_back(*key, Time::from_millis(300));
            }
            assert_eq!([bench.late(300), bench.late(900)], [2, 0], "{strict}");
        }
    }

    #[test]
    fn a_record_that_a_scheduler_found_late_is_counted_too() {
        let mut bench = Bench::new(Ranking::Deadline, Discipline::Fifo, false);
        bench.insert(100);
        bench.insert(5000);
        let heads = bench.queues.heads(ClassId(0), OutputId(0), Time::from_millis(150));
        assert!(heads[Timing::Late as usize].is_some());
        assert_eq!([bench.late(250), bench.late(300)], [1, 0]);
    }

    #[test]
    fn what_was_read_back_waits_among_the_late_and_is_counted_at_its_time() {
        let mut bench = Bench::new(Ranking::Deadline, Discipline::Fifo, false);
        for deadline in [50, 700] {
            let delivery = bench.delivery(deadline);
            bench.queues.insert_late(delivery);
        }
        assert_eq!([bench.late(200), bench.late(790), bench.late(800)], [1, 0, 1]);
    }

    #[test]
    fn a_record_before_which_another_one_passes_is_counted_at_its_own_time() {
        for strict in [false, true] {
            let mut bench = Bench::new(Ranking::Deadline, Discipline::Fifo, strict);
            for deadline in [700, 100, 5000] {
                bench.insert(deadline);
            }
            let late = [bench.late(200), bench.late(700), bench.late(800), bench.late(900)];
            assert_eq!(late.iter().sum::<usize>(), 2, "{strict} {late:?}");
            assert_eq!((late[1], late[3]), (0, 0), "{strict}");
        }
    }

    #[test]
    fn a_closed_queue_leaves_nothing_in_the_index() {
        let mut bench = Bench::new(Ranking::Deadline, Discipline::Fifo, false);
        let key = bench.insert(100);
        bench.queues.forget(key);
        bench.queues.close(bench.queue.0);
        assert_eq!((bench.next(), bench.late(1000)), (None, 0));
    }
}
