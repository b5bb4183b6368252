//! The client's side of HTTP/1.1: requests in order, and what their answers mean for the records.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tidegate_node::io::Refusal;
use tidegate_types::class::ClassId;
use tidegate_types::record::{
    DeliveryId, DropReason, Identity, Origin, Properties, Record, StreamId,
};
use tidegate_types::units::Time;

use super::keys::authority;
use super::replies::{Answer, Replies};
use super::{HttpOptions, encode};
use crate::keys::url::Host;
use crate::node::contract::Transmit;
use crate::output::protocol::{Protocol, ProtocolError, Verdicts};

/// Between two warnings about records that the far end does not take.
const WARNING_PERIOD: Duration = Duration::from_secs(600);
/// A far end that wants to be left alone for longer is asked again nevertheless: it may have been mistaken.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// A record whose answer has not come.
#[derive(Debug)]
struct Unanswered {
    id: DeliveryId,
    identity: Identity,
}

/// The state of one connection after the other.
#[derive(Debug)]
pub struct Session {
    options: HttpOptions,
    /// The host of the connection, as requests name it.
    authority: String,
    replies: Replies,
    unanswered: VecDeque<Unanswered>,
    /// Bytes of the newest record's payload that are still to come.
    payload_left: usize,
    /// Answers that came by this connection and kept it open.
    answered: usize,
    /// Since when the oldest record waits for its answer, once its bytes are on their way.
    waits_since: Option<Time>,
    /// The far end asked to be left alone until then.
    paused_until: Option<Time>,
    /// The newest answer was "not now". Then one record at a time asks whether it still is.
    is_refused: bool,
    /// A record that was refused before all of it was sent: it must not be begun again.
    refused_early: Option<(Identity, DropReason)>,
    warned_at: Option<Time>,
}

/// What an answer means for its record.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Confirmed,
    Retry,
    Final(DropReason),
    /// The record is not at fault: nothing that goes to this url would be taken.
    Useless(ProtocolError),
}

/// The verdict of a status (RFC 9110, 15). What may be the fault of the url, of the login or of the moment drops
/// no record.
fn verdict(answer: &Answer) -> Verdict {
    let text = answer.text();
    match answer.status {
        200..=299 => Verdict::Confirmed,
        300..=399 => {
            let to = answer.location.as_deref().unwrap_or("nowhere");
            let why = format!("it says {text} and redirects to {to}: give that as url");
            Verdict::Useless(ProtocolError::Unusable(why))
        }
        401 | 403 | 407 => Verdict::Useless(ProtocolError::Refused(text)),
        404 | 405 | 410 => {
            let why = format!("takes no POST at this url: {text}");
            Verdict::Useless(ProtocolError::Unusable(why))
        }
        408 | 425 | 429 => Verdict::Retry,
        413 | 431 => Verdict::Final(DropReason::Oversize),
        400..=499 => Verdict::Final(DropReason::Refused),
        _ => Verdict::Retry,
    }
}

impl Session {
    /// A client that has not connected yet.
    pub fn new(options: HttpOptions) -> Self {
        let is_tls = options.tls.is_some();
        let first = options.hosts.first();
        let authority = first.map(|host| authority(host, is_tls)).unwrap_or_default();
        Session {
            options,
            authority,
            replies: Replies::default(),
            unanswered: VecDeque::new(),
            payload_left: 0,
            answered: 0,
            waits_since: None,
            paused_until: None,
            is_refused: false,
            refused_early: None,
            warned_at: None,
        }
    }

