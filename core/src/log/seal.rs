//! Encryption at rest: XChaCha20-Poly1305, entry by entry.
//!
//! A nonce is never used twice under one key, by construction: it is made of the boot's random number,
//! the segment's number, which rises within a boot, and the entry's sequence, which rises within a
//! segment. Why this cipher: `docs/decisions/0011-sealed-entries.md`.

use std::fmt;

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};

use super::SegmentId;

/// Bytes that sealing adds to an entry.
pub const TAG_LENGTH: usize = 16;

/// A secret of 256 bits. It never shows itself.
#[derive(Clone)]
pub struct Key(XChaCha20Poly1305);

impl Key {
    /// The key of these bytes, which should be random.
    pub fn new(secret: &[u8; 32]) -> Self {
        Key(XChaCha20Poly1305::new(secret.into()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The keys of a log: the first one writes, each of them reads. No key: nothing is sealed. To rotate,
/// put the new key first and keep the old one until its segments are gone.
pub type Keys = [Key];

/// What makes a nonce.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nonce {
    pub(super) boot: u64,
    pub(super) segment: SegmentId,
    pub(super) sequence: u64,
}

impl Nonce {
    fn bytes(self) -> XNonce {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.boot.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.segment.0.to_le_bytes());
        bytes[16..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes.into()
    }
}

/// Seals `plain` in place and returns the tag; `open` bytes stay readable and are protected too.
/// `None`: more than the cipher takes, 256 GiB.
pub(super) fn seal(
    key: &Key,
    nonce: Nonce,
    open: &[u8],
    plain: &mut [u8],
) -> Option<[u8; TAG_LENGTH]> {
    key.0.encrypt_in_place_detached(&nonce.bytes(), open, plain).ok().map(Into::into)
}

/// What was sealed: a body and its tag. `None` if it is not what was sealed, or the key is another one.
pub(super) fn unseal(key: &Key, nonce: Nonce, open: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (body, tag) = sealed.split_last_chunk::<TAG_LENGTH>()?;
    let mut plain = body.to_vec();
    let tag = Tag::from(*tag);
    key.0.decrypt_in_place_detached(&nonce.bytes(), open, &mut plain, &tag).ok()?;
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_draft() {
        // draft-irtf-cfrg-xchacha-03, A.3.1.
        let secret: [u8; 32] = std::array::from_fn(|place| 0x80 + place as u8);
        let open = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
        let nonce: [u8; 24] = std::array::from_fn(|place| 0x40 + place as u8);
        let mut text = *b"Ladies and Gentlemen of the class of '99: If I could offer you only one \
                          tip for the future, sunscreen would be it.";
        let key = Key::new(&secret);
        let tag = key.0.encrypt_in_place_detached(&nonce.into(), &open, &mut text).unwrap();
        assert_eq!(text[..4], [0xbd, 0x6d, 0x17, 0x9d]);
        assert_eq!(tag[..4], [0xc0, 0x87, 0x59, 0x24]);
    }

    #[test]
    fn what_was_touched_does_not_open() {
        let key = Key::new(&[7; 32]);
        let nonce = Nonce { boot: 1, segment: SegmentId(2), sequence: 3 };
        let mut sealed = b"secret".to_vec();
        let tag = seal(&key, nonce, b"open", &mut sealed).unwrap();
        sealed.extend(tag);
        assert_eq!(unseal(&key, nonce, b"open", &sealed).unwrap(), b"secret");
        assert!(unseal(&key, nonce, b"Open", &sealed).is_none());
        assert!(unseal(&Key::new(&[8; 32]), nonce, b"open", &sealed).is_none());
        assert!(unseal(&key, Nonce { sequence: 4, ..nonce }, b"open", &sealed).is_none());
        assert!(unseal(&key, nonce, b"open", &sealed[..15]).is_none());
        assert_eq!(format!("{key:?}"), "Key(..)");
    }
}
