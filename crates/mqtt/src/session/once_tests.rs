//! QoS 2 through duplicates, refusals and reconnects.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_types::record::Token;

use super::*;

const LIMITS: Limits = Limits { receive_maximum: 4, ..super::tests::LIMITS };
/// Sessions that outlive their connections.
const CONNECT_V311: &[u8] = b"\x10\x0F\0\x04MQTT\x04\0\0\0\0\x03plc";
const CONNECT_V5: &[u8] = b"\x10\x15\0\x04MQTT\x05\0\0\0\x05\x11\0\0\0\x3C\0\x03plc";

struct Peer {
    is_new: bool,
    session: Session,
    effects: Effects,
}

impl Peer {
    fn connect(is_new: bool, refused: Refused, memory: Option<Memory>) -> Self {
        let session = Session::new(Limits { refused, ..LIMITS });
        let mut peer = Peer { is_new, session, effects: Effects::default() };
        peer.send(if is_new { CONNECT_V5 } else { CONNECT_V311 });
        let is_resumed = memory.is_some();
        if let Some(memory) = memory {
            peer.session.resume(memory);
        }
        peer.session.opened(SourceId(3), "plc".into(), &mut peer.effects).unwrap();
        assert_eq!(peer.written()[2] == 1, is_resumed, "session present");
        peer
    }

    fn send(&mut self, bytes: &[u8]) -> SessionStep {
        self.session.receive(Time::ZERO, bytes, &mut self.effects).1
    }

    fn publish(&mut self, id: u16, dup: bool) -> Option<Offered> {
        let [high, low] = id.to_be_bytes();
        let first = if dup { 0x3C } else { 0x34 };
        let packet = match self.is_new {
            true => vec![first, 6, 0, 1, b't', high, low, 0],
            false => vec![first, 5, 0, 1, b't', high, low],
        };
        assert_eq!(self.send(&packet), SessionStep::Read(2), "{packet:?}");
        assert!(self.effects.records.len() <= 1);
        self.effects.records.pop()
    }

    fn release(&mut self, id: u16) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        assert_eq!(self.send(&[0x62, 2, high, low]), SessionStep::Read(2));
        for id in std::mem::take(&mut self.effects.releases) {
            assert!(self.effects.out.is_empty(), "not before the node knows");
            self.session.released(&[id], &mut self.effects.out);
        }
        self.written()
    }

    fn written(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.effects.out)
    }

    fn acknowledged(&mut self) -> Result<Vec<u8>, End> {
        self.session.acknowledge(&mut self.effects.out)?;
        Ok(self.written())
    }
}

#[test]
fn a_publish_is_offered_once_from_publish_to_release() {
    for is_new in [false, true] {
        let mut peer = Peer::connect(is_new, Refused::Close, None);
        let record = peer.publish(7, false).unwrap();
        assert!(peer.publish(7, true).is_none());
        assert!(peer.acknowledged().unwrap().is_empty(), "not before it is accepted");
        peer.session.answer(record.token.unwrap(), Ok(()));
        assert_eq!(peer.acknowledged().unwrap(), [0x50, 2, 0, 7]);
        for dup in [true, false] {
            assert!(peer.publish(7, dup).is_none());
            assert_eq!(peer.acknowledged().unwrap(), [0x50, 2, 0, 7]);
        }
        assert_eq!(peer.release(7), [0x70, 2, 0, 7]);
        let unknown: &[u8] = if is_new { &[0x70, 3, 0, 7, 0x92] } else { &[0x70, 2, 0, 7] };
        assert_eq!(peer.release(7), unknown);
        assert!(peer.publish(7, true).is_some(), "the identifier was free");
    }
}

#[test]
fn a_refused_publish_frees_its_identifier() {
    let mut peer = Peer::connect(true, Refused::Close, None);
    let token = peer.publish(7, false).unwrap().token.unwrap();
    peer.session.answer(token, Err(RefuseReason::Full));
    assert_eq!(peer.acknowledged().unwrap(), b"\x50\x0B\0\x07\x97\x07\x1F\0\x04full");
    assert!(peer.publish(7, false).is_some());
    assert_eq!(peer.session.answers.open(), 1);
}

#[test]
fn an_old_client_hears_of_a_refusal_as_configured() {
    let refuse = |refused| {
        let mut peer = Peer::connect(false, refused, None);
        let token = peer.publish(7, false).unwrap().token.unwrap();
        peer.session.answer(token, Err(RefuseReason::NoRule));
        peer
    };
    let mut peer = refuse(Refused::Close);
    assert_eq!(peer.acknowledged(), Err(End::Refused { id: 7, reason: RefuseReason::NoRule }));
    let mut peer = Peer::connect(false, Refused::Close, peer.session.leave());
    assert!(peer.publish(7, true).is_some(), "what comes again is offered again");

    let mut peer = refuse(Refused::Drop);
    assert_eq!(peer.acknowledged().unwrap(), [0x50, 2, 0, 7]);
    assert_eq!(peer.session.take_dropped(), [RefuseReason::NoRule]);
    assert!(peer.publish(7, true).is_none(), "once is enough");
    peer.acknowledged().unwrap();
    assert_eq!(peer.release(7), [0x70, 2, 0, 7]);
}

