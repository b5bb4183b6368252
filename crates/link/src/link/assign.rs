//! Which path takes which part: by the scheduler, among the paths that are in time.

use std::cmp::Reverse;
use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::{Link, Scratch};
use crate::outbox::PartKey;
use crate::outgoing_record::Part;
use crate::path::Path;
use crate::path_scheduler::{PathView, PieceView};
use crate::redundancy::arrival;

/// What waits for a path beyond the difference in length to the longest one: enough that no timer makes
/// a path idle.
const SLACK: f64 = 0.010;
/// Longest virtual queue in seconds, however much the paths differ.
const QUEUE_MAX: f64 = 0.5;

/// Seconds from now until then, less than zero if that is past.
fn left(now: Time, then: Time) -> f64 {
    then.since(now).as_secs_f64() - now.since(then).as_secs_f64()
}

impl Link {
    /// Gives parts to virtual queues, the most urgent first, as long as one has room and the scheduler does not
    /// wait for another.
    pub(super) fn assign(&mut self, now: Time) {
        if !self.outbox.has_unassigned() {
            return;
        }
        let backlogs = self.backlogs(now);
        let wanted: f64 = backlogs.iter().map(|(_, wanted)| *wanted).sum();
        self.guard.observe(now, 1.0 - self.unfilled(&backlogs) / wanted.max(1.0));
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some((key, length)) = self.next_part(now, &backlogs, &mut scratch.open) {
            self.choose(now, &backlogs, (key, length), &mut scratch);
            if scratch.chosen.is_empty() {
                break;
            }
            self.outbox.assign(key);
            for &path in &scratch.chosen {
                self.outbox.goes_by(key.1, path);
                self.paths[path].enqueue(key, length);
            }
        }
        self.scratch = scratch;
    }

    /// The most urgent part that may be sent; records that come to their turn are guarded by what their own parts
    /// meet on the paths: what is less urgent does not stand in their way.
    fn next_part(
        &mut self,
        now: Time,
        backlogs: &[(PathView, f64)],
        views: &mut Vec<PathView>,
    ) -> Option<(PartKey, Size)> {
        if self.outbox.is_blocked() {
            let longest = backlogs.iter().map(|(view, _)| view.srtt).fold(0.0, f64::max);
            self.blocked_until = now + Duration::from_secs_f64(longest);
        }
        let (guard, paths) = (&mut self.guard, &self.paths);
        // As soon as the window opens the next ones begin, and what they lose will hold up all that wait then.
        guard.blocked(now < self.blocked_until);
        self.outbox.peek(|deadline, pieces, length| {
            let last = (deadline, Part::LAST);
            let met = |view: PathView| {
                let queued = paths[view.path].queued_before(last).as_f64();
                PathView { queued, ..view }
            };
            views.clear();
            views.extend(backlogs.iter().map(|&(view, _)| met(view)));
            guard.protect(now, views, left(now, deadline), pieces, length.as_f64())
        })
    }

    /// Bytes that the virtual queues have room for.
    pub(super) fn unfilled(&self, backlogs: &[(PathView, f64)]) -> f64 {
        let room = |(view, wanted): &(PathView, f64)| {
            (wanted - self.paths[view.path].queued().as_f64()).max(0.0)
        };
        backlogs.iter().map(room).sum()
    }

    /// Finds the paths that a part of this length goes by; none where it waits. What is less urgent does not stand in
    /// its way.
    fn choose(
        &mut self,
        now: Time,
        backlogs: &[(PathView, f64)],
        (key, length): (PartKey, Size),
        scratch: &mut Scratch,
    ) {
        let Scratch { open, full, candidates, chosen } = scratch;
        open.clear();
        full.clear();
        chosen.clear();
        for &(view, wanted) in backlogs {
            let queued = self.paths[view.path].queued_before(key).as_f64();
            let side = if queued < wanted { &mut *open } else { &mut *full };
            side.push(PathView { queued, ..view });
        }
        let (left, part) = (left(now, key.0), key.1);
        for _ in 0..self.copies(part) {
            if open.is_empty() {
                break;
            }
            self.candidates(open, left, part, candidates);
            let choice = PieceView {
                now,
                open: candidates,
                full,
                piece: length.as_f64(),
                waiting: self.outbox.unassigned().as_f64(),
                peer_window: self.outbox.peer_window().as_f64(),
                is_blocked: now < self.blocked_until,
            };
            let Some(place) = self.scheduler.choose(&choice) else { break };
            let path = candidates[place].path;
            open.retain(|view| view.path != path);
            chosen.push(path);
        }
    }

