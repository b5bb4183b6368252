//! What durable acceptance costs: records a second that are safe on disk, beside two embedded stores, a
//! plain file, and the disk's own syncs; each at the same group commits, in turn, in one run.

mod disk;
mod log;
mod node;
mod payloads;
mod stores;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use self::disk::Written;
use super::median;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::net::usage::resident_kib;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};

/// Payload of every record.
const SIZE: usize = 256;
/// Groups that are offered and not acknowledged at once: while one is on its way to the disk, the next
/// one gathers.
const AHEAD: u64 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Where the files go: on the disk that is meant, so not on a tmpfs.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) groups: Vec<usize>,
    pub(crate) time: Duration,
    /// Measurements of each, in turn.
    pub(crate) runs: usize,
}

/// A way to make records safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Contestant {
    /// The log alone, sealed: what the stores beside it are.
    Log,
    /// A whole node: records are offered, sealed, committed, acknowledged, delivered to a sink that
    /// discards them, and their fates are committed too.
    Node,
    /// The same without sealing.
    Open,
    /// One write and one fdatasync a group.
    Plain,
    /// A transaction a group.
    Redb,
    /// A batch a group.
    Fjall,
}

impl Contestant {
    /// All but the plain file, with which each is compared.
    const ALL: [Contestant; 5] =
        [Contestant::Log, Contestant::Node, Contestant::Open, Contestant::Redb, Contestant::Fjall];

    fn name(self) -> &'static str {
        match self {
            Contestant::Log => "tidegate_log",
            Contestant::Node => "tidegate_node",
            Contestant::Open => "tidegate_node_unsealed",
            Contestant::Plain => "plain_file",
            Contestant::Redb => "redb",
            Contestant::Fjall => "fjall",
        }
    }
}

/// Runs the benchmark; returns its table and figures.
pub(crate) async fn run(options: &Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    let scratch = Scratch::new()?;
    let root = options.directory.clone().unwrap_or_else(|| scratch.path().to_owned());
    let root = root.join(format!("tidegate-spool-{}", std::process::id()));
    let result = measure(options, &root).await;
    let cleared = std::fs::remove_dir_all(&root);
    let found = result?;
    cleared.with_context(|| format!("removing {}", root.display()))?;
    Ok(found)
}

async fn measure(options: &Options, root: &Path) -> anyhow::Result<Findings> {
    std::fs::create_dir_all(root)?;
    let mut table = vec![format!(
        "durable records of {SIZE} B a second, each measurement in a process of its own; ratios to the plain\n\
         file are those of two measurements one after the other, for a disk does not stay as fast as it is;\n\
         medians of {} runs of {} s in turn; in brackets bytes that the disk wrote for each byte of payload,\n\
         and the most memory",
        options.runs,
        options.time.as_secs_f64()
    )];
    let mut figures = Vec::new();
    let steps = options.groups.len() * options.runs * Contestant::ALL.len() * 2;
    let progress = Progress::new("spool", steps);
    for &group in &options.groups {
        let mut pairs = Contestant::ALL.map(|_| Vec::new());
        let mut syncs = Vec::new();
        for run in 0..options.runs {
            for turn in 0..Contestant::ALL.len() {
                // Nobody always comes behind the same one.
                let place = (run + turn) % Contestant::ALL.len();
                let mut pair = Vec::new();
                for contestant in [Contestant::Plain, Contestant::ALL[place]] {
                    let step = format!("{}, {group} a commit", contestant.name());
                    progress.step(&step, Some(options.time));
                    let folder = root.join(format!("{}-{group}-{run}-{turn}", contestant.name()));
                    std::fs::create_dir_all(&folder)?;
                    pair.push(apart(contestant, group, options.time, &folder).await?);
                }
                pairs[place].push([pair[0], pair[1]]);
            }
            syncs.push(disk::syncs_a_second(root, options.time / 4)?);
        }
        // Not before: a disk that is told of free space is busy with it for a while.
        std::fs::remove_dir_all(root)?;
        std::fs::create_dir_all(root)?;
        disk::settle(root)?;
        table.push(format!("{group} a commit; {:.0} syncs/s of 4 KiB", median(syncs)));
        let plain: Vec<Run> = pairs.iter().flatten().map(|[plain, _]| *plain).collect();
        let itself: Vec<_> = plain.iter().map(|plain| [*plain, *plain]).collect();
        for (pairs, contestant) in pairs.iter().zip(Contestant::ALL) {
            rows(contestant, group, pairs, &mut table, &mut figures);
        }
        rows(Contestant::Plain, group, &itself, &mut table, &mut figures);
    }
    Ok((table, figures).into())
}

