//! A fleet over loopback: an orchestrator, and nodes whose uplinks carry each other's records.

mod etcd;
mod explaining;
mod gate;
mod orchestrators;
mod several;
mod together;

pub(crate) use crate::support::PATIENCE;
