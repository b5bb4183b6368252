//! Both parts of a mirror, from the configuration's words to those who do them.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;

use super::{Tasks, Wiring, available, log_keys};
use crate::config::{Config, MirrorConfig};
use crate::input::streams::Streams;
use crate::node::event_loop::Running;
use crate::observe::status::Boards;
use crate::services::standby::{self, KeeperOptions, Owner};
use crate::support::tls::{self, Trust};

/// Starts what the configuration says of mirrors. Returns the addresses that other nodes bring their logs to.
///
/// # Errors
/// A file or a folder cannot be used, or an address cannot be bound.
pub async fn start_mirrors(
    config: &Config,
    running: &Running,
    boards: &Boards,
    (node, incarnation): (Arc<str>, u64),
    wiring: &Wiring,
    tasks: &mut Tasks,
) -> anyhow::Result<Vec<SocketAddr>> {
    let missing = "[mirror]: ca, certificate and key are missing";
    let board = boards.mirror.clone();
    let far = config.mirror.far().map_err(anyhow::Error::msg)?;
    if let (Some(to), Some(lengths), Some(directory)) =
        (far, &running.log_lengths, &config.log.directory)
    {
        let tls = tls::client(&config.mirror_client().context(missing)?)?;
        let (lengths, directory) = (lengths.clone(), directory.clone());
        let board = board.clone();
        let letters = wiring.links.letters().clone();
        let owner = Owner { node, incarnation, directory, lengths, to, tls, letters, board };
        tasks.spawn(async move {
            owner.run().await;
            Ok(())
        });
    }
    let MirrorConfig { listen: Some(listen), directory: Some(directory), .. } = &config.mirror
    else {
        return Ok(Vec::new());
    };
    make(directory)?;
    let files = config.mirror_server().context(missing)?;
    let options = KeeperOptions {
        tls: tls::server(&files)?,
        trust: Trust::read(files.client_ca.as_deref().context(missing)?)?,
        letters: wiring.links.letters().clone(),
        from: config.mirror.from.clone(),
        directory: directory.clone(),
        after: config.mirror.after.0,
        bound: config.mirror.bound.0,
        keys: log_keys(&config.log)?,
    };
    let mut listeners = Vec::new();
    for address in available(&listen.0) {
        let listener = TcpListener::bind(address).await;
        listeners.push(listener.with_context(|| format!("[mirror] listen {address}"))?);
    }
    let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let intake = wiring.intake.clone();
    let streams = Streams::new(intake.clone(), wiring.names.clone(), None);
    tasks.spawn(async move {
        let kept = standby::keep(listeners, options, streams, board, intake).await;
        kept.context("[mirror] directory")
    });
    Ok(addresses)
}

fn make(directory: &Path) -> anyhow::Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.with_context(|| format!("[mirror] directory {}", directory.display()))
}
