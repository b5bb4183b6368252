//! How numbers, texts and lists stand as bytes: in the log, on a link, between members of a group.
//!
//! Which values follow each other is the matter of each format; here is how one value is written and read. Numbers of
//! fixed width are little-endian. A [`Reader`] compares every length with the bytes that are there before it takes
//! memory, and its one error says what was expected, and where. Why no library does this:
//! `docs/decisions/0105-one-byte-codec.md`.

use bytes::{Buf, Bytes, BytesMut};

/// Longest varint: 64 bits, seven a byte.
const VARINT_MAX: usize = 10;
/// Bytes of the length before a frame.
pub const FRAME_HEAD: usize = 4;

/// Where an encoder writes.
pub trait Sink {
    /// Adds bytes as they are.
    fn put(&mut self, bytes: &[u8]);

    /// Adds a byte.
    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Adds a number of 16 bits.
    fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    /// Adds a number of 32 bits.
    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Adds a number of 64 bits.
    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Adds a floating-point number: its 64 bits.
    fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    /// Adds a byte that is 0 or 1.
    fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Adds a number in as few bytes as it needs, least significant seven bits first; the top bit of a byte says that
    /// another one follows.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    /// Adds how many values follow, in 32 bits. A longer list is none: its reader refuses it.
    fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Adds a text behind its length in 16 bits, cut to what such a length can say.
    fn name(&mut self, name: &str) {
        let cut = name.floor_char_boundary(usize::from(u16::MAX));
        self.u16(cut as u16);
        self.put(&name.as_bytes()[..cut]);
    }

