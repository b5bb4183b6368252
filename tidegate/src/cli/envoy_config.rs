//! `tidegate envoy-config`: writes Envoy's side of `tidegate ext-proc`, and looks at one that is there.
//!
//! Envoy's defaults defeat a queue: a message that is held for longer than 200 ms is answered with 504, or
//! passes the queue where failures are allowed.

mod istio;
mod lint;
mod write;
mod yaml;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

pub use self::lint::{Finding, lint};
use crate::cli::envoy::EnvoyConfigArguments;
use crate::config::{Config, read};
use crate::services::proxy::envoy::needs::Needs;
use crate::support::files;

/// Longest configuration of Envoy that is looked at.
const FILE_MAX: u64 = 16 << 20;

/// Writes or looks, as the arguments say.
///
/// # Errors
/// The configuration has a mistake, or a file cannot be read.
pub fn envoy_config(arguments: &EnvoyConfigArguments) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let config = configuration(arguments.file.path())?;
    let needs = Needs::of(&config)?;
    let Some(file) = &arguments.check else {
        let text = match arguments.istio {
            true => istio::render(&needs, &config, arguments)?,
            false => write::render(&needs, arguments),
        };
        out.write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let text = files::hear_text(file, FILE_MAX).with_context(|| file.display().to_string())?;
    let found = lint(&text, &needs).with_context(|| file.display().to_string())?;
    for finding in &found {
        writeln!(out, "{}: {finding}", file.display())?;
    }
    let has_errors = found.iter().any(|finding| finding.is_error);
    if found.is_empty() {
        writeln!(out, "{}: nothing in it defeats the queues", file.display())?;
    }
    Ok(if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn configuration(file: &Path) -> anyhow::Result<Config> {
    let text = crate::config::read_file(file).map_err(anyhow::Error::msg)?;
    // Certificates are files of the machine that it runs on.
    let reading = read(&text);
    let told = reading.render(&file.display().to_string(), &text);
    anyhow::ensure!(reading.counts().0 == 0, "{told}");
    let proxy = &reading.config.proxy;
    anyhow::ensure!(
        !proxy.listener.is_empty() && !proxy.upstream.is_empty(),
        "{}: no [[proxy.listener]] or no [[proxy.upstream]] in it",
        file.display()
    );
    Ok(reading.config)
}

#[cfg(test)]
mod tests;
