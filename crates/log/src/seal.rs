//! Encryption at rest: XChaCha20-Poly1305, entry by entry.
//!
//! A nonce is never used twice under one key, by construction: it is made of the boot's random number,
//! the segment's number, which rises within a boot, and the entry's sequence, which rises within a
//! segment. Why this cipher: `docs/decisions/0011-sealed-entries.md`.

use std::fmt;
use std::sync::Arc;

use chacha20::cipher::consts::U10;
use chacha20::hchacha;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::SegmentId;

/// Bytes that sealing adds to an entry.
pub const TAG_LENGTH: usize = 16;
/// Bytes in the head of a sealed file that make its key one of its own.
pub const SALT_LENGTH: usize = 12;

/// A secret of 256 bits. It never shows itself.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of these bytes, which should be random.
    pub fn new(secret: &[u8; 32]) -> Self {
        Key(*secret)
    }

    /// What seals and opens in one segment of one boot: the part of the work that all its entries share.
    pub(super) fn of_segment(&self, boot: u64, segment: SegmentId) -> SegmentKey {
        let mut first = [0; 16];
        first[..8].copy_from_slice(&boot.to_le_bytes());
        first[8..12].copy_from_slice(&segment.0.to_le_bytes());
        self.cipher(first)
    }

    /// What seals and opens in a file beside the log, in whose head a random `salt` stands. It is never that of a
    /// segment: the nonces there have zeros where these have letters.
    pub fn of_file(&self, salt: [u8; SALT_LENGTH]) -> SegmentKey {
        let mut first = *b"............file";
        first[..SALT_LENGTH].copy_from_slice(&salt);
        self.cipher(first)
    }

    /// The cipher for nonces that begin with these bytes. XChaCha20-Poly1305 is defined so
    /// (draft-irtf-cfrg-xchacha-03, 2.3); the two halves come from the fastest code for each.
    fn cipher(&self, first: [u8; 16]) -> SegmentKey {
        let sub_key = hchacha::<U10>(&self.0.into(), &first.into());
        let key = UnboundKey::new(&CHACHA20_POLY1305, &sub_key);
        SegmentKey(Arc::new(LessSafeKey::new(key.expect("a key of this cipher has 32 bytes"))))
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

/// A key for the entries of one segment of one boot. It never shows itself.
#[derive(Clone)]
pub struct SegmentKey(Arc<LessSafeKey>);

impl SegmentKey {
    /// Seals `plain` in place and returns the tag; `open` bytes stay readable and are protected too. No
    /// `sequence` may come twice. `None`: more than the cipher takes, 256 GiB.
    pub fn seal(&self, sequence: u64, open: &[u8], plain: &mut [u8]) -> Option<[u8; TAG_LENGTH]> {
        let tag =
            self.0.seal_in_place_separate_tag(nonce(sequence), Aad::from(open), plain).ok()?;
        tag.as_ref().try_into().ok()
    }

    /// What was sealed: a body and its tag. `None` if it is not what was sealed, or the key is another
    /// one.
    pub fn unseal(&self, sequence: u64, open: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let size = sealed.len().checked_sub(TAG_LENGTH)?;
        let mut plain = sealed.to_vec();
        self.0.open_in_place(nonce(sequence), Aad::from(open), &mut plain).ok()?;
        plain.truncate(size);
        Some(plain)
    }
}

impl fmt::Debug for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SegmentKey(..)")
    }
}

/// The last 8 of the 24 bytes of a nonce are the entry's sequence; the inner cipher takes 12.
fn nonce(sequence: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&sequence.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
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
        let sequence = u64::from_le_bytes(last);
        let tag = key.cipher(first).seal(sequence, &open, &mut text).unwrap();
        assert_eq!(text[..4], [0xbd, 0x6d, 0x17, 0x9d]);
        assert_eq!(tag[..4], [0xc0, 0x87, 0x59, 0x24]);
    }

    #[test]
    fn what_was_touched_does_not_open() {
        let of =
            |secret, boot, segment| Key::new(&[secret; 32]).of_segment(boot, SegmentId(segment));
        let key = of(7, 1, 2);
        let mut sealed = b"secret".to_vec();
        let tag = key.seal(3, b"open", &mut sealed).unwrap();
        sealed.extend(tag);
        assert_eq!(key.unseal(3, b"open", &sealed).unwrap(), b"secret");
        assert!(key.unseal(3, b"Open", &sealed).is_none());
        assert!(key.unseal(4, b"open", &sealed).is_none());
        assert!(key.unseal(3, b"open", &sealed[..15]).is_none());
        let of_file = Key::new(&[7; 32]).of_file([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
        for other in [of(8, 1, 2), of(7, 2, 2), of(7, 1, 3), of_file] {
            assert!(other.unseal(3, b"open", &sealed).is_none());
        }
        assert_eq!(format!("{:?} {key:?}", Key::new(&[7; 32])), "Key(..) SegmentKey(..)");
    }
}
