//! A PUBLISH as a record: topic, payload, and the properties that travel on.

use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use rmqtt_codec::types::Publish;
use rmqtt_codec::v5::PublishProperties;
use tidegate_core::record::{Body, Offered, Properties, SourceId, Token};
use tidegate_core::units::Time;

use crate::output::headers::SOURCE_TIME;

/// Payloads below this are copied out of the read buffer: a small record that waits must not keep a
/// large buffer alive.
const COPY_BELOW: usize = 4096;

/// The record that a PUBLISH carries.
pub(super) fn offered(
    source: SourceId,
    token: Option<Token>,
    key: Bytes,
    publish: Publish,
    now: Time,
) -> Offered {
    let expiry = publish.properties.as_ref().and_then(|given| given.message_expiry_interval);
    let (properties, source_unix_ns) = match publish.properties {
        Some(given) => properties(given, publish.retain),
        None if publish.retain => (Properties::new(vec![retained()]), None),
        None => (Properties::default(), None),
    };
    Offered {
        source,
        token,
        key,
        properties,
        body: Body::Resident(owned(publish.payload)),
        read_at: now,
        source_unix_ns,
        ttl: expiry.map(|seconds| Duration::from_secs(seconds.get().into())),
        identity: None,
    }
}

/// Bytes that do not keep the read buffer alive, unless they are most of it.
fn owned(bytes: Bytes) -> Bytes {
    if bytes.len() < COPY_BELOW { Bytes::copy_from_slice(&bytes) } else { bytes }
}

fn retained() -> (Bytes, Bytes) {
    (Bytes::from_static(b"mqtt-retain"), Bytes::from_static(b"1"))
}

fn properties(given: PublishProperties, retain: bool) -> (Properties, Option<u64>) {
    let mut pairs = Vec::new();
    let mut source_unix_ns = None;
    for (name, value) in given.user_properties {
        if &*name == SOURCE_TIME
            && let Ok(unix_ns) = value.parse()
        {
            source_unix_ns = Some(unix_ns);
            continue;
        }
        pairs.push((owned(name.into_bytes()), owned(value.into_bytes())));
    }
    let text = |name: &'static str, value: Option<ByteString>| {
        value.map(|value| (Bytes::from_static(name.as_bytes()), owned(value.into_bytes())))
    };
    pairs.extend(text("content-type", given.content_type));
    pairs.extend(text("response-topic", given.response_topic));
    let correlation = given.correlation_data.map(owned);
    pairs.extend(correlation.map(|data| (Bytes::from_static(b"correlation-data"), data)));
    if given.is_utf8_payload {
        pairs.push((Bytes::from_static(b"payload-format"), Bytes::from_static(b"utf-8")));
    }
    if retain {
        pairs.push(retained());
    }
    (Properties::new(pairs), source_unix_ns)
}
