//! Which paths go through one bottleneck: only one of them carries data, for several carry no more and take more
//! than one connection's share from whoever else is there.
//! Source: own; that delays tell it is RFC 8382's.
//! Inputs: sending times and arrival delays of each path. Outputs: the path that another one is spare to.
//! O(paths² · `CELLS`) each 100 ms.
//! Deviations: none.
//! Limits: `CELLS`, `HOLD`.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::units::Time;

/// Length of a cell in nanoseconds: longer than paths differ on their way to the bottleneck, shorter than a queue
/// needs to grow and to shrink.
const CELL: u64 = 100_000_000;
/// Cells that are compared.
const CELLS: usize = 50;
/// A delay that changes by so many seconds from cell to cell shows a queue at work.
const CHANGE: f64 = 0.001_5;
/// Changes that must be there to tell, and the part of them that must be the same on both paths. Of two queues that
/// have nothing to do with each other about a fifth are.
const CHANGES: (usize, f64) = (15, 0.8);
/// Two changes are the same if they differ by so much of the larger one.
const SAME: f64 = 0.5;
/// A path is spare for so long before both are tried again, and for twice as long each time that this was in vain.
const HOLD: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// A bottleneck that is found again so soon was there all the time.
const AGAIN: Duration = Duration::from_secs(15);

/// Mean delay of the packets that were sent within a cell.
#[derive(Clone, Copy, Debug)]
struct Cell {
    number: u64,
    sum: f64,
    count: f64,
}

impl Cell {
    fn mean(&self) -> f64 {
        self.sum / self.count
    }
}

/// What is known of one path.
#[derive(Clone, Debug, Default)]
struct Watched {
    cells: VecDeque<Cell>,
    /// The path that carries data instead, and until when.
    spare: Option<(usize, Time)>,
    hold: Duration,
}

impl Watched {
    fn push(&mut self, number: u64, delay: f64) {
        match self.cells.back_mut() {
            Some(cell) if cell.number == number => {
                cell.sum += delay;
                cell.count += 1.0;
            }
            Some(cell) if cell.number > number => {}
            _ => {
                self.cells.push_back(Cell { number, sum: delay, count: 1.0 });
                if self.cells.len() > CELLS + 1 {
                    self.cells.pop_front();
                }
            }
        }
    }

    /// Mean of all cells.
    fn mean(&self) -> f64 {
        self.cells.iter().map(Cell::mean).sum::<f64>() / self.cells.len() as f64
    }

    /// Changes from one cell to the next, by the number of the later one, the last cell left out: it has not ended.
    fn changes(&self) -> impl Iterator<Item = (u64, f64)> {
        let ended = self.cells.len().saturating_sub(1);
        let pairs = self.cells.iter().zip(self.cells.iter().skip(1)).take(ended.saturating_sub(1));
        let pairs = pairs.filter(|(before, after)| before.number + 1 == after.number);
        pairs.map(|(before, after)| (after.number, after.mean() - before.mean()))
    }

    /// Whether both stand in one queue.
    fn shares(&self, other: &Watched) -> bool {
        let mut others = other.changes().peekable();
        let (mut count, mut same) = (0, 0);
        for (number, ours) in self.changes() {
            while others.next_if(|(earlier, _)| *earlier < number).is_some() {}
            let Some((_, theirs)) = others.next_if(|(at, _)| *at == number) else { continue };
            let larger = ours.abs().max(theirs.abs());
            if larger >= CHANGE {
                count += 1;
                same += usize::from((ours - theirs).abs() <= SAME * larger);
            }
        }
        count >= CHANGES.0 && same as f64 >= CHANGES.1 * count as f64
    }
}

/// The paths of one link.
#[derive(Clone, Debug)]
pub(super) struct SharedBottleneck {
    paths: Vec<Watched>,
    /// The cell in which they were compared last.
    compared: u64,
}

impl SharedBottleneck {
    /// So many paths of which nothing is known.
    pub(super) fn new(paths: usize) -> Self {
        SharedBottleneck { paths: vec![Watched::default(); paths], compared: 0 }
    }

    /// The path is another one from now on.
    pub(super) fn forget(&mut self, path: usize) {
        self.paths[path] = Watched::default();
        for watched in &mut self.paths {
            watched.spare = watched.spare.filter(|(of, _)| *of != path);
        }
    }

