//! A cursor over the bytes of one packet, in MQTT's data types (MQTT 5, 1.5).

use super::Violation;

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        FieldReader(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Refuses bytes after the last field.
    pub(crate) fn finish(self) -> Result<(), Violation> {
        match self.0 {
            [] => Ok(()),
            _ => Err(Violation::malformed("bytes after the last field of the packet")),
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Violation> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(Violation::malformed("the packet ends in the middle of a field"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Violation> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn two(&mut self) -> Result<u16, Violation> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(crate) fn four(&mut self) -> Result<u32, Violation> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A packet identifier, which is never 0.
    pub(crate) fn packet_id(&mut self) -> Result<u16, Violation> {
        match self.two()? {
            0 => Err(Violation::protocol("packet identifier 0")),
            id => Ok(id),
        }
    }

    /// A variable byte integer in its shortest form.
    pub(crate) fn variable(&mut self) -> Result<u32, Violation> {
        let mut value = 0;
        for place in 0..4 {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7F) << (7 * place);
            if byte & 0x80 == 0 {
                if byte == 0 && place > 0 {
                    return Err(Violation::malformed("a variable byte integer is too long"));
                }
                return Ok(value);
            }
        }
        Err(Violation::malformed("a variable byte integer has more than four bytes"))
    }

    pub(crate) fn binary(&mut self) -> Result<&'a [u8], Violation> {
        let count = self.two()?;
        self.take(usize::from(count))
    }

    /// UTF-8 without NUL.
    pub(crate) fn text(&mut self) -> Result<&'a str, Violation> {
        let bytes = self.binary()?;
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Violation::malformed("a text field is not valid UTF-8"))?;
        if bytes.contains(&0) {
            return Err(Violation::malformed("a text field has a NUL character"));
        }
        Ok(text)
    }

    /// UTF-8 without control characters: a name that goes into logs and other protocols. The standard
    /// lets a server refuse them (1.5.4).
    pub(crate) fn name(&mut self) -> Result<&'a str, Violation> {
        let text = self.text()?;
        if has_control(text) {
            return Err(Violation::malformed("a name has a control character"));
        }
        Ok(text)
    }

    /// A property section: its length, then its bytes.
    pub(crate) fn section(&mut self) -> Result<&'a [u8], Violation> {
        let count = self.variable()?;
        self.take(count as usize)
    }
}

/// Whether a text has control characters (U+0000..U+001F, U+007F..U+009F).
pub(crate) fn has_control(text: &str) -> bool {
    if text.is_ascii() {
        text.bytes().any(|byte| byte < 0x20 || byte == 0x7F)
    } else {
        text.chars().any(char::is_control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_integers_are_read_to_four_bytes() {
        let read = |bytes: &[u8]| FieldReader::new(bytes).variable();
        assert_eq!(read(&[0x00]), Ok(0));
        assert_eq!(read(&[0x80, 0x01]), Ok(128));
        assert_eq!(read(&[0xFF, 0xFF, 0xFF, 0x7F]), Ok(268_435_455));
        assert!(read(&[0x80, 0x00]).is_err());
        assert!(read(&[0xFF, 0xFF, 0xFF, 0xFF, 0x7F]).is_err());
        assert!(read(&[0x80]).is_err());
    }

    #[test]
    fn texts_are_checked() {
        let text = |bytes: &[u8]| {
            let mut field = (bytes.len() as u16).to_be_bytes().to_vec();
            field.extend(bytes);
            (FieldReader::new(&field).text().is_ok(), FieldReader::new(&field).name().is_ok())
        };
        assert_eq!(text("grüße/𠀋".as_bytes()), (true, true));
        assert_eq!(text(b"a\nb"), (true, false));
        assert_eq!(text("a\u{9f}".as_bytes()), (true, false));
        assert_eq!(text(b"a\0"), (false, false));
        assert_eq!(text(&[0xED, 0xA0, 0x80]), (false, false));
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        assert!(FieldReader::new(&[0, 5, b'a']).text().is_err());
        assert!(FieldReader::new(&[1]).two().is_err());
        assert!(FieldReader::new(&[3, 0, 0]).section().is_err());
        assert!(FieldReader::new(&[0, 0]).packet_id().is_err());
    }
}
