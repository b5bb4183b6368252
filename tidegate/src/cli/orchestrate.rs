//! `tidegate orchestrate`: the leader of a fleet, or one of several that may lead.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;

use crate::assembly::run::Signals;
use crate::cli::fleet::OrchestrateArguments;
use crate::config::{OrchestrateConfig, read_file};
use crate::observe::orchestrator;
use crate::services::fleet::orchestrate::OrchestrateOptions;

/// Leads a fleet, or waits for its turn, until a signal stops it.
///
/// # Errors
/// The file is wrong, or an address cannot be bound.
pub async fn orchestrate(arguments: &OrchestrateArguments) -> anyhow::Result<ExitCode> {
    let file = &arguments.config;
    let text = read_file(file).map_err(anyhow::Error::msg)?;
    let OrchestrateConfig { orchestrator: config } =
        toml::from_str(&text).with_context(|| file.display().to_string())?;
    let is_one_of_several = !config.etcd.is_empty();
    let options = OrchestrateOptions::try_from(config)?;
    if arguments.check {
        options.check()?;
        writeln!(io::stdout(), "{}: right", file.display())?;
        return Ok(ExitCode::SUCCESS);
    }
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
