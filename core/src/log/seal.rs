//! Encryption at rest: XChaCha20-Poly1305, entry by entry.
//!
//! A nonce is never used twice under one key, by construction: it is made of the boot's random number,
//! the segment's number, which rises within a boot, and the entry's sequence, which rises within a
//! segment. Why this cipher: `docs/decisions/0011-sealed-entries.md`.

use std::fmt;

use chacha20::cipher::consts::U10;
use chacha20::hchacha;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, UnboundKey};

use super::SegmentId;

/// Bytes that sealing adds to an entry.
pub const TAG_LENGTH: usize = 16;

/// A secret of 256 bits. It never shows itself.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of these bytes, which should be random.
    pub fn new(secret: &[u8; 32]) -> Self {
        Key(*secret)
    }

    /// The cipher for nonces that begin with these bytes, and the bytes that its own nonces begin with.
    /// XChaCha20-Poly1305 is defined so (draft-irtf-cfrg-xchacha-03, 2.3); the two halves come from the
    /// fastest code for each.
    fn cipher(&self, first: [u8; 16]) -> LessSafeKey {
        let sub_key = hchacha::<U10>(&self.0.into(), &first.into());
        let key = UnboundKey::new(&CHACHA20_POLY1305, &sub_key);
        LessSafeKey::new(key.expect("a key of this cipher has 32 bytes"))
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
    /// The 16 bytes that are the same in a whole segment.
    fn first(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.boot.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.segment.0.to_le_bytes());
        bytes
    }

    fn rest(self) -> ring::aead::Nonce {
        rest(self.sequence.to_le_bytes())
    }
}

/// The last 8 of the 24 bytes of a nonce, as the inner cipher takes them.
fn rest(last: [u8; 8]) -> ring::aead::Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&last);
    ring::aead::Nonce::assume_unique_for_key(bytes)
}

/// Seals `plain` in place and returns the tag; `open` bytes stay readable and are protected too.
/// `None`: more than the cipher takes, 256 GiB.
pub(super) fn seal(
    key: &Key,
    nonce: Nonce,
    open: &[u8],
    plain: &mut [u8],
) -> Option<[u8; TAG_LENGTH]> {
    let cipher = key.cipher(nonce.first());
    let tag = cipher.seal_in_place_separate_tag(nonce.rest(), Aad::from(open), plain).ok()?;
    tag.as_ref().try_into().ok()
}

/// What was sealed: a body and its tag. `None` if it is not what was sealed, or the key is another one.
pub(super) fn unseal(key: &Key, nonce: Nonce, open: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let size = sealed.len().checked_sub(TAG_LENGTH)?;
    let mut plain = sealed.to_vec();
    let cipher = key.cipher(nonce.first());
    cipher.open_in_place(nonce.rest(), Aad::from(open), &mut plain).ok()?;
    plain.truncate(size);
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
        let first: [u8; 16] = std::array::from_fn(|place| 0x40 + place as u8);
        let last: [u8; 8] = std::array::from_fn(|place| 0x50 + place as u8);
        let mut text = *b"Ladies and Gentlemen of the class of '99: If I could offer you only one \
                          tip for the future, sunscreen would be it.";
        let key = Key::new(&secret);
        let cipher = key.cipher(first);
        let tag = cipher.seal_in_place_separate_tag(rest(last), Aad::from(open), &mut text);
        assert_eq!(text[..4], [0xbd, 0x6d, 0x17, 0x9d]);
        assert_eq!(tag.unwrap().as_ref()[..4], [0xc0, 0x87, 0x59, 0x24]);
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
