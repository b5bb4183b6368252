//! `mqtt` of an `[[input]]`.

use std::sync::Arc;

use crate::config::check::security;
use crate::config::{MqttInputConfig, Refused, TlsConfig, WebSocketConfig};
use crate::input::kind::{Certificates, Change, Control, Driver, InputKind, Ports, Surroundings};
use crate::input::mqtt::{self as input, MqttOptions};
use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::support::access::users::Users;
use crate::support::listen::available;
use crate::support::tls;

impl InputKind for MqttInputConfig {
    fn name(&self) -> &'static str {
        "mqtt"
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        if self.listen.as_ref().is_none_or(|listen| listen.0.is_empty()) {
            let text = "no address to listen on: give listen = \"127.0.0.1:1883\"";
            findings.error(place.clone(), text);
        }
        security::listener(self, place, findings);
    }

    fn check_files(&self, place: &Place, findings: &mut Findings) {
        if let Some(Err(error)) = self.users.as_deref().map(Users::read) {
            findings.error(place.to("users"), error.to_string());
        }
        for (key, error) in self.logins() {
            findings.error(place.to(key), error);
        }
    }

    fn ports(&self) -> Option<Ports<'_>> {
        let listen = &self.listen.as_ref()?.0;
        Some(Ports { listen, tcp: true, udp: false, for_nodes: false })
    }

    fn certificates(&self) -> Option<Certificates> {
        self.tls.as_ref().and_then(TlsConfig::files).map(Certificates::ToClients)
    }

    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        Ok(Box::new(self.options(surroundings)?))
    }

    fn change(
        &self,
        before: &dyn InputKind,
        control: &Control,
        surroundings: &Surroundings,
    ) -> anyhow::Result<Option<Change>> {
        let (Control::Mqtt(control), Some(ports)) = (control, before.ports()) else {
            return Ok(None);
        };
        let change = control.change(self.options(surroundings)?, &available(ports.listen))?;
        Ok(Some(Box::new(change)))
    }
}

impl MqttInputConfig {
    fn options(&self, surroundings: &Surroundings) -> anyhow::Result<MqttOptions> {
        let listen = self.listen.as_ref().map(|listen| available(&listen.0)).unwrap_or_default();
        let files = self.tls.as_ref().and_then(TlsConfig::files);
        let tls = files.map(|files| tls::serving(&files)).transpose()?;
        let (tls, callers) = tls.map_or((None, None), |(tls, callers)| (Some(tls), callers));
        Ok(MqttOptions {
            access: Arc::new(self.access()?),
            quotas: surroundings.quotas.clone(),
            clients: surroundings.clients.clone(),
            tls,
            callers,
            proxies: self.proxy_protocol.clone(),
            websocket: self.websocket.as_ref().map(WebSocketConfig::options),
            max_packet_size: surroundings.max_packet_size(),
            connections_max: surroundings.connections_max,
            session_expiry_max: self.session_expiry.0,
            keepalive_max: self.keepalive_max.map(|most| most.0).unwrap_or_default(),
            connect_timeout: self.connect_timeout.0,
            idle_timeout: self.idle_timeout.0,
            packet_timeout: self.packet_timeout.0,
            write_timeout: self.write_timeout.0,
            refused: match self.refused {
                Refused::Close => input::Refused::Close,
                Refused::Drop => input::Refused::Drop,
            },
            ..MqttOptions::new(listen)
        })
    }
}
