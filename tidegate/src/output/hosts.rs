//! The hosts that an output may connect to, and whose turn it is.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::keys::url::Host;
use crate::support::complaints::Complaint;
use crate::support::tls::{self, ClientTls};

/// Where all lanes of an output connect to.
#[derive(Debug)]
pub(super) struct Far {
    pub(super) hosts: Vec<FarHost>,
    tls: Option<Arc<ClientConfig>>,
}

/// One of its hosts.
#[derive(Debug)]
pub(super) struct FarHost {
    /// Name or address, for connecting and for messages.
    pub(super) host: Host,
    /// Who it must be, where it speaks TLS.
    name: ServerName<'static>,
    /// What is wrong with it, told once by all lanes.
    pub(super) complaint: Complaint,
}

impl Far {
    /// These hosts, of which there is one at least.
    pub(super) fn new(hosts: &[Host], tls: Option<&ClientTls>) -> Far {
        let far = |host: &Host| {
            // A host that no certificate can name was refused with its url: here it is never trusted.
            let name = tls::server_name(&host.name);
            FarHost {
                host: host.clone(),
                name: name.unwrap_or(IpAddr::from([0, 0, 0, 0]).into()),
                complaint: Complaint::default(),
            }
        };
        Far { hosts: hosts.iter().map(far).collect(), tls: tls.map(ClientTls::config) }
    }

    /// TLS, and who the host at this place must be.
    pub(super) fn tls(&self, place: usize) -> Option<(Arc<ClientConfig>, ServerName<'static>)> {
        self.tls.clone().map(|config| (config, self.hosts[place].name.clone()))
    }
}

/// Which host is next. One that fails makes room for the next one at once; when all have failed since one of them
/// worked, there is a pause.
#[derive(Debug)]
pub(super) struct Turns {
    hosts: usize,
    place: usize,
    failed: usize,
}

impl Turns {
    pub(super) fn new(hosts: usize) -> Turns {
        Turns { hosts, place: 0, failed: 0 }
    }

    /// Whose turn it is.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    /// It worked.
    pub(super) fn worked(&mut self) {
        self.failed = 0;
    }

    /// It failed: the next one's turn. True where all have failed, and a pause is due.
    pub(super) fn failed(&mut self) -> bool {
        self.place = (self.place + 1) % self.hosts;
        self.failed = (self.failed + 1) % self.hosts;
        self.failed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_turn_and_a_pause_comes_when_all_have_failed() {
        let mut turns = Turns::new(3);
        let round = |turns: &mut Turns| [(); 3].map(|()| (turns.place(), turns.failed()));
        let all = [(0, false), (1, false), (2, true)];
        assert_eq!((round(&mut turns), round(&mut turns)), (all, all));
        turns.failed();
        turns.worked();
        let next = [(1, false), (2, false), (0, true)];
        assert_eq!(round(&mut turns), next, "who worked has lost its connection");
        let mut alone = Turns::new(1);
        assert!(alone.failed() && alone.failed() && alone.place() == 0);
    }
}
