//! What only a paper's experiment needs: its tables, players, detectors, films and recordings.
//!
//! Above the lab's engine and below the program `lab`, which has the commands.
#![expect(
    missing_docs,
    reason = "its reader is the lab's own program; what a name does not say stands beside it"
)]

pub mod bench;
pub mod janus;
pub mod recorded;
pub mod sim;
mod watch;

pub(crate) use tidegate_lab_engine::{link, load, net, play, progress, query, report, rig, world};
