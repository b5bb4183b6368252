//! The options of `lab bench spool`, which works only in a build with the cargo feature `stores`.

use std::path::PathBuf;

use clap::Args;

#[cfg(feature = "stores")]
use crate::bench::spool;
use crate::report::Findings;

#[derive(Clone, Debug, Args)]
pub(super) struct Options {
    /// A folder on the disk that is meant
    #[arg(long)]
    directory: Option<PathBuf>,
    /// One measurement of this contestant in this process, as the benchmark itself starts it
    #[cfg(feature = "stores")]
    #[arg(long, hide = true, requires = "directory")]
    only: Option<spool::Contestant>,
    /// Records of a commit (may be given again)
    #[arg(long, default_values_t = [1, 64, 256])]
    group: Vec<usize>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,
    /// Measurements of each, in turn
    #[arg(long, default_value_t = 11)]
    runs: usize,
}

#[cfg(feature = "stores")]
pub(super) async fn run(options: Options) -> anyhow::Result<Option<Findings>> {
    let Options { directory, only, group: groups, seconds, runs } = options;
    let time = std::time::Duration::from_secs_f64(seconds);
    if let (Some(folder), Some(only)) = (&directory, only) {
        crate::say(&spool::one(only, groups[0], time, folder).await?);
        return Ok(None);
    }
    Ok(Some(spool::run(&spool::Options { directory, groups, time, runs }).await?))
}

#[cfg(not(feature = "stores"))]
#[expect(clippy::unused_async, reason = "as the other one")]
pub(super) async fn run(_options: Options) -> anyhow::Result<Option<Findings>> {
    anyhow::bail!("built without the stores: cargo run --features stores -p tidegate-lab")
}
