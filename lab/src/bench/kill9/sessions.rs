//! A broker is killed under its sessions again and again, or its power fails: what of all that it acknowledged is lost?
//! The clients are those of the tests (`tidegate_testbed::kill_under_crowd`), the brokers are data (`lab/brokers.toml`).

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use tidegate_testbed::{
    CrowdBroker, CrowdOptions, ManyOptions, free_address, kill_under_crowd, kill_with_many,
};

use crate::bench::brokers::{self, BrokerSpec};
use crate::bench::powercut::Disk;
use crate::net::{self, scratch::Scratch, spinner::Spinners, usage::resident_kib};
use crate::progress::Progress;
use crate::report::{Findings, figure};

/// NATS sends again what was not acknowledged for half a minute.
const SILENCE: Duration = Duration::from_secs(40);

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// A broker of lab/brokers.toml (may be given again); all of them if left out
    #[arg(long)]
    only: Vec<String>,
    /// How often the broker is killed
    #[arg(long, default_value_t = 10)]
    kills: u32,
    /// Its power fails instead (Tidegate alone): its log stands on a disk that has what was synced
    #[arg(long)]
    power: bool,
    /// Killed once, with so many retained messages, a tenth as many subscriptions and a hundredth as many sessions
    #[arg(long)]
    many: Option<u64>,
    /// Of all times
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs it and returns what was found; what Tidegate loses, or delivers twice, breaks the run.
pub(crate) fn run(options: &Options) -> anyhow::Result<Findings> {
    let (_awake, mut found) = (Spinners::start()?, Findings::default());
    let mut brokers = brokers::all("sessions-kill9");
    brokers.retain(|(broker, _)| {
        let is_wanted = options.only.is_empty() || options.only.contains(&broker.name);
        is_wanted && (broker.is_ours() || !options.power)
    });
    let progress = Progress::new("sessions-kill9", brokers.len());
    for (broker, path) in brokers {
        progress.step(&format!("{}, {} kills", broker.name, options.kills), None);
        let path = path.map_err(anyhow::Error::from);
        match path.and_then(|path| play(&broker, &path, options, &mut found)) {
            // An older version may not know its configuration, and ends.
            Err(error) if !broker.is_ours() => {
                found.lines.push(format!("skipped: {}: {error}", broker.figure()));
            }
            played => played?,
        }
    }
    Ok(found)
}

fn play(
    broker: &BrokerSpec,
    path: &Path,
    options: &Options,
    found: &mut Findings,
) -> anyhow::Result<()> {
    let (scratch, address) = (Scratch::new()?, free_address());
    let mut disk = if options.power { Some(Disk::new(&scratch)?) } else { None };
    let folder = disk.as_ref().map_or(scratch.path(), |disk| &disk.mounted).to_owned();
    let file = scratch.file("config", &broker.settings(address))?;
    let start = || {
        let mut command = Command::new(path);
        CrowdBroker::start(command.args(&broker.arguments).arg(&file).current_dir(&folder))
    };
    let told = format!("{} ({})", broker.figure(), broker.promise);
    if let Some(many) = options.many.map(|retained| ManyOptions::of(address, retained)) {
        let account = kill_with_many(many, start, |running| Ok(resident_kib(running.id())?[0]))?;
        found.lines.push(format!("{told}: {account}"));
        return Ok(());
    }
    let fall = |running: CrowdBroker| {
        if let Some(disk) = &disk {
            net::run("kill", &["-STOP", &running.id().to_string()]).map_err(io::Error::other)?;
            disk.copy().map_err(io::Error::other)?;
        }
        drop(running);
        disk.as_mut().map_or(Ok(()), |disk| disk.replace().map_err(io::Error::other))
    };
    let (seed, kills, has_groups) = (options.seed, options.kills, !broker.has_no_groups);
    let (subscribers, per_second, silence) = (100, 2000, SILENCE);
    let crowd = CrowdOptions { address, subscribers, per_second, has_groups, silence, seed };
    let account = kill_under_crowd(crowd, kills, start, fall)?;
    found.lines.push(format!("{told}: {kills} kills, {account}"));
    for (what, count) in account.figures() {
        let name = format!("sessions_kill9_{}_{what}", broker.figure());
        found.figures.push(figure(&name, count as f64, "count"));
    }
    if broker.is_ours() && account.is_wrong() {
        found.broken.push(account.told.join("; "));
    }
    Ok(())
}
