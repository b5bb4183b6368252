//! Evaluates Tidegate: load, links in network namespaces, rivals on the same wires.

pub mod bench;
pub mod catalogue;
pub mod cli;
pub mod compare;
pub mod demo;
pub mod janus;
pub mod link;
pub mod load;
pub mod net;
pub mod play;
pub mod progress;
pub mod query;
pub mod recorded;
pub mod report;
pub mod rig;
pub mod sim;
pub mod verify;
pub mod world;

/// Says a line to people.
#[expect(clippy::print_stdout, reason = "a command for people")]
fn say(line: &str) {
    println!("{line}");
}
