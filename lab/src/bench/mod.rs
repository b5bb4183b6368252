//! Benchmarks on real sockets: contestants on the same wires, in the same run.

pub(crate) mod adapt;
pub(crate) mod backlog;
pub(crate) mod broker;
pub(crate) mod contestants;
pub(crate) mod core;
pub(crate) mod fleet;
pub(crate) mod frames;
pub(crate) mod hol;
pub(crate) mod hostile;
pub(crate) mod ingest;
pub(crate) mod kill9;
pub(crate) mod link;
pub(crate) mod load;
pub(crate) mod model;
pub(crate) mod moves;
pub(crate) mod orchestrator;
pub(crate) mod overhead;
pub(crate) mod placelive;
pub(crate) mod powercut;
pub(crate) mod rungs;
pub(crate) mod sensitivity;
pub(crate) mod sidecar;
#[cfg(feature = "stores")]
pub(crate) mod spool;
mod topics;
pub(crate) mod world;

/// Ends with an error when the process is told to end, so that what is running can clean up.
pub(crate) async fn interrupted() -> anyhow::Result<()> {
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
