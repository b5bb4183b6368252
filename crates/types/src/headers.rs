//! What travels beside a record: its identity, class, bound and source time, under the same names in
//! every protocol, so that a consumer can measure latency, find gaps and drop duplicates.

use crate::record::{Properties, Record};
use bytes::Bytes;

/// The node that accepted the record first.
pub const NODE: &str = "tidegate-node";
/// Which life of that node's log, 16 hexadecimal digits.
pub const INCARNATION: &str = "tidegate-incarnation";
/// The stream's number on that node.
pub const STREAM: &str = "tidegate-stream";
/// The record's place in its stream.
pub const SEQ: &str = "tidegate-seq";
/// Name of its class.
pub const CLASS: &str = "tidegate-class";
/// Its latency bound in milliseconds.
pub const BOUND: &str = "tidegate-bound-ms";
/// When the source made it: nanoseconds since the Unix epoch.
pub const SOURCE_TIME: &str = "source-time-ns";
/// `1` where the sender asked to retain the record: its own property, not ours.
pub const RETAIN: &str = "retain";
/// Record property with MQTT's content type.
pub const CONTENT_TYPE: &str = "content-type";
/// Record property with the topic for answers.
pub const RESPONSE_TOPIC: &str = "response-topic";
/// Record property with what an answer must repeat; any bytes.
pub const CORRELATION_DATA: &str = "correlation-data";
/// Record property `1` where the sender says that the payload is UTF-8.
pub const PAYLOAD_FORMAT: &str = "payload-format";
/// `1` where an earlier attempt may have arrived.
pub const AGAIN: &str = "tidegate-again";

/// Links that the record has crossed.
pub const HOP: &str = "tidegate-hop";

/// Links that a record with these properties has crossed.
pub fn hop(properties: &Properties) -> u8 {
    let text = properties.find(HOP).and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The names and values for one record: its own properties first, then ours.
pub fn of(record: &Record, class: &str, again: bool) -> Vec<(String, String)> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let is_ours = |name: &str| name.starts_with("tidegate-") || name == SOURCE_TIME;
    let own = record.properties.iter().map(|(name, value)| (text(name), text(value)));
    let mut all: Vec<(String, String)> = own.filter(|(name, _)| !is_ours(name)).collect();
    let identity = &record.identity;
    let bound = record.deadline.since(record.arrived).as_millis();
    let mut push = |name: &str, value: String| all.push((name.into(), value));
    push(NODE, identity.origin.node.to_string());
    push(INCARNATION, format!("{:016x}", identity.origin.incarnation));
    push(STREAM, identity.stream.0.to_string());
    push(SEQ, identity.seq.to_string());
    push(CLASS, class.into());
    push(BOUND, bound.to_string());
    if let Some(unix_ns) = record.source_unix_ns {
        push(SOURCE_TIME, unix_ns.to_string());
    }
    if again {
        push(AGAIN, "1".into());
    }
    all
}
