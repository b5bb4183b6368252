//! Whatever a peer says: bounds hold, nothing panics, and another life is not taken for this one.

use proptest::prelude::*;
use tidegate_link::packet::{
    Custody, LinkFrame, PacketHeader, Parity, Piece, ReceiveWindow, SelectiveAck,
};
use tidegate_link::{Link, LinkEvent, LinkOptions, Outgoing, PathOptions};
use tidegate_testing::hear;
use tidegate_types::record::Fate;
use tidegate_types::units::{Size, Time};

const DATA: [u8; 4096] = [3; 4096];

/// A sound frame with any values in it, most of them small enough to mean something.
fn frame(kind: u8, numbers: [u64; 4]) -> LinkFrame<'static> {
    let [a, b, c, d] = numbers;
    match kind % 6 {
        0 => LinkFrame::Ping { padding: (a % 100) as usize },
        1 => {
            let first = b % 40;
            let mut runs = vec![first..=first + c % 8];
            runs.extend((first > 8).then(|| 0..=first - 3));
            LinkFrame::Ack(SelectiveAck { path: (a % 4) as u8, received_at: d, delay: c, runs })
        }
        2 => {
            let (pieces, length) = (1 + (b % 3) as u32, 300 + (c % 3) as u32 * 100);
            let (record, size) = (1 + a % 30, pieces * length);
            let place = (d % u64::from(pieces)) as u32;
            let after = (d % 7).min(record - 1);
            LinkFrame::Piece(Piece {
                record,
                place,
                pieces,
                size,
                after,
                data: &DATA[..length as usize],
            })
        }
        3 => {
            let (pieces, length) = (1 + (b % 3) as u32, 300 + (c % 3) as u32 * 100);
            let (record, number) = (1 + a % 30, (d % 3) as u8);
            let (size, data) = (pieces * length, &DATA[..length as usize]);
            LinkFrame::Repair(Parity { record, number, pieces, size, after: 0, data })
        }
        4 => LinkFrame::Window(ReceiveWindow { limit: Size(a), record_max: Size(b) }),
        _ => {
            let held = b.is_multiple_of(2);
            let custody = if held { Custody::Held } else { Custody::Final(Fate::Confirmed) };
            LinkFrame::Custody { record: a % 20, custody }
        }
    }
}

proptest! {
    #[test]
    fn whatever_a_peer_says_bounds_hold(
        said in prop::collection::vec((any::<u8>(), any::<u8>(), prop::array::uniform4(any::<u64>())), 0..80),
        noise in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = vec![1];
        for (operation, kind, numbers) in said {
            let mut one = Vec::new();
            frame(kind, numbers).encode(&mut one);
            one.truncate(255);
            bytes.extend([operation, one.len() as u8]);
            bytes.extend(one);
        }
        bytes.extend(&noise);
        hear(&bytes);
        hear(&[&[0], &noise[..]].concat());
    }
}

const NOW: Time = Time::from_millis(1000);

fn link(incarnation: u32) -> Link {
    let mut link = Link::new(LinkOptions::new(incarnation, 1));
    link.path_up(0, NOW, PathOptions::default());
    link
}

fn say(link: &mut Link, from: u32, to: u32, psn: u64, frame: &LinkFrame<'_>) {
    let mut packet = Vec::new();
    PacketHeader { from, to, psn }.encode(&mut packet);
    frame.encode(&mut packet);
    link.receive(0, &packet, NOW).expect("a sound packet");
}

#[test]
fn a_word_for_an_earlier_life_settles_nothing_in_this_one() {
    let mut link = link(12);
    let (content, deadline) = (vec![1; 100].into(), NOW);
    link.offer(Outgoing { token: 5, stream: 1, content, deadline, expires: None }).unwrap();
    while link.poll_transmit(0, NOW).is_some() {}
    let ack = LinkFrame::Ack(SelectiveAck { path: 0, received_at: 1, delay: 0, runs: vec![0..=7] });
    let custody = LinkFrame::Custody { record: 1, custody: Custody::Held };
    for (psn, frame) in [&ack, &custody].into_iter().enumerate() {
        say(&mut link, 9, 11, psn as u64, frame);
    }
    assert_eq!((link.poll_event(), link.counts().strange), (None, 2));
    say(&mut link, 9, 12, 2, &ack);
    assert_eq!(link.poll_event(), Some(LinkEvent::Delivered { token: 5 }));
    say(&mut link, 9, 12, 3, &custody);
    let held = link.poll_event();
    assert!(
        matches!(held, Some(LinkEvent::Custody { token: 5, custody: Custody::Held, .. })),
        "{held:?}"
    );
}

#[test]
fn a_peer_that_has_restarted_is_told_of_once_and_heard_no_more() {
    let mut link = link(12);
    let piece = Piece { record: 1, place: 0, pieces: 1, size: 4, after: 0, data: b"once" };
    say(&mut link, 9, 12, 0, &LinkFrame::Piece(piece));
    let content = b"once"[..].into();
    assert_eq!(link.poll_event(), Some(LinkEvent::Arrived { record: 1, content }));
    let next = Piece { record: 2, data: b"more", ..piece };
    say(&mut link, 10, 0, 0, &LinkFrame::Piece(next));
    say(&mut link, 10, 0, 1, &LinkFrame::Piece(next));
    assert_eq!(link.poll_event(), Some(LinkEvent::Restarted { incarnation: 10 }));
    assert_eq!(link.poll_event(), None);
}

#[test]
fn a_peer_that_only_begins_records_fills_its_window_and_no_more() {
    let window = Size::from_kib(128);
    let mut link = Link::new(LinkOptions { receive_window: window, ..LinkOptions::new(11, 1) });
    link.path_up(0, NOW, PathOptions::default());
    let mut most = Size::ZERO;
    for number in 0..5000 {
        // Of a large record the first piece, or a repair; never the rest.
        let (record, pieces, size) = (1 + number * 100, 100, 100 * 300);
        let data = &DATA[..300];
        let frame = match number % 2 {
            0 => LinkFrame::Piece(Piece { record, place: 0, pieces, size, after: 0, data }),
            _ => LinkFrame::Repair(Parity { record, number: 0, pieces, size, after: 0, data }),
        };
        say(&mut link, 9, 11, number, &frame);
        most = most.max(link.held().1);
    }
    // The first of them is read, and what came of it is not counted.
    let window = window + Size(300);
    assert!(most <= window && most + Size(300 + 128) > window, "{most:?} of {window:?}");
    assert_eq!(link.poll_event(), None);
}
