//! What MQTT brokers and clients say, byte by byte.

/// What a broker of version 5 says to a client.
pub(super) fn seeds() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let welcome = vec![0x20, 3, 0, 0, 0];
    let after = |more: &[u8]| [&welcome[..], more].concat();
    // Receive maximum 20, maximum packet size 1000, QoS 1 at most, topic alias maximum 10.
    let limits = [0x21, 0, 20, 0x27, 0, 0, 3, 0xe8, 0x24, 1, 0x22, 0, 10];
    let reason = [0x1f, 0, 4, b'a', b'w', b'a', b'y'];
    [
        ("welcome", welcome.clone()),
        ("limits", [&[0x20, 16, 0, 0, 13][..], &limits].concat()),
        ("refused", [&[0x20, 10, 0, 0x87, 7][..], &reason].concat()),
        ("no-receive-maximum", vec![0x20, 6, 0, 0, 3, 0x21, 0, 0]),
        ("only-qos-0", vec![0x20, 5, 0, 0, 2, 0x24, 0]),
        ("old-version", vec![0x20, 2, 0, 1]),
        ("acks", after(&[0x40, 2, 0, 1, 0x40, 3, 0, 2, 0x10, 0x40, 4, 0, 3, 0x97, 0])),
        ("ack-of-nothing", after(&[0x40, 2, 0, 0])),
        ("ping", after(&[0xd0, 0])),
        ("goodbye", after(&[&[0xe0, 9, 0x8b, 7][..], &reason].concat())),
        ("a-record", after(&[0x30, 6, 0, 1, b'a', 0, b'h', b'i'])),
        ("long-length", after(&[0x40, 0xff, 0xff, 0xff, 0xff, 0x7f])),
        ("cut-off", after(&[0x40, 9, 0, 1])),
    ]
    .into_iter()
}

/// What clients say to a listener. The first byte is the target's own: how the bytes are cut into reads
/// and how the node answers.
pub(super) fn session_seeds() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let old = packet(0x10, b"\0\x04MQTT\x04\x02\0\x3c\0\x01c");
    let older = packet(0x10, b"\0\x06MQIsdp\x03\x02\0\0\0\x01c");
    // Session expiry 60 s, receive maximum 9; a will with a delay.
    let new = packet(0x10, b"\0\x04MQTT\x05\x02\0\x3c\x08\x11\0\0\0\x3c\x21\0\x09\0\x01c");
    let will = packet(0x10, b"\0\x04MQTT\x05\x0e\0\0\0\0\x01c\x05\x18\0\0\0\x01\0\x03a/w\0\x02by");
    let user = packet(0x10, b"\0\x04MQTT\x04\xc2\0\0\0\x01c\0\x02me\0\x04word");
    let fast = packet(0x30, b"\0\x03a/bhi");
    let safe = packet(0x32, b"\0\x03a/b\0\x07hi");
    let twice = packet(0x34, b"\0\x03a/b\0\x08hi");
    let release = packet(0x62, b"\0\x08");
    let kept = packet(0x10, b"\0\x04MQTT\x04\0\0\x3c\0\x01c");
    // Topic alias 1, expiry 5 s, a user property; then the alias alone.
    let alias = packet(0x32, b"\0\x03a/b\0\x09\x0f\x23\0\x01\x02\0\0\0\x05\x26\0\x01k\0\x01vhi");
    let again = packet(0x32, b"\0\0\0\x0a\x03\x23\0\x01hi");
    let subscribe = packet(0x82, b"\0\x01\0\x03a/#\x01");
    let subscribe_new = packet(0x82, b"\0\x01\0\0\x03a/#\x01");
    let unsubscribe = packet(0xa2, b"\0\x02\0\x03a/#");
    let (ping, bye) = (packet(0xc0, b""), packet(0xe0, b""));
    // What a subscriber of version 5 answers: with reasons, with a text of the user's, to nothing.
    let took = packet(0x40, b"\0\x01\x10\0");
    let has = packet(0x50, b"\0\x02\x97\x0a\x26\0\x01k\0\x04very");
    let (got, over) = (packet(0x62, b"\0\x02\x92"), packet(0x70, b"\0\x02"));
    // A group's filter with an identifier, and an end that changes the session's expiry to 0.
    let shared = packet(0x82, b"\0\x03\x02\x0b\x07\0\x0a$share/g/a\x29");
    let left = packet(0xe0, b"\x04\x05\x11\0\0\0\0");
    // Enhanced authentication, which nobody offers here.
    let method = packet(0x10, b"\0\x04MQTT\x05\x02\0\x3c\x08\x15\0\x05SCRAM\0\x01c");
    let auth = packet(0xf0, b"\x18\0");
    let wildcard = packet(0x30, b"\0\x03a/#hi");
    let not_text = packet(0x30, b"\0\x03a\xff/hi");
    let life = |choice: u8, packets: &[&Vec<u8>]| {
        let bytes = packets.iter().flat_map(|packet| packet.iter().copied());
        std::iter::once(choice).chain(bytes).collect::<Vec<u8>>()
    };
    [
        ("old-life", life(0xff, &[&old, &fast, &safe, &subscribe, &unsubscribe, &ping, &bye])),
        ("new-life", life(0xff, &[&new, &alias, &again, &subscribe_new, &ping, &bye])),
        ("byte-by-byte", life(0, &[&new, &alias, &again, &ping])),
        ("refusing-node", life(0xfd, &[&new, &alias, &again])),
        ("silent-node", life(0xfe, &[&old, &safe, &safe, &safe, &safe, &safe])),
        ("older-version", life(0xff, &[&older, &fast])),
        ("will", life(0xff, &[&will, &fast])),
        ("user", life(0xff, &[&user, &safe])),
        ("qos-2", life(0xff, &[&old, &twice])),
        ("qos-2-released", life(0xfc, &[&old, &twice, &twice, &release, &release, &twice])),
        ("qos-2-refused", life(0xfd, &[&old, &twice, &twice])),
        ("qos-2-dropped", life(0xff, &[&old, &twice, &twice, &release])),
        ("kept-session", life(0xfc, &[&kept, &twice, &safe, &twice])),
        ("answers", life(0xff, &[&new, &took, &has, &got, &over, &shared, &left])),
        ("method", life(0xff, &[&method, &auth])),
        ("clean-with-expiry", life(0xfc, &[&old, &left, &fast])),
        ("no-login", life(0xff, &[&fast])),
        ("login-twice", life(0xff, &[&old, &old])),
        ("wildcard-topic", life(0xff, &[&old, &wildcard])),
        ("not-utf8", life(0xff, &[&old, &not_text])),
        ("too-large", life(0xff, &[&old, &vec![0x32, 0xff, 0xff, 0xff, 0x7f]])),
        ("no-length", life(0xff, &[&old, &vec![0x32, 0xff, 0xff, 0xff, 0xff, 0x01]])),
    ]
    .into_iter()
}

