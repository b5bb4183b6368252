//! Benchmarks on real sockets: contestants on the same wires, in the same run.

pub(crate) mod backlog;
pub(crate) mod broker;
mod brokers;
pub(crate) mod contestants;
pub(crate) mod core;
pub(crate) mod fleet;
pub(crate) mod hol;
pub(crate) mod hostile;
pub(crate) mod ingest;
mod insist;
pub(crate) mod kill9;
pub(crate) mod link;
pub(crate) mod load;
pub(crate) mod moves;
pub(crate) mod overhead;
pub(crate) mod powercut;
pub(crate) mod sidecar;
#[cfg(feature = "stores")]
pub(crate) mod spool;
pub(crate) mod world;

pub(crate) use tidegate_lab_engine::{interrupted, median};
