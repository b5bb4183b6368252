//! Bounds of the whole node, and of one user.

use super::{File, quoted};
use crate::config::LimitsConfig;

pub(super) fn limits(file: &mut File) {
    let LimitsConfig { memory, record_max, connections, subscriber, retained } =
        LimitsConfig::default();
    file.standing("[limits]", "Bounds of the whole node.");
    file.key(
        "memory",
        &quoted(memory),
        "Bytes of records held; clients may make the broker hold half as much again.",
    );
    file.key("record_max", &quoted(record_max), "One record: topic, properties and payload.");
    file.key("connections", &connections.to_string(), "Client connections.");
    file.key(
        "subscriber",
        &quoted(subscriber),
        "Bytes that wait for one client that has subscribed here; then the least urgent are dropped.",
    );
    file.key("retained", &quoted(retained), "Bytes of messages that are retained here.");
}

pub(super) fn quotas(file: &mut File) {
    file.section(
        "[[quota]]",
        "What one user of the MQTT listeners may have, or one address where clients have no name. The\n\
         first whose user covers a client's holds for it. Without any, shares hold: one user alone may\n\
         take 61 % of a listener's connections, of all streams and of 7/8 of the log's bound, and less\n\
         where others have much; whoever has most sessions makes room with his own. Beyond them 0x97 is\n\
         the answer (before MQTT 5: see docs/BROKER.md).",
    );
    file.key("user", "\"plc-*\"", "User names, * for any characters. Default: everybody.");
    file.key("connections", "100", "Clients that are connected at a time. Default: the share.");
    file.key(
        "sessions",
        "100",
        "Sessions that are kept while their clients are away; beyond, one of the same user makes room.\n\
         Default: no bound but that of all.",
    );
    file.key(
        "subscriptions",
        "1000",
        "Subscriptions of all sessions. Default: 10000 for each session, and what memory allows.",
    );
    file.key(
        "session_expiry",
        "\"1h\"",
        "How long a session is kept at most; MQTT 5 clients are told. Default: that of the listener.",
    );
    file.key(
        "streams",
        "1000",
        "Streams that are fed or hold something: one for each client and [[stream]]. Default: the share.",
    );
    file.key(
        "log",
        "\"100MiB\"",
        "Bytes of the log that durable records take until they are sent. Default: the share.",
    );
}