    /// Adds bytes behind their length in 32 bits.
    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.put(bytes);
    }

    /// Adds bytes behind their length as a varint.
    fn varint_bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.put(bytes);
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for BytesMut {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// How many bytes an encoder would write.
#[derive(Debug, Default)]
pub struct Count(pub usize);

impl Sink for Count {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Bytes that do not have the form that their reader expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: expected {expected}")]
pub struct Malformed {
    /// What should have stood there.
    pub expected: &'static str,
    /// Where the value begins that is wrong, from the first byte that the reader was given.
    pub at: usize,
}

/// Reads values from the front of some bytes.
///
/// Every function fails with [`Malformed`] where the bytes end too early.
// Its functions are inlined: each record of the log and each packet of a link is read by a dozen of them.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    left: &'a [u8],
    /// Bytes that were read.
    read: usize,
    /// Where the value began that was read last.
    begin: usize,
}

impl<'a> Reader<'a> {
    /// At the first of these bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { left: bytes, read: 0, begin: 0 }
    }

    /// The bytes that were not read yet.
    #[inline]
    pub fn left(&self) -> &'a [u8] {
        self.left
    }

    /// Whether all was read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The error that something else was expected instead of the value that was read last.
    pub fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed { expected, at: self.begin }
    }

    /// Checks something about the value that was read last.
    ///
    /// # Errors
    /// It is not so.
    #[inline]
    pub fn must(&self, is_so: bool, expected: &'static str) -> Result<(), Malformed> {
        if is_so { Ok(()) } else { Err(self.malformed(expected)) }
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// Something is.
    #[inline]
    pub fn end(self) -> Result<(), Malformed> {
        let expected = Malformed { expected: "the end", at: self.read };
        if self.is_empty() { Ok(()) } else { Err(expected) }
    }

    /// Takes `length` bytes of a value that is what `expected` says.
    #[inline]
    fn split(&mut self, length: usize, expected: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, left) =
            self.left.split_at_checked(length).ok_or_else(|| self.malformed(expected))?;
        (self.left, self.read) = (left, self.read + length);
        Ok(taken)
    }

    #[inline]
    fn number<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], Malformed> {
        self.begin = self.read;
        let (taken, left) =
            self.left.split_first_chunk().ok_or_else(|| self.malformed(expected))?;
        (self.left, self.read) = (left, self.read + N);
        Ok(*taken)
    }

    /// Bytes as they are, so many.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        self.begin = self.read;
        self.split(length, "more bytes")
    }

    /// All bytes that are left.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        self.begin = self.read;
        self.read += self.left.len();
        std::mem::take(&mut self.left)
    }

    /// A byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.number("a byte").map(u8::from_le_bytes)
    }

    /// A number of 16 bits.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.number("a number of 16 bits").map(u16::from_le_bytes)
    }

    /// A number of 32 bits.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.number("a number of 32 bits").map(u32::from_le_bytes)
    }

    /// A number of 64 bits.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.number("a number of 64 bits").map(u64::from_le_bytes)
    }

    /// A floating-point number.
    ///
    /// # Errors
    /// It is NaN.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, Malformed> {
        let number = f64::from_bits(self.u64()?);
        self.must(!number.is_nan(), "a number, not NaN").map(|()| number)
    }

    /// A byte that is 0 or 1.
    ///
    /// # Errors
    /// It is neither.
    #[inline]
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        let byte = self.u8()?;
        self.must(byte < 2, "0 or 1").map(|()| byte == 1)
    }

    /// A number as [`Sink::varint`] writes it.
    ///
    /// # Errors
    /// It has another form: so bytes that decode also encode to themselves.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        const EXPECTED: &str = "a number of up to 64 bits in its shortest form";
        self.begin = self.read;
        let mut value = 0;
        for place in 0..VARINT_MAX {
            let byte = self.split(1, EXPECTED)?[0];
            let is_too_large = place == VARINT_MAX - 1 && byte > 1;
            let is_too_long = place > 0 && byte == 0;
            self.must(!is_too_large && !is_too_long, EXPECTED)?;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    /// How many values follow, in 32 bits.
    ///
    /// # Errors
    /// More than `most`.
    #[inline]
    pub fn count(&mut self, most: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        self.must(count <= most, "a smaller count").map(|()| count)
    }

    /// Values behind their count in 32 bits, each of at least `least` bytes.
    ///
    /// # Errors
    /// As [`Reader::values`].
    pub fn many<T>(
        &mut self,
        least: usize,
        read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.count(usize::MAX)?;
        self.values(count, least, read)
    }

    /// So many values. Each takes at least `least` bytes, so that no count, however large, takes more memory than the
    /// bytes pay for.
    ///
    /// # Errors
    /// There are fewer, or one of them is wrong.
    pub fn values<T>(
        &mut self,
        count: usize,
        least: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        self.must(count <= self.left.len() / least, "a count of values that all follow")?;
        (0..count).map(|_| read(self)).collect()
    }

    /// Bytes behind their length in 32 bits.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.split(length as usize, "as many bytes as their length says")
    }

    /// Bytes behind their length as a varint.
    #[inline]
    pub fn varint_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.varint()?;
        self.split(
            usize::try_from(length).unwrap_or(usize::MAX),
            "as many bytes as their length says",
        )
    }

    /// A text behind its length in 16 bits.
    ///
    /// # Errors
    /// It is not UTF-8; so for all texts.
    #[inline]
    pub fn name(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u16()?;
        let bytes = self.split(length.into(), "as many bytes as their length says")?;
        self.utf8(bytes)
    }

    /// A text behind its length in 32 bits.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.bytes()?;
        self.utf8(bytes)
    }

    /// A text behind its length as a varint.
    pub fn varint_text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.varint_bytes()?;
        self.utf8(bytes)
    }

    /// All that is left, a text.
    pub fn rest_text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.rest();
        self.utf8(bytes)
    }

    fn utf8(&self, bytes: &'a [u8]) -> Result<&'a str, Malformed> {
        std::str::from_utf8(bytes).map_err(|_| self.malformed("a text in UTF-8"))
    }
}

/// Adds a frame: what `body` writes, behind its length in 32 bits.
pub fn put_frame(to: &mut BytesMut, body: impl FnOnce(&mut BytesMut)) {
    let begin = to.len();
    to.u32(0);
    body(to);
    let length = (to.len() - begin - FRAME_HEAD) as u32;
    to[begin..begin + FRAME_HEAD].copy_from_slice(&length.to_le_bytes());
}

