//! Benchmarks on real sockets: contestants on the same wires, in the same run.

pub mod core;
pub mod hol;
pub mod ingest;
pub mod kill9;
#[cfg(feature = "stores")]
pub mod spool;
pub mod world;

/// One line of a result, as every `lab` command prints them at its end.
pub fn figure(name: &str, value: f64, unit: &str) -> String {
    format!("FIGURE {name} {} {unit}", (value * 1000.0).round() / 1000.0)
}

/// Resident memory of a process, in KiB.
///
/// # Errors
/// There is no such process.
pub fn resident_kib(process: u32) -> std::io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let field = line.and_then(|line| line.split_whitespace().nth(1));
    field.and_then(|field| field.parse().ok()).ok_or_else(|| std::io::Error::other("no VmRSS"))
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
