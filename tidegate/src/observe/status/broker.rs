//! The node's own broker and its clients in the status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::node::broker::SubscriberStatus;

/// Clients that the status names: those for which most waits, then by name. All are counted.
const NAMED_MAX: usize = 64;

/// The broker: what is published here goes to who has subscribed here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BrokerView {
    /// Clients that are connected by MQTT.
    pub connected_clients: usize,
    /// Sessions of clients that are away.
    pub kept_sessions: usize,
    /// Sessions that have subscribed, here or away.
    pub subscribers: usize,
    /// Their subscriptions.
    pub subscriptions: usize,
    /// Messages that had at least one subscriber.
    pub published_messages: u64,
    /// Messages handed to subscribers' connections, one for each subscriber.
    pub delivered_messages: u64,
    /// Messages that wait for subscribers.
    pub waiting_messages: usize,
    /// Messages that are sent and not acknowledged.
    pub unacknowledged_messages: usize,
    /// Messages that subscribers did not get, by reason; reasons that never were are left out.
    pub dropped_messages: BTreeMap<String, u64>,
    /// Topics with a retained message.
    pub retained_messages: usize,
    /// Bytes of these.
    pub retained_bytes: usize,
    /// Bytes that clients make the node hold, retained messages included.
    pub reserved_bytes: usize,
    /// Bound on these.
    pub reserved_max_bytes: usize,
    /// Clients: at most 64, those for which most waits first.
    pub clients: Vec<ClientView>,
}

/// A client of an MQTT listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientView {
    /// Its client id.
    pub client: String,
    /// The user it logged in as; the address it comes from where there is none.
    pub user: String,
    /// Whether it is connected; else its session is kept.
    pub is_connected: bool,
    /// Its subscriptions.
    pub subscriptions: usize,
    /// Messages that wait for it.
    pub waiting_messages: usize,
    /// Messages that are sent to it and not acknowledged.
    pub unacknowledged_messages: usize,
}

/// The broker of a node; `None` where nobody ever came.
pub(super) fn broker_view(snapshot: &Snapshot) -> Option<BrokerView> {
    let (broker, clients) = (&snapshot.broker, &snapshot.clients);
    if clients.is_empty() && broker.published == 0 && broker.sessions == 0 {
        return None;
    }
    let connected_clients = clients.iter().filter(|client| client.is_connected).count();
    let mut dropped_messages = BTreeMap::new();
    for ((_, reason), count) in &broker.drops {
        *dropped_messages.entry(reason.name().to_owned()).or_default() += count;
    }
    Some(BrokerView {
        connected_clients,
        kept_sessions: clients.len() - connected_clients,
        subscribers: broker.sessions,
        subscriptions: broker.subscriptions,
        published_messages: broker.published,
        delivered_messages: broker.delivered,
        waiting_messages: broker.waiting,
        unacknowledged_messages: broker.in_flight,
        dropped_messages,
        retained_messages: broker.retained,
        retained_bytes: broker.retained_bytes,
        reserved_bytes: broker.account.total(),
        reserved_max_bytes: broker.account.bound,
        clients: client_views(snapshot),
    })
}

fn client_views(snapshot: &Snapshot) -> Vec<ClientView> {
    let subscribers = &snapshot.broker.subscribers;
    let waits = |client: &str| subscribers.get(client).copied().unwrap_or_default();
    let mut clients: Vec<_> =
        snapshot.clients.iter().map(|client| (waits(&client.client), client)).collect();
    // They are in the order of their names, and stay so where as much waits.
    clients.sort_by_key(|(waits, _)| std::cmp::Reverse(waits.waiting));
    clients.truncate(NAMED_MAX);
    let view =
        |(waits, client): (SubscriberStatus, &crate::input::mqtt::ClientStatus)| ClientView {
            client: client.client.to_string(),
            user: client.user.to_string(),
            is_connected: client.is_connected,
            subscriptions: waits.subscriptions,
            waiting_messages: waits.waiting,
            unacknowledged_messages: waits.in_flight,
        };
    clients.into_iter().map(view).collect()
}
