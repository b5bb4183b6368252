//! A subscriber's session: what it asks for, and what it is sent.

use tidegate_broker::journal::{Note, SessionNote};
use tidegate_broker::{LedgerBounds, SessionLedger, SubscribeOptions};
use tidegate_types::ids::SessionId;
use tidegate_types::record::{Offered, Properties, SourceId};
use tidegate_types::units::Time;

use super::*;
use crate::node::broker::{Hub, Publisher};

const LIMITS: Limits = Limits {
    max_packet_size: 1000,
    receive_maximum: 2,
    topic_alias_maximum: 4,
    session_expiry_max: 60,
    keepalive_max: 0,
    refused: Refused::Close,
    keeps_subscriptions: false,
};

/// A session whose CONNECT (MQTT 5) has these properties, and what it was answered.
fn connected(properties: &[u8], limits: Limits) -> (Session, Effects) {
    let mut session = Session::new(limits);
    let mut effects = Effects::default();
    let mut body = b"\0\x04MQTT\x05\x02\0\x3C".to_vec();
    body.push(properties.len() as u8);
    body.extend(properties);
    body.extend(b"\0\x01s");
    let packet = [&[0x10, body.len() as u8][..], &body].concat();
    let (done, step) = session.receive(Time::ZERO, &packet, &mut effects);
    assert_eq!((done, step), (packet.len(), SessionStep::Connect));
    session.opened(SourceId(7), "s".into(), &mut effects).unwrap();
    (session, effects)
}

/// Subscribes to a filter, as a connection does.
fn subscribe(session: &mut Session, hub: &Hub, filter: &str, qos: u8) {
    if session.subscriber().is_none() {
        session.set_subscriber(hub.subscriber(&hub.anybody()));
    }
    let subscription = tidegate_broker::Subscription::new(filter).unwrap();
    let options = SubscribeOptions { qos, ..SubscribeOptions::default() };
    let subscriber = session.subscriber().unwrap();
    hub.subscribe(subscriber, subscription, options, |_| true).unwrap();
}

fn record(topic: &'static str, payload: &'static str) -> Offered {
    Offered {
        source: SourceId(0),
        token: None,
        key: topic.as_bytes().into(),
        properties: Properties::default(),
        payload: payload.as_bytes().into(),
        read_at: Time::ZERO,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}

fn publish(publisher: &mut Publisher, topic: &'static str, payload: &'static str, qos: u8) {
    let message = publisher.message(&record(topic, payload), qos);
    publisher.publish(message);
}

fn sent(session: &mut Session) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(!session.deliver(Time::ZERO, &mut out));
    out
}

#[test]
fn a_request_is_a_step_of_its_own() {
    let (mut session, mut effects) = connected(&[], LIMITS);
    effects.out.clear();
    let packets = b"\x30\x05\0\x01t\0x\x82\x07\0\x09\0\0\x01a\x01";
    let (done, step) = session.receive(Time::ZERO, packets, &mut effects);
    assert_eq!((done, effects.records.len()), (packets.len(), 1), "what came before goes before");
    let SessionStep::Ask(request) = step else { panic!("{step:?}") };
    assert!(request.subscribes && request.filters.id == 9);
    session.grant(&request, &[FilterOutcome::Qos(1)], &mut effects.out);
    assert_eq!(effects.out, b"\x90\x04\0\x09\0\x01");
    effects.out.clear();
    session.refuse(&request, &mut effects.out);
    assert_eq!(effects.out, b"\x90\x04\0\x09\0\x87");
}

#[test]
fn a_message_is_sent_acknowledged_and_over() {
    let hub = Hub::default();
    let (mut session, _) = connected(&[], LIMITS);
    subscribe(&mut session, &hub, "t", 2);
    let mut publisher = hub.publisher();
    publish(&mut publisher, "t", "x", 2);
    assert_eq!(sent(&mut session), b"\x34\x07\0\x01t\0\x01\0x");
    let mut effects = Effects::default();
    session.receive(Time::ZERO, b"\x50\x02\0\x01\x50\x02\0\x02", &mut effects);
    assert_eq!(effects.out, b"\x62\x02\0\x01\x62\x03\0\x02\x92", "the second one is not known");
    session.receive(Time::ZERO, b"\x70\x02\0\x01", &mut effects);
    assert_eq!(session.subscriber().unwrap().seat().outbox().in_flight(), 0);
}

