//! How `tide` starts.

use std::time::Duration;

use crate::RateControllerName;
use crate::test_link::{Feedback, Outcome, Trial};

const POLLED: Feedback = Feedback::Polled(Duration::from_millis(5));

fn trial((megabits, delay): (f64, u64), feedback: Feedback, length: u64) -> Trial {
    let mut trial = Trial::fixed(RateControllerName::Tide, megabits, delay);
    (trial.feedback, trial.length) = (feedback, Duration::from_secs(length));
    trial
}

/// When the first 0.3 s begin in which 0.9 of the link is used, seconds; looked at each 0.1 s.
fn full_at(outcome: &Outcome, megabits: f64) -> f64 {
    let spans = (0..40).map(|turn| f64::from(turn) / 10.0);
    let mut full = spans.filter(|from| outcome.share(megabits, *from, from + 0.3) >= 0.9);
    full.next().unwrap_or(f64::INFINITY)
}

#[test]
fn a_long_path_is_full_within_a_second() {
    let mut missed = Vec::new();
    for megabits in [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
        for (delay, feedback) in
            [(50, POLLED), (100, POLLED), (50, Feedback::Each), (100, Feedback::Each)]
        {
            let outcome = trial((megabits, delay), feedback, 5).run();
            let full = full_at(&outcome, megabits);
            let wait = outcome.quantile(1.0, 0.0, 4.8) - delay as f64;
            if full > 1.0 || wait > 115.0 {
                let case = format!("{megabits} Mbit/s, {delay} ms, {feedback:?}");
                missed.push(format!("{case}: {full:.1} s, {wait:.0} ms"));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
