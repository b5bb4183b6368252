use tidegate_types::record::Token;

use super::*;

pub(super) const LIMITS: Limits = Limits {
    max_packet_size: 1000,
    receive_maximum: 2,
    topic_alias_maximum: 4,
    session_expiry_max: 60,
    keepalive_max: 0,
    refused: Refused::Close,
    keeps_subscriptions: false,
};
const CONNECT_V311: &[u8] = b"\x10\x0F\0\x04MQTT\x04\x02\0\x3C\0\x03plc";
const CONNECT_V5: &[u8] = b"\x10\x10\0\x04MQTT\x05\x02\0\x3C\0\0\x03plc";

struct Peer {
    session: Session,
    effects: Effects,
}

impl Peer {
    fn new() -> Self {
        Peer { session: Session::new(LIMITS), effects: Effects::default() }
    }

    fn connected(connect: &[u8]) -> Self {
        let mut peer = Peer::new();
        assert_eq!(peer.send(connect), SessionStep::Connect);
        let client = peer.session.client().clone();
        peer.session.opened(SourceId(3), client, &mut peer.effects).unwrap();
        peer.written();
        peer
    }

    fn send(&mut self, bytes: &[u8]) -> SessionStep {
        self.session.receive(Time::from_millis(5), bytes, &mut self.effects).1
    }

    fn written(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.effects.out)
    }

    fn records(&mut self) -> Vec<Offered> {
        std::mem::take(&mut self.effects.records)
    }

    /// Sends what ends the connection, and returns what is written and the reason.
    fn ended(&mut self, bytes: &[u8]) -> (Vec<u8>, Reason) {
        match self.send(bytes) {
            SessionStep::End(End::Violation { violation, .. }) => {
                (self.written(), violation.reason)
            }
            step => panic!("not ended by a violation: {step:?}"),
        }
    }
}

fn publish(id: u16, payload: &[u8]) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut packet = vec![0x32, 5 + payload.len() as u8, 0, 1, b't', high, low];
    packet.extend(payload);
    packet
}

fn publish_v5(id: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = publish(id, payload);
    packet[1] += 1;
    packet.insert(7, 0);
    packet
}

#[test]
fn a_connect_announces_the_limits() {
    let mut peer = Peer::new();
    let connect = b"\x10\x12\0\x04MQTT\x05\x00\0\x3C\x05\x11\0\0\0\x64\0\0";
    assert_eq!(peer.send(connect), SessionStep::Connect);
    assert_eq!(peer.session.keepalive(), Some(Duration::from_secs(90)));
    peer.session.opened(SourceId(1), "auto-1".into(), &mut peer.effects).unwrap();
    let expected = b"\x20\x1C\0\0\x19\x21\0\x02\x27\0\0\x03\xE8\x22\0\x04\
        \x11\0\0\0\x3C\x12\0\x06auto-1";
    assert_eq!(peer.written(), expected);
}

#[test]
fn connects_are_refused_in_their_versions_words() {
    let cases: [(&[u8], &[u8]); 5] = [
        (b"\x10\x0F\0\x04MQTT\x06\x02\0\x3C\0\x03plc", &[0x20, 2, 0, 1]),
        (b"\x10\x0C\0\x04MQTT\x04\0\0\x3C\0\0", &[0x20, 2, 0, 2]),
        (b"\x10\x0E\0\x06MQIsdp\x03\x02\0\x3C\0\0", &[0x20, 2, 0, 2]),
        (b"\x10\x0D\0\x04MQTT\x05\x03\0\x3C\0\0\0", &[0x20, 3, 0, 0x81, 0]),
        (b"\x30\x03\0\x01t", &[]),
    ];
    for (packet, answer) in cases {
        assert_eq!(Peer::new().ended(packet).0, answer, "{packet:?}");
    }
}

#[test]
fn a_client_that_takes_only_tiny_packets_is_refused() {
    let mut peer = Peer::new();
    assert_eq!(
        peer.send(b"\x10\x12\0\x04MQTT\x05\x02\0\x3C\x05\x27\0\0\0\x02\0\0"),
        SessionStep::Connect
    );
    assert!(peer.session.opened(SourceId(1), "a".into(), &mut peer.effects).is_err());
    assert!(peer.written().is_empty());
}

