//! Logs: to standard error, as text for people or as JSON lines.

use std::io::IsTerminal;
use std::str::FromStr;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// Environment variable with a filter, where `--log` is not given.
pub const VARIABLE: &str = "TIDEGATE_LOG";

/// What is logged.
#[derive(Clone, Debug)]
pub struct Filter(Targets);

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no filter: write a level, or \"info,tidegate::output=debug\"");
        let levels = ["off", "error", "warn", "info", "debug", "trace"];
        // `Targets` takes a word that is no level for a module: a slip would turn everything off.
        let is_level = |part: &str| levels.contains(&part.to_ascii_lowercase().as_str());
        let known = |part: &str| match part.split_once('=') {
            Some((module, level)) => !module.is_empty() && is_level(level),
            None => is_level(part),
        };
        match text.split(',').all(known) {
            true => text.parse().map(Filter).map_err(|_| wrong()),
            false => Err(wrong()),
        }
    }
}

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Logs from here on; `quiet` leaves out all but errors where nothing else is asked for.
///
/// # Errors
/// The environment's filter is wrong.
pub fn start(filter: Option<&Filter>, format: Format, quiet: bool) -> anyhow::Result<()> {
    let from_environment = || match std::env::var(VARIABLE) {
        Ok(text) => text
            .parse()
            .map(Some)
            .map_err(|error: String| anyhow::anyhow!("environment variable {VARIABLE}: {error}")),
        Err(_) => Ok(None),
    };
    let chosen = match filter {
        Some(filter) => Some(filter.clone()),
        None => from_environment()?,
    };
    let default = Targets::new().with_default(if quiet { Level::ERROR } else { Level::INFO });
    let targets = chosen.map_or(default, |filter| filter.0);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry();
    match format {
        Format::Text => {
            let lines = lines.with_ansi(std::io::stderr().is_terminal()).with_filter(targets);
            registry.with(lines).init();
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true).with_filter(targets);
            registry.with(lines).init();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_levels_and_modules() {
        for right in ["info", "debug,tidegate::output=trace", "OFF"] {
            assert!(right.parse::<Filter>().is_ok(), "{right}");
        }
        for wrong in ["", "verbose", "info,tidegate=loud", "=debug", "info,"] {
            assert!(wrong.parse::<Filter>().is_err(), "{wrong}");
        }
    }
}
