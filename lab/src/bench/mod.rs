//! Benchmarks on real sockets: contestants on the same wires, in the same run.

pub mod core;
pub mod hol;
pub mod ingest;
pub mod kill9;
#[cfg(feature = "stores")]
pub mod spool;
pub mod world;

pub use crate::report::figure;

/// Which memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// What it has now.
    Resident,
    /// The most that it ever had.
    Peak,
}

/// Memory of a process, in KiB.
///
/// # Errors
/// There is no such process.
pub fn memory_kib(process: u32, which: Memory) -> std::io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let name = match which {
        Memory::Resident => "VmRSS:",
        Memory::Peak => "VmHWM:",
    };
    let line = text.lines().find(|line| line.starts_with(name));
    let field = line.and_then(|line| line.split_whitespace().nth(1));
    field.and_then(|field| field.parse().ok()).ok_or_else(|| std::io::Error::other("no memory"))
}

/// Resident memory of a process, in KiB.
///
/// # Errors
/// There is no such process.
pub fn resident_kib(process: u32) -> std::io::Result<u64> {
    memory_kib(process, Memory::Resident)
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
