//! What a topic among others looks like, whatever the machine's speed: features without units, for what the physics leave over.
//! Source: own.
//! Inputs: what the physics say of a topic and of all. Outputs: as many numbers as [`FEATURES`] has names. O(1).
//! Deviations: none.
//! Limits: none.

use super::super::Topic;
use super::super::physics::NORMAL_P90;
use super::broker::{Foreseen, Together, bound};

/// Names of the features, in their order.
pub const FEATURES: [&str; 13] = [
    "together",
    "load",
    "urgent_load",
    "own_load",
    "latency_over_bound",
    "work_over_bound",
    "work_over_mean",
    "variation",
    "bound_over_mean",
    "work_cv",
    "cores",
    "fixed_share",
    "serial",
];

/// The features of a topic among `together`.
pub(super) fn shape(
    (together, cores): (usize, f64),
    all: &Together,
    one: &Foreseen,
    topic: &Topic,
) -> [f64; FEATURES.len()] {
    let bound = bound(topic);
    // Of topics that do nothing there is nothing to say.
    let per = |value: f64, by: f64| if by > 0.0 { value / by } else { 1.0 };
    let ln = |value: f64| value.max(1e-12).ln();
    let mean = per(all.load, all.rate);
    [
        together as f64,
        all.load / cores,
        one.urgent / cores,
        one.load / cores,
        ln(per(one.p90, bound)),
        ln(per(one.service * (1.0 + NORMAL_P90 * topic.work_cv), bound)),
        ln(per(one.service, mean)),
        ln(per(per(all.square, all.rate), mean * mean)),
        ln(per(bound, per(all.bounds, all.load))),
        topic.work_cv,
        cores,
        per(one.fixed, one.service),
        f64::from(u8::from(topic.is_serial)),
    ]
}