#[test]
fn publishes_become_records_in_one_batch() {
    let mut peer = Peer::connected(CONNECT_V311);
    let stream = [publish(7, b"one"), b"\x30\x06\0\x01ttwo".to_vec(), vec![0x30]].concat();
    let (done, step) = peer.session.receive(Time::from_millis(5), &stream, &mut peer.effects);
    assert_eq!((done, step), (stream.len() - 1, SessionStep::Read(2)));
    let records = peer.records();
    assert_eq!(records.len(), 2);
    assert_eq!((records[0].token, records[1].token), (Some(Token(0)), None));
    assert_eq!(records[0].payload, "one");
    assert_eq!((records[0].key.as_ref(), records[0].source), (&b"t"[..], SourceId(3)));
    assert_eq!(records[0].read_at, Time::from_millis(5));
    assert!(peer.written().is_empty(), "nothing is acknowledged before it is accepted");
}

#[test]
fn acknowledgements_follow_acceptance_in_order() {
    let mut peer = Peer::connected(CONNECT_V5);
    peer.send(&[publish_v5(7, b""), publish_v5(8, b"")].concat());
    peer.session.answer(Token(1), Err(RefuseReason::Full));
    peer.session.acknowledge(&mut peer.effects.out).unwrap();
    assert!(peer.written().is_empty());
    peer.session.answer(Token(0), Ok(()));
    peer.session.acknowledge(&mut peer.effects.out).unwrap();
    assert_eq!(peer.written(), b"\x40\x02\0\x07\x40\x0B\0\x08\x97\x07\x1F\0\x04full");
}

#[test]
fn an_older_client_is_told_of_a_refusal_by_a_close() {
    let mut peer = Peer::connected(CONNECT_V311);
    peer.send(&[publish(7, b""), publish(8, b"")].concat());
    peer.session.answer(Token(0), Ok(()));
    peer.session.answer(Token(1), Err(RefuseReason::NoRule));
    let end = peer.session.acknowledge(&mut peer.effects.out).unwrap_err();
    assert_eq!(end, End::Refused { id: 8, reason: RefuseReason::NoRule });
    assert_eq!(peer.written(), [0x40, 2, 0, 7]);
}

#[test]
fn the_receive_maximum_ends_new_clients_and_holds_old_ones() {
    let three = |publish: fn(u16, &[u8]) -> Vec<u8>| {
        [publish(1, b""), publish(2, b""), publish(3, b"")].concat()
    };
    let mut peer = Peer::connected(CONNECT_V5);
    let (written, reason) = peer.ended(&three(publish_v5));
    assert_eq!((written, reason), (vec![0xE0, 1, 0x93], Reason::ReceiveMaximumExceeded));
    assert_eq!(peer.records().len(), 2, "what came before is offered");

    let mut peer = Peer::connected(CONNECT_V311);
    let stream = three(publish);
    let (done, step) = peer.session.receive(Time::ZERO, &stream, &mut peer.effects);
    assert_eq!((done, step), (stream.len() / 3 * 2, SessionStep::Wait));
    peer.session.answer(Token(0), Ok(()));
    peer.session.acknowledge(&mut peer.effects.out).unwrap();
    assert_eq!(peer.send(&stream[done..]), SessionStep::Wait);
    assert_eq!(peer.records().len(), 3);
}

#[test]
fn a_full_batch_is_offered_first() {
    let mut peer = Peer::connected(CONNECT_V311);
    let stream = b"\x30\x03\0\x01t".repeat(BATCH_MAX + 1);
    let (done, step) = peer.session.receive(Time::ZERO, &stream, &mut peer.effects);
    assert_eq!((done, step), (BATCH_MAX * 5, SessionStep::Offer));
}

#[test]
fn leftovers_of_another_server_are_answered() {
    let mut peer = Peer::connected(CONNECT_V311);
    peer.send(b"\x62\x02\0\x07\x40\x02\0\x07\x50\x02\0\x08");
    assert_eq!(peer.written(), [0x70, 2, 0, 7, 0x62, 2, 0, 8]);
    let mut peer = Peer::connected(CONNECT_V5);
    peer.send(b"\x62\x02\0\x07");
    assert_eq!(peer.written(), [0x70, 3, 0, 7, 0x92]);
}

