use super::*;

fn options() -> Options {
    Options {
        client_id: "gate".into(),
        user: None,
        password: None,
        topics: vec![("a/#".into(), 2), ("b".into(), 2)],
        map: TopicMap::default(),
        version: None,
        receive_maximum: 3,
        max_packet_size: 200,
    }
}

struct Peer {
    session: ClientSession,
    effects: Effects,
}

impl Peer {
    fn new() -> Self {
        let session = ClientSession::new(options(), SourceId(3), Memory::default());
        Peer { session, effects: Effects::default() }
    }

    /// Connected to a broker that knows MQTT 5.
    fn open() -> Self {
        let mut peer = Peer::new();
        peer.session.connect(&mut peer.effects.out);
        peer.written();
        peer.send(b"\x20\x03\0\0\0").unwrap();
        assert_eq!(peer.written()[0], 0x82);
        peer.send(b"\x90\x05\0\x01\0\x02\x02").unwrap();
        assert!(peer.session.is_open());
        peer
    }

    fn again(&mut self, session_present: bool) {
        self.session.connect(&mut self.effects.out);
        self.written();
        self.send(&[0x20, 3, u8::from(session_present), 0, 0]).unwrap();
        assert_eq!(self.session.is_open(), session_present);
        self.written();
    }

    fn send(&mut self, bytes: &[u8]) -> Result<ClientStep, ClientError> {
        let step = self.session.receive(Time::ZERO, bytes, &mut self.effects).1;
        // The node does at once what it is told.
        for id in std::mem::take(&mut self.effects.releases) {
            self.session.released(&[id], &mut self.effects.out);
        }
        self.session.forgotten(&mut self.effects.out);
        step
    }

    fn written(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.effects.out)
    }

    fn acknowledged(&mut self) -> Result<Vec<u8>, ClientError> {
        self.session.acknowledge(&mut self.effects.out)?;
        Ok(self.written())
    }

    fn token(&mut self) -> Option<Token> {
        self.effects.records.pop().and_then(|record| record.token)
    }
}

const FAST: &[u8] = b"\x30\x05\0\x01b\0x";
const SAFE: &[u8] = b"\x32\x07\0\x01b\0\x07\0x";
const ONCE: &[u8] = b"\x34\x07\0\x01b\0\x09\0x";

#[test]
fn records_are_acknowledged_when_they_are_accepted() {
    let mut peer = Peer::open();
    assert_eq!(peer.send(FAST).unwrap(), ClientStep::Read(2));
    assert_eq!(peer.token(), None);
    peer.send(SAFE).unwrap();
    let safe = peer.token().unwrap();
    peer.send(ONCE).unwrap();
    let once = peer.token().unwrap();
    peer.session.answer(once, Ok(()));
    assert!(peer.acknowledged().unwrap().is_empty(), "in order");
    peer.session.answer(safe, Ok(()));
    assert_eq!(peer.acknowledged().unwrap(), [0x40, 2, 0, 7, 0x50, 2, 0, 9]);
    for _ in 0..2 {
        peer.send(b"\x62\x02\0\x09").unwrap();
    }
    assert_eq!(peer.written(), [0x70, 2, 0, 9, 0x70, 3, 0, 9, 0x92]);
}

#[test]
fn a_record_is_taken_once_while_the_broker_remembers() {
    for is_remembered in [true, false] {
        let mut peer = Peer::open();
        peer.send(ONCE).unwrap();
        let token = peer.token().unwrap();
        peer.session.end();
        peer.session.answer(token, Ok(()));
        peer.again(is_remembered);
        peer.send(ONCE).unwrap();
        assert_eq!(peer.token().is_none(), is_remembered);
        let due: &[u8] = if is_remembered { &[0x50, 2, 0, 9] } else { &[] };
        assert_eq!(peer.acknowledged().unwrap(), due);
    }
}

#[test]
fn a_full_node_lets_it_come_again_and_what_never_fits_goes() {
    let mut peer = Peer::open();
    peer.send(ONCE).unwrap();
    let token = peer.token().unwrap();
    peer.session.answer(token, Err(RefuseReason::Full));
    assert!(matches!(peer.acknowledged(), Err(ClientError::Refusing(RefuseReason::Full))));
    peer.again(true);
    peer.send(ONCE).unwrap();
    let token = peer.token().unwrap();
    peer.session.answer(token, Err(RefuseReason::NoRule));
    assert_eq!(peer.acknowledged().unwrap(), [0x50, 2, 0, 9]);
    assert_eq!(peer.session.take_dropped(), [RefuseReason::NoRule]);
}

#[test]
fn what_is_no_record_does_not_come_for_ever() {
    let mut peer = Peer::open();
    assert_eq!(peer.send(b"\x32\x07\0\x01\n\0\x07\0x").unwrap(), ClientStep::Read(2));
    assert!(peer.effects.records.is_empty());
    assert_eq!(peer.acknowledged().unwrap(), [0x40, 2, 0, 7]);
    assert_eq!(peer.session.take_dropped(), [RefuseReason::Oversize]);
}

#[test]
fn as_many_wait_as_may() {
    let mut peer = Peer::open();
    let stream = SAFE.repeat(4);
    let (done, step) = peer.session.receive(Time::ZERO, &stream, &mut peer.effects);
    assert!(
        done == 3 * SAFE.len() && step.unwrap() == ClientStep::Wait && peer.session.must_wait()
    );
    peer.session.connect(&mut peer.effects.out);
    assert!(!peer.session.must_wait(), "a new connection begins with none");
}

#[test]
fn an_old_broker_is_spoken_to_in_its_version() {
    let mut peer = Peer::new();
    peer.session.connect(&mut peer.effects.out);
    assert_eq!(peer.written()[8], 5);
    assert!(matches!(peer.send(b"\x20\x02\0\x01"), Err(ClientError::TooNew)));
    peer.session.connect(&mut peer.effects.out);
    assert_eq!(peer.written()[8], 4);
    peer.send(b"\x20\x02\0\0").unwrap();
    assert_eq!(peer.written(), b"\x82\x0C\0\x01\0\x03a/#\x02\0\x01b\x02");
    peer.send(b"\x30\x04\0\x01bx\x90\x04\0\x01\x01\x02").unwrap();
    assert!(peer.session.is_open() && peer.effects.records.len() == 1);
}

#[test]
fn trouble_has_its_cause_and_cure() {
    let told = |packet: &[u8]| {
        let mut peer = Peer::new();
        peer.session.connect(&mut peer.effects.out);
        match peer.send(b"\x20\x03\0\0\0") {
            Ok(_) => peer.send(packet).unwrap_err().to_string(),
            Err(trouble) => trouble.to_string(),
        }
    };
    assert!(told(b"\x90\x05\0\x01\0\x02\x87").contains("does not grant \"b\""));
    assert!(told(b"\xE0\x01\x8E").contains("choose another one"));
    assert!(told(b"\x20\x03\0\0\0").contains("not expected"));
    assert!(told(b"\x30\xFF\x7F").contains("larger"));
    let mut peer = Peer::new();
    peer.session.connect(&mut peer.effects.out);
    let refused = peer.send(b"\x20\x03\0\x86\0").unwrap_err().to_string();
    assert!(refused.contains("check user and password"), "{refused}");
}