/// A line and figures of a contestant, from its measurements, each behind one of the plain file.
fn rows(
    contestant: Contestant,
    group: usize,
    pairs: &[[Run; 2]],
    table: &mut Vec<String>,
    figures: &mut Vec<Figure>,
) {
    let of = |field: fn(&[Run; 2]) -> f64| median(pairs.iter().map(field).collect());
    let (name, rate) = (contestant.name(), of(|[_, own]| own.rate));
    let ratio = of(|[plain, own]| own.rate / plain.rate);
    let (written, peak) = (of(|[_, own]| own.written), of(|[_, own]| own.peak_mib));
    table.push(format!(
        "  {name:<24}{rate:>10.0}/s {ratio:>6.2} of the plain file  [{written:.2}; {peak:.0} MiB]"
    ));
    figures.push(figure(&format!("spool_{name}_{group}"), rate, "records/s"));
    figures.push(figure(&format!("spool_{name}_{group}_ratio"), ratio, "of_plain_file"));
    figures.push(figure(&format!("spool_{name}_{group}_written"), written, "B/B"));
    figures.push(figure(&format!("spool_{name}_{group}_peak"), peak, "MiB"));
}

/// What one measurement says.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Records a second.
    rate: f64,
    /// Bytes that the disk wrote for each byte of payload.
    written: f64,
    /// The most memory that the process ever had.
    peak_mib: f64,
}

/// Measures in a process of its own, so that nobody uses memory that another one left.
async fn apart(
    contestant: Contestant,
    group: usize,
    time: Duration,
    folder: &Path,
) -> anyhow::Result<Run> {
    disk::settle(folder)?;
    let before = Written::now(folder)?;
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    let name = contestant.to_possible_value().context("no contestant is hidden")?;
    command.args(["bench", "spool", "--only", name.get_name(), "--group", &group.to_string()]);
    command.args(["--seconds", &time.as_secs_f64().to_string(), "--directory"]).arg(folder);
    let output = command.stderr(Stdio::inherit()).kill_on_drop(true).output().await?;
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace().map(str::parse::<f64>);
    let (Some(Ok(rate)), Some(Ok(peak_mib))) = (words.next(), words.next()) else {
        anyhow::bail!("{} did not end well: {text:?}", contestant.name());
    };
    let payload = rate * time.as_secs_f64() * SIZE as f64;
    Ok(Run { rate, written: before.since(folder)? / payload, peak_mib })
}

/// One measurement in this process: records a second, and the most memory that it ever had, in MiB.
pub(crate) async fn one(
    contestant: Contestant,
    group: usize,
    time: Duration,
    folder: &Path,
) -> anyhow::Result<String> {
    let rate = match contestant {
        Contestant::Log => log::run(folder, group, time).await?,
        Contestant::Node => node::run(folder, group, time, true).await?,
        Contestant::Open => node::run(folder, group, time, false).await?,
        Contestant::Plain => stores::plain(folder, group, time)?,
        Contestant::Redb => stores::redb(folder, group, time)?,
        Contestant::Fjall => stores::fjall(folder, group, time)?,
    };
    let [_, peak] = resident_kib(std::process::id())?;
    let peak = peak as f64 / 1024.0;
    Ok(format!("{rate} {peak}"))
}