    /// A packet that was sent at `sent_at` took so many seconds of both ends' clocks. Answers the path that is spare
    /// from now on, if there is one.
    pub(super) fn push(
        &mut self,
        now: Time,
        path: usize,
        sent_at: Time,
        delay: f64,
    ) -> Option<usize> {
        if self.spare_to(path, now).is_some() {
            return None;
        }
        let number = sent_at.as_nanos() / CELL;
        self.paths[path].push(number, delay);
        if number <= self.compared {
            return None;
        }
        self.compared = number;
        let used: Vec<usize> =
            (0..self.paths.len()).filter(|&path| self.spare_to(path, now).is_none()).collect();
        let pairs = used.iter().flat_map(|&one| used.iter().map(move |&other| (one, other)));
        // The longer one is spare, or the one that was before if they hardly differ.
        let mean = |path: usize| {
            let watched = &self.paths[path];
            watched.mean() + if watched.spare.is_some() { CHANGE } else { 0.0 }
        };
        let watched = &self.paths;
        let shares = |(one, other): &(usize, usize)| watched[*one].shares(&watched[*other]);
        let (one, other) = pairs.filter(|(one, other)| one < other).find(shares)?;
        let (kept, spare) = if mean(one) <= mean(other) { (one, other) } else { (other, one) };
        let Watched { spare: before, hold, .. } = self.paths[spare];
        let is_again = before.is_some_and(|(_, until)| now.since(until) < AGAIN);
        let hold = if is_again { (hold * 2).min(HOLD.1) } else { HOLD.0 };
        self.paths[spare] =
            Watched { cells: VecDeque::new(), spare: Some((kept, now + hold)), hold };
        Some(spare)
    }

    /// The path that carries data instead of this one.
    pub(super) fn spare_to(&self, path: usize, now: Time) -> Option<usize> {
        self.paths[path].spare.filter(|(_, until)| now < *until).map(|(of, _)| of)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::random::SplitMix;

    use super::*;

    const STEP: u64 = 25;

    /// Plays so many seconds of delays; answers when a path was spare first.
    fn play(seconds: u64, mut delays: impl FnMut(u64) -> [f64; 2]) -> Option<(Time, usize)> {
        let mut shared = SharedBottleneck::new(2);
        for at in (1000..1000 + seconds * 1000).step_by(STEP as usize) {
            let sent_at = Time::from_millis(at);
            for (path, delay) in delays(at).into_iter().enumerate() {
                if let Some(spare) = shared.push(sent_at, path, sent_at, delay) {
                    return Some((sent_at, spare));
                }
            }
        }
        None
    }

    /// A queue that grows and shrinks at random.
    fn wander(seeded: &mut SplitMix, queue: &mut f64) -> f64 {
        *queue = (*queue + (seeded.share() - 0.5) * 0.008).clamp(0.0, 0.060);
        *queue
    }

    #[test]
    fn of_two_paths_in_one_queue_the_longer_one_is_spare() {
        let (mut seeded, mut queue) = (SplitMix(1), 0.02);
        let found = play(10, |_| {
            let queue = wander(&mut seeded, &mut queue);
            [0.030 + queue, 0.025 + queue]
        });
        let (at, spare) = found.expect("they share it");
        assert!(spare == 0 && at < Time::from_millis(6500), "{at:?}");
    }

    #[test]
    fn two_queues_are_not_taken_for_one() {
        for seed in 0..20 {
            let (mut seeded, mut queues) = (SplitMix(seed), [0.02; 2]);
            let found = play(60, |_| {
                // Both fill and drain each second, as two probes at once would have it, and vary beside that.
                queues.each_mut().map(|queue| wander(&mut seeded, queue))
            });
            assert_eq!(found, None, "{seed}");
        }
        let empty = play(60, |_| [0.030, 0.025]);
        assert_eq!(empty, None, "a queue that nobody fills tells nothing");
        // One large change on both, and nothing else.
        let step = play(60, |at| if at < 5000 { [0.030; 2] } else { [0.080; 2] });
        assert_eq!(step, None);
    }

    #[test]
    fn each_time_that_both_were_tried_in_vain_the_next_is_later() {
        let (mut shared, mut seeded, mut queue) = (SharedBottleneck::new(2), SplitMix(3), 0.02);
        let mut spares = Vec::new();
        for at in (1000..120_000).step_by(STEP as usize) {
            let now = Time::from_millis(at);
            let queue = wander(&mut seeded, &mut queue);
            for path in 0..2 {
                spares.extend(shared.push(now, path, now, queue).map(|_| at / 1000));
            }
        }
        let gaps: Vec<u64> = spares.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.len() >= 2 && gaps.windows(2).all(|pair| pair[1] > pair[0] + 5), "{gaps:?}");
        assert_eq!(shared.spare_to(0, Time::FAR), None);
        shared.forget(0);
        assert!(
            shared.spare_to(1, Time::from_millis(120_000)).is_none(),
            "what it was spare to is gone"
        );
    }
}
