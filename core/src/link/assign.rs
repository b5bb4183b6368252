//! Which path takes which part: by the scheduler, among the paths that are in time.

use std::cmp::Reverse;
use std::time::Duration;

use super::Link;
use super::begun::Part;
use super::guard::arrival;
use super::outbox::PartKey;
use super::path::Path;
use super::schedule::{Choice, PathView};
use crate::units::{Size, Time};

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
        let backlogs = self.backlogs(now);
        let wanted: f64 = backlogs.iter().map(|(_, wanted)| *wanted).sum();
        loop {
            let filled = 1.0 - self.unfilled(&backlogs) / wanted.max(1.0);
            self.guard.observe(now, filled);
            let views: Vec<PathView> =
                backlogs.iter().map(|(view, _)| self.queued(*view)).collect();
            let guard = &mut self.guard;
            guard.blocked(self.outbox.is_blocked());
            if self.outbox.is_blocked() {
                let longest = views.iter().map(|view| view.srtt).fold(0.0, f64::max);
                self.blocked_until = now + Duration::from_secs_f64(longest);
            }
            let next = self.outbox.peek(|deadline, pieces, length| {
                guard.protect(now, &views, left(now, deadline), pieces, length.as_f64())
            });
            let Some((key, length)) = next else { return };
            let chosen = self.choose(now, &backlogs, key, length);
            if chosen.is_empty() {
                return;
            }
            self.outbox.assign(key);
            for path in chosen {
                self.outbox.goes_by(key.1, path);
                self.paths[path].enqueue(key, length);
            }
        }
    }

    /// Bytes that the virtual queues have room for.
    pub(super) fn unfilled(&self, backlogs: &[(PathView, f64)]) -> f64 {
        let room = |(view, wanted): &(PathView, f64)| {
            (wanted - self.paths[view.path].queued().as_f64()).max(0.0)
        };
        backlogs.iter().map(room).sum()
    }

    /// The path with its virtual queue as it is now.
    fn queued(&self, view: PathView) -> PathView {
        PathView { queued: self.paths[view.path].queued().as_f64(), ..view }
    }

    /// The paths that a part of this length goes by; none where it waits. What is less urgent does not stand in its
    /// way.
    fn choose(
        &mut self,
        now: Time,
        backlogs: &[(PathView, f64)],
        key: PartKey,
        length: Size,
    ) -> Vec<usize> {
        let (mut open, mut full) = (Vec::new(), Vec::new());
        for &(view, wanted) in backlogs {
            let queued = self.paths[view.path].queued_before(key).as_f64();
            let side = if queued < wanted { &mut open } else { &mut full };
            side.push(PathView { queued, ..view });
        }
        let mut chosen = Vec::new();
        let (left, part) = (left(now, key.0), key.1);
        for _ in 0..self.copies(part) {
            if open.is_empty() {
                break;
            }
            let candidates = self.candidates(&open, left, part);
            let choice = Choice {
                now,
                open: &candidates,
                full: &full,
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
        chosen
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
    fn candidates(&self, open: &[PathView], left: f64, part: Part) -> Vec<PathView> {
        let spreads = part.repair > 0 || self.outbox.is_hedged(part);
        let rank = |view: &PathView| {
            let gone = if spreads { self.outbox.gone_by(part, view.path) } else { 0 };
            (arrival(view) <= left, Reverse(gone))
        };
        let best = open.iter().map(rank).max();
        open.iter().filter(|view| Some(rank(view)) == best).copied().collect()
    }

    /// The paths that data may go by, and how long their virtual queues should be, in bytes: a short path
    /// may as well take what will only arrive when a long one's packets do.
    pub(super) fn backlogs(&self, now: Time) -> Vec<(PathView, f64)> {
        let origins = self.paths.iter().filter_map(Path::origin);
        let origin = origins.min_by(|(left, _), (right, _)| left.total_cmp(right));
        let usable = (0..self.paths.len()).filter(|&path| self.is_usable(path));
        let views: Vec<PathView> =
            usable.map(|path| self.paths[path].view(now, path, origin)).collect();
        let longest = views.iter().map(|view| view.predicted_delay).fold(0.0, f64::max);
        let wanted = |view: PathView| {
            let span = (longest - view.predicted_delay).min(QUEUE_MAX) + SLACK;
            let pace = if view.pace > 0.0 { view.pace } else { view.window / view.srtt.max(SLACK) };
            (view, (pace * span).max(2.0 * self.options.packet_max as f64))
        };
        views.into_iter().map(wanted).collect()
    }
}
