//! Queues that a script holds to a rate of their own.
//!
//! A record is charged whole when its first cut is picked, and the next one of its queue goes when the time
//! that it takes at the queue's rate is over: nothing is saved up. Until then the queue is not ranked, so that
//! others of its class go on.

use tidegate_types::units::{Rate, Time};

use super::pace::Pace;
use super::{DeliveryKey, QueueKey, Queues};

impl Queues {
    /// Holds a queue to a rate (bytes/s; zero: nothing goes), or no more. What it still has to wait for is
    /// waited for at the new rate. A stale handle does nothing.
    pub fn set_rate(&mut self, now: Time, key: QueueKey, rate: Option<Rate>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let before = queue.pace;
        let owed = before.owed(now);
        let free_at = rate.filter(|rate| !rate.is_zero() && owed > 0.0).map(|rate| {
            now + std::time::Duration::from_secs_f64((owed / rate.as_f64()).min(SPAN_MAX))
        });
        let owed = if rate.is_some_and(Rate::is_zero) { owed } else { 0.0 };
        queue.pace = Pace { rate, free_at, owed };
        before.free_at.map(|at| self.held.remove(&(at, key)));
        free_at.map(|at| self.held.insert((at, key)));
        self.rank(key);
    }

    /// The rate that a queue is held to; none where it is not, and for a stale handle.
    pub fn rate(&self, key: QueueKey) -> Option<Rate> {
        self.queues.get(key)?.pace.rate
    }

    /// The first cut of a delivery was picked.
    #[inline]
    pub fn charge(&mut self, now: Time, key: DeliveryKey) {
        let Some(delivery) = self.deliveries.get(key) else { return };
        let (queue_key, size) = (delivery.queue, delivery.size);
        let Some(queue) = self.queues.get_mut(queue_key) else { return };
        let Some(rate) = queue.pace.rate.filter(|rate| !rate.is_zero()) else { return };
        let takes = (size.as_f64() / rate.as_f64()).min(SPAN_MAX);
        let free_at = now + std::time::Duration::from_secs_f64(takes);
        let before = queue.pace.free_at.replace(free_at);
        before.map(|at| self.held.remove(&(at, queue_key)));
        self.held.insert((free_at, queue_key));
        self.rank(queue_key);
    }

    /// Queues whose time has come are ranked again.
    #[inline]
    pub fn release_due(&mut self, now: Time) {
        while let Some(&(at, key)) = self.held.first().filter(|(at, _)| *at <= now) {
            self.held.remove(&(at, key));
            if let Some(queue) = self.queues.get_mut(key) {
                queue.pace.free_at = None;
                self.rank(key);
            }
        }
    }

    /// When [`Queues::release_due`] has something to do.
    #[inline]
    pub fn next_release(&self) -> Option<Time> {
        self.held.first().map(|&(at, _)| at)
    }
}

/// Longest time for one record, in seconds: a day. What is slower is not meant.
const SPAN_MAX: f64 = 86_400.0;

#[cfg(test)]
mod tests {
    use tidegate_types::ids::RuleId;
    use tidegate_types::units::{Rate, Size};

    use super::super::*;

    const CLASS: ClassId = ClassId(0);
    const OUTPUT: OutputId = OutputId(0);

    fn two_queues() -> (Queues, [QueueKey; 2], [DeliveryKey; 4]) {
        let mut queues = Queues::new(Ranking::Deadline, 1, 1);
        let spec = QueueSpec {
            rule: RuleId(0),
            class: CLASS,
            output: OUTPUT,
            home: OUTPUT,
            discipline: Discipline::Fifo,
            strict_order: false,
        };
        let [a, b] = [(); 2].map(|()| queues.open(spec));
        let mut order = 0;
        let keys = [a, a, b, b].map(|queue| {
            order += 1;
            let delivery = Delivery::new(RecordKey::default(), (queue, spec), Size(1000), order);
            queues.insert(Delivery { deadline: Time::from_millis(1_000_000), ..delivery })
        });
        (queues, [a, b], keys)
    }

    fn pick(queues: &mut Queues, at_ms: u64) -> Option<DeliveryKey> {
        let now = Time::from_millis(at_ms);
        queues.release_due(now);
        let [head, _] = queues.heads(CLASS, OUTPUT, now);
        let head = head?;
        queues.take(head);
        queues.charge(now, head);
        queues.forget(head);
        Some(head)
    }

    #[test]
    fn a_queue_is_held_to_its_rate_and_others_go_on() {
        let (mut queues, [a, _], keys) = two_queues();
        // 1,000 bytes at 10,000 bytes/s: a tenth of a second.
        queues.set_rate(Time::ZERO, a, Some(Rate::new(10_000.0)));
        assert_eq!(queues.rate(a), Some(Rate::new(10_000.0)));
        assert_eq!(pick(&mut queues, 0), Some(keys[0]));
        assert_eq!([pick(&mut queues, 0), pick(&mut queues, 0)], [Some(keys[2]), Some(keys[3])]);
        assert_eq!(queues.next_release(), Some(Time::from_millis(100)));
        assert_eq!(pick(&mut queues, 99), None);
        assert_eq!(pick(&mut queues, 100), Some(keys[1]));
    }

    #[test]
    fn another_rate_takes_what_is_owed_with_it() {
        let (mut queues, [a, b], keys) = two_queues();
        queues.set_rate(Time::ZERO, b, Some(Rate::ZERO));
        queues.set_rate(Time::ZERO, a, Some(Rate::new(10_000.0)));
        assert_eq!(pick(&mut queues, 0), Some(keys[0]));
        // 500 bytes are owed still: a twentieth of a second at twice the rate is half of that.
        queues.set_rate(Time::from_millis(50), a, Some(Rate::new(20_000.0)));
        assert_eq!(queues.next_release(), Some(Time::from_millis(75)));
        assert_eq!(pick(&mut queues, 75), Some(keys[1]));
        assert_eq!(pick(&mut queues, 900_000), None, "nothing goes at a rate of 0");
        queues.set_rate(Time::from_millis(900_000), b, None);
        assert_eq!(pick(&mut queues, 900_000), Some(keys[2]));
        assert_eq!(pick(&mut queues, 900_000), Some(keys[3]));
        queues.close(a);
        assert_eq!(queues.rate(a), None);
    }

    #[test]
    fn a_rate_of_zero_forgives_nothing() {
        let (mut queues, [a, b], keys) = two_queues();
        queues.set_rate(Time::ZERO, b, Some(Rate::ZERO));
        queues.set_rate(Time::ZERO, a, Some(Rate::new(10_000.0)));
        assert_eq!(pick(&mut queues, 0), Some(keys[0]));
        queues.set_rate(Time::from_millis(50), a, Some(Rate::ZERO));
        assert_eq!((pick(&mut queues, 70), queues.next_release()), (None, None));
        queues.set_rate(Time::from_millis(70), a, Some(Rate::new(10_000.0)));
        assert_eq!(queues.next_release(), Some(Time::from_millis(120)));
        assert_eq!(pick(&mut queues, 120), Some(keys[1]));
    }
}
