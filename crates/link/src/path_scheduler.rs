//! Which path takes the next piece.

mod scheduler;

pub use self::scheduler::{PathScheduler, PathView, PieceView};

tidegate_types::algorithms! {
    /// The schedulers of paths, by name. A new one is a file in `path_scheduler/baselines/`, and a line here.
    pub enum PathSchedulerName: "schedule of paths" -> scheduler::Build {
        mod {
            #[default]
            FdMvqs = "fd-mvqs" in mvqs: "FD-MVQS as corrected.",
        }
        mod baselines {
            FdMvqsPaper = "fd-mvqs-paper" in mvqs_paper: "FD-MVQS as printed.",
            LowRtt = "low-rtt" in low_rtt: "The least round trip that has room.",
            DpsafLike = "dpsaf-like" in dpsaf: "Expected rounds of a window that loss makes smaller.",
            Blest = "blest" in blest: "A slower path only if it does not block the window.",
            Ecf = "ecf" in ecf: "A slower path only if it is done before the fastest.",
            RoundRobin = "round-robin" in round_robin: "One path after the other.",
            Redundant = "redundant" in redundant: "Every path that has room.",
        }
    }
}

impl PathSchedulerName {
    /// The scheduler. `decrease_factor` is η of Eq. 22, in [0, 1].
    pub fn build(self, decrease_factor: f64) -> Box<dyn PathScheduler> {
        self.entry()(decrease_factor)
    }
}

#[cfg(test)]
pub(super) use self::tests::path as trial_path;

#[cfg(test)]
mod tests {
    use tidegate_types::units::Time;

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
    pub(super) fn ask<'a>(open: &'a [PathView], full: &'a [PathView]) -> PieceView<'a> {
        PieceView {
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
        for name in PathSchedulerName::ALL {
            assert_eq!(name.name().parse(), Ok(name));
        }
        assert!("fastest".parse::<PathSchedulerName>().unwrap_err().contains("fd-mvqs-paper"));
    }

    #[test]
    fn low_rtt_takes_the_shortest_that_has_room_and_round_robin_each_in_turn() {
        let near = PathView { srtt: 0.05, ..path() };
        let full = PathView { in_flight: 10_000.0, ..near };
        let mut low_rtt = PathSchedulerName::LowRtt.build(0.5);
        assert_eq!(low_rtt.choose(&ask(&[path(), near], &[])), Some(1));
        assert_eq!(low_rtt.choose(&ask(&[path(), full], &[])), Some(0));
        assert_eq!(low_rtt.choose(&ask(&[full, full], &[])), Some(0), "someone must take it");
        let mut turns = PathSchedulerName::RoundRobin.build(0.5);
        let paths = [0, 2, 5].map(|number| PathView { path: number, ..path() });
        let chosen = [(); 4].map(|()| turns.choose(&ask(&paths, &[])));
        assert_eq!(chosen, [Some(0), Some(1), Some(2), Some(0)]);
        assert_eq!(turns.choose(&ask(&paths[2..], &[])), Some(0));
    }

    #[test]
    fn every_schedule_answers_with_a_path_that_is_there_and_waits_for_none_that_is_idle() {
        let odd = PathView { window: 0.0, srtt: 0.0, pace: 0.0, loss_rate: 1.0, ..path() };
        let busy = PathView { in_flight: 20_000.0, ..path() };
        for name in PathSchedulerName::ALL {
            let mut schedule = name.build(0.5);
            assert_eq!(schedule.choose(&ask(&[odd], &[])), Some(0));
            assert!(schedule.choose(&ask(&[odd, path(), odd], &[])).is_some_and(|place| place < 3));
            assert!(schedule.choose(&ask(&[busy], &[busy])).is_none_or(|place| place < 1));
        }
    }
}