    /// By how many paths a part goes.
    fn copies(&self, part: Part) -> usize {
        let protection = self.outbox.protection(part);
        let has_room = !self.guard.is_full();
        let is_repeat = self.options.doubles_repeats && has_room && self.outbox.has_failed(part);
        let doubles = protection.is_doubled || is_repeat;
        self.scheduler.copies().max(1 + usize::from(doubles))
    }

    /// Of the open paths those that are in time for a part with so many seconds left; all of them if none is. A
    /// repair goes where least of its record went, and so does what is hedged.
    fn candidates(&self, open: &[PathView], left: f64, part: Part, found: &mut Vec<PathView>) {
        let spreads = part.repair > 0 || self.outbox.is_hedged(part);
        let rank = |view: &PathView| {
            let gone = if spreads { self.outbox.gone_by(part, view.path) } else { 0 };
            (arrival(view) <= left, Reverse(gone))
        };
        let best = open.iter().map(rank).max();
        found.clear();
        found.extend(open.iter().filter(|view| Some(rank(view)) == best));
    }

    /// The paths that data may go by, and how long their virtual queues should be, in bytes: a short path
    /// may as well take what will only arrive when a long one's packets do.
    pub(super) fn backlogs(&self, now: Time) -> Vec<(PathView, f64)> {
        let origins = self.paths.iter().filter_map(Path::origin);
        let origin = origins.min_by(|(left, _), (right, _)| left.total_cmp(right));
        let usable = (0..self.paths.len()).filter(|&path| self.is_usable(path));
        let mut backlogs: Vec<(PathView, f64)> =
            usable.map(|path| (self.paths[path].view(now, path, origin), 0.0)).collect();
        let longest = backlogs.iter().map(|(view, _)| view.predicted_delay).fold(0.0, f64::max);
        for (view, wanted) in &mut backlogs {
            let span = (longest - view.predicted_delay).min(QUEUE_MAX) + SLACK;
            let pace = if view.pace > 0.0 { view.pace } else { view.window / view.srtt.max(SLACK) };
            *wanted = (pace * span).max(2.0 * self.options.packet_max as f64);
        }
        backlogs
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::units::Rate;

    use super::*;
    use crate::packet::ReceiveWindow;
    use crate::{LinkOptions, Outgoing, PathOptions};

    const START: Time = Time::from_millis(1000);

    /// Two paths that were used before: what is in their queues takes time.
    fn link() -> Link {
        let mut link = Link::new(LinkOptions::new(1, 2));
        let remembered = Some(Rate::new(1e6));
        for path in 0..2 {
            link.path_up(path, START, PathOptions { remembered, ..PathOptions::default() });
        }
        link
    }

    /// Offers a record with so many milliseconds left, and fills the queues.
    fn offer(link: &mut Link, now: Time, token: u64, size: usize, millis: u64) {
        let deadline = now + Duration::from_millis(millis);
        let content = vec![1; size].into();
        let record = Outgoing { token, stream: token, content, deadline, expires: None };
        link.offer(record).expect("there is room");
        link.assign(now);
    }

    /// How many repairs the record has that came last.
    fn repairs(link: &Link) -> u8 {
        let heads = (0..2).filter_map(|path| link.paths[path].head());
        let newest = heads.map(|(part, _)| part).max().expect("the queues are not empty");
        link.outbox.protection(newest).repairs
    }

    #[test]
    fn an_alarm_is_guarded_although_queues_are_full_of_what_is_less_urgent() {
        let mut link = link();
        // Of half a megabyte a second each path has 10 ms and more in its queue then.
        offer(&mut link, START, 1, 100_000, 60_000);
        assert!((0..2).all(|path| link.paths[path].queued() >= Size(5000)));
        // 100 ms are half of the round trip that is guessed: the alarm is in time only if it overtakes the queue.
        offer(&mut link, START, 2, 100, 105);
        assert_eq!(repairs(&link), 3, "a tenth may be lost");
    }

    #[test]
    fn what_begins_when_the_window_opens_is_guarded_as_what_waited_for_it() {
        let mut link = link();
        offer(&mut link, START, 1, 130_500, 60_000);
        offer(&mut link, START, 2, 400, 50_000);
        assert!(link.outbox.is_blocked());
        let window = Size::from_mib(1);
        link.outbox.widen(ReceiveWindow { limit: window, record_max: window });
        offer(&mut link, START, 3, 10_000, 40_000);
        assert!(!link.outbox.is_blocked());
        assert!(repairs(&link) > 3, "all that follow would wait for its repeat");
        offer(&mut link, START + Duration::from_secs(1), 4, 10_000, 30_000);
        assert!(repairs(&link) <= 1);
    }
}
