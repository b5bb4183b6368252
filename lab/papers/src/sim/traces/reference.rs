//! What a sender could do that knew more than one can: two references without a node.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::units::Time;

use super::{ALARMS, BULK, DELAY, QUEUE, Score, Trace};
use crate::link::{CHANCE, Direction, Options, Outcome};

/// Step of the clock, as that of the recordings.
const STEP: Duration = Duration::from_millis(1);
/// Payload of a packet.
const PACKET: u64 = 1460;
/// Part of the known rate that is used, and how far around now it is known.
const KNOWN: (f64, Duration) = (0.92, Duration::from_millis(500));

/// Alarms by when they were due, and how long they took.
#[derive(Default)]
struct Alarms {
    due: VecDeque<Duration>,
    took: Vec<(Duration, Duration)>,
    offered: u64,
}

impl Alarms {
    /// Adds those that are due by now.
    fn offer(&mut self, now: Duration, length: Duration) {
        loop {
            let due = Duration::from_secs_f64(self.offered as f64 / ALARMS.0);
            if due > now || due >= length {
                return;
            }
            self.due.push_back(due);
            self.offered += 1;
        }
    }

    fn arrived(&mut self, due: Duration, at: Duration) {
        self.took.push((due, at - due));
    }

    fn score(self, bytes: u64, trace: &Trace) -> Score {
        let room = trace.service.room(Duration::ZERO, trace.length);
        Score::of(trace, self.took, bytes as f64 / room)
    }
}

/// Whether bulk is there: it comes at [`BULK`] times the mean.
fn bulk_left(trace: &Trace, now: Duration, sent: u64) -> bool {
    let come = trace.mean * BULK.0 * now.min(trace.length).as_secs_f64();
    (sent as f64) < come
}

/// Priority inside the modem: each chance takes what is most urgent at that instant.
pub(super) fn oracle(trace: &Trace) -> Score {
    let mut alarms = Alarms::default();
    let (mut now, mut sent, mut in_time) = (Duration::ZERO, 0.0, 0.0);
    // What is left of the alarm that is being sent: a slow link takes several steps for it.
    let mut left = ALARMS.1 as f64;
    while now < trace.length || !alarms.due.is_empty() {
        alarms.offer(now, trace.length);
        let mut room = trace.service.room(now, now + STEP);
        let has_room = room;
        while let Some(&due) = alarms.due.front().filter(|_| room > 0.0) {
            let part = room.min(left);
            (room, left) = (room - part, left - part);
            if left <= 0.0 {
                alarms.due.pop_front();
                alarms.arrived(due, now + trace.delay(now));
                left = ALARMS.1 as f64;
            }
        }
        let bulk = if bulk_left(trace, now, sent as u64) { room } else { 0.0 };
        sent += bulk;
        if now + trace.delay(now) < trace.length {
            in_time += has_room - room + bulk;
        }
        now += STEP;
    }
    alarms.score(in_time as u64, trace)
}

/// One FIFO that never holds more bulk than the link carries in the next `horizon`; alarms stand in it as well.
pub(super) fn ahead(trace: &Trace, horizon: Duration) -> Score {
    let mut alarms = Alarms::default();
    let mut queue: VecDeque<(f64, Item)> = VecDeque::new();
    let (mut now, mut held, mut sent, mut in_time) = (Duration::ZERO, 0.0, 0, 0);
    while now < trace.length || (alarms.took.len() as u64) < alarms.offered {
        alarms.offer(now, trace.length);
        while let Some(due) = alarms.due.pop_front() {
            queue.push_back((ALARMS.1 as f64, Some(due)));
            held += ALARMS.1 as f64;
        }
        let soon = trace.service.room(now, now + horizon);
        while held + PACKET as f64 <= soon && bulk_left(trace, now, sent) {
            queue.push_back((PACKET as f64, None));
            (held, sent) = (held + PACKET as f64, sent + PACKET);
        }
        let mut room = trace.service.room(now, now + STEP);
        while let Some((left, item)) = queue.front_mut().filter(|_| room > 0.0) {
            let part = left.min(room);
            (*left, room, held) = (*left - part, room - part, held - part);
            if *left > 0.0 {
                continue;
            }
            let arrived = now + trace.delay(now);
            let bytes = if item.is_some() { ALARMS.1 } else { PACKET };
            in_time += if arrived < trace.length { bytes } else { 0 };
            item.iter().for_each(|due| alarms.arrived(*due, arrived));
            queue.pop_front();
        }
        now += STEP;
    }
    alarms.score(in_time, trace)
}

/// What the modem's queue carries: an alarm with the time at which it was due, or bulk.
type Item = Option<Duration>;

/// Paced at a part of what the link carries half a second before and after now: more than a sender can
/// know. Alarms go first and skip the pacer; the rest pays.
pub(super) fn known(trace: &Trace) -> Score {
    let options = Options { service: trace.service.clone(), ..Options::new(1, DELAY, QUEUE) };
    let mut link: Direction<Item> = Direction::new(options, 1);
    let mut alarms = Alarms::default();
    let (mut now, mut credit, mut sent, mut in_time) = (Duration::ZERO, 0.0, 0, 0);
    while now < trace.length || (alarms.took.len() as u64) < alarms.offered {
        alarms.offer(now, trace.length);
        let from = now.saturating_sub(KNOWN.1);
        let rate = trace.service.room(from, now + KNOWN.1) / (now + KNOWN.1 - from).as_secs_f64();
        credit = (credit + KNOWN.0 * rate * STEP.as_secs_f64()).min(2.0 * CHANCE as f64);
        let at = Time::ZERO + now;
        while let Some(due) = alarms.due.pop_front() {
            link.offer(at, ALARMS.1, Some(due));
            credit -= ALARMS.1 as f64;
        }
        while credit >= PACKET as f64 && bulk_left(trace, now, sent) {
            link.offer(at, PACKET, None);
            credit -= PACKET as f64;
            sent += PACKET;
        }
        while let Some(outcome) = link.poll(at) {
            let Outcome::Arrived { at, item } = outcome else { continue };
            let arrived = at.since(Time::ZERO);
            let bytes = if item.is_some() { ALARMS.1 } else { PACKET };
            in_time += if arrived < trace.length { bytes } else { 0 };
            if let Some(due) = item {
                alarms.arrived(due, arrived);
            }
        }
        now += STEP;
    }
    alarms.score(in_time, trace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Profile, Service};

    #[test]
    fn a_link_slower_than_an_alarm_a_step_has_an_oracle_as_well() {
        let length = Duration::from_secs(20);
        let service = Service::Rate(Profile::constant(500_000));
        let found = oracle(&Trace::of("slow", service, length));
        assert!(found.share > 0.98 && found.p99 < 40.0, "{found:?}");
    }
}
