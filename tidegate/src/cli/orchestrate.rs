//! `tidegate orchestrate`: the leader of a fleet, or one of several that may lead.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::assembly::read_orchestrator_here;
use crate::assembly::run::{Signals, count};
use crate::cli::fleet::OrchestrateArguments;
use crate::config::{FileKind, OrchestrateConfig, read_file};
use crate::observe::orchestrator;
use crate::services::fleet::orchestrate::OrchestrateOptions;

/// Leads a fleet, or waits for its turn, until a signal stops it.
///
/// # Errors
/// The file is wrong, or an address cannot be bound.
pub async fn orchestrate(arguments: &OrchestrateArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.file.path();
    let text = read_file(file).map_err(anyhow::Error::msg)?;
    let name = file.display().to_string();
    let kind = FileKind::of(file, &text);
    let is_ours = kind == FileKind::Orchestrator || text.trim().is_empty();
    anyhow::ensure!(is_ours, "{name}: this is the file of {}", kind.words());
    let reading = read_orchestrator_here(&text, None);
    let told = reading.render(&name, &text);
    if reading.counts().0 > 0 {
        anyhow::bail!("{told}{name}: {}, it does not start", count(reading.counts().0, "error"));
    }
    if arguments.check {
        writeln!(io::stdout(), "{told}{name}: right")?;
        return Ok(ExitCode::SUCCESS);
    }
    io::stderr().write_all(told.as_bytes())?;
    let OrchestrateConfig { orchestrator: config } = reading.config;
    let is_one_of_several = !config.etcd.is_empty();
    let options = OrchestrateOptions::try_from(config)?;
    let mut signals = Signals::new()?;
    let running = orchestrator::start(options).await?;
    for address in &running.listens {
        tracing::info!("nodes come to {address}");
    }
    let part = if is_one_of_several { "standing for election" } else { "leading" };
    tracing::info!("ready, {part}; Ctrl-C stops it");
    let received = signals.next().await;
    tracing::info!(signal = received.name, "stopping; the nodes keep what they hold for a lease");
    running.stop().await;
    Ok(ExitCode::SUCCESS)
}
