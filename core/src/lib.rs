//! Every decision and every format of Tidegate, as pure code: no clock, no socket, no file, no thread.

#![forbid(unsafe_code)]

pub mod account;
pub mod adapt;
pub mod allocate;
pub mod broker;
pub mod capacity;
pub mod class;
pub mod estimate;
pub mod fleet;
pub mod frames;
pub mod inbound;
pub mod io;
pub mod limits;
pub mod link;
pub mod log;
pub mod mirror;
pub mod moves;
pub mod node;
pub mod operators;
pub mod optimum;
pub mod options;
pub mod pace;
pub mod place;
pub mod queue;
pub mod random;
pub mod record;
pub mod rules;
pub mod schedule;
pub mod shares;
pub mod status;
pub mod topic;
pub mod turns;
pub mod units;
pub mod uplink;
