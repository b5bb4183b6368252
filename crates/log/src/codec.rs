//! How values stand in the log: little-endian numbers of fixed width, and bytes behind their length.

use bytes::Bytes;

/// Where an encoder writes: into bytes, or into a count of them.
pub(super) trait Sink {
    /// Takes these bytes.
    fn put(&mut self, bytes: &[u8]);

    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// A name: a length of 16 bits and UTF-8. What is longer is cut: names are far below that.
    fn name(&mut self, name: &str) {
        let cut = name.floor_char_boundary(usize::from(u16::MAX));
        self.u16(cut as u16);
        self.put(&name.as_bytes()[..cut]);
    }

    /// Bytes behind a length of 32 bits. More than `limits::LOG_ENTRY_MAX` makes the entry too large,
    /// which the writer refuses.
    fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.put(bytes);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// How many bytes an encoder would write.
#[derive(Debug, Default)]
pub(super) struct Count(pub(super) usize);

impl Sink for Count {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What is left of an encoded value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn name(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u16()?;
        std::str::from_utf8(self.take(usize::from(length))?).map_err(|_| Malformed)
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, Malformed> {
        let length = self.u32()?;
        Ok(Bytes::copy_from_slice(self.take(length as usize)?))
    }

    /// Values behind their count. Each takes at least `least` bytes: so no count, however large, makes
    /// more room than there are bytes.
    pub(super) fn many<T>(
        &mut self,
        least: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()? as usize;
        if count > self.0.len() / least {
            return Err(Malformed);
        }
        (0..count).map(|_| read(self)).collect()
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}
