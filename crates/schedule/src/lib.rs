//! Where records wait, and which of them the uplink serves next.
//!
//! A *queue* holds the records of one stream for one output; a class groups queues. A *scheduler* sees, for each class,
//! the most urgent record that could go now, and answers with a class and a list of it. It is asked as late as
//! possible: when the pacer says that the wire is free.
//!
//! | file, in the order of reading | what it decides |
//! |---|---|
//! | `queue/mod.rs`, `queue/` | queues, groups, live and late lists, exact in bytes |
//! | `discipline.rs` | the order within one queue |
//! | `scheduler.rs`, `names.rs` | what a scheduler sees and answers; which there are |
//! | `estimate.rs`, `allocate.rs` | rates of arrival; shares of the uplink among classes |
//! | `tidegate.rs`, `shares.rs`, `throttle.rs` | the default scheduler |
//! | `baselines/` | the paper's schedulers and a plain FIFO, by name |
//!
//! ```
//! use tidegate_schedule::SchedulerName;
//!
//! assert_eq!("janus".parse(), Ok(SchedulerName::Janus));
//! assert!(!SchedulerName::Native.has_classes());
//! ```

#![forbid(unsafe_code)]

pub mod allocate;
mod baselines;
pub mod discipline;
pub mod estimate;
mod names;
pub mod queue;
mod scheduler;
mod shares;
#[cfg(test)]
mod tests;
mod throttle;
mod tidegate;

pub use self::names::SchedulerName;
pub use self::scheduler::{Choice, ClassLoad, ClassView, Piece, Scheduler, UplinkLoad};
pub use self::shares::{Shares, Shortage, Spare};
