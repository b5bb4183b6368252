//! The log of the configuration, opened.

use anyhow::Context;
use tidegate_broker::LedgerBounds;
use tidegate_log::Key;
use tidegate_node::options::{BacklogOrder, LogOptions};

use crate::assembly::secrets::{key_of_file, log_key};
use crate::config::{Backlog, Config, LogConfig};
use crate::keys::secrets;
use crate::node::event_loop::Log;
use crate::node::journal::{self, JournalOptions};
use crate::node::log_store::{self, SpoolOptions};

/// Opens the log, if there is one; waits for its present user where the configuration wants a standby.
///
/// # Errors
/// A key cannot be read, or the log cannot be used.
pub async fn open_log(config: &Config) -> anyhow::Result<Option<Log>> {
    let Some(directory) = config.log.directory.clone() else { return Ok(None) };
    let options = SpoolOptions {
        directory,
        keys: log_keys(&config.log)?,
        commit_max: config.log.commit_max,
        commit_delay: config.log.commit_delay.0,
        standby: config.log.standby,
    };
    let opened = log_store::open(&options, &config.node.name()).await?;
    log_store::tell_damage(&opened.recovery);
    Ok(Some(Log { opened, options }))
}

/// Opens the journal of sessions that stands beside a log.
///
/// # Errors
/// It cannot be read.
pub fn open_journal(config: &Config, log: &Log) -> anyhow::Result<journal::Opened> {
    let options = JournalOptions {
        directory: log.options.directory.clone(),
        keys: log.options.keys.clone(),
        node: config.node.name().into(),
        incarnation: log.opened.incarnation,
        boot: log.opened.boot,
        segment: config.log.segment.0.0,
        bounds: LedgerBounds {
            session: config.log.session.0.0,
            all: config.log.sessions.0.0,
            ..LedgerBounds::default()
        },
    };
    journal::open(&options).context("[log] the journal of sessions")
}

/// What the node is to know of the log, if there is one.
pub(crate) fn log_options(log: &LogConfig, boot: u64) -> Option<LogOptions> {
    log.directory.as_ref().map(|_| LogOptions {
        boot,
        bound: log.bound.0,
        segment: log.segment.0,
        backlog: match log.backlog {
            Backlog::OldestFirst => BacklogOrder::OldestFirst,
            Backlog::NewestFirst => BacklogOrder::NewestFirst,
        },
    })
}

/// The keys of a log: the one that seals first.
///
/// # Errors
/// One cannot be read.
pub(crate) fn log_keys(log: &LogConfig) -> anyhow::Result<Vec<Key>> {
    let LogConfig { key_file, key_env, old_key_files, .. } = log;
    let mut keys = Vec::new();
    if let Some(text) = secrets::secret("key", key_env.as_deref(), key_file.as_deref())? {
        keys.push(log_key(&text).context("[log] key")?);
    }
    for file in old_key_files {
        keys.push(key_of_file(file).with_context(|| format!("[log] {}", file.display()))?);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_digits() {
        assert!(log_key(&"0f".repeat(32)).is_ok());
        for text in ["", "0f", &"0g".repeat(32), &"\u{e9}".repeat(32)] {
            let error = format!("{:#}", log_key(text).unwrap_err());
            assert!(error.contains("64 hexadecimal digits"), "{error}");
        }
    }
}
