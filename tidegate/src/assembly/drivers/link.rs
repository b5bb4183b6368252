//! The listening end of a link, from the configuration's words to the driver's.

use std::net::SocketAddr;

use anyhow::Context;
use tidegate_link::path_scheduler::PathSchedulerName;
use tokio::sync::watch;

use super::{Tasks, Wiring, available};
use crate::config::LinkInputConfig;
use crate::input::link::{self, LinkInputOptions};
use crate::support::tls::{self, Trust};

/// Starts the listening end. Returns the addresses that it listens on.
pub(super) fn start_input(
    link: &LinkInputConfig,
    wiring: &Wiring,
    tasks: &mut Tasks,
) -> anyhow::Result<Vec<SocketAddr>> {
    let listen = link.listen.as_ref().map(|listen| available(&listen.0)).unwrap_or_default();
    let files = link.tls_files().context("ca, certificate and key are missing")?;
    let options = LinkInputOptions {
        listen,
        tls: tls::server(&files)?,
        trust: Trust::read(files.client_ca.as_deref().context("ca is missing")?)?,
        // Only who has the key may end our connections.
        secret: std::fs::read(&files.key).with_context(|| format!("{}", files.key.display()))?,
        from: link.from.clone().unwrap_or_default(),
        window: link.window.0,
        tcp: link.tcp,
        schedule: PathSchedulerName::default(),
        relays: link.relays.then(|| wiring.relays.clone()),
        vouching: link.vouching(),
        links: wiring.links.clone(),
    };
    let (intake, names) = (wiring.intake.clone(), wiring.names.clone());
    let listener = link::bind(options)?;
    let addresses = listener.local_addrs();
    tasks.spawn(async move {
        let (stop, stopped) = watch::channel(false);
        let node_gone = intake.clone();
        let serve = listener.run(intake, names, stopped);
        let end = async {
            node_gone.closed().await;
            // The listener may have ended by itself.
            let _ = stop.send(true);
        };
        tokio::join!(serve, end);
        Ok(())
    });
    Ok(addresses)
}
