//! What must hold for a link whatever a peer says.

use std::time::Duration;

use bytes::Bytes;

use tidegate_link::delegation;
use tidegate_link::envelope::Envelope;
use tidegate_link::packet::{Custody, PacketHeader};
use tidegate_link::{Link, LinkEvent, LinkOptions, Outgoing, PathOptions, READ_MAX};
use tidegate_types::record::Fate;
use tidegate_types::units::{Size, Time};

/// The peer's incarnation, and ours.
const PEER: u32 = 9;
const OWN: u32 = 11;
/// Packets in answer to one: more is an endless loop.
const ANSWERS_MAX: usize = 1000;

/// Says these bytes to a link. The first one chooses: as a packet and as an envelope, which must encode to
/// themselves if they are sound, or as a conversation: an operation, a length, and so many bytes.
pub fn hear(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    if choice.is_multiple_of(2) {
        if let Ok((head, frames)) = PacketHeader::decode(bytes) {
            let mut again = Vec::new();
            head.encode(&mut again);
            frames.iter().for_each(|frame| frame.encode(&mut again));
            assert_eq!(again, bytes);
        }
        let bytes = Bytes::copy_from_slice(bytes);
        if let Ok(chain) = delegation::decode(&bytes) {
            assert_eq!(delegation::decode(&delegation::encode(&chain)), Ok(chain));
        }
        if let Ok(envelope) = Envelope::decode(&bytes) {
            assert_eq!(Envelope::decode(&envelope.encode()), Ok(envelope));
        }
    } else {
        converse(bytes);
    }
}

fn options() -> LinkOptions {
    LinkOptions {
        receive_window: Size::from_kib(128),
        memory: Size::from_kib(64),
        unsettled_max: 10,
        ..LinkOptions::new(OWN, 2)
    }
}

fn converse(mut bytes: &[u8]) {
    let mut link = Link::new(options());
    let mut now = Time::from_millis(1000);
    (0..2).for_each(|path| link.path_up(path, now, PathOptions::default()));
    let mut psn = 0;
    while let [operation, length, rest @ ..] = bytes {
        let (said, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        now += Duration::from_millis(1 << (operation >> 5));
        let path = usize::from(operation & 1);
        if operation & 2 != 0 {
            let token = u64::from(*length);
            let content = vec![*length; usize::from(*length) * 40].into();
            let deadline = now + Duration::from_millis(50);
            let expires = (operation & 4 != 0).then_some(deadline);
            let stream = token % 3;
            let outgoing = Outgoing { token, stream, content, deadline, expires };
            // A full link refuses; nothing else may happen.
            let _ = link.offer(outgoing);
        }
        let mut packet = Vec::new();
        if operation & 8 == 0 {
            let to = if operation & 16 == 0 { OWN } else { 0 };
            PacketHeader { from: PEER, to, psn }.encode(&mut packet);
            psn += 1;
        }
        packet.extend_from_slice(said);
        // What is wrong with it is the peer's affair.
        let _ = link.receive(path, &packet, now);
        answer(&mut link, now);
    }
    link.close();
    assert_eq!(link.unsettled(), 0);
}

fn answer(link: &mut Link, now: Time) {
    if link.next_timeout().is_some_and(|at| at <= now) {
        link.tick(now);
    }
    for path in 0..2 {
        let answers = std::iter::from_fn(|| link.poll_transmit(path, now)).take(ANSWERS_MAX);
        assert!(answers.count() < ANSWERS_MAX, "endless answers");
    }
    while let Some(event) = link.poll_event() {
        if let LinkEvent::Arrived { record, .. } = event {
            link.settle(record, Custody::Final(Fate::Confirmed));
        }
    }
    let ((sending, receiving), options) = (link.held(), options());
    assert!(sending <= options.memory && receiving <= options.receive_window + READ_MAX);
    assert!(link.unsettled() <= options.unsettled_max);
}
