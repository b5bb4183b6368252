//! The client's side of MQTT: login, records under way by their packet identifier, keepalive.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::BytesMut;
use tidegate_mqtt::Version;
use tidegate_mqtt::client::{DISCONNECT, Login, PING, connect};
use tidegate_mqtt::topics::TopicMap;
use tidegate_node::io::Refusal;
use tidegate_types::record::{DeliveryId, DropReason};
use tidegate_types::units::Time;

use super::MqttOptions;
use super::encode::{self, Limits};
use super::incoming::{self, Said};
use crate::keys::url::Host;
use crate::node::contract::Transmit;
use crate::output::protocol::{Heartbeat, Protocol, ProtocolError, Verdicts};
use crate::support::password::Fresh;

/// A dead broker is noticed within twice this.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What we promise in CONNECT: something is heard from us at least this often.
const KEEP_ALIVE: u16 = 30;

/// How long the connection of an old password waits for what is under way; then that goes again by the next one.
const DRAIN: Duration = Duration::from_secs(15);

/// The state of one connection after the other.
#[derive(Debug)]
pub struct Session {
    options: MqttOptions,
    lane: u8,
    /// Where the connection leads to: another host may know another version.
    host: Option<Host>,
    version: Version,
    is_ready: bool,
    /// How many records the broker takes unacknowledged.
    receive_max: usize,
    packet_max: usize,
    last_id: u16,
    unconfirmed: BTreeMap<u16, DeliveryId>,
    heartbeat: Heartbeat,
    /// Payload bytes of the begun record that are still to come. Inside a record no PING can be said,
    /// so silence means nothing.
    payload_left: u64,
    /// A record was begun since the last write.
    has_begun: bool,
    /// Refusals that an operator has heard of: each kind once.
    told: Vec<Refusal>,
    /// An operator has heard that a broker retains nothing.
    is_retain_told: bool,
    /// Whether this connection's broker retains.
    retains: bool,
    /// The password of this connection, and how long it is good.
    fresh: Option<Fresh>,
    renewal: Renewal,
}

/// When a newer password is to be used: by another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    Never,
    At(Time),
    /// Now: as soon as nothing is under way, and then at the latest.
    Due(Time),
}

impl Session {
    /// A client that has not connected yet.
    pub fn new(options: MqttOptions, lane: u8) -> Self {
        let version = options.version.unwrap_or(Version::V5);
        Session::of(options, lane, version)
    }

    fn of(options: MqttOptions, lane: u8, version: Version) -> Self {
        Session {
            options,
            lane,
            host: None,
            version,
            is_ready: false,
            receive_max: 0,
            packet_max: usize::MAX,
            last_id: 0,
            unconfirmed: BTreeMap::new(),
            heartbeat: Heartbeat::new(Time::ZERO, Duration::ZERO),
            payload_left: 0,
            has_begun: false,
            told: Vec::new(),
            is_retain_told: false,
            retains: true,
            fresh: None,
            renewal: Renewal::Never,
        }
    }

