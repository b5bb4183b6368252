//! Letters: how a node lets another one carry its records under its name.
//!
//! With each life of a link the sender writes "the records of `node`, of this life of its log, may be brought by
//! `to`", and signs it with the key of its certificate; `to` is the name that the other end has just proven. Who
//! carries records of others hands on the letters that it got and adds its own, so that the end of a chain of
//! nodes sees an unbroken one from the origin to its neighbour (docs/decisions/0088). A letter is of no use to
//! anybody but `to`: who copies a log copies nothing that a certificate of its own does not contradict.
//!
//! Here is what letters say and which chains hold together; keys and certificates are the driver's.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::codec::{Malformed, Reader, Sink};

use super::WireError;

/// Letters of one chain: nodes between an origin and who reads it.
pub const CHAIN_MAX: usize = 8;
/// Bytes of a chain.
pub const PROOF_MAX: usize = 32 * 1024;
/// The version that this code writes, and the only one that it reads.
const VERSION: u8 = 1;
/// What is signed begins so: no other use of the key has these bytes.
const CONTEXT: &[u8] = b"tidegate letter 1\0";

/// What one node says of an origin, whose records it hands on to `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The origin.
    pub node: Arc<str>,
    /// Which life of its log: the names of its durable records bear it.
    pub incarnation: u64,
    /// Its process: the names of its other records bear it. 0 where it has no log.
    pub boot: u64,
    /// The process that wrote the log before; 0 where none did, or nobody knows.
    pub previous: u64,
    /// When it was written, seconds since 1970: for people, for clocks may lie.
    pub written: u64,
    /// Who may bring them.
    pub to: Arc<str>,
}

/// A letter and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedDelegation {
    /// What it says.
    pub letter: Delegation,
    /// How it is signed: a number of TLS (RFC 8446, 4.2.3).
    pub scheme: u16,
    /// By this.
    pub signature: Bytes,
    /// The certificate in DER; empty for that of the connection by which it comes.
    pub certificate: Bytes,
}

impl Delegation {
    /// The bytes to sign.
    pub fn content(&self) -> Vec<u8> {
        let mut to = CONTEXT.to_vec();
        self.put(&mut to);
        to
    }

