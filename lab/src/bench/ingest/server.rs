//! A contestant of the ingest benchmark: its program and its configuration.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use tidegate_testbed::free_address;

use super::idle::Keys;
use crate::rig::server::Server;

tidegate_types::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Contestant {
        Tidegate = "tidegate",
        Mosquitto = "mosquitto",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Discard,
    Forward,
}

/// Starts a contestant and waits until it takes connections.
pub(super) fn start(
    contestant: Contestant,
    work: Work,
    sink: SocketAddr,
    tidegate: &Path,
    keys: Option<&Keys>,
) -> io::Result<Server> {
    let address = free_address();
    let (program, arguments, text): (_, &[&str], _) = match contestant {
        Contestant::Tidegate => {
            (tidegate.to_owned(), &["run"], tidegate_config(address, work, sink, keys))
        }
        Contestant::Mosquitto => ("mosquitto".into(), &[], mosquitto_config(address, keys)),
    };
    Server::launch((&program, arguments), address, &text, keys.is_some())
}

fn tidegate_config(
    address: SocketAddr,
    work: Work,
    sink: SocketAddr,
    keys: Option<&Keys>,
) -> String {
    let tls = keys.map_or_else(String::new, |Keys { certificate, key, .. }| {
        let (certificate, key) = (certificate.display(), key.display());
        format!(", tls = {{ certificate = \"{certificate}\", key = \"{key}\" }}")
    });
    // One address may have 61 % of the connections.
    let output = match work {
        Work::Discard => "sink = { discard = true }".to_owned(),
        Work::Forward => format!("mqtt = {{ url = \"mqtt://{sink}\" }}"),
    };
    format!(
        "[node]\nname = \"bench\"\n[http]\nlisten = []\n[[input]]\nmqtt = {{ listen = \"{address}\"{tls} }}\n\
         [[output]]\nname = \"far\"\n{output}\n[limits]\nconnections = 20000\n"
    )
}

fn mosquitto_config(address: SocketAddr, keys: Option<&Keys>) -> String {
    let tls = keys.map_or_else(String::new, |Keys { certificate, key, .. }| {
        format!("certfile {}\nkeyfile {}\n", certificate.display(), key.display())
    });
    format!(
        "listener {} {}\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n\
         set_tcp_nodelay true\nlog_dest none\nuser root\n{tls}",
        address.port(),
        address.ip()
    )
}