    fn said(
        &mut self,
        now: Time,
        said: Said,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError> {
        match said {
            Said::Welcome { receive_max, packet_max, keep_alive, retains } if !self.is_ready => {
                self.is_ready = true;
                self.retains = retains;
                if self.options.retain && !retains && !self.is_retain_told {
                    self.is_retain_told = true;
                    let text = "the broker retains nothing: records go without the retain flag";
                    verdicts.told.push(text.into());
                }
                self.receive_max = receive_max;
                self.packet_max = packet_max;
                if let Some(seconds) = keep_alive.filter(|&seconds| seconds > 0) {
                    let half = Duration::from_secs(seconds.into()) / 2;
                    self.heartbeat = Heartbeat::new(now, half.min(HEARTBEAT));
                }
            }
            Said::Refused(why) if !self.is_ready => return Err(ProtocolError::Refused(why)),
            Said::TooNew
                if !self.is_ready
                    && self.version == Version::V5
                    && self.options.version.is_none() =>
            {
                self.version = Version::V311;
                let why = "it knows no MQTT 5; trying 3.1.1, which carries no identity of records";
                return Err(ProtocolError::Older(why.into()));
            }
            Said::TooNew if !self.is_ready => {
                return Err(ProtocolError::Refused(
                    "it does not speak this version of MQTT".into(),
                ));
            }
            Said::Ack(id, verdict) if self.is_ready => {
                match (self.unconfirmed.remove(&id), verdict) {
                    (Some(id), None) => verdicts.confirmed.push(id),
                    (Some(id), Some((refusal, why))) => {
                        verdicts.refused.push((id, refusal));
                        if !self.told.contains(&refusal) {
                            self.told.push(refusal);
                            let what = match refusal {
                                Refusal::Retry => "wait here and are tried again",
                                Refusal::Final(_) => "are dropped and counted (refused)",
                            };
                            let text = format!("the broker refuses records, which {what}: {why}");
                            verdicts.told.push(text);
                        }
                    }
                    // Of no record: harmless.
                    (None, _) => {}
                }
            }
            Said::Pong => {}
            Said::Bye(why) => return Err(ProtocolError::Closed(why)),
            other => {
                let what = format!("{other:?} at the wrong time");
                return Err(ProtocolError::Malformed { protocol: "MQTT", what });
            }
        }
        Ok(())
    }

    /// An identifier that no record under way has; `may_send` leaves one.
    fn free_id(&mut self) -> Result<u16, DropReason> {
        for _ in 0..=u16::MAX {
            self.last_id = self.last_id.wrapping_add(1);
            if self.last_id != 0 && !self.unconfirmed.contains_key(&self.last_id) {
                return Ok(self.last_id);
            }
        }
        Err(DropReason::Full)
    }

    /// Ends the connection for one with a newer password, where it is time and nothing is under way, or what is under way
    /// is not confirmed for too long.
    fn renew(&self, now: Time) -> Result<(), ProtocolError> {
        let Renewal::Due(latest) = self.renewal else { return Ok(()) };
        let is_free = self.unconfirmed.is_empty();
        let may_leave = self.payload_left == 0 && (is_free || latest <= now);
        if may_leave { Err(ProtocolError::Over) } else { Ok(()) }
    }

    fn is_due(&self) -> bool {
        matches!(self.renewal, Renewal::Due(_))
    }

    fn push_connect(&self, out: &mut BytesMut) {
        let mut packet = Vec::new();
        let client_id = match self.options.is_exact {
            true => self.options.client_id.clone(),
            false => format!("{}-{}", self.options.client_id, self.lane),
        };
        let login = Login {
            user: self.options.user.as_deref(),
            password: self.fresh.as_ref().map(|fresh| &*fresh.password),
            keepalive: KEEP_ALIVE,
            ..Login::new(self.version, &client_id)
        };
        connect(&mut packet, &login);
        out.extend_from_slice(&packet);
    }
}

impl Protocol for Session {
    /// An MQTT packet stands in one piece.
    const INTERLEAVES: bool = false;

    async fn prepare(&mut self) -> Result<(), String> {
        self.fresh = match &self.options.password {
            Some(password) => Some(password.now().await?),
            None => None,
        };
        Ok(())
    }

    fn leads_to(&mut self, host: &Host) {
        if self.host.as_ref() != Some(host) {
            self.host = Some(host.clone());
            self.version = self.options.version.unwrap_or(Version::V5);
        }
    }

    fn connect(&mut self, now: Time, out: &mut BytesMut) {
        let (told, is_retain_told) = (std::mem::take(&mut self.told), self.is_retain_told);
        let (host, fresh) = (self.host.take(), self.fresh.take());
        let renews_in = fresh.as_ref().and_then(|fresh| fresh.renews_in);
        let renewal = renews_in.map_or(Renewal::Never, |after| Renewal::At(now + after));
        let anew = Session::of(self.options.clone(), self.lane, self.version);
        *self = Session { told, is_retain_told, host, fresh, renewal, ..anew };
        self.heartbeat = Heartbeat::new(now, HEARTBEAT);
        self.push_connect(out);
    }

