//! What a server writes. Every function appends one packet to `out`.

use bytes::BufMut;

use super::property as p;
use super::{Reason, Version};

/// Longest text of MQTT.
pub(crate) const TEXT_MAX: usize = u16::MAX as usize;

/// What a CONNACK to an MQTT 5 client announces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announcement<'a> {
    pub(crate) receive_maximum: u16,
    pub(crate) maximum_packet_size: u32,
    pub(crate) topic_alias_maximum: u16,
    /// Whether the session goes on that an earlier connection began.
    pub(crate) session_present: bool,
    /// Seconds that the session outlives the connection, where it is not what the client asked for.
    pub(crate) session_expiry: Option<u32>,
    /// Seconds of silence that the server allows, where it is not what the client asked for.
    pub(crate) keepalive: Option<u16>,
    /// Set where the client sent none.
    pub(crate) assigned_client_id: Option<&'a str>,
}

/// Accepts a connection of an older version.
pub(crate) fn accepted(out: &mut Vec<u8>, session_present: bool) {
    out.extend([0x20, 2, u8::from(session_present), 0]);
}

/// Accepts an MQTT 5 connection.
pub(crate) fn accepted_v5(out: &mut Vec<u8>, announcement: &Announcement<'_>) {
    let mut properties = vec![p::RECEIVE_MAXIMUM];
    properties.extend(announcement.receive_maximum.to_be_bytes());
    properties.push(p::MAXIMUM_PACKET_SIZE);
    properties.extend(announcement.maximum_packet_size.to_be_bytes());
    properties.push(p::TOPIC_ALIAS_MAXIMUM);
    properties.extend(announcement.topic_alias_maximum.to_be_bytes());
    if let Some(seconds) = announcement.session_expiry {
        properties.push(p::SESSION_EXPIRY);
        properties.extend(seconds.to_be_bytes());
    }
    if let Some(seconds) = announcement.keepalive {
        properties.push(p::SERVER_KEEPALIVE);
        properties.extend(seconds.to_be_bytes());
    }
    if let Some(id) = announcement.assigned_client_id {
        text_property(&mut properties, p::ASSIGNED_CLIENT_ID, id);
    }
    let start = open(out, 0x20);
    out.extend([u8::from(announcement.session_present), Reason::Success as u8]);
    variable(out, properties.len());
    out.extend(properties);
    close(out, start);
}

/// Refuses a connection of an older version: 1 wrong version, 2 client id, ...
pub(crate) fn refused(out: &mut Vec<u8>, code: u8) {
    out.extend([0x20, 2, 0, code]);
}

/// Refuses an MQTT 5 connection.
pub(crate) fn refused_v5(out: &mut Vec<u8>, reason: Reason) {
    out.extend([0x20, 3, 0, reason as u8, 0]);
}

/// First byte of an answer to a publish with QoS 1.
pub(crate) const PUBACK: u8 = 0x40;
/// First byte of the first answer to a publish with QoS 2.
pub(crate) const PUBREC: u8 = 0x50;
/// First byte of the last answer to a publish with QoS 2.
pub(crate) const PUBCOMP: u8 = 0x70;

/// Takes a publish, or its release.
pub(crate) fn taken(out: &mut Vec<u8>, first: u8, id: u16) {
    let [high, low] = id.to_be_bytes();
    out.extend([first, 2, high, low]);
}

/// Refuses a publish of an MQTT 5 client, with the reason in words if the client wants them.
pub(crate) fn not_taken(
    out: &mut Vec<u8>,
    first: u8,
    id: u16,
    reason: Reason,
    words: Option<&str>,
) {
    let start = open(out, first);
    out.extend(id.to_be_bytes());
    out.push(reason as u8);
    if let Some(words) = words {
        reason_string(out, words);
    }
    close(out, start);
}

/// Answers a PUBREC for a publish that this server never sent.
pub(crate) fn unknown_received(out: &mut Vec<u8>, version: Version, id: u16) {
    not_found(out, 0x62, version, id);
}

/// Answers a PUBREL for a publish that this server never took.
pub(crate) fn unknown_released(out: &mut Vec<u8>, version: Version, id: u16) {
    not_found(out, PUBCOMP, version, id);
}

fn not_found(out: &mut Vec<u8>, first: u8, version: Version, id: u16) {
    let [high, low] = id.to_be_bytes();
    match version {
        Version::V5 => out.extend([first, 3, high, low, Reason::PacketIdNotFound as u8]),
        Version::V31 | Version::V311 => out.extend([first, 2, high, low]),
    }
}

/// Releases the packet identifier of a publish that the client has.
pub(crate) fn release(out: &mut Vec<u8>, id: u16) {
    let [high, low] = id.to_be_bytes();
    out.extend([0x62, 2, high, low]);
}