/// What a browser says to a listener. The first byte is how the frames are cut into reads.
pub(super) fn websocket_seeds() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let request = |lines: &str| {
        format!(
            "GET /mqtt HTTP/1.1\r\nHost: gate-7\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
        )
        .into_bytes()
    };
    let good = request("Sec-WebSocket-Protocol: mqtt\r\nOrigin: https://a.example\r\n");
    // The mask is zero, so that what is in the frames can be read.
    let frame = |first: u8, bytes: &[u8]| {
        let length = (bytes.len() as u16).to_be_bytes();
        match bytes.len() {
            0..=125 => [&[first, 0x80 | length[1], 0, 0, 0, 0][..], bytes].concat(),
            _ => [&[first, 0xfe, length[0], length[1], 0, 0, 0, 0][..], bytes].concat(),
        }
    };
    let connect = packet(0x10, b"\0\x04MQTT\x04\x02\0\x3c\0\x01c");
    let publish = packet(0x30, b"\0\x03a/bhi");
    let life = |piece: u8, parts: &[&[u8]]| [&[piece][..], &parts.concat()].concat();
    let both = [&connect[..], &publish].concat();
    let (ping, bye) = (frame(0x89, b"hello"), frame(0x88, &[3, 232]));
    [
        ("one-packet-a-frame", life(255, &[&good, &frame(0x82, &connect), &frame(0x82, &publish)])),
        ("many-in-a-frame", life(3, &[&good, &frame(0x82, &both), &ping, &bye])),
        ("in-pieces", life(1, &[&good, &frame(0x02, &both[..3]), &ping, &frame(0x80, &both[3..])])),
        ("long", life(7, &[&good, &frame(0x82, &[0x30; 200]), &bye])),
        (
            "huge-by-its-word",
            life(2, &[&good, &[0x82, 0xff, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]),
        ),
        ("text", life(9, &[&good, &frame(0x81, b"hi")])),
        ("not-masked", life(9, &[&good, &[0x82, 2, 0xc0, 0]])),
        (
            "other-page",
            life(9, &[&request("Sec-WebSocket-Protocol: mqtt\r\nOrigin: https://b\r\n")]),
        ),
        ("no-subprotocol", life(9, &[&request("")])),
        ("no-request", life(9, &[b"GET / HTTP/1.0\r\n\r\n"])),
    ]
    .into_iter()
}

/// What a broker says to a subscriber. The first byte is the target's own, as above.
pub(super) fn source_seeds() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let new = packet(0x20, b"\0\0\x03\x13\0\x3c");
    let there = packet(0x20, b"\x01\0\0");
    let old = packet(0x20, b"\0\x01");
    let granted = packet(0x90, b"\0\x01\0\x02");
    let safe = packet(0x32, b"\0\x03a/b\0\x07\0hi");
    let once = packet(0x34, b"\0\x03a/b\0\x08\0hi");
    let odd = packet(0x32, b"\0\x03a\x01b\0\x07\0hi");
    let release = packet(0x62, b"\0\x08");
    let (pong, bye) = (packet(0xd0, b""), packet(0xe0, b"\x8e"));
    let life = |choice: u8, packets: &[&Vec<u8>]| {
        let bytes = packets.iter().flat_map(|packet| packet.iter().copied());
        std::iter::once(choice).chain(bytes).collect::<Vec<u8>>()
    };
    [
        ("life", life(0xfc, &[&new, &granted, &safe, &once, &once, &release, &pong, &bye])),
        ("byte-by-byte", life(0, &[&new, &granted, &safe, &once, &release])),
        ("full-node", life(0xff, &[&there, &granted, &safe])),
        ("refusing-node", life(0xfd, &[&there, &granted, &safe, &once, &release])),
        ("old-broker", life(0, &[&old, &packet(0x20, b"\0\0"), &packet(0x90, b"\0\x01\x01")])),
        ("no-record", life(0xfc, &[&new, &granted, &odd])),
    ]
    .into_iter()
}

/// Bodies here are short: one byte of length.
fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, body.len() as u8][..], body].concat()
}
