//! The options of an uplink, and the rate controller that they ask for. The names are listed in `lib.rs`.

use std::sync::Arc;

use tidegate_types::units::Rate;

use crate::controller::{KnownRates, RateController};
use crate::marks::Marks;
use crate::target::QueueBelow;
use crate::{RateControllerName, capped};

/// A capacity that several outputs share.
#[derive(Clone, Debug, Default)]
pub struct UplinkOptions {
    /// Label in metrics and messages.
    pub name: Arc<str>,
    /// How its capacity is found.
    pub controller: RateControllerName,
    /// A configured rate: never more than this. The rate controller `known` needs it.
    pub cap: Option<Rate>,
    /// How long a queue stands below. Only `tide` listens.
    pub queue: QueueBelow,
    /// A rate remembered from an earlier run, to start from.
    pub remembered: Option<Rate>,
    /// Whether whoever sends finds a path's first rate by itself, as a link does: `tide` adds no trains to that.
    pub has_own_start: bool,
}

/// The rate controller of these options. Ours hear marks of congestion. A configured rate caps every controller; without one,
/// `known` sends one piece at a time (`NodeOptions::check` refuses that).
pub fn build(options: &UplinkOptions) -> Box<dyn RateController> {
    let UplinkOptions { cap, queue, remembered, has_own_start, .. } = *options;
    let rates = KnownRates { cap, queue, remembered, has_own_start };
    let mut controller = options.controller.entry()(rates);
    if matches!(options.controller, RateControllerName::Tide | RateControllerName::TideBeside) {
        controller = Box::new(Marks::new(controller));
    }
    match options.cap {
        Some(cap) => Box::new(capped::Capped::new(controller, cap)),
        None => controller,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_types::units::{Size, Time};

    use super::*;
    use crate::PathSample;
    use crate::test_link::{Feedback, Trial};
    use crate::tide;
    use crate::uplink::Uplink;

    const POLLED: Feedback = Feedback::Polled(Duration::from_millis(5));
    const HELD: Feedback =
        Feedback::Held { held: Duration::from_millis(40), period: Duration::from_millis(100) };
    /// Megabits and propagation in milliseconds, one way, of the links that the rate controllers must find.
    const LINKS: [(f64, u64); 8] = [
        (2.0, 50),
        (18.0, 50),
        (0.78, 100),
        (200.0, 5),
        (5.0, 20),
        (50.0, 30),
        (0.5, 80),
        (1.0, 150),
    ];

    fn seconds<T>(steps: &[(u64, T)], unit: impl Fn(&T) -> Rate) -> Vec<(Time, Rate)> {
        steps.iter().map(|(at, value)| (Time::from_millis(at * 1000), unit(value))).collect()
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        for controller in RateControllerName::ALL {
            assert_eq!(controller.name().parse(), Ok(controller));
        }
        let error = "tied".parse::<RateControllerName>().unwrap_err();
        assert!(error.contains("\"tied\"") && error.contains("tide, tide-beside, bbr"), "{error}");
        let error = "tide-restless".parse::<RateControllerName>().unwrap_err();
        assert!(
            error.ends_with(
                "any more: write \"tide\", or leave it out: the default law does what it did"
            ),
            "{error}"
        );
    }

    #[test]
    fn tide_fills_any_link_and_alarms_hardly_wait() {
        for (megabits, delay) in LINKS {
            for feedback in [Feedback::Each, POLLED] {
                let mut trial = Trial::fixed(RateControllerName::Tide, megabits, delay);
                trial.feedback = feedback;
                let outcome = trial.run();
                let wait = |from| outcome.quantile(0.99, from, 20.0) - delay as f64;
                let steady = outcome.share(megabits, 3.0, 20.0);
                let case = format!("{megabits} Mbit/s {delay} ms {feedback:?}");
                // With the start, and without.
                assert!(wait(0.0) <= 110.0, "{case}: alarms wait {:.0} ms", wait(0.0));
                assert!(wait(3.0) <= 100.0, "{case}: alarms wait {:.0} ms", wait(3.0));
                assert!(steady >= 0.98, "{case}: share {steady:.3}");
                assert!((outcome.rate.as_bits() / megabits / 1e6 - 1.0).abs() < 0.05, "{case}");
            }
        }
    }

    #[test]
    fn beside_a_backlog_live_records_meet_no_queue() {
        for (megabits, delay) in [(40.0, 20), (18.0, 50), (200.0, 5), (10.0, 50)] {
            for feedback in [Feedback::Each, POLLED] {
                let mut trial = Trial::fixed(RateControllerName::Tide, megabits, delay);
                (trial.feedback, trial.is_backlog) = (feedback, true);
                trial.length = Duration::from_secs(60);
                let outcome = trial.run();
                let over = |part| outcome.quantile(part, 2.0, 60.0) / delay as f64;
                let share = outcome.share(megabits, 2.0, 60.0);
                let case = format!("{megabits} Mbit/s {delay} ms {feedback:?}");
                assert!(over(0.5) <= 1.12, "{case}: p50 {:.3} of an idle link's", over(0.5));
                assert!(over(0.9) <= 1.2, "{case}: p90 {:.3} of an idle link's", over(0.9));
                assert!(over(0.99) <= 1.25, "{case}: p99 {:.3} of an idle link's", over(0.99));
                assert!(share >= 0.9, "{case}: share {share:.3}");
            }
        }
    }

    #[test]
    fn a_backlog_follows_the_rate_and_the_path() {
        for feedback in [Feedback::Each, POLLED] {
            let mut trial = Trial::fixed(RateControllerName::Tide, 8.0, 50);
            (trial.feedback, trial.is_backlog) = (feedback, true);
            let steps = [(0, 8e6), (30, 2e6), (60, 8e6)];
            trial.rates = seconds(&steps, |&bits| Rate::from_bits(bits));
            let millis = Duration::from_millis;
            trial.delays = vec![(Time::ZERO, millis(50)), (Time::from_millis(90_000), millis(80))];
            trial.length = Duration::from_secs(130);
            let outcome = trial.run();
            let share = |megabits, from, to| outcome.share(megabits, from, to);
            let shares = [share(8.0, 3.0, 30.0), share(2.0, 33.0, 60.0), share(8.0, 75.0, 90.0)];
            assert!(shares.iter().all(|&share| share >= 0.88), "{feedback:?}: {shares:?}");
            assert!(share(8.0, 105.0, 130.0) >= 0.88, "{feedback:?}: a longer path");
        }
    }

    #[test]
    fn tide_bears_held_acknowledgements() {
        for (megabits, delay) in [(2.0, 50), (18.0, 50), (0.78, 100), (1.0, 150)] {
            let mut trial = Trial::fixed(RateControllerName::Tide, megabits, delay);
            trial.feedback = HELD;
            let outcome = trial.run();
            let p99 = outcome.quantile(0.99, 0.0, 20.0) - delay as f64;
            let steady = outcome.share(megabits, 3.0, 20.0);
            assert!(p99 <= 170.0 && steady >= 0.95, "{megabits} {delay}: {p99:.0} {steady:.3}");
        }
    }

    #[test]
    fn tide_follows_steps_of_the_rate() {
        for (feedback, queue) in [(Feedback::Each, 0.025), (POLLED, 0.03)] {
            let mut trial = Trial::fixed(RateControllerName::Tide, 8.0, 50);
            trial.feedback = feedback;
            let steps = [(0, 8e6), (18, 1e6), (38, 8e6)];
            trial.rates = seconds(&steps, |&bits| Rate::from_bits(bits));
            trial.length = Duration::from_secs(58);
            let outcome = trial.run();
            let worst = outcome.quantile(1.0, 18.0, 19.5);
            assert!(worst <= 8.0 * (100.0 + queue * 1e3) + 150.0, "{feedback:?}: {worst:.0} ms");
            for (from, to) in [(0.0, 18.0), (19.5, 38.0), (38.0, 58.0)] {
                let p99 = outcome.quantile(0.99, from, to);
                assert!(p99 <= 150.0, "{feedback:?} from {from} s: {p99:.0} ms");
            }
            let shares = [outcome.share(1.0, 21.0, 38.0), outcome.share(8.0, 41.0, 58.0)];
            assert!(shares.iter().all(|&share| share >= 0.95), "{feedback:?}: {shares:?}");
        }
    }

    #[test]
    fn tide_fills_a_link_that_fades_and_returns() {
        for feedback in [Feedback::Each, POLLED] {
            let mut trial = Trial::fixed(RateControllerName::Tide, 40.0, 30);
            trial.feedback = feedback;
            let step = |turn: u64| {
                let bits = if turn.is_multiple_of(2) { 40e6 } else { 4e6 };
                (Time::from_millis(turn * 300), Rate::from_bits(bits))
            };
            trial.rates = (0..67).map(step).collect();
            let outcome = trial.run();
            let (share, p50) = (outcome.share(22.0, 2.0, 20.0), outcome.quantile(0.5, 2.0, 20.0));
            assert!(share >= 0.9 && p50 <= 150.0, "{feedback:?}: {share:.3} {p50:.0} ms");
        }
    }

    #[test]
    fn tide_notices_that_the_path_became_longer_or_shorter() {
        for (before, after) in [(30, 80), (50, 65), (5, 12), (12, 5), (2, 200), (200, 2)] {
            let mut trial = Trial::fixed(RateControllerName::Tide, 8.0, 50);
            let millis = Duration::from_millis;
            trial.delays =
                vec![(Time::ZERO, millis(before)), (Time::from_millis(20_000), millis(after))];
            trial.length = Duration::from_secs(40);
            let outcome = trial.run();
            let share = outcome.share(8.0, 25.0, 40.0);
            let p99 = outcome.quantile(0.99, 25.0, 40.0) - after as f64;
            assert!(share >= 0.97, "{before} -> {after} ms: share {share:.3}");
            assert!(p99 <= 100.0, "{before} -> {after} ms: alarms wait {p99:.0} ms");
        }
    }

    #[test]
    fn tide_fills_a_link_that_serves_in_lumps() {
        // As a modem that gets a turn now and then: within half a round trip there is often none.
        for period in [50, 70, 90, 120] {
            let mut trial = Trial::fixed(RateControllerName::Tide, 10.0, 30);
            let period = Duration::from_millis(period);
            trial.served = Some((period / 10, period));
            trial.length = Duration::from_secs(60);
            let outcome = trial.run();
            let share = outcome.share(1.0, 5.0, 60.0);
            let p99 = outcome.quantile(0.99, 5.0, 60.0);
            assert!(share >= 0.9 && p99 <= 350.0, "{period:?}: share {share:.3}, {p99:.0} ms");
        }
    }

    #[test]
    fn tide_takes_a_nearly_silent_link_for_no_longer_path() {
        // Alarms alone are more than 5 to 30 kbit/s carry: their backlog fills what is drained for a look.
        for silent in [0.005, 0.03] {
            for after in [0.3, 8.0] {
                let mut trial = Trial::fixed(RateControllerName::Tide, 8.0, 50);
                let steps = [(0, 8.0), (10, silent), (20, after)];
                trial.rates = seconds(&steps, |&megabits| Rate::from_bits(megabits * 1e6));
                trial.length = Duration::from_secs(50);
                let outcome = trial.run();
                let share = outcome.share(after, 30.0, 50.0);
                let wait = outcome.quantile(0.99, 30.0, 50.0) - 50.0;
                let case = format!("{silent} and {after} Mbit/s: {share:.3}, {wait:.0} ms");
                assert!(share >= 0.97 && wait <= 100.0, "{case}");
                assert!(
                    outcome.min_rtt < Duration::from_millis(110),
                    "{case}: {:?}",
                    outcome.min_rtt
                );
            }
        }
    }

    #[test]
    fn rivals_fill_a_plain_link() {
        for controller in [
            RateControllerName::Bbr,
            RateControllerName::Bbr3,
            RateControllerName::Copa,
            RateControllerName::Ledbat,
        ] {
            let outcome = Trial::fixed(controller, 2.0, 50).run();
            let share = outcome.share(2.0, 3.0, 20.0);
            assert!(share >= 0.95, "{}: share {share:.3}", controller.name());
        }
    }

    #[test]
    fn a_known_rate_is_used_to_92_percent() {
        let mut trial = Trial::fixed(RateControllerName::Known, 2.0, 50);
        trial.cap = Some(Rate::from_bits(2e6));
        let outcome = trial.run();
        let share = outcome.share(2.0, 3.0, 20.0);
        assert!((0.90..0.93).contains(&share), "{share:.3}");
        assert!(outcome.quantile(0.99, 0.0, 20.0) <= 65.0);
    }

    #[test]
    fn a_configured_rate_caps_every_controller() {
        for controller in [
            RateControllerName::Tide,
            RateControllerName::Bbr,
            RateControllerName::Bbr3,
            RateControllerName::Copa,
            RateControllerName::Ledbat,
        ] {
            let mut trial = Trial::fixed(controller, 8.0, 50);
            trial.cap = Some(Rate::from_bits(2e6));
            let outcome = trial.run();
            let share = outcome.share(2.0, 1.0, 20.0);
            assert!(
                outcome.rate <= Rate::from_bits(2e6),
                "{}: {}",
                controller.name(),
                outcome.rate
            );
            assert!((0.9..=1.03).contains(&share), "{}: share {share:.3}", controller.name());
        }
    }

    #[test]
    fn a_configured_rate_is_carried_over_the_shortest_path_too() {
        // Acknowledgements are seen when the kernel is asked, or late.
        let lumps =
            Feedback::Held { held: Duration::from_millis(9), period: Duration::from_millis(15) };
        for feedback in [Feedback::Each, POLLED, Feedback::Polled(Duration::from_millis(12)), lumps]
        {
            for megabits in [0.5, 1.0, 2.0, 4.0, 20.0] {
                let mut trial = Trial::fixed(RateControllerName::Tide, 1000.0, 0);
                (trial.cap, trial.feedback) = (Some(Rate::from_bits(megabits * 1e6)), feedback);
                let outcome = trial.run();
                let share = outcome.share(megabits, 1.0, 20.0);
                assert!(
                    (0.98..=1.02).contains(&share),
                    "{megabits} Mbit/s, {feedback:?}: {share:.3}"
                );
            }
        }
    }

    #[test]
    fn without_proof_the_rate_is_forgotten_but_not_below_a_fresh_start() {
        let mut controller = tide::Tide::new(KnownRates {
            cap: None,
            remembered: Some(Rate::from_bits(1e9)),
            queue: QueueBelow::Auto,
            has_own_start: false,
        });
        for _ in 0..100 {
            let now = controller.next_timeout().expect("a rate without proof");
            controller.tick(now);
        }
        assert_eq!(controller.rate(), Rate::new(146_000.0));
        assert!(controller.window() >= Size(14_600));
    }

    #[test]
    fn two_share_a_link() {
        // From ten seconds after the second came on; on fast links an alarm of theirs waits for both queues.
        for (megabits, delay) in [(2.0, 50), (8.0, 50), (40.0, 20), (100.0, 10)] {
            let mut trial = Trial::fixed(RateControllerName::Tide, megabits, delay);
            (trial.feedback, trial.second) = (POLLED, Some(Time::from_millis(10_000)));
            trial.length = Duration::from_secs(60);
            let outcome = trial.run();
            let shares = [0, 1].map(|of| outcome.share_of(of, megabits, 20.0, 60.0));
            let p99 = outcome.quantile(0.99, 20.0, 60.0) - delay as f64;
            let case = format!("{megabits} Mbit/s {delay} ms: {shares:?}, {p99:.0} ms");
            assert!(shares.iter().all(|share| *share >= 0.33) && p99 <= 100.0, "{case}");
        }
    }

    #[test]
    fn after_a_silence_the_first_urgent_record_goes_at_once() {
        for millis in [300, 1000, 5000, 20_000, 60_000] {
            for controller in RateControllerName::ALL {
                let cap = Some(Rate::from_bits(1e6));
                let options = UplinkOptions { controller, cap, ..UplinkOptions::default() };
                let mut uplink = Uplink::new(&options, build(&options), 1);
                let piece = Size(1400);
                let go = |uplink: &mut Uplink, now| {
                    uplink.picked_for(now, 0, piece);
                    uplink.handed(0, piece, piece);
                };
                let mut delivered = Size::ZERO;
                for turn in 0..50 {
                    go(&mut uplink, Time::from_millis(turn * 100));
                    delivered += piece;
                    let rtt = Some(Duration::from_millis(50));
                    let sample = PathSample { rtt, delivered, ..PathSample::default() };
                    uplink.sample(Time::from_millis(turn * 100 + 50), 0, &sample);
                }
                let now = Time::from_millis(5000 + millis);
                uplink.tick(now);
                assert!(uplink.is_free(now, piece, Some(0)), "{} {millis} ms", controller.name());
            }
        }
    }
}
