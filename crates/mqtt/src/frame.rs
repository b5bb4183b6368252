//! Finding the next packet in the read buffer by its fixed header (MQTT 5, 2.1.1).

use super::{Reason, Violation};

/// A complete packet at the front of the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlPacket<'a> {
    /// Packet type in the upper half, flags in the lower.
    pub first: u8,
    /// Everything after the fixed header.
    pub body: &'a [u8],
    /// Bytes of the whole packet.
    pub size: usize,
}

/// The front of the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front<'a> {
    /// A packet is complete.
    Complete(ControlPacket<'a>),
    /// More bytes are needed; the packet has this many in all, as far as is known.
    Partial(usize),
}

/// Looks at the front of the buffer. A packet above `maximum` bytes is refused by its header, before
/// any of its body is waited for.
pub fn front(buffer: &[u8], maximum: u32) -> Result<Front<'_>, Violation> {
    let mut remaining = 0_usize;
    for place in 0..4 {
        let Some(&byte) = buffer.get(1 + place) else {
            return Ok(Front::Partial(2 + place));
        };
        remaining |= usize::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            if byte == 0 && place > 0 {
                break;
            }
            return sized(buffer, 2 + place, remaining, maximum);
        }
    }
    Err(Violation::malformed("the remaining length is not a variable byte integer"))
}

fn sized(
    buffer: &[u8],
    header: usize,
    remaining: usize,
    maximum: u32,
) -> Result<Front<'_>, Violation> {
    let size = header + remaining;
    if size > maximum as usize {
        return Err(Violation::new(
            Reason::PacketTooLarge,
            "the packet is larger than the maximum packet size",
        ));
    }
    Ok(match buffer.get(header..size) {
        Some(body) => Front::Complete(ControlPacket { first: buffer[0], body, size }),
        None => Front::Partial(size),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_found_when_it_is_complete() {
        assert_eq!(front(&[], 100), Ok(Front::Partial(2)));
        assert_eq!(front(&[0xC0], 100), Ok(Front::Partial(2)));
        assert_eq!(front(&[0x30, 0x81], 200), Ok(Front::Partial(3)));
        assert_eq!(front(&[0x30, 5, 1], 100), Ok(Front::Partial(7)));
        let frame = ControlPacket { first: 0xC0, body: &[], size: 2 };
        assert_eq!(front(&[0xC0, 0, 0xC0], 100), Ok(Front::Complete(frame)));
    }

    #[test]
    fn a_large_packet_is_refused_by_its_header() {
        let refused = front(&[0x30, 0xFF, 0x01], 100).unwrap_err();
        assert_eq!(refused.reason, Reason::PacketTooLarge);
        let refused = front(&[0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], u32::MAX).unwrap_err();
        assert_eq!(refused.reason, Reason::MalformedPacket);
    }
}
