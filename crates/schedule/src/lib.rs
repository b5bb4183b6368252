//! Holds the records that wait, and chooses which one the uplink serves next.
//!
//! A *queue* holds the records of one stream for one output. A *class* groups queues. A *delivery* is one record on its way
//! to one destination; it is *live* until its deadline and *late* afterwards. A *scheduler* sees, for each class, the next
//! cut of its most urgent ready record, and answers with a class and one of its two lists. The node asks as late as
//! possible: when the pacer says that the wire is free.
//!
//! | file | what |
//! |---|---|
//! | `queue/mod.rs`, `queue/` | queues, groups, live and late lists, exact in bytes |
//! | `discipline.rs` | the order within one queue |
//! | `scheduler.rs` | the `Scheduler` trait: what it sees and what it answers |
//! | `names.rs` | what follows from the name of a scheduler: lanes, and the order of records |
//! | `tidegate.rs` | the default scheduler |
//! | `granted.rs`, `throttle.rs` | what schedulers share that grant rates ahead; serves each class at its granted rate |
//! | `estimate.rs`, `allocate.rs`, `shares.rs` | arrival rates; the division of the uplink among classes; what a node reports of it |
//! | `baselines/` | the paper's schedulers and a plain FIFO, selectable by name |
//!
//! ```
//! use tidegate_schedule::queue::Timing;
//! use tidegate_schedule::{Choice, ClassView, NextCut, SchedulerName};
//! use tidegate_types::class::{ClassId, Classes, default_classes};
//! use tidegate_types::units::{Size, Time};
//!
//! let classes = Classes::new(default_classes()).unwrap();
//! let mut scheduler = SchedulerName::Tidegate.build(&classes);
//! let cut = |order| Some(NextCut { size: Size(1000), order });
//! // Bulk came first, and an alarm of the most urgent class came second.
//! let views = [ClassView::new(cut(2), None), ClassView::default(), ClassView::new(cut(1), None)];
//! let choice = scheduler.next(Time::from_millis(1), &views);
//! assert_eq!(choice, Some(Choice { class: ClassId(0), timing: Timing::Live }));
//! ```

#![forbid(unsafe_code)]

pub mod allocate;
pub mod discipline;
pub mod estimate;
mod granted;
mod names;
pub mod queue;
mod scheduler;
mod shares;
#[cfg(test)]
mod tests;
mod throttle;

pub use self::scheduler::{Choice, ClassLoad, ClassView, NextCut, Scheduler, UplinkLoad};
pub use self::shares::{Shortage, Spare, UplinkShares};

tidegate_types::algorithms! {
    /// The schedulers, by name. A new one is a file in `baselines/`, and a line here.
    pub enum SchedulerName: "scheduler" -> scheduler::SchedulerEntry {
        mod baselines {
            Native = "native" in native: "One FIFO for everything.",
            JanusPaper = "janus-paper" in janus_paper: "JANUS as printed: grants rates after a violation.",
            Janus = "janus" in janus: "JANUS repaired: grants rates in every interval.",
        }
        mod {
            #[default]
            Tidegate = "tidegate" in tidegate: "Urgent first, minimum shares and caps; lends what is unused.",
        }
    }
}