    fn put(&self, to: &mut Vec<u8>) {
        to.varint_bytes(self.node.as_bytes());
        for number in [self.incarnation, self.boot, self.previous, self.written] {
            to.varint(number);
        }
        to.varint_bytes(self.to.as_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Delegation, Malformed> {
        Ok(Delegation {
            node: reader.varint_text()?.into(),
            incarnation: reader.varint()?,
            boot: reader.varint()?,
            previous: reader.varint()?,
            written: reader.varint()?,
            to: reader.varint_text()?.into(),
        })
    }

    /// Whether it is about the records of this node that bear this number.
    pub fn is_of(&self, node: &str, incarnation: u64) -> bool {
        *self.node == *node && (incarnation == self.incarnation || incarnation == self.boot)
    }
}

/// The bytes of a chain, the origin's letter first.
pub fn encode(chain: &[SignedDelegation]) -> Bytes {
    let mut to = vec![VERSION, chain.len() as u8];
    for SignedDelegation { letter, scheme, signature, certificate } in chain {
        letter.put(&mut to);
        to.varint(u64::from(*scheme));
        to.varint_bytes(signature);
        to.varint_bytes(certificate);
    }
    to.into()
}

/// Reads a chain.
///
/// # Errors
/// [`WireError`]: what is wrong first.
pub fn decode(bytes: &Bytes) -> Result<Vec<SignedDelegation>, WireError> {
    let mut reader = Reader::new(bytes);
    reader.must(bytes.len() <= PROOF_MAX, "a shorter proof")?;
    let version = reader.u8()?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let count = usize::from(reader.u8()?);
    reader.must((1..=CHAIN_MAX).contains(&count), "as many letters as a chain may have")?;
    let mut chain = Vec::with_capacity(count);
    for _ in 0..count {
        let letter = Delegation::take(&mut reader)?;
        let scheme = u16::try_from(reader.varint()?);
        let scheme = scheme.map_err(|_| reader.malformed("a scheme of TLS"))?;
        let signature = bytes.slice_ref(reader.varint_bytes()?);
        let certificate = bytes.slice_ref(reader.varint_bytes()?);
        chain.push(SignedDelegation { letter, scheme, signature, certificate });
    }
    reader.end()?;
    Ok(chain)
}

/// Whether letters lead from an origin to the peer that brings them: `signers` are the names that their
/// certificates prove, in the same order. Answers what the origin says.
pub fn holds<'a>(
    chain: &'a [SignedDelegation],
    signers: &[&str],
    peer: &str,
) -> Option<&'a Delegation> {
    let first = &chain.first()?.letter;
    let is_whole = signers.len() == chain.len()
        && signers[0] == &*first.node
        && signers.last().is_some_and(|last| *last == peer);
    let is_passed_on = |(before, next): (&SignedDelegation, &&str)| *before.letter.to == **next;
    let is_same = |one: &SignedDelegation| {
        let numbers = |letter: &Delegation| (letter.incarnation, letter.boot);
        one.letter.node == first.node && numbers(&one.letter) == numbers(first)
    };
    let is_unbroken = chain.iter().zip(&signers[1..]).all(is_passed_on);
    (is_whole && is_unbroken && chain.iter().all(is_same)).then_some(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn letter(to: &str) -> Delegation {
        let node = "gate-7".into();
        let (incarnation, boot, previous, written) = (7, 9, 8, 1_767_323_045);
        Delegation { node, incarnation, boot, previous, written, to: to.into() }
    }

    fn signed(to: &str) -> SignedDelegation {
        let (signature, certificate) = (Bytes::from_static(b"sig"), Bytes::from_static(b"cert"));
        SignedDelegation { letter: letter(to), scheme: 0x0403, signature, certificate }
    }

    #[test]
    fn a_chain_comes_back_and_leads_from_the_origin_to_who_brings_it() {
        let chain = vec![signed("relay"), signed("hub"), signed("far")];
        assert_eq!(decode(&encode(&chain)), Ok(chain.clone()));
        let origin = holds(&chain, &["gate-7", "relay", "hub"], "hub").unwrap();
        assert!(origin.is_of("gate-7", 7) && origin.is_of("gate-7", 9));
        assert!(!origin.is_of("gate-7", 8) && !origin.is_of("gate-8", 7));
        for (signers, peer) in [
            (["evil", "relay", "hub"], "hub"),
            (["gate-7", "evil", "hub"], "hub"),
            (["gate-7", "relay", "evil"], "evil"),
            (["gate-7", "relay", "hub"], "evil"),
        ] {
            assert!(holds(&chain, &signers, peer).is_none(), "{signers:?} by {peer}");
        }
    }

    /// Version 1, byte by byte: what was signed once must be read by every later version.
    #[test]
    fn version_1_stays_as_it_is() {
        let numbers = [7, 9, 8, 0xa5, 0xeb, 0xdc, 0xca, 0x06];
        let letter = [&[6][..], b"gate-7", &numbers, &[5], b"relay"].concat();
        assert_eq!(self::letter("relay").content(), [CONTEXT, &letter].concat());
        let signed_by = [&[0x83, 0x08, 3][..], b"sig", &[4], b"cert"].concat();
        let chain = [&[1, 1], &letter[..], &signed_by].concat();
        assert_eq!(encode(&[signed("relay")]), Bytes::from(chain));
    }

    #[test]
    fn letters_about_different_lives_are_no_chain() {
        let mut chain = vec![signed("relay"), signed("far")];
        assert!(holds(&chain, &["gate-7", "relay"], "relay").is_some());
        chain[1].letter.incarnation = 8;
        assert!(holds(&chain, &["gate-7", "relay"], "relay").is_none());
    }

    #[test]
    fn a_newer_version_none_and_too_many_are_refused() {
        let bytes = |first: [u8; 2]| Bytes::copy_from_slice(&first);
        assert_eq!(decode(&bytes([2, 1])), Err(WireError::Version(2)));
        let expected = Malformed { expected: "as many letters as a chain may have", at: 1 };
        assert_eq!(decode(&bytes([1, 0])), Err(WireError::Malformed(expected)));
        assert_eq!(decode(&bytes([1, 9])), Err(WireError::Malformed(expected)));
    }

    proptest! {
        #[test]
        fn a_damaged_chain_is_read_or_refused(
            cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let mut bytes = encode(&[signed("relay"), signed("far")]).to_vec();
            let place = flip.index(bytes.len());
            bytes[place] ^= 1 << bit;
            bytes.truncate(cut.index(bytes.len() + 1));
            let bytes = Bytes::from(bytes);
            if let Ok(read) = decode(&bytes) {
                prop_assert_eq!(encode(&read), bytes);
            }
        }
    }
}
