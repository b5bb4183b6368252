//! What an MQTT 5 broker says to a client, byte by byte.

/// The seeds by name.
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
