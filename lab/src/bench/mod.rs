//! Benchmarks on real sockets: contestants on the same wires, in the same run.

pub mod adapt;
pub mod backlog;
pub mod broker;
pub mod contestants;
pub mod core;
pub mod fleet;
pub mod frames;
pub mod hol;
pub mod hostile;
pub mod ingest;
pub mod kill9;
pub mod link;
pub mod load;
pub mod model;
pub mod moves;
pub mod orchestrator;
pub mod overhead;
pub mod placelive;
pub mod powercut;
pub mod rungs;
pub mod sensitivity;
pub mod sidecar;
#[cfg(feature = "stores")]
pub mod spool;
mod topics;
pub mod world;

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

/// The middle one; of an even number the upper one, of none NaN.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_one() {
        assert_eq!([median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0])], [2.0, 4.0]);
        assert!(median(Vec::new()).is_nan());
    }
}
