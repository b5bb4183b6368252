//! A recorded link: a list of chances to send 1500 bytes each, as mahimahi records and replays them.

use std::time::Duration;

/// Bytes that one chance carries: of one packet, of several small ones, or a part of a large one.
pub const CHANCE: u64 = 1500;

/// The chances, replayed for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chances {
    /// Rising; more than one can be in the same millisecond.
    millis: Vec<u64>,
    /// The next one that nobody has used: how often the list is through, and the place in it.
    round: u64,
    place: usize,
    /// What is left of the last one that was used, if it is still its time.
    room: Option<(Duration, u64)>,
}

/// Why a list is no recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the times of the chances must rise and end after 0 ms")]
pub struct ChancesError;

impl Chances {
    /// Chances at these milliseconds; the last one is also the length of a round.
    ///
    /// # Errors
    /// No rising list, or one that lasts no time.
    pub fn new(millis: Vec<u64>) -> Result<Self, ChancesError> {
        let lasts = millis.last().is_some_and(|last| *last > 0);
        if !lasts || !millis.is_sorted() {
            return Err(ChancesError);
        }
        Ok(Chances { millis, round: 0, place: 0, room: None })
    }

    /// When bytes that want to leave at `from` have all left; uses the chances up. What is left of the
    /// last one serves who asks at that same time. `None`: beyond the clock's end.
    pub(super) fn take(&mut self, from: Duration, bytes: u64) -> Option<Duration> {
        let mut left = bytes;
        let (mut at, mut room) = match self.room {
            Some((at, room)) if at == from => (at, room),
            _ => {
                self.skip_to(from);
                (from, 0)
            }
        };
        while left > room {
            left -= room;
            at = self.next()?;
            room = CHANCE;
        }
        self.room = Some((at, room - left));
        Some(at)
    }

    fn next(&mut self) -> Option<Duration> {
        let round = self.round.checked_mul(self.period())?;
        let at = Duration::from_millis(round.checked_add(self.millis[self.place])?);
        self.place += 1;
        if self.place == self.millis.len() {
            (self.place, self.round) = (0, self.round + 1);
        }
        Some(at)
    }

    /// A chance that nobody took is gone.
    fn skip_to(&mut self, from: Duration) {
        let from = u64::try_from(from.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        // A round's last chance is at its end, where the next round begins: look there first.
        let round = from.saturating_sub(1) / self.period();
        let inside = from - round * self.period();
        let place = self.millis.partition_point(|at| *at < inside);
        if (round, place) > (self.round, self.place) {
            (self.round, self.place) = (round, place);
        }
    }

    /// Bytes that the chances in [from, until) can carry.
    pub(super) fn room(&self, from: Duration, until: Duration) -> u64 {
        let before = |at: Duration| {
            let at = u64::try_from(at.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            // A round's last chance is at its end, where the next round begins.
            let rounds = at.saturating_sub(1) / self.period();
            let inside = at - rounds * self.period();
            rounds * self.millis.len() as u64
                + self.millis.partition_point(|chance| *chance < inside) as u64
        };
        before(until).saturating_sub(before(from)) * CHANCE
    }

    fn period(&self) -> u64 {
        self.millis[self.millis.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chances(millis: &[u64]) -> Chances {
        Chances::new(millis.to_vec()).unwrap()
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_chance_carries_small_packets_together_and_large_ones_in_parts() {
        let mut recorded = chances(&[5, 5, 9]);
        assert_eq!(recorded.take(ms(0), 500), Some(ms(5)));
        assert_eq!(recorded.take(ms(5), 1000), Some(ms(5)));
        assert_eq!(recorded.take(ms(5), 1501), Some(ms(9)));
        assert_eq!(recorded.take(ms(9), 1499), Some(ms(9)));
        assert_eq!(recorded.take(ms(9), 1), Some(ms(14)), "the second round");
    }

    #[test]
    fn what_nobody_took_is_gone() {
        let mut recorded = chances(&[1, 2, 3]);
        assert_eq!(recorded.take(Duration::from_micros(1500), 100), Some(ms(2)));
        assert_eq!(recorded.take(Duration::from_micros(2500), 1500), Some(ms(3)));
        assert_eq!(recorded.take(ms(3), 1500), Some(ms(4)));
        assert_eq!(recorded.take(ms(302), 1500), Some(ms(302)));
        assert_eq!(recorded.take(ms(303), 1500), Some(ms(303)), "a round's last chance");
    }

    #[test]
    fn room_is_what_a_full_link_carries() {
        let recorded = chances(&[1, 1, 4, 10]);
        let room = |from, until| recorded.room(ms(from), ms(until)) / CHANCE;
        assert_eq!([room(0, 1), room(0, 2), room(1, 4), room(2, 10)], [0, 2, 2, 1]);
        assert_eq!([room(0, 10), room(10, 21), room(0, 101)], [3, 5, 40]);
    }

    #[test]
    fn a_list_that_lasts_no_time_is_refused() {
        for list in [vec![], vec![0, 0], vec![2, 1]] {
            assert_eq!(Chances::new(list), Err(ChancesError));
        }
    }
}
