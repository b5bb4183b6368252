//! How values stand on the wire of a link: numbers in as few bytes as they need, and bytes behind their
//! length.

use super::WireError;

/// Longest number: 64 bits, seven a byte.
const VARINT_MAX: usize = 10;

/// Writes a number, least significant seven bits first; the top bit of a byte says that another follows.
pub(super) fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Writes bytes behind their length.
pub(super) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// What is left of some bytes, and how many were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// What was not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*taken))
    }

    /// A number in the one form that `put_varint` gives it: any other is malformed, so that bytes that
    /// decode also encode to themselves.
    pub(super) fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for place in 0..VARINT_MAX {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if place == VARINT_MAX - 1 && byte > 1 || place > 0 && byte == 0 {
                return Err(WireError::Malformed("number"));
            }
            value |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Malformed("number"))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.varint()?;
        self.take(usize::try_from(length).map_err(|_| WireError::Truncated)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn varint(bytes: &[u8]) -> Result<u64, WireError> {
        Reader::new(bytes).varint()
    }

    #[test]
    fn small_numbers_take_one_byte_and_the_largest_ten() {
        let length = |value| {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            bytes.len()
        };
        assert_eq!([length(0), length(127), length(128), length(u64::MAX)], [1, 1, 2, 10]);
    }

    #[test]
    fn long_forms_overflows_and_cut_numbers_are_refused() {
        assert_eq!(varint(&[0x80, 0x00]), Err(WireError::Malformed("number")));
        assert_eq!(varint(&[0xff; 10]), Err(WireError::Malformed("number")));
        assert_eq!(varint(&[0x80]), Err(WireError::Truncated));
        assert_eq!(Reader::new(&[200, 1, 7]).bytes(), Err(WireError::Truncated));
    }

    proptest! {
        #[test]
        fn every_number_comes_back(value in any::<u64>(), shift in 0u32..64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value >> shift);
            prop_assert_eq!(varint(&bytes), Ok(value >> shift));
        }
    }
}
