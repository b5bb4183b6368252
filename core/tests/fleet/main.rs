//! The fleet: what holds for every matching, every load and every fault.

mod agents;
mod leading;
mod matching;
mod pairs;
mod support;
