//! One node in this process: how drivers talk to it, the loop that owns it, its log on disk, and its local broker.

pub mod broker;
pub mod contract;
pub mod door;
pub mod event_loop;
pub mod log_store;
