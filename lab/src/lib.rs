//! Evaluates Tidegate: load, links in network namespaces, rivals on the same wires.

use std::io::Write;

mod bench;
mod catalogue;
pub mod cli;
mod compare;
mod demo;
pub mod sim;
mod verify;

pub use tidegate_lab_engine::{link, report, world};
pub(crate) use tidegate_lab_engine::{load, net, play, progress, rig};

/// Says a line to people. Where nobody reads any more (`lab list | head`), what is running still ends as it should.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
