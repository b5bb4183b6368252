//! Evaluates Tidegate: load, links in network namespaces, rivals on the same wires.

mod bench;
mod catalogue;
pub mod cli;
mod compare;
mod demo;
mod janus;
pub mod link;
mod load;
mod net;
mod play;
mod progress;
pub mod query;
mod recorded;
pub mod report;
mod rig;
pub mod sim;
mod verify;
pub mod world;

/// Says a line to people.
#[expect(clippy::print_stdout, reason = "a command for people")]
fn say(line: &str) {
    println!("{line}");
}
