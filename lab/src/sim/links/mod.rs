//! Tidegate's own links in virtual time: several paths, their faults, and who else uses them.
//!
//! `lab sim link-...`: the link of core between two ends, over the emulated ways of `crate::link`.

mod buffer;
mod death;
mod fairness;
mod loaded;

use std::ops::Range;

pub(super) use self::buffer::run as buffer;
pub(super) use self::death::run as death;
pub(super) use self::fairness::run as fairness;
use self::loaded::Promise;
use self::scene::{HEAVY, LIGHT};
use self::table::{NONE, Target};
use crate::report::Findings;
use tidegate_lab_engine::sim::links::{load, neighbour, scene, statistics, table, way, world};

/// What heavy loss may cost, and what light loss.
const PROMISES: [Promise; 2] = [
    Promise {
        loss: HEAVY,
        goodput: 120.0,
        start: Some(Target::AtMost(1.5)),
        stall: NONE,
        media: (140.0, 400.0),
        guarded: (Some(Target::AtMost(220.0)), Some(Target::AtMost(1.5))),
    },
    Promise {
        loss: LIGHT,
        goodput: 135.0,
        start: NONE,
        stall: Some(Target::AtMost(0.5)),
        media: (110.0, 300.0),
        guarded: (NONE, NONE),
    },
];

pub(super) fn heavy(seeds: Range<u64>) -> Findings {
    loaded::run("link_h", &PROMISES[0], seeds)
}

pub(super) fn light(seeds: Range<u64>) -> Findings {
    loaded::run("link_l", &PROMISES[1], seeds)
}
