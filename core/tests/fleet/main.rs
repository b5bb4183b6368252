//! The fleet: what holds for every matching, every load and every fault.

mod matching;
