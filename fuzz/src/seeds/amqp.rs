//! What an AMQP 0-9-1 broker says, byte by byte.

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// The seeds by name.
pub(super) fn seeds() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let login = [start("PLAIN AMQPLAIN"), tune(), method(0, 10, 41, b"\0")].concat();
    let ready = [login.clone(), method(1, 20, 11, &[0; 4]), method(1, 85, 11, b"")].concat();
    let after = |more: &[Vec<u8>]| [ready.clone(), more.concat()].concat();
    let ack =
        |tag: u64, multiple: u8| method(1, 60, 80, &[&tag.to_be_bytes()[..], &[multiple]].concat());
    let nack = method(1, 60, 120, &[&[0; 7][..], &[1, 3]].concat());
    let returned =
        method(1, 60, 50, &[&312u16.to_be_bytes()[..], b"\x08NO_ROUTE\x01x\x01k"].concat());
    let properties =
        [&60u16.to_be_bytes()[..], &[0, 0], &2u64.to_be_bytes(), &[0, 0x80], b"\x013"].concat();
    let header = frame(HEADER, 1, &properties);
    let close = method(0, 10, 50, &[&403u16.to_be_bytes()[..], b"\x04away\0\x0a\0\x28"].concat());
    [
        ("login", login.clone()),
        ("other-mechanism", start("EXTERNAL")),
        ("other-version", b"AMQP\x00\x01\x00\x00".to_vec()),
        ("refused", [start("PLAIN"), close.clone()].concat()),
        ("ready", ready.clone()),
        ("blocked", after(&[method(0, 10, 60, b"\x06memory"), method(0, 10, 61, b"")])),
        ("acks", after(&[ack(1, 0), ack(3, 1), nack])),
        ("ack-of-all", after(&[ack(0, 1)])),
        ("returned", after(&[returned, header, frame(BODY, 1, b"hi"), ack(1, 0)])),
        ("heartbeats", after(&[frame(HEARTBEAT, 0, b""), frame(HEARTBEAT, 0, b"")])),
        ("closed", after(&[close])),
        ("large-frame", [&login[..], &[METHOD, 0, 0, 0xff, 0xff, 0xff, 0xff]].concat()),
        ("no-end", [&login[..], &[METHOD, 0, 1, 0, 0, 0, 4, 0, 20, 0, 11, 0]].concat()),
    ]
    .into_iter()
}

fn frame(kind: u8, channel: u16, body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u32).to_be_bytes();
    [&[kind][..], &channel.to_be_bytes(), &size, body, &[0xce]].concat()
}

fn method(channel: u16, class: u16, method: u16, arguments: &[u8]) -> Vec<u8> {
    let body = [&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat();
    frame(METHOD, channel, &body)
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// Version 0-9, a table with a text and a truth, the mechanisms, one locale.
fn start(mechanisms: &str) -> Vec<u8> {
    let product = [&b"\x07productS"[..], &long(b"broker")].concat();
    let table = long(&[&product[..], b"\x05blockt\x01"].concat());
    let arguments = [&[0, 9][..], &table, &long(mechanisms.as_bytes()), &long(b"en_US")].concat();
    method(0, 10, 10, &arguments)
}

/// 2047 channels, frames of 128 KiB, a heartbeat a minute.
fn tune() -> Vec<u8> {
    let numbers = [&2047u16.to_be_bytes()[..], &131_072u32.to_be_bytes(), &60u16.to_be_bytes()];
    method(0, 10, 30, &numbers.concat())
}
