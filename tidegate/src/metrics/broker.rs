//! The metrics of the node's own broker.

use tidegate_broker::OutboxDropReason;
use tidegate_node::status::NodeStatus;
use tidegate_types::account::Kind;

use super::Metric;
use super::text::{NONE, Text};
use crate::broker::BrokerStatus;

pub(super) const PUBLISHED: Metric = Metric::counter(
    "tidegate_broker_published_messages_total",
    "Counts a message when it is published and somebody has subscribed to its topic.",
);
pub(super) const DELIVERED: Metric = Metric::counter(
    "tidegate_broker_delivered_messages_total",
    "Counts a message for each subscriber when it is encoded for its connection; again if it is sent again.",
);
pub(super) const DROPPED: Metric = Metric::counter(
    "tidegate_broker_dropped_messages_total",
    "Counts a message for each subscriber that does not get it, by class and the reason why.",
);
pub(super) const UNRETAINED: Metric = Metric::counter(
    "tidegate_broker_unretained_messages_total",
    "Counts a message that was to be retained when there is no room for it (limits.retained).",
);
pub(super) const SESSIONS: Metric =
    Metric::gauge("tidegate_broker_sessions", "Sessions that have subscribed, here or away.");
pub(super) const SUBSCRIPTIONS: Metric =
    Metric::gauge("tidegate_broker_subscriptions", "Subscriptions of all sessions.");
pub(super) const WAITING: Metric = Metric::gauge(
    "tidegate_broker_waiting_messages",
    "Messages that wait for their subscribers; one for each subscriber.",
);
pub(super) const IN_FLIGHT: Metric = Metric::gauge(
    "tidegate_broker_unacknowledged_messages",
    "Messages with QoS 1 or 2 that are sent and not acknowledged.",
);
pub(super) const RETAINED: Metric =
    Metric::gauge("tidegate_broker_retained_messages", "Topics with a retained message.");
pub(super) const RETAINED_BYTES: Metric =
    Metric::gauge("tidegate_broker_retained_bytes", "Bytes that retained messages take.");

pub(super) const ACCOUNT_BOUND: Metric = Metric::gauge(
    "tidegate_account_bound_bytes",
    "Bytes that all clients of this broker may make it hold, retained messages included.",
);
pub(super) const ACCOUNT_BYTES: Metric = Metric::gauge(
    "tidegate_account_reserved_bytes",
    "Bytes that others make the node hold, by what for; a client's first 16 KiB are not among them.",
);
pub(super) const ACCOUNT_REFUSED: Metric = Metric::counter(
    "tidegate_account_refusals_total",
    "Counts each time that there is no room for what a client wants held, by what for.",
);

/// Writes them.
pub(super) fn encode(status: &NodeStatus, broker: &BrokerStatus, text: &mut Text) {
    text.family(PUBLISHED, [(NONE, broker.published as f64)]);
    text.family(DELIVERED, [(NONE, broker.delivered as f64)]);
    text.head(DROPPED);
    for class in &status.classes {
        for reason in OutboxDropReason::ALL {
            let is_it = |(id, why): &(tidegate_types::class::ClassId, OutboxDropReason)| {
                *why == reason
                    && status.classes.get(id.index()).is_some_and(|it| it.name == class.name)
            };
            let drops = broker.drops.iter().filter(|(key, _)| is_it(key));
            let count: u64 = drops.map(|(_, count)| count).sum();
            let labels = [("class", &*class.name), ("reason", reason.name())];
            text.sample(DROPPED.name, &labels, count as f64);
        }
    }
    text.family(UNRETAINED, [(NONE, broker.unretained as f64)]);
    text.family(ACCOUNT_BOUND, [(NONE, broker.account.bound as f64)]);
    text.head(ACCOUNT_BYTES);
    for kind in Kind::ALL {
        let bytes = broker.account.of(kind) as f64;
        text.sample(ACCOUNT_BYTES.name, &[("kind", kind.name())], bytes);
    }
    text.head(ACCOUNT_REFUSED);
    for kind in Kind::ALL {
        let count = broker.account.refused(kind) as f64;
        text.sample(ACCOUNT_REFUSED.name, &[("kind", kind.name())], count);
    }
    let gauges = [
        (SESSIONS, broker.sessions),
        (SUBSCRIPTIONS, broker.subscriptions),
        (WAITING, broker.waiting),
        (IN_FLIGHT, broker.in_flight),
        (RETAINED, broker.retained),
        (RETAINED_BYTES, broker.retained_bytes),
    ];
    for (metric, value) in gauges {
        text.family(metric, [(NONE, value as f64)]);
    }
}
