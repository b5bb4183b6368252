//! What durable acceptance costs: records a second that are safe on disk, beside two embedded stores, a
//! plain file, and the disk's own syncs; each at the same group commits, in turn, in one run.

mod disk;
mod node;
mod stores;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use self::disk::Written;
use super::figure;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::net::usage::resident_kib;
use crate::progress::Progress;

/// Payload of every record.
const SIZE: usize = 256;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the files go: on the disk that is meant, so not on a tmpfs.
    pub directory: Option<PathBuf>,
    /// Group commits.
    pub groups: Vec<usize>,
    /// Each measurement's length.
    pub time: Duration,
    /// Measurements of each, in turn.
    pub runs: usize,
}

/// A way to make records safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    /// A whole node: records are offered, sealed, committed, acknowledged, delivered to a sink that
    /// discards them, and their fates are committed too.
    Node,
    /// The same without sealing.
    Open,
    /// One write and one fdatasync a group.
    Plain,
    Redb,
    Fjall,
}

impl Contestant {
    const ALL: [Contestant; 5] = [
        Contestant::Node,
        Contestant::Open,
        Contestant::Plain,
        Contestant::Redb,
        Contestant::Fjall,
    ];

    fn name(self) -> &'static str {
        match self {
            Contestant::Node => "tidegate",
            Contestant::Open => "tidegate_unsealed",
            Contestant::Plain => "plain_file",
            Contestant::Redb => "redb",
            Contestant::Fjall => "fjall",
        }
    }
}

/// Runs the benchmark; returns its table and figures.
///
/// # Errors
/// The disk or a store says no.
pub async fn run(options: &Options) -> anyhow::Result<Vec<String>> {
    let _awake = Spinners::start()?;
    let scratch = Scratch::new()?;
    let root = options.directory.clone().unwrap_or_else(|| scratch.path().to_owned());
    let root = root.join(format!("tidegate-spool-{}", std::process::id()));
    let result = measure(options, &root).await;
    let cleared = std::fs::remove_dir_all(&root);
    let lines = result?;
    cleared.with_context(|| format!("removing {}", root.display()))?;
    Ok(lines)
}

async fn measure(options: &Options, root: &Path) -> anyhow::Result<Vec<String>> {
    std::fs::create_dir_all(root)?;
    let mut table = vec![format!(
        "durable records of {SIZE} B a second; median of {} runs of {:.0} s in turn; in brackets bytes\n\
         that the disk wrote for each byte of payload",
        options.runs,
        options.time.as_secs_f64()
    )];
    let mut figures = Vec::new();
    let steps = options.groups.len() * options.runs * Contestant::ALL.len();
    let progress = Progress::new("spool", steps);
    let memory = resident_kib(std::process::id())?[0];
    for &group in &options.groups {
        let mut runs = Contestant::ALL.map(|_| Vec::new());
        let mut syncs = Vec::new();
        for run in 0..options.runs {
            for (runs, contestant) in runs.iter_mut().zip(Contestant::ALL) {
                let step = format!("{}, {group} a commit", contestant.name());
                progress.step(&step, Some(options.time));
                let folder = root.join(format!("{}-{group}-{run}", contestant.name()));
                std::fs::create_dir_all(&folder)?;
                runs.push(one(contestant, group, options.time, &folder).await?);
                std::fs::remove_dir_all(&folder)?;
            }
            syncs.push(disk::syncs_a_second(root, options.time / 4)?);
        }
        let plain = median(runs[2].iter().map(|run| run.0).collect());
        table.push(format!("{group} a commit; {:.0} syncs/s of 4 KiB", median(syncs)));
        for (runs, contestant) in runs.iter().zip(Contestant::ALL) {
            let rate = median(runs.iter().map(|run| run.0).collect());
            let amplification = median(runs.iter().map(|run| run.1).collect());
            let (name, ratio) = (contestant.name(), rate / plain);
            table.push(format!(
                "  {name:<18}{rate:>10.0}/s {ratio:>6.2} of the plain file  [{amplification:.2}]"
            ));
            figures.push(figure(&format!("spool_{name}_{group}"), rate, "records/s"));
            figures.push(figure(&format!("spool_{name}_{group}_ratio"), ratio, "of_plain_file"));
            figures.push(figure(&format!("spool_{name}_{group}_written"), amplification, "B/B"));
        }
    }
    let grown = resident_kib(std::process::id())?[0].saturating_sub(memory) as f64 / 1024.0;
    figures.push(figure("spool_resident_growth_of_all", grown, "MiB"));
    table.append(&mut figures);
    Ok(table)
}

/// Records a second, and bytes that the disk wrote for each byte of payload.
async fn one(
    contestant: Contestant,
    group: usize,
    time: Duration,
    folder: &Path,
) -> anyhow::Result<(f64, f64)> {
    let before = Written::now(folder)?;
    let rate = match contestant {
        Contestant::Node => node::run(folder, group, time, true).await?,
        Contestant::Open => node::run(folder, group, time, false).await?,
        Contestant::Plain => stores::plain(folder, group, time)?,
        Contestant::Redb => stores::redb(folder, group, time)?,
        Contestant::Fjall => stores::fjall(folder, group, time)?,
    };
    let payload = rate * time.as_secs_f64() * SIZE as f64;
    Ok((rate, before.since(folder)? / payload))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