#[test]
fn what_was_never_offered_comes_again() {
    let mut peer = Peer::connect(false, Refused::Close, None);
    let record = peer.publish(7, false).unwrap();
    peer.session.withdraw(&mut vec![record]);
    let mut peer = Peer::connect(false, Refused::Close, peer.session.leave());
    assert!(peer.publish(7, true).is_some());
}

#[test]
fn what_subscribers_did_not_get_is_not_acknowledged_and_comes_again() {
    let mut memory = Memory::restored([7]);
    memory.published([]);
    let mut peer = Peer::connect(false, Refused::Close, Some(memory));
    assert!(peer.publish(7, true).is_none() && peer.effects.again.len() == 1);
    // The connection ends while the journal is still being read.
    peer.session.take_back(&mut peer.effects.again);
    assert!(peer.acknowledged().unwrap().is_empty(), "subscribers do not have it");
    let mut peer = Peer::connect(false, Refused::Close, peer.session.leave());
    assert!(peer.publish(7, true).is_none() && peer.effects.again.len() == 1, "once more");
    peer.effects.again.clear();
    assert_eq!(peer.acknowledged().unwrap(), [0x50, 2, 0, 7]);
}

#[test]
fn the_receive_maximum_counts_both_until_the_last_answer() {
    let mut peer = Peer::connect(true, Refused::Close, None);
    for id in 1..=3 {
        let token = peer.publish(id, false).unwrap().token.unwrap();
        peer.session.answer(token, Ok(()));
    }
    peer.send(b"\x32\x06\0\x01t\0\x09\0");
    peer.effects.records.clear();
    peer.acknowledged().unwrap();
    assert_eq!(peer.session.answers.open(), 4);
    assert!(peer.publish(3, true).is_none(), "a duplicate is not counted again");
    peer.release(1);
    assert!(peer.publish(4, false).is_some());
    let SessionStep::End(End::Violation { violation, .. }) = peer.send(b"\x34\x06\0\x01t\0\x05\0")
    else {
        panic!("the receive maximum is exceeded");
    };
    assert_eq!(violation.reason, Reason::ReceiveMaximumExceeded);
}

#[test]
fn unreleased_publishes_do_not_stop_the_reading_of_an_old_client() {
    let mut peer = Peer::connect(false, Refused::Close, None);
    for id in 1..=20 {
        let token = peer.publish(id, false).unwrap().token.unwrap();
        peer.session.answer(token, Ok(()));
        peer.acknowledged().unwrap();
    }
    assert_eq!(peer.release(20), [0x70, 2, 0, 20]);
}

#[test]
fn a_session_ends_with_its_connection_unless_the_client_wants_it_kept() {
    let mut session: Session = Session::new(LIMITS);
    let mut effects = Effects::default();
    session.receive(Time::ZERO, b"\x10\x10\0\x04MQTT\x05\0\0\0\0\0\x03plc", &mut effects);
    assert!(session.leave().is_none() && session.session_expiry().is_zero());
    let mut peer = Peer::connect(true, Refused::Close, None);
    assert_eq!(peer.session.session_expiry(), Duration::from_secs(60));
    peer.send(b"\xE0\x07\0\x05\x11\0\0\0\0");
    assert!(peer.session.leave().is_none(), "a disconnect may end it");
}

/// What can happen to a client of three publishes at a time.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The client sends what its state for this identifier wants: PUBLISH, again PUBLISH, or PUBREL.
    Send(u16),
    /// The node answers its oldest open offer, or a later one.
    Accept(usize),
    Refuse(usize),
    /// The node knows of the oldest release.
    Know,
    /// What was written reaches the client.
    Deliver,
    /// The connection breaks, and what was written is lost; the client comes back.
    Break,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (1..=3_u16).prop_map(Happening::Send),
        4 => (0..3_usize).prop_map(Happening::Accept),
        1 => (0..3_usize).prop_map(Happening::Refuse),
        4 => Just(Happening::Know),
        4 => Just(Happening::Deliver),
        2 => Just(Happening::Break),
    ]
}

/// Where a client of the standard stands with one identifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Client {
    #[default]
    Idle,
    /// Sent; on the present connection or not.
    Published {
        is_here: bool,
    },
    ReleaseOutcome {
        is_here: bool,
    },
}

