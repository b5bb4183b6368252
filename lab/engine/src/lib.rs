//! What measures Tidegate: worlds, emulated links, load, processes in namespaces, virtual time, results.
//!
//! It knows no scenario and no benchmark: those stand in `lab/src` and, where only a paper needs them, in `lab/papers`.
#![expect(
    missing_docs,
    reason = "its readers are the lab's own programs; what a name does not say stands beside it"
)]

pub mod link;
pub mod load;
pub mod net;
pub mod play;
pub mod progress;
pub mod query;
pub mod report;
pub mod rig;
pub mod sim;
pub mod world;

/// Ends with an error when the process is told to end, so that what is running can clean up.
///
/// # Errors
/// Always: that it was told so, or that signals cannot be awaited.
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
pub fn median(mut values: Vec<f64>) -> f64 {
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
