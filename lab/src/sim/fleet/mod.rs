//! Whole fleets: matchings at scale (`fleet-scale`).

mod random;
mod scale;

pub(in crate::sim) use self::scale::run as scale;
