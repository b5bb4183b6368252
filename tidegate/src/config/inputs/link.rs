//! `link` of an `[[input]]`.

use anyhow::Context;
use tidegate_link::path_scheduler::PathSchedulerName;

use crate::config::LinkInputConfig;
use crate::config::check::links;
use crate::input::kind::{Certificates, Driver, InputKind, Ports, Surroundings};
use crate::input::link::{LinkInput, LinkInputOptions};
use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::support::listen::available;
use crate::support::tls::{self, Trust};

impl InputKind for LinkInputConfig {
    fn name(&self) -> &'static str {
        "link"
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        links::listener(self, place, findings);
    }

    fn ports(&self) -> Option<Ports<'_>> {
        let listen = &self.listen.as_ref()?.0;
        Some(Ports { listen, tcp: self.tcp, udp: true, for_nodes: true })
    }

    fn certificates(&self) -> Option<Certificates> {
        self.tls_files().map(Certificates::ToNodes)
    }

    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        let files = self.tls_files().context("ca, certificate and key are missing")?;
        let options = LinkInputOptions {
            listen: self.listen.as_ref().map(|listen| available(&listen.0)).unwrap_or_default(),
            tls: tls::server(&files)?,
            trust: Trust::read(files.client_ca.as_deref().context("ca is missing")?)?,
            // Only who has the key may end our connections.
            secret: crate::support::files::read(&files.key, tls::FILE_MAX)
                .with_context(|| format!("{}", files.key.display()))?,
            from: self.from.clone().unwrap_or_default(),
            window: self.window.0,
            tcp: self.tcp,
            schedule: PathSchedulerName::default(),
            relays: self.relays.then(|| surroundings.relays.clone()),
            vouching: self.vouching(),
            links: surroundings.links.clone(),
        };
        Ok(Box::new(LinkInput { options, names: surroundings.names.clone() }))
    }
}
