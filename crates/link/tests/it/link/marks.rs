//! Packets that came marked are told to a peer that hears of them, and to no other.

use bytes::Bytes;
use tidegate_link::{Link, LinkOptions, Outgoing, PathOptions};
use tidegate_types::units::Time;

/// Two ends talk for a while; one sees marks. Answers what the other hears of, and the bytes that it was sent.
fn talk(hears_marks: bool) -> (u64, usize) {
    let options = PathOptions { hears_marks, ..PathOptions::default() };
    let mut ends = [1, 2].map(|incarnation| Link::new(LinkOptions::new(incarnation, 1)));
    ends.iter_mut().for_each(|end| end.path_up(0, Time::ZERO, options));
    let mut back = 0;
    for millis in 1..400_u64 {
        let now = Time::from_millis(millis);
        let content = Bytes::from(vec![7; 3000]);
        let record = Outgoing { token: millis, stream: 1, content, deadline: now, expires: None };
        // What finds no room is one record less.
        let _ = ends[0].offer(record);
        for (from, to) in [(0, 1), (1, 0)] {
            ends[from].tick(now);
            while let Some(packet) = ends[from].poll_transmit(0, now) {
                back += if from == 1 { packet.len() } else { 0 };
                if to == 1 && millis > 100 && millis % 50 == 0 {
                    ends[1].marked(0, 1);
                }
                ends[to].receive(0, &packet, now).expect("a packet of the other end");
            }
            while ends[to].poll_event().is_some() {}
        }
    }
    (ends[0].path_status(0).counts.marked, back)
}

#[test]
fn a_peer_hears_of_marks_only_if_it_has_asked() {
    let ((heard, with), (silent, without)) = (talk(true), talk(false));
    assert!(heard >= 5 && silent == 0, "{heard} {silent}");
    assert!(with > without, "{with} {without}");
}
