//! Where heads of HTTP/2 begin and end: frames are followed by their lengths, and nothing of them is kept.
//!
//! A head that does not end with its first frame goes on in CONTINUATION frames (RFC 9113, 6.10), which are held until
//! the last one has come.

/// What a connection begins with (RFC 9113, 3.4).
const PREFACE: usize = 24;
const PREFIX: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Heads {
    /// Bytes until the next frame begins.
    skip: usize,
    /// Of a frame's prefix, what came.
    prefix: [u8; PREFIX],
    filled: usize,
    is_open: bool,
}

impl Default for Heads {
    fn default() -> Self {
        Heads { skip: PREFACE, prefix: [0; PREFIX], filled: 0, is_open: false }
    }
}

impl Heads {
    /// These bytes came, the first ones with the preface; whether a head is open behind them.
    pub(super) fn meet(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.skip.min(bytes.len());
            (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
            let Some((byte, rest)) = bytes.split_first() else { return self.is_open };
            self.prefix[self.filled] = *byte;
            (self.filled, bytes) = (self.filled + 1, rest);
            if self.filled == PREFIX {
                let [a, b, c, kind, flags, ..] = self.prefix;
                (self.filled, self.skip) = (0, u32::from_be_bytes([0, a, b, c]) as usize);
                if matches!(kind, HEADERS | CONTINUATION) {
                    self.is_open = flags & END_HEADERS == 0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = (body.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags, 0, 0, 0, 1]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_head_is_open_from_its_first_frame_to_the_last_however_the_bytes_come() {
        let all = [
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), false),
            (frame(4, 0, &[1; 12]), false),
            (frame(HEADERS, END_HEADERS, &[HEADERS; 30]), false),
            (frame(0, 0, &frame(HEADERS, 0, b"x")), false),
            (frame(HEADERS, 1, &[0; 40]), true),
            (frame(CONTINUATION, 0, b""), true),
            (frame(CONTINUATION, END_HEADERS, &[CONTINUATION; 50]), false),
        ];
        let (mut whole, mut single) = (Heads::default(), Heads::default());
        for (bytes, is_open) in &all {
            assert_eq!(whole.meet(bytes), *is_open, "{bytes:?}");
            let met = bytes.iter().fold(false, |_, byte| single.meet(&[*byte]));
            assert_eq!(met, *is_open, "{bytes:?}");
        }
    }
}