    fn answered(
        &mut self,
        now: Time,
        answer: &Answer,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError> {
        let Some(record) = self.unanswered.pop_front() else {
            // Some servers say so before they close an idle connection.
            if answer.status == 408 {
                return Err(ProtocolError::Over);
            }
            let what = format!("an answer to no request: {}", answer.text());
            return Err(ProtocolError::Malformed { protocol: "HTTP/1.1", what });
        };
        self.waits_since = (!self.unanswered.is_empty()).then_some(now);
        let verdict = verdict(answer);
        self.is_refused = verdict == Verdict::Retry;
        if let Some(after) = answer.retry_after.filter(|_| self.is_refused) {
            self.paused_until = Some(now + after.min(PAUSE_MAX));
        }
        self.warn(now, &verdict, answer);
        if self.unanswered.is_empty() && self.payload_left > 0 {
            return Err(self.answered_early(record, verdict, answer));
        }
        match verdict {
            Verdict::Confirmed => verdicts.confirmed.push(record.id),
            Verdict::Retry => verdicts.refused.push((record.id, Refusal::Retry)),
            Verdict::Final(reason) => verdicts.refused.push((record.id, Refusal::Final(reason))),
            Verdict::Useless(error) => {
                verdicts.refused.push((record.id, Refusal::Retry));
                return Err(error);
            }
        }
        if !answer.keeps_open {
            // What was sent behind it is not answered any more, and goes again.
            return Err(ProtocolError::Over);
        }
        self.answered += 1;
        Ok(())
    }

    /// The far end has judged a record of which it has not seen the end, and will not read that: the node
    /// waits for every cut, so the connection ends, and what is final waits for the record's return.
    fn answered_early(
        &mut self,
        record: Unanswered,
        verdict: Verdict,
        answer: &Answer,
    ) -> ProtocolError {
        match verdict {
            Verdict::Final(reason) => self.refused_early = Some((record.identity, reason)),
            Verdict::Useless(error) => return error,
            Verdict::Confirmed | Verdict::Retry => {}
        }
        ProtocolError::Rejected(answer.text())
    }

    fn warn(&mut self, now: Time, verdict: &Verdict, answer: &Answer) {
        let what = match verdict {
            Verdict::Retry => {
                "the far end takes no records now: they wait here and are tried again"
            }
            Verdict::Final(_) => "the far end refuses a record, which is dropped",
            Verdict::Confirmed | Verdict::Useless(_) => return,
        };
        if self.warned_at.is_none_or(|at| now.since(at) >= WARNING_PERIOD) {
            self.warned_at = Some(now);
            tracing::warn!(host = %self.authority, "{what}: {}", answer.text());
        }
    }

    /// Requests that may be under way. Who keeps a connection open after an answer takes another request; who does
    /// not would never answer those behind.
    fn window(&self) -> usize {
        if self.is_refused { 1 } else { self.options.pipeline.min(1 + self.answered) }
    }
}

impl Protocol for Session {
    /// There is nothing to say but requests.
    const INTERLEAVES: bool = false;

    fn leads_to(&mut self, host: &Host) {
        let authority = authority(host, self.options.tls.is_some());
        if self.authority != authority {
            // A host that wants a pause, or one request at a time, says nothing of another one.
            (self.paused_until, self.is_refused) = (None, false);
            self.authority = authority;
        }
    }

    fn connect(&mut self, _now: Time, _out: &mut BytesMut) {
        self.replies = Replies::default();
        self.unanswered.clear();
        self.payload_left = 0;
        self.answered = 0;
        self.waits_since = None;
    }

