//! Which path takes the next piece.

mod blest;
mod dpsaf;
mod ecf;
mod low_rtt;
mod mvqs;
mod mvqs_paper;
mod redundant;
mod round_robin;

use std::fmt;
use std::str::FromStr;

use tidegate_types::units::Time;

/// A path that can take a piece, as schedulers see it. Sizes are bytes, times seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathView {
    /// Place of the path in the link.
    pub path: usize,
    /// Predicted arrival delay PAD: from sending to arrival with what now stands on the way. All paths
    /// have the same origin.
    pub predicted_delay: f64,
    /// Smoothed round trip.
    pub srtt: f64,
    /// Mean deviation of round trips from the smoothed one.
    pub rtt_variation: f64,
    /// Round trip without queues.
    pub min_rtt: f64,
    /// What may be unacknowledged, swnd.
    pub window: f64,
    /// Mean window before it fell, swnd^top; infinite if it never did.
    pub window_top: f64,
    /// Sent and not acknowledged.
    pub in_flight: f64,
    /// In the path's virtual queue.
    pub queued: f64,
    /// Rate at which the path sends, bytes/s; 0 while it is not known.
    pub pace: f64,
    /// Loss rate ρ, in [0, 1].
    pub loss_rate: f64,
    /// Time from sending a packet until its loss is known.
    pub detection: f64,
}

impl PathView {
    /// Virtual queue length q of the paper, with the piece: what is in flight counts.
    fn ahead(&self, piece: f64) -> f64 {
        self.in_flight + self.queued + piece
    }

    /// Whether the window has room for the piece, q < swnd. An idle path always has.
    fn has_room(&self, piece: f64) -> bool {
        self.in_flight + self.queued <= 0.0 || self.ahead(piece) <= self.window
    }
}

/// What a scheduler is asked: where does this piece go, of all that wait the most urgent one?
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// When.
    pub now: Time,
    /// Paths whose virtual queues have room for it; never empty.
    pub open: &'a [PathView],
    /// The other paths that work.
    pub full: &'a [PathView],
    /// Bytes of the piece.
    pub piece: f64,
    /// Bytes that wait for a path, the piece included.
    pub waiting: f64,
    /// Bytes of records that the peer takes at most, rwnd.
    pub peer_window: f64,
    /// Whether that has kept a record from beginning within the last round trip.
    pub is_blocked: bool,
}

impl Choice<'_> {
    /// The path of the least round trip, whether it is open or not.
    fn fastest(&self) -> &PathView {
        let mut fastest = &self.open[0];
        for path in self.open.iter().chain(self.full) {
            if path.srtt < fastest.srtt {
                fastest = path;
            }
        }
        fastest
    }

    /// The place of the open path of the least round trip whose window has room.
    fn fastest_with_room(&self) -> Option<usize> {
        let cost =
            |path: &PathView| if path.has_room(self.piece) { path.srtt } else { f64::INFINITY };
        let place = place_of_least(self.open.iter().map(cost));
        self.open[place].has_room(self.piece).then_some(place)
    }
}

/// A rule that chooses a path.
pub trait Scheduler: fmt::Debug + Send {
    /// The place in `choice.open` of the path that takes the piece; `None` where it should wait for another
    /// one, which has something under way, so that an acknowledgement will come.
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize>;

    /// On how many paths each piece goes, where so many have room.
    fn copies(&self) -> usize {
        1
    }
}

/// The schedulers, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleName {
    /// FD-MVQS as corrected.
    #[default]
    FdMvqs,
    /// FD-MVQS as printed.
    FdMvqsPaper,
    /// Least round trip that has room.
    LowRtt,
    /// Expected rounds of a window that loss makes smaller.
    DpsafLike,
    /// A slower path only if it does not block the window.
    Blest,
    /// A slower path only if it is done before the fastest.
    Ecf,
    /// One after the other.
    RoundRobin,
    /// Every path that has room.
    Redundant,
}

impl ScheduleName {
    /// Every scheduler.
    pub const ALL: [ScheduleName; 8] = [
        ScheduleName::FdMvqs,
        ScheduleName::FdMvqsPaper,
        ScheduleName::LowRtt,
        ScheduleName::DpsafLike,
        ScheduleName::Blest,
        ScheduleName::Ecf,
        ScheduleName::RoundRobin,
        ScheduleName::Redundant,
    ];

