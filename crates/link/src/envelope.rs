//! The record as a link carries it: with the name that it keeps for ever, how far it has come, and by
//! whose leave. The link itself does not look inside.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::codec::{Reader, Sink};
use tidegate_types::record::{Identity, Origin, Properties, StreamId};

use super::WireError;

/// The version of the envelope that this code writes, and the only one that it reads.
const VERSION: u8 = 1;
/// Nodes that a record may pass through: more is a loop.
pub const HOPS_MAX: u8 = 16;
/// Bit: a grant is named.
const GRANT: u8 = 1;
/// Bit: the record expires.
const TTL: u8 = 2;
/// Bit: the source said when the record was made.
const SOURCE_TIME: u8 = 4;
/// Bit: an earlier attempt may have arrived where the record goes.
const AGAIN: u8 = 8;
/// Bit: letters prove that its sender may bring it. Only for who has said that it reads them.
const PROOF: u8 = 16;

/// A lease of a neighbour's uplink, by its fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(pub u64);

/// A record and all that travels with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Its name, given by the node that accepted it first.
    pub identity: Identity,
    /// Whether an earlier attempt to send it may have arrived, by whatever way: then it may come twice.
    pub again: bool,
    /// Links that it crossed before this one.
    pub hop: u8,
    /// The grant that pays for it, where it uses a neighbour's uplink.
    pub grant: Option<GrantId>,
    /// Time that was left until its deadline when it was handed to the link, in whole microseconds;
    /// zero for a late one.
    pub left: Duration,
    /// Time after which it is not worth carrying, in whole microseconds, counted like `left`.
    pub ttl: Option<Duration>,
    /// When the source says it was made: nanoseconds since the Unix epoch.
    pub source_unix_ns: Option<u64>,
    /// Letters ([`super::letter`]) about its origin, until the other end has them.
    pub proof: Option<Bytes>,
    /// Key (for MQTT the topic), UTF-8.
    pub key: Bytes,
    /// What travels beside the payload.
    pub properties: Properties,
    /// The payload.
    pub payload: Bytes,
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Envelope {
    /// Its bytes.
    pub fn encode(&self) -> Bytes {
        let flag = |is_there: bool, bit| if is_there { bit } else { 0 };
        let flags = flag(self.grant.is_some(), GRANT)
            | flag(self.ttl.is_some(), TTL)
            | flag(self.source_unix_ns.is_some(), SOURCE_TIME)
            | flag(self.again, AGAIN)
            | flag(self.proof.is_some(), PROOF);
        let mut to = Vec::with_capacity(64 + self.key.len() + self.payload.len());
        to.extend_from_slice(&[VERSION, flags, self.hop]);
        to.varint_bytes(self.identity.origin.node.as_bytes());
        to.varint(self.identity.origin.incarnation);
        to.varint(self.identity.stream.0);
        to.varint(self.identity.seq);
        to.varint(micros(self.left));
        let grant = self.grant.map(|grant| grant.0);
        for number in [grant, self.ttl.map(micros), self.source_unix_ns].into_iter().flatten() {
            to.varint(number);
        }
        if let Some(proof) = &self.proof {
            to.varint_bytes(proof);
        }
        to.varint_bytes(&self.key);
        to.varint(self.properties.iter().count() as u64);
        for (name, value) in self.properties.iter() {
            to.varint_bytes(name);
            to.varint_bytes(value);
        }
        to.extend_from_slice(&self.payload);
        to.into()
    }

    /// Reads one. Key, properties and payload share the memory of `bytes`.
    ///
    /// # Errors
    /// [`WireError`]: what is wrong first.
    pub fn decode(bytes: &Bytes) -> Result<Envelope, WireError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let flags = reader.u8()?;
        if flags & !(GRANT | TTL | SOURCE_TIME | AGAIN | PROOF) != 0 {
            return Err(WireError::Feature(flags));
        }
        let hop = reader.u8()?;
        reader.must(hop <= HOPS_MAX, "a record that did not go in a circle")?;
        let node = reader.varint_text()?.into();
        let origin = Arc::new(Origin { node, incarnation: reader.varint()? });
        let stream = StreamId(reader.varint()?);
        let identity = Identity { origin, stream, seq: reader.varint()? };
        let left = Duration::from_micros(reader.varint()?);
        let mut number = |bit| {
            let is_there = flags & bit != 0;
            is_there.then(|| reader.varint()).transpose()
        };
        let grant = number(GRANT)?.map(GrantId);
        let ttl = number(TTL)?.map(Duration::from_micros);
        let source_unix_ns = number(SOURCE_TIME)?;
        let has_proof = flags & PROOF != 0;
        let shared = |reader: &mut Reader<'_>| Ok(bytes.slice_ref(reader.varint_bytes()?));
        let proof = has_proof.then(|| shared(&mut reader)).transpose()?;
        let key = bytes.slice_ref(reader.varint_text()?.as_bytes());
        let count = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        let pair = |reader: &mut Reader<'_>| Ok((shared(reader)?, shared(reader)?));
        let properties = Properties::new(reader.values(count, 2, pair)?);
        let payload = bytes.slice_ref(reader.rest());
        let again = flags & AGAIN != 0;
        Ok(Envelope {
            identity,
            again,
            hop,
            grant,
            left,
            ttl,
            source_unix_ns,
            proof,
            key,
            properties,
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_types::codec::Malformed;

    use super::*;

    fn envelope() -> Envelope {
        let origin = Arc::new(Origin { node: "gate-7".into(), incarnation: 0x1c9f });
        Envelope {
            identity: Identity { origin, stream: StreamId(12), seq: 345 },
            again: true,
            hop: 1,
            grant: Some(GrantId(77)),
            left: Duration::from_millis(40),
            ttl: Some(Duration::from_secs(600)),
            source_unix_ns: Some(1_767_323_045_000_000_000),
            proof: Some("letters".into()),
            key: "plant/7/alarm".into(),
            properties: Properties::new(vec![("unit".into(), "bar".into())]),
            payload: "1.5".into(),
        }
    }

    #[test]
    fn a_record_comes_back_with_its_name_its_hop_and_its_grant() {
        let whole = envelope();
        assert_eq!(Envelope::decode(&whole.encode()), Ok(whole.clone()));
        let properties = Properties::default();
        let (grant, ttl, source_unix_ns, proof) = (None, None, None, None);
        let bare =
            Envelope { again: false, grant, ttl, source_unix_ns, proof, properties, ..whole };
        assert_eq!(Envelope::decode(&bare.encode()), Ok(bare));
    }

    #[test]
    fn a_loop_a_newer_version_and_a_strange_feature_are_refused() {
        let bytes = Envelope { hop: HOPS_MAX + 1, ..envelope() }.encode();
        let expected = Malformed { expected: "a record that did not go in a circle", at: 2 };
        assert_eq!(Envelope::decode(&bytes), Err(WireError::Malformed(expected)));
        let with = |place: usize, value: u8| {
            let mut bytes = envelope().encode().to_vec();
            bytes[place] = value;
            Envelope::decode(&bytes.into())
        };
        assert_eq!(with(0, 2), Err(WireError::Version(2)));
        assert_eq!(with(1, 32), Err(WireError::Feature(32)));
    }

    /// Version 1, byte by byte, with everything that a record can have.
    #[test]
    fn version_1_stays_as_it_is() {
        let expected = [
            &[1, 31, 1, 6][..],
            b"gate-7",
            &[0x9f, 0x39, 12, 0xd9, 2, 0xc0, 0xb8, 2, 77, 0x80, 0x8c, 0x8d, 0x9e, 2],
            &[0x80, 0xe4, 0xd8, 0xe4, 0xa1, 0xde, 0xb2, 0xc3, 0x18, 7],
            b"letters",
            &[13],
            b"plant/7/alarm",
            &[1, 4],
            b"unit",
            &[3],
            b"bar",
            b"1.5",
        ];
        assert_eq!(envelope().encode(), Bytes::from(expected.concat()));
    }

    #[test]
    fn a_record_without_letters_is_what_the_version_before_reads() {
        let properties = Properties::default();
        let (grant, ttl, source_unix_ns, proof) = (None, None, None, None);
        let bare = Envelope {
            again: false,
            grant,
            ttl,
            source_unix_ns,
            proof,
            properties,
            payload: "1.5".into(),
            ..envelope()
        };
        let head = [&[1, 0, 1, 6][..], b"gate-7", &[0x9f, 0x39, 12, 0xd9, 2, 0xc0, 0xb8, 2]];
        let rest = [&[13][..], b"plant/7/alarm", &[0], b"1.5"];
        assert_eq!(bare.encode(), Bytes::from([head.concat(), rest.concat()].concat()));
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_read_or_refused(
            cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let mut bytes = envelope().encode().to_vec();
            let place = flip.index(bytes.len());
            bytes[place] ^= 1 << bit;
            bytes.truncate(cut.index(bytes.len() + 1));
            let bytes = Bytes::from(bytes);
            if let Ok(read) = Envelope::decode(&bytes) {
                prop_assert_eq!(read.encode(), bytes);
            }
        }
    }
}
