//! A record of another node as it is offered to ours, and what a refusal means for its sender.

use bytes::Bytes;
use tidegate_link::envelope::Envelope;
use tidegate_types::headers;
use tidegate_types::record::{
    DropReason, Foreign, Identity, Offered, Properties, RefuseReason, Token,
};

use super::Pending;
use crate::node::contract::Source;

/// What a refusal means for the sender.
pub(super) enum Verdict {
    Never(DropReason),
    Later,
    Stopping,
}

pub(super) fn verdict(reason: RefuseReason) -> Verdict {
    match reason {
        RefuseReason::NoRule => Verdict::Never(DropReason::Unroutable),
        RefuseReason::Forbidden => Verdict::Never(DropReason::Refused),
        RefuseReason::Oversize => Verdict::Never(DropReason::Oversize),
        RefuseReason::Dropped(reason) => Verdict::Never(reason),
        RefuseReason::Full | RefuseReason::TooManyStreams | RefuseReason::Storage => Verdict::Later,
        RefuseReason::Stopping => Verdict::Stopping,
    }
}

/// A record of another node as one of its stream, at its place in the order of arrival. Of one that is relayed, what
/// is left of its bound counts here.
pub(super) fn offered(source: &Source, place: u64, pending: &Pending, is_relayed: bool) -> Offered {
    let Pending { envelope, placed, keeps_name, .. } = pending;
    let Envelope {
        identity, again, hop, left, ttl, source_unix_ns, key, properties, payload, ..
    } = envelope;
    Offered {
        source: source.id(),
        token: Some(Token(place)),
        key: key.clone(),
        properties: match placed {
            Some(_) => properties.clone(),
            None => with_hop(properties, hop + 1),
        },
        payload: payload.clone(),
        read_at: source.now(),
        source_unix_ns: *source_unix_ns,
        ttl: *ttl,
        foreign: keeps_name.then(|| Foreign {
            identity: Identity::clone(identity),
            again: *again,
            left: is_relayed.then_some(*left),
        }),
        packet: None,
    }
}

/// The properties, and how many links the record has crossed: the next link reads it.
fn with_hop(properties: &Properties, hop: u8) -> Properties {
    let is_other = |(name, _): &&(Bytes, Bytes)| name != headers::HOP.as_bytes();
    let mut all: Vec<_> = properties.iter().filter(is_other).cloned().collect();
    all.push((Bytes::from_static(headers::HOP.as_bytes()), hop.to_string().into()));
    Properties::new(all)
}
