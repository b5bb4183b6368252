//! One node in this process: how drivers talk to it, the loop that owns it, its log on disk, its local broker, and the journal of that.

pub mod broker;
pub mod contract;
pub mod door;
pub mod event_loop;
pub mod journal;
pub mod log_store;
