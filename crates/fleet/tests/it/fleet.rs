//! The fleet: what holds for every matching, every load and every fault.

mod agents;
mod by_hand;
mod electing;
mod faults;
mod leading;
mod matching;
mod pairs;
mod standing;
mod support;