/// Answers a PINGREQ.
pub(crate) fn pong(out: &mut Vec<u8>) {
    out.extend([0xD0, 0]);
}

/// Answers each filter of a SUBSCRIBE.
pub(crate) fn subscribed(
    out: &mut Vec<u8>,
    version: Version,
    id: u16,
    codes: impl Iterator<Item = u8>,
    words: Option<&str>,
) {
    let start = open(out, 0x90);
    out.extend(id.to_be_bytes());
    if version == Version::V5 {
        match words {
            Some(words) => reason_string(out, words),
            None => out.push(0),
        }
    }
    out.extend(codes);
    close(out, start);
}

/// Answers each filter of an UNSUBSCRIBE; older versions have no codes.
pub(crate) fn unsubscribed(
    out: &mut Vec<u8>,
    version: Version,
    id: u16,
    codes: impl Iterator<Item = u8>,
) {
    let start = open(out, 0xB0);
    out.extend(id.to_be_bytes());
    if version == Version::V5 {
        out.push(0);
        out.extend(codes);
    }
    close(out, start);
}

/// Ends the connection of an MQTT 5 client.
pub(crate) fn disconnected(out: &mut Vec<u8>, reason: Reason) {
    out.extend([0xE0, 1, reason as u8]);
}

/// Ends the connection of an MQTT 5 client that is to use another server.
pub(crate) fn elsewhere(out: &mut Vec<u8>, reference: &str) {
    let start = open(out, 0xE0);
    out.push(Reason::UseAnotherServer as u8);
    variable(out, 3 + reference.len());
    text_property(out, p::SERVER_REFERENCE, reference);
    close(out, start);
}

/// Begins a packet with room for the longest remaining length, and returns where it begins.
pub(super) fn open(out: &mut Vec<u8>, first: u8) -> usize {
    let start = out.len();
    out.extend([first, 0, 0, 0, 0]);
    start
}

/// Writes the remaining length and closes the gap behind it.
pub(super) fn close(out: &mut Vec<u8>, start: usize) {
    let mut length = Vec::with_capacity(4);
    variable(&mut length, out.len() - start - 5);
    out.splice(start + 1..start + 5, length);
}

/// A variable byte integer: 7 bits a byte, the lowest first.
pub(super) fn variable(out: &mut impl BufMut, mut value: usize) {
    loop {
        let byte = (value & 0x7F) as u8;
        value >>= 7;
        if value == 0 {
            return out.put_u8(byte);
        }
        out.put_u8(byte | 0x80);
    }
}

/// A text, its length in front; the caller has checked it.
pub(crate) fn put_text(out: &mut impl BufMut, text: &[u8]) {
    out.put_u16(text.len() as u16);
    out.put_slice(text);
}

fn text_property(out: &mut Vec<u8>, id: u8, text: &str) {
    out.push(id);
    put_text(out, text.as_bytes());
}

/// A property section that holds nothing but a reason in words.
fn reason_string(out: &mut Vec<u8>, words: &str) {
    variable(out, 3 + words.len());
    text_property(out, p::REASON_STRING, words);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = vec![0xAA];
        write(&mut out);
        assert_eq!(out.remove(0), 0xAA, "what stood before stays");
        out
    }

    #[test]
    fn answers_have_the_standards_bytes() {
        assert_eq!(written(|out| taken(out, PUBACK, 0x1234)), [0x40, 2, 0x12, 0x34]);
        let refused = written(|out| not_taken(out, PUBACK, 1, Reason::QuotaExceeded, None));
        assert_eq!(refused, [0x40, 3, 0, 1, 0x97]);
        let refused = written(|out| not_taken(out, PUBREC, 1, Reason::QuotaExceeded, Some("full")));
        assert_eq!(refused, b"\x50\x0B\0\x01\x97\x07\x1F\0\x04full");
        let codes = || [0x80, 0x80].into_iter();
        let suback = written(|out| subscribed(out, Version::V311, 7, codes(), None));
        assert_eq!(suback, [0x90, 4, 0, 7, 0x80, 0x80]);
        let unsuback = written(|out| unsubscribed(out, Version::V311, 7, codes()));
        assert_eq!(unsuback, [0xB0, 2, 0, 7]);
    }

    #[test]
    fn long_packets_have_long_lengths() {
        let codes = std::iter::repeat_n(0x80, 200);
        let suback = written(|out| subscribed(out, Version::V311, 7, codes, None));
        assert_eq!(suback[..5], [0x90, 0xCA, 0x01, 0, 7]);
        assert_eq!(suback.len(), 3 + 202);
    }
}
