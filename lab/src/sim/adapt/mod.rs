//! Case studies of adaptation scripts in virtual time: the product's engine with its scripts, over core's queues.

pub(crate) mod hls;
mod stage;
mod yahoo;

use std::path::Path;

/// Whether a scenario is one of these.
pub(super) fn knows(name: &str) -> bool {
    matches!(name, "adapt-yahoo" | "adapt-hls")
}

/// The lines to print, and what was broken.
///
/// # Errors
/// Data that is none, or a script that fails.
pub(super) fn run(name: &str, data: &Path) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    match name {
        "adapt-yahoo" => yahoo::run(data),
        _ => hls::run(data, &hls::Options::default()),
    }
}