    fn receive(
        &mut self,
        now: Time,
        input: &mut BytesMut,
        _out: &mut BytesMut,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError> {
        while let Some(answer) = self.replies.next(input)? {
            self.answered(now, &answer, verdicts)?;
        }
        Ok(())
    }

    fn ended(&mut self, now: Time, verdicts: &mut Verdicts) -> ProtocolError {
        let broken = || ProtocolError::Closed("without an answer".into());
        match self.replies.ended() {
            Some(answer) => self.answered(now, &answer, verdicts).err().unwrap_or_else(broken),
            // Nobody keeps an idle connection for ever.
            None if self.unanswered.is_empty() => ProtocolError::Over,
            None => broken(),
        }
    }

    /// There is no login: the first answer tells.
    fn is_ready(&self) -> bool {
        true
    }

    fn may_send(&self) -> bool {
        self.paused_until.is_none() && self.unanswered.len() < self.window()
    }

    fn begin(&mut self, order: &Transmit, out: &mut BytesMut) -> Result<(), DropReason> {
        let identity = &order.record.identity;
        if let Some((_, reason)) = self.refused_early.take_if(|(early, _)| early == identity) {
            return Err(reason);
        }
        encode::head(&self.options, &self.authority, order, out)?;
        if self.unanswered.is_empty() {
            self.waits_since = None;
        }
        self.unanswered.push_back(Unanswered { id: order.id, identity: identity.clone() });
        self.payload_left = order.record.payload.len();
        Ok(())
    }

    fn piece(&mut self, piece: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(piece);
        self.payload_left -= piece.len();
    }

    fn wrote(&mut self, now: Time) {
        if self.unanswered.len() == 1 || self.waits_since.is_none() {
            self.waits_since = Some(now);
        }
    }

    fn tick(&mut self, now: Time, _out: &mut BytesMut) -> Result<(), ProtocolError> {
        self.paused_until = self.paused_until.filter(|&until| now < until);
        match self.waits_since {
            Some(since) if !self.unanswered.is_empty() && since + self.options.timeout <= now => {
                Err(ProtocolError::Silent(self.options.timeout))
            }
            _ => Ok(()),
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let since = self.waits_since.filter(|_| !self.unanswered.is_empty());
        let silent = since.map(|since| since + self.options.timeout);
        [silent, self.paused_until].into_iter().flatten().min()
    }

    /// A request is complete or void; there is nothing to say at the end.
    fn close(&mut self, _out: &mut BytesMut) {}
}

/// Takes arbitrary bytes from a server in answer to requests: for fuzzing. The first byte says how they are cut into reads,
/// and a zero among them is the end of the connection. Nothing they say may panic, and no record has two verdicts.
///
/// # Panics
/// A promise is broken.
pub fn fuzz(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let options = HttpOptions {
        hosts: Vec::new(),
        tls: None,
        target: "/".into(),
        authorization: None,
        content_type: "text/plain".into(),
        pipeline: 4,
        timeout: Duration::from_secs(30),
        classes: [].into(),
    };
    let origin = Arc::new(Origin { node: "fuzz".into(), incarnation: 1 });
    let (mut session, mut now, mut next) = (Session::new(options), Time::ZERO, 0);
    let (mut input, mut out, mut open) = (BytesMut::new(), BytesMut::new(), BTreeSet::new());
    for life in bytes.split(|&byte| byte == 0) {
        session.connect(now, &mut out);
        input.clear();
        // What was under way goes again.
        open.clear();
        let mut verdicts = Verdicts::default();
        let is_over = life.chunks(1 + usize::from(choice)).any(|part| {
            while session.may_send() && session.payload_left == 0 {
                next += 1;
                let order = order(next, &origin);
                if session.begin(&order, &mut out).is_ok() {
                    open.insert(order.id);
                    session.piece(&order.record.payload, &mut out);
                    session.wrote(now);
                }
            }
            input.extend_from_slice(part);
            now += Duration::from_millis(part.len() as u64);
            session.receive(now, &mut input, &mut out, &mut verdicts).is_err()
                || session.tick(now, &mut out).is_err()
        });
        if !is_over {
            session.ended(now, &mut verdicts);
        }
        let refused = verdicts.refused.iter().map(|(id, _)| id);
        for id in verdicts.confirmed.iter().chain(refused) {
            assert!(open.remove(id), "a verdict on a record that is not under way");
        }
        out.clear();
    }
}

/// A small record.
fn order(number: u64, origin: &Arc<Origin>) -> Transmit {
    let record = Record {
        identity: Identity { origin: origin.clone(), stream: StreamId(1), seq: number },
        key: "plant/7".into(),
        properties: Properties::default(),
        payload: "1.5".into(),
        arrived: Time::ZERO,
        deadline: Time::ZERO,
        expires: None,
        source_unix_ns: None,
    };
    Transmit {
        id: DeliveryId(number),
        lane: 0,
        epoch: 0,
        record: Arc::new(record),
        class: ClassId(0),
        start: 0,
        end: 10,
        size: 10,
        again: false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::tests::options;
    use super::*;
    use crate::output::test_protocol::whole;

    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

    fn session() -> Session {
        let mut session = Session::new(options());
        session.connect(Time::ZERO, &mut BytesMut::new());
        session
    }

    /// Sends a record whole.
    fn send(session: &mut Session, id: u64) {
        let mut out = BytesMut::new();
        assert!(session.may_send());
        session.begin(&whole(id, b"hot"), &mut out).unwrap();
        session.piece(b"hot", &mut out);
        session.wrote(Time::ZERO);
    }

    fn hear(session: &mut Session, text: &str) -> (Verdicts, Result<(), ProtocolError>) {
        let mut verdicts = Verdicts::default();
        let mut input = BytesMut::from(text);
        let result = session.receive(Time::ZERO, &mut input, &mut BytesMut::new(), &mut verdicts);
        (verdicts, result)
    }

    fn status(status: &str) -> String {
        format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")
    }

    #[test]
    fn a_pause_is_of_the_host_that_asks_for_it() {
        let mut session = session();
        let [one, two] = ["one", "two"].map(|name| Host::new(name.to_owned(), 80));
        session.leads_to(&one);
        send(&mut session, 1);
        let busy = "HTTP/1.1 503 Busy\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n";
        let _ = hear(&mut session, busy);
        session.leads_to(&one);
        session.connect(Time::ZERO, &mut BytesMut::new());
        assert!(!session.may_send());
        session.leads_to(&two);
        session.connect(Time::ZERO, &mut BytesMut::new());
        assert!(session.may_send());
    }

    #[test]
    fn requests_under_way_grow_with_the_answers_that_keep_the_connection() {
        let mut session = session();
        send(&mut session, 1);
        assert!(!session.may_send(), "the first one goes alone");
        assert_eq!(hear(&mut session, OK).0.confirmed, [DeliveryId(1)]);
        for id in 2..4 {
            send(&mut session, id);
        }
        assert!(!session.may_send());
        let (verdicts, _) = hear(&mut session, &OK.repeat(2));
        assert_eq!(verdicts.confirmed, [DeliveryId(2), DeliveryId(3)]);
        for id in 4..8 {
            send(&mut session, id);
        }
        assert!(!session.may_send(), "pipeline is 4");
        session.connect(Time::ZERO, &mut BytesMut::new());
        send(&mut session, 8);
        assert!(!session.may_send(), "a new connection begins anew");
    }

    #[test]
    fn each_status_has_its_meaning() {
        let told = |text: &str| {
            let mut session = session();
            send(&mut session, 1);
            let (verdicts, result) = hear(&mut session, &status(text));
            let refused = verdicts.refused.first().map(|(_, refusal)| *refusal);
            (verdicts.confirmed.len(), refused, result.err().map(|error| error.to_string()))
        };
        for good in ["200 OK", "201 Created", "202 Accepted"] {
            assert_eq!(told(good), (1, None, None), "{good}");
        }
        for later in ["408 Request Timeout", "425", "429", "500", "502", "503", "504", "599"] {
            assert_eq!(told(later), (0, Some(Refusal::Retry), None), "{later}");
        }
        for (never, reason) in [
            ("400 Bad Request", DropReason::Refused),
            ("422", DropReason::Refused),
            ("413", DropReason::Oversize),
            ("431", DropReason::Oversize),
        ] {
            assert_eq!(told(never), (0, Some(Refusal::Final(reason)), None), "{never}");
        }
        for (useless, words) in [
            ("401 Unauthorized", "refuses the login: 401 Unauthorized"),
            ("403 Forbidden", "refuses the login: 403 Forbidden"),
            ("404 Not Found", "takes no POST at this url: 404 Not Found"),
            ("301 Moved\r\nlocation: http://b/", "redirects to http://b/: give that as url"),
        ] {
            let (confirmed, refused, error) = told(useless);
            assert_eq!(
                (confirmed, refused),
                (0, Some(Refusal::Retry)),
                "{useless}: it is not dropped"
            );
            assert!(error.as_ref().is_some_and(|error| error.contains(words)), "{error:?}");
        }
    }

    #[test]
    fn who_says_when_to_come_again_is_left_alone_until_then_and_asked_by_one_record() {
        let mut session = session();
        send(&mut session, 1);
        hear(&mut session, &(OK.to_owned() + OK)[..OK.len()]).1.unwrap();
        send(&mut session, 2);
        hear(&mut session, &status("503 Busy\r\nretry-after: 7")).1.unwrap();
        let second = Duration::from_secs(1);
        assert!(!session.may_send());
        assert_eq!(session.next_timeout(), Some(Time::ZERO + second * 7));
        session.tick(Time::ZERO + second * 6, &mut BytesMut::new()).unwrap();
        assert!(!session.may_send());
        session.tick(Time::ZERO + second * 7, &mut BytesMut::new()).unwrap();
        send(&mut session, 2);
        assert!(!session.may_send(), "one asks");
        hear(&mut session, OK).1.unwrap();
        send(&mut session, 3);
        assert!(session.may_send(), "it takes records again");
    }

    #[test]
    fn an_end_is_ordinary_where_nothing_is_owed() {
        let ended = |session: &mut Session| {
            let mut verdicts = Verdicts::default();
            (session.ended(Time::ZERO, &mut verdicts), verdicts.confirmed.len())
        };
        assert_eq!(ended(&mut session()), (ProtocolError::Over, 0));
        let mut owing = session();
        send(&mut owing, 1);
        let broken = ProtocolError::Closed("without an answer".into());
        assert_eq!(ended(&mut owing), (broken.clone(), 0));
        let mut cut = session();
        send(&mut cut, 1);
        hear(&mut cut, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").1.unwrap();
        assert_eq!(ended(&mut cut), (broken, 0), "an answer that breaks off confirms nothing");
        let mut old = session();
        send(&mut old, 1);
        hear(&mut old, "HTTP/1.0 200 OK\r\n\r\nuntil the end").1.unwrap();
        assert_eq!(ended(&mut old), (ProtocolError::Over, 1));
        let mut last = session();
        send(&mut last, 1);
        let (verdicts, result) = hear(&mut last, &status("200 OK\r\nconnection: close"));
        assert_eq!((verdicts.confirmed.len(), result), (1, Err(ProtocolError::Over)));
        let (_, result) = hear(&mut session(), &status("408 Request Timeout"));
        assert_eq!(result, Err(ProtocolError::Over));
        assert!(matches!(hear(&mut session(), OK).1, Err(ProtocolError::Malformed { .. })));
    }

    #[test]
    fn a_record_that_is_refused_before_its_end_is_not_sent_again() {
        let mut session = session();
        let mut out = BytesMut::new();
        session.begin(&whole(1, b"large"), &mut out).unwrap();
        session.piece(b"la", &mut out);
        let (verdicts, result) = hear(&mut session, &status("413 Content Too Large"));
        assert_eq!(verdicts, Verdicts::default(), "the node waits for every cut");
        assert_eq!(result, Err(ProtocolError::Rejected("413 Content Too Large".into())));
        session.connect(Time::ZERO, &mut out);
        out.clear();
        assert_eq!(session.begin(&whole(1, b"large"), &mut out), Err(DropReason::Oversize));
        assert!(out.is_empty());
        assert_eq!(session.begin(&whole(1, b"large"), &mut out), Ok(()), "it is told once");
    }

    #[test]
    fn silence_counts_from_the_last_byte_of_a_request() {
        let second = Duration::from_secs(1);
        let mut session = session();
        assert_eq!(session.next_timeout(), None);
        session.begin(&whole(1, b"hot"), &mut BytesMut::new()).unwrap();
        assert_eq!(session.next_timeout(), None, "nothing is on its way");
        session.wrote(Time::ZERO + second);
        session.piece(b"hot", &mut BytesMut::new());
        session.wrote(Time::ZERO + second * 20);
        assert!(session.tick(Time::ZERO + second * 49, &mut BytesMut::new()).is_ok());
        let silent = session.tick(Time::ZERO + second * 50, &mut BytesMut::new());
        assert_eq!(silent, Err(ProtocolError::Silent(second * 30)));
    }
}
