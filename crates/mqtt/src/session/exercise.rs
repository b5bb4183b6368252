//! Any bytes through decoding and session, without I/O: what fuzzing calls.

use std::sync::Arc;

use tidegate_types::record::{RefuseReason, SourceId};
use tidegate_types::units::Time;

use super::{BATCH_MAX, Effects, Limits, Memory, Refused, Session, SessionStep};

/// Plays the bytes to a session as a connection would, and checks what must always hold. The first byte
/// chooses how the bytes are cut into reads and how the node answers.
///
/// # Panics
/// A promise of the session is broken.
pub fn exercise(bytes: &[u8]) {
    let Some((&choice, stream)) = bytes.split_first() else { return };
    let limits = Limits {
        max_packet_size: 2048,
        receive_maximum: 4,
        topic_alias_maximum: 3,
        session_expiry_max: 3600,
        keepalive_max: 0,
        refused: if choice & 2 == 2 { Refused::Drop } else { Refused::Close },
        keeps_subscriptions: false,
    };
    // Where the client asks for it, the session goes on with a second connection.
    if let Some(memory) = connection(limits, choice, stream, None) {
        let ids = memory.len();
        let left = connection(limits, choice, stream, Some(memory));
        assert!(left.is_none_or(|left| left.len() <= ids + stream.len()));
    }
}

/// One connection; what its session remembers.
fn connection(limits: Limits, choice: u8, stream: &[u8], memory: Option<Memory>) -> Option<Memory> {
    let mut session = Session::new(limits);
    if let Some(memory) = memory {
        session.resume(memory);
    }
    let mut effects = Effects::default();
    let mut buffer: Vec<u8> = Vec::new();
    let read = 1 + usize::from(choice >> 2);
    for piece in stream.chunks(read) {
        buffer.extend_from_slice(piece);
        if !play(&mut session, &mut buffer, &mut effects, choice) {
            break;
        }
        assert!(buffer.len() <= limits.max_packet_size as usize + read, "the buffer is bounded");
    }
    let will = session.take_will().map(|(will, _)| will.record(SourceId(7), Time::ZERO));
    assert!(will.is_none_or(|will| will.token.is_none()));
    assert!(session.take_will().is_none(), "a will is published once");
    let memory = session.leave();
    assert_eq!(session.unanswered(), 0);
    memory
}

/// Receives until more bytes are needed; false at the end of the session.
fn play(session: &mut Session, buffer: &mut Vec<u8>, effects: &mut Effects, choice: u8) -> bool {
    loop {
        let (done, step) = session.receive(Time::ZERO, buffer, effects);
        buffer.drain(..done);
        let releases = std::mem::take(&mut effects.releases);
        session.released(&releases, &mut effects.out);
        let refuse = choice & 1 == 1;
        if !answer(session, effects, refuse) {
            return false;
        }
        match step {
            SessionStep::Read(size) => {
                assert!(size > buffer.len(), "a packet that is complete is done");
                return true;
            }
            SessionStep::Ask(request) => session.refuse(&request, &mut effects.out),
            SessionStep::Connect => {
                let client = if session.client().is_empty() {
                    Arc::from("assigned")
                } else {
                    session.client().clone()
                };
                if session.opened(SourceId(7), client, effects).is_err() {
                    return false;
                }
            }
            SessionStep::End(end) => {
                session.end(&end, &mut effects.out);
                return false;
            }
            SessionStep::Offer | SessionStep::Wait => {}
        }
    }
}

/// Takes the records and answers those that wait; false where an answer ends the session.
fn answer(session: &mut Session, effects: &mut Effects, refuse: bool) -> bool {
    assert!(effects.records.len() <= BATCH_MAX);
    for record in effects.records.drain(..) {
        assert!(!record.key.is_empty() && std::str::from_utf8(&record.key).is_ok());
        assert_eq!(record.source, SourceId(7));
        if let Some(token) = record.token {
            session.answer(token, if refuse { Err(RefuseReason::Full) } else { Ok(()) });
        }
    }
    let alive = session.acknowledge(&mut effects.out).is_ok();
    assert!(!alive || session.unanswered() == 0, "every answer is passed on");
    effects.out.clear();
    alive
}