#[test]
fn a_delivery_of_an_earlier_process_is_not_unknown_before_it_is_restored() {
    let hub = Hub::default();
    let (mut session, _) = connected(&[], LIMITS);
    let mut ledger = SessionLedger::new(LedgerBounds::default());
    ledger.apply(&Note::Session(Box::new(SessionNote {
        session: SessionId(1),
        client: "s".into(),
        user: None,
        payer: "nobody".into(),
        expiry: 60,
        ends: 0,
        will: None,
    })));
    let kept = ledger.session(SessionId(1)).unwrap();
    session.set_subscriber(hub.restore(kept, &hub.anybody()));
    let mut effects = Effects::default();
    session.receive(Time::ZERO, b"\x50\x02\0\x07", &mut effects);
    assert_eq!(effects.out, b"", "PUBREL with 0x92 would end what is sent again");
}

#[test]
fn topic_aliases_are_told_once() {
    let hub = Hub::default();
    let (mut session, _) = connected(b"\x22\0\x01", LIMITS);
    subscribe(&mut session, &hub, "#", 0);
    let mut publisher = hub.publisher();
    for topic in ["t", "t", "u"] {
        publish(&mut publisher, topic, "x", 0);
    }
    let expected = b"\x30\x08\0\x01t\x03\x23\0\x01x\x30\x07\0\0\x03\x23\0\x01x\x30\x05\0\x01u\0x";
    assert_eq!(sent(&mut session), expected);
}

#[test]
fn a_batch_is_sent_as_it_is_to_who_is_told_no_more_than_others() {
    let hub = Hub::default();
    let mut sessions = [&b""[..], b"", b"\x22\0\x01"].map(|asked| connected(asked, LIMITS).0);
    sessions.iter_mut().for_each(|session| subscribe(session, &hub, "#", 0));
    let records = ["x", "y"].map(|payload| record("t", payload));
    hub.publisher().publish_all(records.iter().map(|record| (record, 1)));
    let shared = hub.account().used();
    for session in &mut sessions[..2] {
        assert_eq!(sent(session), b"\x30\x05\0\x01t\0x\x30\x05\0\x01t\0y");
        assert!(hub.account().used() > shared, "packets are reserved, and one needs the messages");
    }
    let expected = b"\x30\x08\0\x01t\x03\x23\0\x01x\x30\x07\0\0\x03\x23\0\x01y";
    assert_eq!(sent(&mut sessions[2]), expected, "its own alias");
    assert_eq!((hub.status().delivered, hub.account().used()), (6, 0));
}

#[test]
fn what_is_too_large_for_the_client_is_not_sent() {
    let hub = Hub::default();
    let (mut session, _) = connected(b"\x27\0\0\0\x20", LIMITS);
    subscribe(&mut session, &hub, "t", 1);
    let mut publisher = hub.publisher();
    publish(&mut publisher, "t", "more than thirty-two bytes of payload", 1);
    publish(&mut publisher, "t", "x", 1);
    assert_eq!(sent(&mut session), b"\x32\x07\0\x01t\0\x02\0x");
    assert_eq!(hub.status().drops.values().sum::<u64>(), 1);
}

#[test]
fn the_client_hears_of_another_keepalive() {
    let limits = Limits { keepalive_max: 20, ..LIMITS };
    let (session, effects) = connected(&[], limits);
    assert!(effects.out.windows(3).any(|bytes| bytes == b"\x13\0\x14"));
    assert_eq!(session.keepalive(), Some(Duration::from_secs(30)));
    let (session, effects) = connected(&[], Limits { keepalive_max: 60, ..LIMITS });
    assert!(!effects.out.windows(3).any(|bytes| bytes == b"\x13\0\x3C"));
    assert_eq!(session.keepalive(), Some(Duration::from_secs(90)));
}

#[test]
fn a_session_goes_on_where_its_connection_ended() {
    let hub = Hub::default();
    let (mut session, _) = connected(b"\x11\0\0\0\x63", LIMITS);
    subscribe(&mut session, &hub, "t", 1);
    let mut publisher = hub.publisher();
    publish(&mut publisher, "t", "x", 1);
    assert_eq!(sent(&mut session).len(), 9);
    let memory = session.leave().unwrap();
    publish(&mut publisher, "t", "y", 1);
    publish(&mut publisher, "t", "lost", 0);
    let mut session = Session::new(LIMITS);
    let mut effects = Effects::default();
    session.receive(Time::ZERO, b"\x10\x0E\0\x04MQTT\x05\0\0\x3C\0\0\x01s", &mut effects);
    session.resume(memory);
    session.opened(SourceId(7), "s".into(), &mut effects).unwrap();
    assert_eq!(sent(&mut session), b"\x3A\x07\0\x01t\0\x01\0x\x32\x07\0\x01t\0\x02\0y");
    assert!(session.leave().is_none());
    assert_eq!(hub.status().subscriptions, 0, "a session that ends has no subscriptions");
}
