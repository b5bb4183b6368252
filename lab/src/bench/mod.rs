//! Benchmarks on real sockets: contestants on the same wires, in the same run.

mod brokers;
pub mod hol;
pub mod ingest;

use std::path::PathBuf;

use anyhow::Context;

/// One line of a result, as every `lab` command prints them at its end.
pub fn figure(name: &str, value: f64, unit: &str) -> String {
    format!("FIGURE {name} {} {unit}", (value * 1000.0).round() / 1000.0)
}

/// The product's program: the variable `TIDEGATE`, or the one that was built beside the lab's.
///
/// # Errors
/// Neither is there.
pub fn tidegate_program() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("TIDEGATE").map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("tidegate"));
    let found = given.or_else(beside).filter(|path| path.is_file());
    found
        .context("needs the program tidegate, not found (cargo build -p tidegate, or set TIDEGATE)")
}

/// Ends with an error when the process is told to end, so that what is running can clean up.
///
/// # Errors
/// Always, in the end.
pub async fn interrupted() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    anyhow::bail!("interrupted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_one_line() {
        assert_eq!(figure("alarm_p99", 12.34567, "ms"), "FIGURE alarm_p99 12.346 ms");
        assert_eq!(figure("lost_accepted", 0.0, "records"), "FIGURE lost_accepted 0 records");
    }
}