    /// As in configuration.
    pub fn name(self) -> &'static str {
        match self {
            ScheduleName::FdMvqs => "fd-mvqs",
            ScheduleName::FdMvqsPaper => "fd-mvqs-paper",
            ScheduleName::LowRtt => "low-rtt",
            ScheduleName::DpsafLike => "dpsaf-like",
            ScheduleName::Blest => "blest",
            ScheduleName::Ecf => "ecf",
            ScheduleName::RoundRobin => "round-robin",
            ScheduleName::Redundant => "redundant",
        }
    }

    /// The scheduler. `decrease_factor` is η of Eq. 22, in [0, 1].
    pub fn build(self, decrease_factor: f64) -> Box<dyn Scheduler> {
        match self {
            ScheduleName::FdMvqs => Box::new(mvqs::Mvqs),
            ScheduleName::FdMvqsPaper => Box::new(mvqs_paper::MvqsPaper { decrease_factor }),
            ScheduleName::LowRtt => Box::new(low_rtt::LowRtt),
            ScheduleName::DpsafLike => Box::new(dpsaf::DpsafLike { decrease_factor }),
            ScheduleName::Blest => Box::new(blest::Blest::default()),
            ScheduleName::Ecf => Box::new(ecf::Ecf::default()),
            ScheduleName::RoundRobin => Box::new(round_robin::RoundRobin::default()),
            ScheduleName::Redundant => Box::new(redundant::Redundant),
        }
    }
}

impl FromStr for ScheduleName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = ScheduleName::ALL.into_iter().find(|schedule| schedule.name() == text);
        found.ok_or_else(|| {
            let names = ScheduleName::ALL.map(ScheduleName::name).join(", ");
            format!("no schedule of paths is called {text:?}: there are {names}")
        })
    }
}

/// The place of the smallest number; the first of several. 0 where there is none.
fn place_of_least(numbers: impl Iterator<Item = f64>) -> usize {
    let least = numbers.enumerate().min_by(|(_, left), (_, right)| left.total_cmp(right));
    least.map_or(0, |(place, _)| place)
}

#[cfg(test)]
pub(super) use self::tests::path as trial_path;

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of 10 packets of 1000 bytes a window and round trip of 100 ms, empty.
    pub(in super::super) fn path() -> PathView {
        PathView {
            path: 0,
            predicted_delay: 0.05,
            srtt: 0.1,
            rtt_variation: 0.0,
            min_rtt: 0.1,
            window: 10_000.0,
            window_top: 10_000.0,
            in_flight: 0.0,
            queued: 0.0,
            pace: 0.0,
            loss_rate: 0.0,
            detection: 0.1,
        }
    }

    /// A piece of 1000 bytes of 20,000 that wait, for a peer that takes a megabyte.
    pub(super) fn ask<'a>(open: &'a [PathView], full: &'a [PathView]) -> Choice<'a> {
        Choice {
            now: Time::ZERO,
            open,
            full,
            piece: 1000.0,
            waiting: 20_000.0,
            peer_window: 1e6,
            is_blocked: false,
        }
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        for name in ScheduleName::ALL {
            assert_eq!(name.name().parse(), Ok(name));
        }
        assert!("fastest".parse::<ScheduleName>().unwrap_err().contains("fd-mvqs-paper"));
    }

    #[test]
    fn low_rtt_takes_the_shortest_that_has_room_and_round_robin_each_in_turn() {
        let near = PathView { srtt: 0.05, ..path() };
        let full = PathView { in_flight: 10_000.0, ..near };
        let mut low_rtt = ScheduleName::LowRtt.build(0.5);
        assert_eq!(low_rtt.choose(&ask(&[path(), near], &[])), Some(1));
        assert_eq!(low_rtt.choose(&ask(&[path(), full], &[])), Some(0));
        assert_eq!(low_rtt.choose(&ask(&[full, full], &[])), Some(0), "someone must take it");
        let mut turns = ScheduleName::RoundRobin.build(0.5);
        let paths = [0, 2, 5].map(|number| PathView { path: number, ..path() });
        let chosen = [(); 4].map(|()| turns.choose(&ask(&paths, &[])));
        assert_eq!(chosen, [Some(0), Some(1), Some(2), Some(0)]);
        assert_eq!(turns.choose(&ask(&paths[2..], &[])), Some(0));
    }

    #[test]
    fn every_schedule_answers_with_a_path_that_is_there_and_waits_for_none_that_is_idle() {
        let odd = PathView { window: 0.0, srtt: 0.0, pace: 0.0, loss_rate: 1.0, ..path() };
        let busy = PathView { in_flight: 20_000.0, ..path() };
        for name in ScheduleName::ALL {
            let mut schedule = name.build(0.5);
            assert_eq!(schedule.choose(&ask(&[odd], &[])), Some(0));
            assert!(schedule.choose(&ask(&[odd, path(), odd], &[])).is_some_and(|place| place < 3));
            assert!(schedule.choose(&ask(&[busy], &[busy])).is_none_or(|place| place < 1));
        }
    }
}
