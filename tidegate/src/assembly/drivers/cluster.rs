//! A group, from the configuration's words to those who do it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tidegate_types::topic::Filter;
use tokio::net::TcpListener;

use super::{Tasks, Wiring, available};
use crate::assembly::read_with_files;
use crate::config::{Config, read_file};
use crate::input::streams::Streams;
use crate::services::cluster::{self, Access, GroupOptions, Handle, Peer};
use crate::services::operators::Operators;
use crate::support::time::incarnation;
use crate::support::tls;

/// Starts what the configuration says of a group, if it says anything. Returns the addresses that members dial, and the
/// member.
///
/// # Errors
/// A file cannot be used, or an address cannot be bound.
pub async fn start_group(
    config: &Config,
    me: Arc<str>,
    wiring: &Wiring,
    operators: &Operators,
    tasks: &mut Tasks,
) -> anyhow::Result<Option<(Vec<SocketAddr>, Handle)>> {
    if config.group.members.is_empty() {
        return Ok(None);
    }
    let mut listeners = Vec::new();
    let listen = config.group.listen.as_ref().map(|listen| available(&listen.0));
    for address in listen.unwrap_or_default() {
        let listener = TcpListener::bind(address).await;
        listeners.push(listener.with_context(|| format!("[group] listen {address}"))?);
    }
    let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let tls = match config.group_tls() {
        Some((client, server)) => (Some(tls::client(&client)?), Some(tls::server(&server)?)),
        None => (None, None),
    };
    let mut units = Vec::new();
    for unit in &config.placed {
        let topics = unit.topics.iter().map(|text| Filter::new(text));
        let topics = topics.collect::<Result<Vec<_>, _>>().context("[[placed]] topics")?;
        let (name, owner) = (unit.name.clone(), unit.owner.clone());
        units.push((name.unwrap_or_default(), topics, owner.unwrap_or_default()));
    }
    let options = GroupOptions {
        me,
        incarnation: incarnation(),
        peers: peers(config)?,
        units,
        state: config.group.state.clone(),
        operators: operators.current().clone(),
        threads: config.node.pool_threads(),
        tls,
        listeners,
        streams: Streams::new(wiring.intake.clone(), wiring.names.clone(), None),
    };
    let handle = cluster::start(options, &wiring.intake, tasks).context("[group] state")?;
    wiring.intake.hub().set_group(Arc::new(handle.clone()));
    Ok(Some((addresses, handle)))
}

fn peers(config: &Config) -> anyhow::Result<Vec<Peer>> {
    let peer = |member: &crate::config::MemberConfig| {
        let address = member.far().map_err(anyhow::Error::msg)?;
        let clients = member.clients.as_deref().map(Into::into);
        Ok(Peer { name: member.name.clone().unwrap_or_default(), address, clients })
    };
    config.group.members.iter().map(peer).collect()
}

/// How the group of which a node's file tells is asked.
///
/// # Errors
/// The file is not right, or tells of no group.
pub fn access(file: &Path) -> anyhow::Result<Access> {
    let text = read_file(file).map_err(anyhow::Error::msg)?;
    let reading = read_with_files(&text);
    let told = reading.render(&file.display().to_string(), &text);
    anyhow::ensure!(reading.counts().0 == 0, "{told}");
    let config = reading.config;
    let mut members = peers(&config)?;
    anyhow::ensure!(!members.is_empty(), "{}: there is no [group]", file.display());
    let own = config.group.listen.iter().flat_map(|listen| &listen.0).next();
    if let Some(own) = own {
        let host =
            if own.ip().is_unspecified() { "127.0.0.1".into() } else { own.ip().to_string() };
        let address = (host, own.port());
        members.insert(0, Peer { name: config.node.name(), address, clients: None });
    }
    let tls = config.group_tls().map(|(client, _)| tls::client(&client)).transpose()?;
    Ok(Access { members, tls })
}
