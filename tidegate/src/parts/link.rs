//! Both ends of a link, from the configuration's words to the drivers'.

use std::net::SocketAddr;

use anyhow::Context;
use tidegate_link::path_scheduler::PathSchedulerName;
use tokio::sync::watch;

use super::{Door, Tasks, available};
use crate::assemble::{bounds, unconfirmed_max};
use crate::config::{Config, LinkInputConfig, LinkOutputConfig, OutputConfig, Tcp};
use crate::input::link::{self, LinkInputOptions};
use crate::output::link::{Fallback, LinkOptionsOut};
use crate::tls::{self, ClientTls, Trust};

/// Starts the listening end. Returns the addresses that it listens on.
pub(super) fn start_input(
    link: &LinkInputConfig,
    door: &Door,
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
        relays: link.relays.then(|| door.relays.clone()),
        vouching: link.vouching(),
    };
    let (intake, names) = (door.intake.clone(), door.names.clone());
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

/// The options of the dialing end.
pub(super) fn output_options(
    link: &LinkOutputConfig,
    tls: ClientTls,
    output: &OutputConfig,
    config: &Config,
) -> anyhow::Result<LinkOptionsOut> {
    let nobody = || Ok((String::new(), 0));
    let far = if link.is_place { nobody() } else { link.far() };
    let (host, port) = far.map_err(anyhow::Error::msg)?;
    Ok(LinkOptionsOut {
        name: output.label().into(),
        host,
        port,
        paths: link.bindings().map_err(|(_, error)| anyhow::Error::msg(error))?,
        tls,
        schedule: link.schedule().map_err(anyhow::Error::msg)?,
        guard: link.guard().map_err(|(_, error)| anyhow::Error::msg(error))?,
        fallback: match link.tcp {
            Tcp::Auto => Fallback::Auto,
            Tcp::Never => Fallback::Never,
            Tcp::Always => Fallback::Always,
        },
        bounds: bounds(config),
        is_peer: link.is_peer,
        is_place: link.is_place,
        unconfirmed_max: unconfirmed_max(output),
    })
}
