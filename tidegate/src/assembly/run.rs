//! From a file to a node, and from a signal to its end.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use tidegate_node::status::NodeStatus;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::assembly::cgroup;
use crate::assembly::reload::Watch;
use crate::assembly::{self, Assembled, Taker, read_for};
use crate::config::{Config, read, read_file};
use crate::observe::http;
use crate::observe::status::StatusSource;
use crate::observe::status::view::CountsView;
use crate::observe::systemd::Manager;

pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The configuration of a file for a command, or the one without a file. Warnings go to standard error.
pub(crate) fn load(file: Option<&Path>, taker: Taker) -> anyhow::Result<Config> {
    match file {
        Some(file) => load_text(file, read_file(file), taker, "it does not start"),
        None => Ok(read("").config),
    }
}

/// The same of what was read of a file, at the start and whenever it changes; where it has errors, this follows from them.
pub(crate) fn load_text(
    file: &Path,
    read: Result<String, String>,
    taker: Taker,
    follows: &str,
) -> anyhow::Result<Config> {
    let text = read.map_err(anyhow::Error::msg)?;
    taker.takes(file, &text)?;
    let reading = read_for(&text, taker);
    let told = reading.render(&file.display().to_string(), &text);
    match reading.counts() {
        (0, _) => {
            io::stderr().write_all(told.as_bytes())?;
            if taker == Taker::Node {
                reading.added.iter().for_each(|added| tracing::info!("{added}"));
            }
            Ok(reading.config)
        }
        (errors, _) => {
            let errors = count(errors, "error");
            anyhow::bail!("{told}{}: {errors}, {follows}", file.display())
        }
    }
}

/// Runs a node until a signal stops it.
///
/// # Errors
/// The configuration is wrong, an address cannot be bound, or an input ended with an error.
pub async fn run(file: Option<&Path>) -> anyhow::Result<ExitCode> {
    let config = load(file, Taker::Node)?;
    if let Some(warning) = cgroup::warning(&config.limits, cgroup::memory_max()) {
        tracing::warn!("{warning}");
    }
    let mut signals = Signals::new()?;
    // Before anybody hears that the node is ready: until then SIGHUP ends a process, and a changed file is missed.
    let mut watch = Watch::new(file, &config)?;
    // A standby waits here, and must hear its signals.
    let mut node = tokio::select! {
        node = assembly::start(&config) => node?,
        received = signals.next() => {
            tracing::info!(signal = received.name, "stopped before the start");
            return Ok(ExitCode::SUCCESS);
        }
    };
    for address in &node.listens {
        tracing::info!("MQTT at {address}");
    }
    for address in &node.links {
        tracing::info!("links at {address}");
    }
    for address in &node.mirrors {
        tracing::info!("other nodes' logs at {address}");
    }
    for address in &node.group {
        tracing::info!("members of the group at {address}");
    }
    for address in &node.frames {
        tracing::info!("frames at {address}");
    }
    for output in &config.output {
        tracing::info!("records go to {}", output.destination());
    }
    let status = StatusSource::new(node.running.status.clone(), node.boards.clone());
    http::open(status, &config.http).await?;
    tracing::info!(node = %node.name, "ready; Ctrl-C stops it");
    let manager = Manager::ready(node.running.status.clone());
    let ended = loop {
        tokio::select! {
            received = signals.next() => {
                tracing::info!(signal = received.name, "stopping: delivering what is held");
                break Ok(());
            }
            error = node.failure() => break Err(error),
            () = watch.next() => reload(&mut watch, &mut node).await,
        }
    };
    manager.stopping(config.node.stop_timeout.0);
    finish(node, &config, &mut signals).await?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Reads the changed file and puts its rules in force, or tells why not.
async fn reload(watch: &mut Watch, node: &mut Assembled) {
    let changed = match watch.change() {
        Ok((change, waiting)) => {
            let config = change.config.clone();
            node.change(change).await.map(|()| (config, waiting))
        }
        Err(error) => Err(error),
    };
    match changed {
        Ok((config, waiting)) => {
            watch.adopt(config);
            tracing::info!("the configuration was read again and is in force");
            if !waiting.is_empty() {
                let sections = waiting.join(", ");
                tracing::warn!(
                    "changes of {sections} need a new start: only {} change now",
                    assembly::reload::APPLIES
                );
            }
        }
        Err(error) => tracing::error!("the new configuration is not used: {error:#}"),
    }
}

/// Stops the node gently, or at once by a second signal.
async fn finish(node: Assembled, config: &Config, signals: &mut Signals) -> anyhow::Result<()> {
    tokio::select! {
        status = node.stop(config.node.stop_timeout.0) => {
            tracing::info!("stopped: {}", fates(&status));
            Ok(())
        }
        received = signals.next() => {
            tracing::warn!(signal = received.name, "stopped at once: what was held is given up");
            std::process::exit(received.exit_code);
        }
    }
}

/// What became of every delivery, in words.
pub fn fates(status: &NodeStatus) -> String {
    let counts = CountsView::from(&status.counts);
    let drops = match counts.drops_in_words() {
        none if none.is_empty() => String::new(),
        words => format!(" ({words})"),
    };
    format!(
        "accepted {}, confirmed {}, dropped {}{drops}, held {}, lost {}",
        counts.accepted,
        counts.confirmed,
        counts.dropped_all(),
        status.held,
        status.counts.lost(status.held)
    )
}

/// The two signals that stop a node.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// One that came.
pub(crate) struct Received {
    pub(crate) name: &'static str,
    /// 128 + its number, as shells say it.
    pub(crate) exit_code: i32,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.interrupt.recv() => Received { name: "SIGINT", exit_code: 130 },
            _ = self.terminate.recv() => Received { name: "SIGTERM", exit_code: 143 },
        }
    }
}