#[test]
fn violations_have_their_reason() {
    let cases: [(&[u8], u8); 10] = [
        (b"\x30\x04\0\x01+\0", 0x81),
        (b"\x34\x06\0\x01t\0\x01\0\x62\x02\0\x01", 0x82),
        (b"\x30\x05\0\x02\xC3\x28\0", 0x81),
        (b"\x30\xE9\x07", 0x95),
        (b"\x30\x03\0\0\0", 0x82),
        (b"\x30\x06\0\0\x03\x23\0\x01", 0x82),
        (b"\x30\x07\0\x01t\x03\x23\0\x05", 0x94),
        (CONNECT_V5, 0x82),
        (b"\xE0\x01\x8E", 0x82),
        (b"\xC1\0", 0x81),
    ];
    for (packet, reason) in cases {
        let (written, _) = Peer::connected(CONNECT_V5).ended(packet);
        assert_eq!(written, [0xE0, 1, reason], "{packet:02X?}");
        assert!(Peer::connected(CONNECT_V311).ended(&[0x36, 3, 0, 1, b't']).0.is_empty());
    }
}

#[test]
fn the_log_names_the_topic() {
    let mut peer = Peer::connected(CONNECT_V311);
    let SessionStep::End(End::Violation { topic, .. }) = peer.send(b"\x30\x05\0\x03a/#") else {
        panic!()
    };
    assert_eq!(topic.as_deref(), Some("a/#"));
}

#[test]
fn a_will_outlives_every_end_but_a_polite_one() {
    let connect = b"\x10\x15\0\x04MQTT\x04\x26\0\x3C\0\x03plc\0\x01w\0\x01x";
    let mut peer = Peer::connected(connect);
    let SessionStep::End(end) = peer.send(b"\xE0\0") else { panic!() };
    assert!(
        !end.publishes_will() && End::Closed.publishes_will() && End::TakenOver.publishes_will()
    );
    let (will, delay) = peer.session.take_will().unwrap();
    assert_eq!(delay, Duration::ZERO);
    let will = will.record(SourceId(3), Time::from_millis(9));
    assert_eq!((will.key.as_ref(), will.token), (&b"w"[..], None));
    assert_eq!(will.properties.find(RETAIN).unwrap(), "1");
    assert!(peer.session.take_will().is_none());
}

#[test]
fn packets_before_the_answer_to_connect_wait_in_the_buffer() {
    let mut peer = Peer::new();
    let stream = [CONNECT_V311, b"\xC0\0"].concat();
    let (done, step) = peer.session.receive(Time::ZERO, &stream, &mut peer.effects);
    assert_eq!((done, step), (CONNECT_V311.len(), SessionStep::Connect));
}

/// A small generator, so that a failing case can be named by its seed.
fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as usize
}

#[test]
fn mutated_streams_break_no_promise() {
    let seeds: [Vec<u8>; 3] = [
        [CONNECT_V311, &publish(1, b"abc"), b"\x30\x03\0\x01t\xC0\0", b"\xE0\0"].concat(),
        [CONNECT_V5, &publish_v5(1, b"abc"), b"\x30\x0F\0\x01t\x0B\x23\0\x01\x26\0\x01k\0\x01v\0"]
            .concat(),
        [
            &b"\x10\x20\0\x04MQTT\x05\x06\0\x3C\x03\x21\0\x09\0\x03plc\x05\x02\0\0\0\0\0\x01w\0\x01x"[..],
            b"\x34\x06\0\x01t\0\x07\0\x3C\x06\0\x01t\0\x07\0\x62\x02\0\x07",
            b"\x82\x07\0\x01\0\0\x01a\0\xA2\x06\0\x02\0\0\x01a\x62\x02\0\x07\xE0\x02\0\0",
        ]
        .concat(),
    ];
    for seed in 1..=6000_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut bytes = vec![random(&mut state) as u8];
        bytes.extend(&seeds[seed as usize % seeds.len()]);
        bytes.extend(&seeds[random(&mut state) % seeds.len()]);
        for _ in 0..random(&mut state) % 6 {
            let place = random(&mut state) % bytes.len();
            match random(&mut state) % 4 {
                0 => bytes[place] = random(&mut state) as u8,
                1 => bytes[place] ^= 1 << (random(&mut state) % 8),
                2 => drop(bytes.drain(place..(place + random(&mut state) % 9).min(bytes.len()))),
                _ => bytes.insert(place, random(&mut state) as u8),
            }
        }
        exercise(&bytes);
    }
}
