//! A fleet over loopback: an orchestrator, and nodes whose uplinks carry each other's records.

#![expect(clippy::print_stdout, reason = "a test says what it skipped and what it saw")]

mod etcd;
mod explaining;
mod gate;
mod orchestrators;
mod several;
mod together;

pub(crate) use crate::support::PATIENCE;
