//! `tidegate proxy` and `tidegate ext-proc`: from a file to a proxy that runs, and from a signal to its end.

mod arguments;

use std::path::Path;
use std::process::ExitCode;

use tokio::task::LocalSet;

pub(super) use self::arguments::PROXY_HELP;
pub use self::arguments::ProxyArguments;
use crate::assembly::reload::{Watch, in_place};
use crate::assembly::run::{Signals, fates, load, load_text};
use crate::assembly::{Taker, read_with_files};
use crate::cli::envoy::ExtProcArguments;
use crate::config::{Config, read_file_again};
use crate::observe::http;
use crate::observe::status::{Boards, StatusSource};
use crate::observe::systemd::Manager;
use crate::services::proxy::{Guest, Running, start};

/// Runs a proxy until a signal stops it.
///
/// # Errors
/// The configuration is wrong, or an address cannot be bound.
pub fn proxy(arguments: &ProxyArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.file.path();
    on_this_thread(configuration(file, || arguments.as_text())?, file, Guest::Client)
}

/// Runs an external processor of Envoy until a signal stops it.
///
/// # Errors
/// As [`proxy`].
pub fn ext_proc(arguments: &ExtProcArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.file.path();
    let config = configuration(file, || arguments.as_text())?;
    fits(&config, Guest::Envoy)?;
    on_this_thread(config, file, Guest::Envoy)
}

fn on_this_thread(config: Config, file: Option<&Path>, guest: Guest) -> anyhow::Result<ExitCode> {
    // The other threads are the proxy's own (`services/proxy/threads.rs`).
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    let code = tasks.block_on(&runtime, run(config, file, guest));
    drop(tasks);
    runtime.shutdown_background();
    code
}

/// The configuration of a file, or of the command line.
fn configuration(
    file: Option<&Path>,
    as_text: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<Config> {
    if file.is_some() {
        let config = load(file, Taker::Proxy)?;
        fits(&config, Guest::Client)?;
        return Ok(config);
    }
    let text = as_text()?;
    let reading = read_with_files(&text);
    anyhow::ensure!(reading.counts().0 == 0, "{}", reading.render("arguments", &text));
    Ok(reading.config)
}

async fn run(config: Config, file: Option<&Path>, guest: Guest) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let mut watch = Watch::new(file, &config)?;
    let mut running = start(&config, guest)?;
    for (address, name) in running.listens() {
        tracing::info!(listener = %name, "requests at {address}");
    }
    let boards = Boards { proxy: Some(running.counts.clone()), ..Boards::default() };
    let status = StatusSource::new(running.status.clone(), boards);
    http::open(status, &config.http).await?;
    tracing::info!("ready; Ctrl-C stops it");
    let manager = Manager::ready(running.status.clone());
    let received = loop {
        tokio::select! {
            received = signals.next() => break received,
            () = watch.next() => match reload(file, guest, &mut running).await {
                Ok(()) => watch.adopt(running.config().clone()),
                Err(error) => tracing::error!("the new configuration is not used: {error:#}"),
            },
        }
    };
    tracing::info!(signal = received.name, "stopping: what is under way is finished");
    manager.stopping(config.node.stop_timeout.0);
    tokio::select! {
        status = running.stop(config.node.stop_timeout.0) => {
            tracing::info!("stopped: {}", fates(&status));
            Ok(ExitCode::SUCCESS)
        }
        received = signals.next() => {
            tracing::warn!(signal = received.name, "stopped at once: what was under way is cut off");
            std::process::exit(received.exit_code);
        }
    }
}

/// Reads the file anew, or the scripts alone where there is none, and puts them in force.
async fn reload(file: Option<&Path>, guest: Guest, running: &mut Running) -> anyhow::Result<()> {
    let new = match file {
        None => running.config().clone(),
        Some(file) => load_text(file, read_file_again(file), Taker::Proxy, "nothing changes")?,
    };
    fits(&new, guest)?;
    let script = in_place(&running.config().script, new.script)?;
    let waiting = running.change(Config { script, ..new }).await?;
    tracing::info!("the configuration was read again and is in force");
    if !waiting.is_empty() {
        tracing::warn!(
            "changes of {} need a new start: only listeners, upstreams, routes and scripts change now",
            waiting.join(", ")
        );
    }
    Ok(())
}

/// Whether a proxy can run by it.
fn fits(config: &Config, guest: Guest) -> anyhow::Result<()> {
    anyhow::ensure!(
        !config.proxy.listener.is_empty() && !config.proxy.upstream.is_empty(),
        "no [[proxy.listener]] or no [[proxy.upstream]] in it: see `tidegate config`"
    );
    for upstream in &config.proxy.upstream {
        anyhow::ensure!(
            guest == Guest::Client || upstream.rate.is_none() || upstream.cap().is_some(),
            "[[proxy.upstream]] {:?}: rate = \"auto\" needs connections of our own, and Envoy has them: \
             give a rate",
            upstream.label()
        );
    }
    Ok(())
}
