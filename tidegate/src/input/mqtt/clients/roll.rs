//! Who is connected and whose session is kept, for people who look at the status.

use std::sync::Arc;

use super::{Claim, Clients, Entry};

/// One client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientStatus {
    /// Its client id.
    pub client: Arc<str>,
    /// The user it logged in as; the address it comes from where there is none.
    pub user: Arc<str>,
    /// Whether it is connected; else its session is kept.
    pub is_connected: bool,
}

impl Clients {
    /// How many are connected, and of how many the session is kept.
    pub fn counts(&self) -> (usize, usize) {
        let table = self.lock();
        let connected = table.entries.values().filter(|entry| matches!(entry, Entry::Live { .. }));
        (connected.count(), table.by_end.len())
    }

    /// All clients, by client id.
    pub fn read(&self) -> Vec<ClientStatus> {
        let table = self.lock();
        let client = |(client, entry): (&Arc<str>, &Entry)| {
            let (user, is_connected) = match entry {
                Entry::Live { payer, .. } => (payer, true),
                Entry::Kept { claim: Claim { payer, .. }, .. } => (payer, false),
                Entry::Reserved => return None,
            };
            Some(ClientStatus { client: client.clone(), user: user.clone(), is_connected })
        };
        let mut all: Vec<ClientStatus> = table.entries.iter().filter_map(client).collect();
        drop(table);
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_log::SessionOwner;

    use super::super::Caller;
    use super::*;
    use crate::input::mqtt::session::Memory;
    use crate::support::access::Quota;

    #[test]
    fn connected_clients_and_kept_sessions_are_told_and_reserved_ids_are_not() {
        let clients = Arc::new(Clients::new());
        let come = |id: &str, user: &str| {
            let owner = SessionOwner::User(user.into());
            let caller = Caller { owner, payer: user.into(), quota: Quota::default(), door: 0 };
            clients.register(&id.into(), caller, true, 10).unwrap().0
        };
        clients.reserve(&"bridge".into());
        let _plc = come("plc-1", "line");
        come("hmi", "desk").keep(Memory::default(), Duration::from_secs(60));
        let told: Vec<_> = clients
            .read()
            .iter()
            .map(|one| format!("{} {} {}", one.client, one.user, one.is_connected))
            .collect();
        assert_eq!(clients.counts(), (1, 1));
        assert_eq!(told, ["hmi desk false", "plc-1 line true"]);
    }
}
