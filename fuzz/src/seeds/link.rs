//! Seeds of the link: a packet with each frame, an envelope, and some conversations.

use std::sync::Arc;
use std::time::Duration;

use super::Seed;
use tidegate_link::delegation::{Delegation, SignedDelegation, encode};
use tidegate_link::envelope::{Envelope, GrantId};
use tidegate_link::packet::{
    Custody, LinkFrame, MarkCount, PacketHeader, Parity, Piece, ReceiveWindow, SelectiveAck,
};
use tidegate_types::record::{Fate, Identity, Origin, Properties, StreamId};
use tidegate_types::units::Size;

pub(super) fn seeds() -> impl Iterator<Item = Seed> {
    let frames = frames();
    let mut packet = vec![0];
    PacketHeader { from: 9, to: 11, psn: 300 }.encode(&mut packet);
    frames.iter().for_each(|frame| frame.encode(&mut packet));
    let whole = |envelope: Envelope| [vec![0], envelope.encode().to_vec()].concat();
    let proof = encode(&[letter("gate-7", "gate-8"), letter("gate-7", "gate-9")]);
    let proven = whole(Envelope { proof: Some(proof.clone()), ..envelope() });
    // Offers first, so that acknowledgements and custody have something to name.
    let said = frames.iter().map(|frame| said(0, frame));
    let talk: Vec<u8> = [vec![1, 2, 30, 7], vec![0; 29], said.flatten().collect()].concat();
    // The same after the path has been silent for long.
    let late: Vec<u8> = frames.iter().flat_map(|frame| said_late(frame)).collect();
    let late = [vec![1, 2, 30, 7], vec![0; 29], late].concat();
    [
        ("link_packets", "packet", packet),
        ("link_packets", "envelope", whole(envelope())),
        ("link_packets", "envelope-proven", proven),
        ("link_packets", "letters", [vec![0], proof.to_vec()].concat()),
        ("link_packets", "talk", talk),
        ("link_packets", "late", late),
    ]
    .into_iter()
}

fn frames() -> Vec<LinkFrame<'static>> {
    let piece = Piece { record: 2, place: 0, pieces: 1, size: 5, after: 1, data: b"press" };
    vec![
        LinkFrame::Ping { padding: 20 },
        LinkFrame::Window(ReceiveWindow { limit: Size(1 << 20), record_max: Size(1 << 18) }),
        LinkFrame::Ack(SelectiveAck {
            path: 0,
            received_at: 5_000_000,
            delay: 100,
            runs: vec![7..=8, 0..=5],
        }),
        LinkFrame::Piece(piece),
        LinkFrame::Piece(Piece { record: 1, after: 0, ..piece }),
        LinkFrame::Repair(Parity {
            record: 3,
            number: 1,
            pieces: 2,
            size: 8,
            after: 2,
            data: b"tide",
        }),
        LinkFrame::Marks(MarkCount { path: 1, packets: 300 }),
        LinkFrame::Ack(SelectiveAck {
            path: 1,
            received_at: 6_000_000,
            delay: 20,
            runs: std::iter::once(0..=8).collect(),
        }),
        LinkFrame::Custody { record: 1, custody: Custody::Held },
        LinkFrame::Custody { record: 1, custody: Custody::Final(Fate::Confirmed) },
    ]
}

/// An operation that says one frame behind a sound head.
fn said(operation: u8, frame: &LinkFrame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    [vec![operation, bytes.len() as u8], bytes].concat()
}

fn said_late(frame: &LinkFrame<'_>) -> Vec<u8> {
    said(7 << 5, frame)
}

fn envelope() -> Envelope {
    let origin = Arc::new(Origin { node: "gate-7".into(), incarnation: 3 });
    Envelope {
        identity: Identity { origin, stream: StreamId(12), seq: 345 },
        again: false,
        hop: 1,
        grant: Some(GrantId(77)),
        left: Duration::from_millis(40),
        ttl: Some(Duration::from_secs(600)),
        source_unix_ns: Some(1),
        proof: None,
        key: "plant/7".into(),
        properties: Properties::new(vec![("unit".into(), "bar".into())]),
        payload: "1.5".into(),
    }
}

fn letter(node: &str, to: &str) -> SignedDelegation {
    let letter = Delegation {
        node: node.into(),
        incarnation: 3,
        boot: 4,
        previous: 2,
        written: 1_767_323_045,
        to: to.into(),
    };
    let (signature, certificate) = ("signed".into(), "a certificate".into());
    SignedDelegation { letter, scheme: 0x0403, signature, certificate }
}
