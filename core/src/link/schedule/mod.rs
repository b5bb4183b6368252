//! Which path takes the next piece.

mod low_rtt;
mod mvqs;
mod mvqs_paper;
mod round_robin;

use std::fmt;
use std::str::FromStr;

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
}

/// A rule that chooses a path.
pub trait Scheduler: fmt::Debug + Send {
    /// The place in `paths`, which is not empty, of the one that takes a piece of so many bytes.
    fn choose(&mut self, paths: &[PathView], piece: f64) -> usize;
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
    /// One after the other.
    RoundRobin,
}

impl ScheduleName {
    /// Every scheduler.
    pub const ALL: [ScheduleName; 4] = [
        ScheduleName::FdMvqs,
        ScheduleName::FdMvqsPaper,
        ScheduleName::LowRtt,
        ScheduleName::RoundRobin,
    ];

    /// As in configuration.
    pub fn name(self) -> &'static str {
        match self {
            ScheduleName::FdMvqs => "fd-mvqs",
            ScheduleName::FdMvqsPaper => "fd-mvqs-paper",
            ScheduleName::LowRtt => "low-rtt",
            ScheduleName::RoundRobin => "round-robin",
        }
    }

    /// The scheduler. `decrease_factor` is η of Eq. 22, in [0, 1].
    pub fn build(self, decrease_factor: f64) -> Box<dyn Scheduler> {
        match self {
            ScheduleName::FdMvqs => Box::new(mvqs::Mvqs),
            ScheduleName::FdMvqsPaper => Box::new(mvqs_paper::MvqsPaper { decrease_factor }),
            ScheduleName::LowRtt => Box::new(low_rtt::LowRtt),
            ScheduleName::RoundRobin => Box::new(round_robin::RoundRobin::default()),
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
mod tests {
    use super::*;

    /// A path of 10 packets of 1000 bytes a window and round trip of 100 ms, empty.
    pub(super) fn path() -> PathView {
        PathView {
            path: 0,
            predicted_delay: 0.05,
            srtt: 0.1,
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
        assert_eq!(low_rtt.choose(&[path(), near], 1000.0), 1);
        assert_eq!(low_rtt.choose(&[path(), full], 1000.0), 0);
        assert_eq!(low_rtt.choose(&[full, full], 1000.0), 0, "someone must take it");
        let mut turns = ScheduleName::RoundRobin.build(0.5);
        let paths = [0, 2, 5].map(|number| PathView { path: number, ..path() });
        assert_eq!([(); 4].map(|()| turns.choose(&paths, 1.0)), [0, 1, 2, 0]);
        assert_eq!(turns.choose(&paths[2..], 1.0), 0);
    }

    #[test]
    fn every_schedule_answers_with_a_path_that_is_there() {
        let odd = PathView { window: 0.0, srtt: 0.0, pace: 0.0, loss_rate: 1.0, ..path() };
        for name in ScheduleName::ALL {
            let mut schedule = name.build(0.5);
            assert!(schedule.choose(&[odd], 1000.0) < 1);
            assert!(schedule.choose(&[odd, path(), odd], 1000.0) < 3);
        }
    }
}