    fn receive(
        &mut self,
        now: Time,
        input: &mut BytesMut,
        _out: &mut BytesMut,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError> {
        self.heartbeat.heard(now);
        while let Some(said) = incoming::next(self.version, input)? {
            self.said(now, said, verdicts)?;
        }
        self.renew(now)
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn window(&self) -> Option<usize> {
        self.options.is_exact.then_some(self.receive_max)
    }

    fn may_send(&self) -> bool {
        self.is_ready && !self.is_due() && self.unconfirmed.len() < self.receive_max
    }

    fn begin(&mut self, order: &Transmit, out: &mut BytesMut) -> Result<(), DropReason> {
        let id = self.free_id()?;
        let limits =
            Limits { version: self.version, packet_max: self.packet_max, retains: self.retains };
        encode::publish(&self.options, limits, id, order, out)?;
        self.payload_left = order.record.payload.len() as u64;
        self.has_begun = true;
        self.unconfirmed.insert(id, order.id);
        Ok(())
    }

    fn piece(&mut self, piece: &[u8], out: &mut BytesMut) {
        self.payload_left = self.payload_left.saturating_sub(piece.len() as u64);
        out.extend_from_slice(piece);
    }

    fn wrote(&mut self, now: Time) {
        self.heartbeat.said(now);
        if self.has_begun {
            // Up to now the broker could not be asked.
            self.heartbeat.heard(now);
            self.has_begun = self.payload_left > 0;
        }
    }

    fn tick(&mut self, now: Time, out: &mut BytesMut) -> Result<(), ProtocolError> {
        if let Renewal::At(at) = self.renewal
            && at <= now
        {
            self.renewal = Renewal::Due(now + DRAIN);
        }
        if self.is_due() && self.payload_left > 0 {
            // What is being said takes as long as the line needs.
            self.renewal = Renewal::Due(now + DRAIN);
        }
        self.renew(now)?;
        if self.payload_left > 0 {
            self.heartbeat.heard(now);
            self.heartbeat.said(now);
        } else if self.heartbeat.is_due(now)? {
            out.extend_from_slice(&PING);
            self.heartbeat.said(now);
        }
        Ok(())
    }

    fn next_timeout(&self) -> Option<Time> {
        let renewal = match self.renewal {
            Renewal::Never => None,
            Renewal::At(at) | Renewal::Due(at) => Some(at),
        };
        [self.heartbeat.next_timeout(), renewal].into_iter().flatten().min()
    }

    fn close(&mut self, out: &mut BytesMut) {
        out.extend_from_slice(&DISCONNECT);
    }
}

/// Takes arbitrary bytes from a broker: for fuzzing. Nothing they say may panic or grow memory.
pub fn fuzz(bytes: &[u8]) {
    let options = MqttOptions {
        hosts: Vec::new(),
        tls: None,
        client_id: "fuzz".into(),
        is_exact: false,
        version: None,
        topics: TopicMap::default(),
        user: None,
        password: None,
        classes: [].into(),
        retain: false,
    };
    let mut session = Session::new(options, 0);
    let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
    session.connect(Time::ZERO, &mut out);
    for part in bytes.chunks(97) {
        input.extend_from_slice(part);
        let mut verdicts = Verdicts::default();
        if session.receive(Time::ZERO, &mut input, &mut out, &mut verdicts).is_err() {
            // What was decided before holds for the next connection.
            session.connect(Time::ZERO, &mut out);
            input.clear();
            out.clear();
        }
        assert!(verdicts.confirmed.is_empty(), "nothing was sent that could be confirmed");
    }
}

#[cfg(test)]
mod tests {

    use super::super::encode::tests::{options, retained};
    use super::*;
    use crate::output::test_protocol::whole;

    /// CONNACK with a receive maximum of 2 and a largest packet of 500 bytes.
    const WELCOME: &[u8] = &[0x20, 11, 0, 0, 8, 0x21, 0, 2, 0x27, 0, 0, 1, 0xF4];

    fn told(session: &mut Session, bytes: &[u8]) -> Result<Verdicts, ProtocolError> {
        let mut verdicts = Verdicts::default();
        let (mut input, mut out) = (BytesMut::from(bytes), BytesMut::new());
        session.receive(Time::ZERO, &mut input, &mut out, &mut verdicts).map(|()| verdicts)
    }

    fn ready() -> Session {
        let mut session = Session::new(options(), 1);
        session.connect(Time::ZERO, &mut BytesMut::new());
        told(&mut session, WELCOME).unwrap();
        assert!(session.is_ready());
        session
    }

    #[test]
    fn the_receive_maximum_is_kept_and_acknowledgements_free_it() {
        let mut session = ready();
        let mut out = BytesMut::new();
        session.begin(&whole(1, b"a"), &mut out).unwrap();
        session.begin(&whole(2, b"b"), &mut out).unwrap();
        assert!(!session.may_send());
        // PUBACK 2 with "quota exceeded", PUBACK 1, PUBACK 9 of nobody.
        let verdicts =
            told(&mut session, &[0x40, 3, 0, 2, 0x97, 0x40, 2, 0, 1, 0x40, 2, 0, 9]).unwrap();
        assert_eq!(verdicts.confirmed, [DeliveryId(1)]);
        assert_eq!(verdicts.refused, [(DeliveryId(2), Refusal::Retry)]);
        assert!(session.may_send());
        assert_eq!(session.begin(&whole(3, &[0; 500]), &mut out), Err(DropReason::Oversize));
        session.begin(&whole(4, b"c"), &mut out).unwrap();
        let verdicts = told(&mut session, &[0x40, 3, 0, 4, 0x87]).unwrap();
        assert_eq!(verdicts.refused, [(DeliveryId(4), Refusal::Final(DropReason::Refused))]);
        assert!(verdicts.told[0].contains("NotAuthorized"), "another story than the first");
    }

    #[test]
    fn a_missing_right_is_told_in_the_brokers_words_once() {
        let mut session = ready();
        let mut out = BytesMut::new();
        session.begin(&whole(1, b"a"), &mut out).unwrap();
        let said = told(&mut session, &[0x40, 3, 0, 1, 0x87]).unwrap().told;
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("dropped and counted (refused): NotAuthorized"), "{said:?}");
    }

    #[test]
    fn an_old_broker_is_asked_again_in_its_own_version() {
        let mut session = Session::new(options(), 0);
        session.connect(Time::ZERO, &mut BytesMut::new());
        let error = told(&mut session, &[0x20, 2, 0, 1]).unwrap_err();
        assert!(error.to_string().contains("trying 3.1.1"), "{error}");
        let mut out = BytesMut::new();
        session.connect(Time::ZERO, &mut out);
        assert_eq!(&out[2..9], b"\0\x04MQTT\x04");
        told(&mut session, &[0x20, 2, 0, 0]).unwrap();
        assert!(session.may_send());
        session.begin(&whole(1, b"a"), &mut out).unwrap();
        assert_eq!(told(&mut session, &[0x40, 2, 0, 1]).unwrap().confirmed, [DeliveryId(1)]);
    }

    #[test]
    fn refusals_and_farewells_are_told_in_the_brokers_words() {
        let mut session = Session::new(options(), 0);
        session.connect(Time::ZERO, &mut BytesMut::new());
        let error = told(&mut session, &[0x20, 3, 0, 0x86, 0]).unwrap_err().to_string();
        assert_eq!(error, "the far end refuses the login: BadUserNameOrPassword");
        let error = told(&mut ready(), &[0xE0, 2, 0x8B, 0]).unwrap_err().to_string();
        assert_eq!(error, "the far end closed the connection: ServerShuttingDown");
        assert!(told(&mut ready(), &[0x30, 3, 0, 1, b'a']).is_err(), "a PUBLISH to a publisher");
        assert!(told(&mut ready(), WELCOME).is_err(), "a second welcome");
    }

    #[test]
    fn silence_counts_only_where_a_question_could_be_asked() {
        let second = Duration::from_secs(1);
        let mut session = ready();
        let mut out = BytesMut::new();
        session.tick(Time::ZERO + second * 8, &mut out).unwrap();
        session.wrote(Time::ZERO + second * 8);
        assert_eq!(out, PING[..]);
        assert!(session.tick(Time::ZERO + second * 31, &mut out).is_err());
        let mut session = ready();
        session.begin(&whole(1, b"long"), &mut out).unwrap();
        session.piece(b"lo", &mut out);
        session.tick(Time::ZERO + second * 100, &mut out).unwrap();
        session.piece(b"ng", &mut out);
        session.wrote(Time::ZERO + second * 101);
        assert!(session.tick(Time::ZERO + second * 120, &mut out).is_ok());
        assert!(session.tick(Time::ZERO + second * 140, &mut out).is_err());
    }

    #[test]
    fn one_connection_has_exactly_the_given_client_id() {
        for (is_exact, id) in [(true, "gate-7"), (false, "gate-7-1")] {
            let mut session = Session::new(MqttOptions { is_exact, ..options() }, 1);
            let mut out = BytesMut::new();
            session.connect(Time::ZERO, &mut out);
            assert!(out.ends_with(&[&[0, id.len() as u8], id.as_bytes()].concat()), "{out:?}");
            told(&mut session, WELCOME).unwrap();
            assert_eq!(session.window(), is_exact.then_some(2));
        }
    }

    #[test]
    fn a_newer_password_takes_another_connection_when_nothing_is_under_way() {
        let mut session = Session::new(options(), 1);
        let renews_in = Some(Duration::from_secs(60));
        session.fresh = Some(Fresh { password: "word".into(), renews_in });
        let mut out = BytesMut::new();
        session.connect(Time::ZERO, &mut out);
        assert!(out.ends_with(b"\0\x04word"), "{out:?}");
        told(&mut session, WELCOME).unwrap();
        session.begin(&whole(1, b"a"), &mut out).unwrap();
        session.piece(b"a", &mut out);
        let due = Time::ZERO + Duration::from_secs(60);
        session.heartbeat.heard(due);
        assert!(session.may_send());
        session.tick(due, &mut out).unwrap();
        assert!(!session.may_send());
        assert!(session.next_timeout().is_some_and(|at| at > due), "no second question");
        assert_eq!(told(&mut session, &[0x40, 2, 0, 1]), Err(ProtocolError::Over));
        session.connect(due, &mut out);
        told(&mut session, WELCOME).unwrap();
        assert!(session.may_send());
    }

    #[test]
    fn an_acknowledgement_that_never_comes_does_not_keep_an_old_password() {
        let mut session = Session::new(options(), 1);
        let renews_in = Some(Duration::from_secs(60));
        session.fresh = Some(Fresh { password: "word".into(), renews_in });
        let mut out = BytesMut::new();
        session.connect(Time::ZERO, &mut out);
        told(&mut session, WELCOME).unwrap();
        session.begin(&whole(1, b"ab"), &mut out).unwrap();
        session.piece(b"a", &mut out);
        let due = Time::ZERO + Duration::from_secs(60);
        session.tick(due, &mut out).unwrap();
        let long = due + Duration::from_secs(100);
        session.tick(long, &mut out).unwrap();
        session.piece(b"b", &mut out);
        session.wrote(long);
        let nearly = long + DRAIN - Duration::from_millis(1);
        session.heartbeat.heard(nearly);
        session.tick(nearly, &mut out).unwrap();
        assert!(session.next_timeout().is_some_and(|at| at <= long + DRAIN));
        assert_eq!(session.tick(long + DRAIN, &mut out), Err(ProtocolError::Over));
    }

    #[test]
    fn one_broker_that_retains_nothing_says_nothing_of_another() {
        let mut session = Session::new(options(), 1);
        let nothing: &[u8] = &[0x20, 5, 0, 0, 2, 0x25, 0];
        for (welcome, retains, stories) in
            [(nothing, false, 1), (WELCOME, true, 0), (nothing, false, 0)]
        {
            session.connect(Time::ZERO, &mut BytesMut::new());
            assert_eq!(told(&mut session, welcome).unwrap().told.len(), stories);
            let mut out = BytesMut::new();
            session.begin(&retained(), &mut out).unwrap();
            assert_eq!(out[0] & 1 == 1, retains);
        }
    }

    #[test]
    fn a_version_that_is_chosen_is_no_other() {
        let mut session = Session::new(MqttOptions { version: Some(Version::V5), ..options() }, 0);
        session.connect(Time::ZERO, &mut BytesMut::new());
        let error = told(&mut session, &[0x20, 2, 0, 1]).unwrap_err();
        assert!(matches!(error, ProtocolError::Refused(_)), "{error}");
        let version = Some(Version::V311);
        let mut session = Session::new(MqttOptions { version, ..options() }, 0);
        let mut out = BytesMut::new();
        session.connect(Time::ZERO, &mut out);
        assert_eq!(out[8], 4);
    }

    #[test]
    fn identifiers_are_not_given_twice() {
        let mut session = ready();
        session.receive_max = usize::from(u16::MAX);
        for id in 0..u64::from(u16::MAX) {
            session.begin(&whole(id, b""), &mut BytesMut::new()).unwrap();
        }
        assert!(!session.may_send());
        assert_eq!(session.begin(&whole(0, b""), &mut BytesMut::new()), Err(DropReason::Full));
    }
}