/// Takes a frame's body from the front of what came; `None` while more bytes are needed.
///
/// # Errors
/// It is empty or longer than `most`, which its first bytes tell: then nothing behind it can be read either.
pub fn take_frame(from: &mut BytesMut, most: usize) -> Result<Option<Bytes>, Malformed> {
    let Some(head) = from.first_chunk::<FRAME_HEAD>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length == 0 || length > most {
        return Err(Malformed { expected: "a frame that is neither empty nor too long", at: 0 });
    }
    if from.len() - FRAME_HEAD < length {
        return Ok(None);
    }
    from.advance(FRAME_HEAD);
    Ok(Some(from.split_to(length).freeze()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn varint(bytes: &[u8]) -> Result<u64, Malformed> {
        Reader::new(bytes).varint()
    }

    #[test]
    fn values_come_back_and_each_has_its_bytes() {
        let mut to = Vec::new();
        to.u8(1);
        to.u16(0x0302);
        to.u32(0x0706_0504);
        to.u64(0x0f0e_0d0c_0b0a_0908);
        to.flag(true);
        to.name("é");
        to.bytes(b"ab");
        to.varint_bytes(b"c");
        to.f64(1.0);
        let fixed: Vec<u8> = (1..16).collect();
        let rest =
            [1, 2, 0, 0xc3, 0xa9, 2, 0, 0, 0, b'a', b'b', 1, b'c', 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
        assert_eq!(to, [&fixed[..], &rest].concat());
        let mut from = Reader::new(&to);
        assert_eq!((from.u8(), from.u16(), from.u32()), (Ok(1), Ok(0x0302), Ok(0x0706_0504)));
        assert_eq!((from.u64(), from.flag()), (Ok(0x0f0e_0d0c_0b0a_0908), Ok(true)));
        assert_eq!((from.name(), from.text()), (Ok("é"), Ok("ab")));
        assert_eq!((from.varint_text(), from.f64(), from.end()), (Ok("c"), Ok(1.0), Ok(())));
    }

    #[test]
    fn an_error_says_what_was_expected_and_where_the_value_begins() {
        let mut from = Reader::new(&[7, 9, 0, 0, 0, 1]);
        from.u8().unwrap();
        let error = from.bytes().unwrap_err();
        assert_eq!(error.to_string(), "byte 1: expected as many bytes as their length says");
        assert_eq!(from.must(false, "nine"), Err(Malformed { expected: "nine", at: 1 }));
        assert_eq!(from.u64().unwrap_err().to_string(), "byte 5: expected a number of 64 bits");
        assert_eq!(from.end(), Err(Malformed { expected: "the end", at: 5 }));
        let error = Reader::new(&[1, 0, 0xff]).name().unwrap_err();
        assert_eq!(error, Malformed { expected: "a text in UTF-8", at: 0 });
        assert!(Reader::new(&[2]).flag().is_err());
        assert!(Reader::new(&f64::NAN.to_le_bytes()).f64().is_err());
    }

    #[test]
    fn a_count_takes_no_memory_that_the_bytes_do_not_pay_for() {
        let many = |bytes: &[u8]| Reader::new(bytes).many(2, Reader::u16);
        let whole = [2, 0, 0, 0, 1, 0, 2, 0];
        assert_eq!(many(&whole), Ok(vec![1, 2]));
        assert!(many(&whole[..7]).is_err() && many(&[0xff; 8]).is_err());
        assert!(Reader::new(&whole).count(1).is_err());
    }

    #[test]
    fn small_numbers_take_one_byte_and_the_largest_ten() {
        let length = |value| {
            let mut count = Count::default();
            count.varint(value);
            count.0
        };
        assert_eq!([length(0), length(127), length(128), length(u64::MAX)], [1, 1, 2, 10]);
    }

    #[test]
    fn long_forms_overflows_and_cut_numbers_are_refused() {
        for bytes in [&[0x80, 0x00][..], &[0xff; 10], &[0x80]] {
            assert!(varint(bytes).is_err(), "{bytes:?}");
        }
        assert!(Reader::new(&[200, 1, 7]).varint_bytes().is_err());
    }

    #[test]
    fn a_frame_is_taken_whole_and_a_long_one_refused_by_its_first_bytes() {
        let mut bytes = BytesMut::new();
        put_frame(&mut bytes, |to| to.put(b"abc"));
        put_frame(&mut bytes, |to| to.u8(7));
        assert_eq!(bytes[..FRAME_HEAD], [3, 0, 0, 0]);
        let mut cut = BytesMut::from(&bytes[..6]);
        assert_eq!((take_frame(&mut cut, 3), cut.len()), (Ok(None), 6));
        assert_eq!(take_frame(&mut bytes, 3), Ok(Some(Bytes::from_static(b"abc"))));
        assert_eq!(take_frame(&mut bytes, 3), Ok(Some(Bytes::from_static(&[7]))));
        for length in [0, 4, u32::MAX] {
            assert!(take_frame(&mut BytesMut::from(&length.to_le_bytes()[..]), 3).is_err());
        }
    }

    proptest! {
        #[test]
        fn every_number_comes_back(value in any::<u64>(), shift in 0u32..64) {
            let mut bytes = Vec::new();
            bytes.varint(value >> shift);
            prop_assert_eq!(varint(&bytes), Ok(value >> shift));
        }

        #[test]
        fn a_number_that_is_read_is_written_again_in_the_same_bytes(bytes: [u8; 11]) {
            let mut from = Reader::new(&bytes);
            if let Ok(value) = from.varint() {
                let mut again = Vec::new();
                again.varint(value);
                prop_assert_eq!(&again, &bytes[..bytes.len() - from.left().len()]);
            }
        }
    }
}