/// A client, its session and the node, and how often each message was accepted.
struct World {
    peer: Peer,
    clients: BTreeMap<u16, Client>,
    /// Which message an identifier stands for, and how often the node took it.
    messages: BTreeMap<u16, u32>,
    offers: Vec<(Token, u16, u32)>,
    taken: BTreeMap<(u16, u32), u32>,
}

impl World {
    fn new(is_new: bool) -> Self {
        let peer = Peer::connect(is_new, Refused::Close, None);
        let (clients, messages, taken) = Default::default();
        World { peer, clients, messages, offers: Vec::new(), taken }
    }

    fn step(&mut self, happening: Happening) {
        match happening {
            Happening::Send(id) => self.send(id),
            Happening::Accept(place) => self.answer(place, Ok(())),
            Happening::Refuse(place) => self.answer(place, Err(RefuseReason::Full)),
            Happening::Know => self.know(),
            Happening::Deliver => self.deliver(),
            Happening::Break => self.reconnect(),
        }
    }

    fn send(&mut self, id: u16) {
        let client = self.clients.entry(id).or_default();
        match *client {
            Client::Idle => {
                *client = Client::Published { is_here: true };
                *self.messages.entry(id).or_default() += 1;
                self.publish(id, false);
            }
            Client::Published { is_here: false } => {
                *client = Client::Published { is_here: true };
                self.publish(id, true);
            }
            Client::ReleaseOutcome { is_here: false } => {
                *client = Client::ReleaseOutcome { is_here: true };
                let [high, low] = id.to_be_bytes();
                assert_eq!(self.peer.send(&[0x62, 2, high, low]), SessionStep::Read(2));
            }
            Client::Published { is_here: true } | Client::ReleaseOutcome { is_here: true } => {}
        }
    }

    fn publish(&mut self, id: u16, dup: bool) {
        if let Some(record) = self.peer.publish(id, dup) {
            self.offers.push((record.token.unwrap(), id, self.messages[&id]));
        }
    }

    fn answer(&mut self, place: usize, result: Result<(), RefuseReason>) {
        if place < self.offers.len() {
            let (token, id, message) = self.offers.remove(place);
            if result.is_ok() {
                *self.taken.entry((id, message)).or_default() += 1;
            }
            self.peer.session.answer(token, result);
        }
        if self.peer.session.acknowledge(&mut self.peer.effects.out).is_err() {
            self.reconnect();
        }
    }

    fn know(&mut self) {
        if !self.peer.effects.releases.is_empty() {
            let id = self.peer.effects.releases.remove(0);
            self.peer.session.released(&[id], &mut self.peer.effects.out);
        }
    }

    /// The client reads its answers, and does what the standard wants.
    fn deliver(&mut self) {
        let written = self.peer.written();
        let mut rest = &written[..];
        while let [first, length, high, low, ..] = *rest {
            let id = u16::from_be_bytes([high, low]);
            let is_refused = length > 2 && rest[4] >= 0x80;
            let client = self.clients.get_mut(&id).unwrap();
            match first {
                0x50 if is_refused => *client = Client::Idle,
                0x50 => {
                    assert_eq!(self.taken.get(&(id, self.messages[&id])), Some(&1), "taken once");
                    *client = Client::ReleaseOutcome { is_here: true };
                    self.peer.send(&[0x62, 2, high, low]);
                }
                0x70 => *client = Client::Idle,
                other => panic!("{other:02X}"),
            }
            rest = &rest[2 + usize::from(length)..];
        }
    }

    fn reconnect(&mut self) {
        let memory = self.peer.session.leave();
        assert!(memory.is_some());
        self.peer = Peer::connect(self.peer.is_new, Refused::Close, memory);
        for client in self.clients.values_mut() {
            match client {
                Client::Published { is_here } | Client::ReleaseOutcome { is_here } => {
                    *is_here = false
                }
                Client::Idle => {}
            }
        }
    }

    /// Everything goes well from now on.
    fn finish(&mut self) {
        for _ in 0..20 {
            (1..=3).for_each(|id| match self.clients.get(&id) {
                None | Some(Client::Idle) => {}
                Some(_) => self.send(id),
            });
            self.answer(0, Ok(()));
            self.know();
            self.deliver();
        }
        assert!(self.clients.values().all(|client| *client == Client::Idle), "{:?}", self.clients);
        assert!(self.offers.is_empty() && self.peer.session.answers.memory.is_empty());
        assert_eq!(self.peer.session.answers.open(), 0);
    }
}

proptest! {
    #[test]
    fn each_message_is_taken_once(
        is_new: bool,
        happenings in prop::collection::vec(happening(), 0..200),
    ) {
        let mut world = World::new(is_new);
        happenings.into_iter().for_each(|happening| world.step(happening));
        world.finish();
        prop_assert!(world.taken.values().all(|times| *times == 1));
    }
}
