//! Any bytes from a broker, without I/O: what fuzzing calls.

use tidegate_types::record::{RefuseReason, SourceId};
use tidegate_types::units::Time;

use super::{ClientSession, ClientStep, Options};
use crate::session::{BATCH_MAX, Effects, Memory};
use crate::topics::TopicMap;

/// Plays the bytes to a client as a broker would, and checks what must always hold. The first byte
/// chooses how the bytes are cut into reads and how the node answers.
///
/// # Panics
/// A promise of the client is broken.
pub fn exercise(bytes: &[u8]) {
    let Some((&choice, stream)) = bytes.split_first() else { return };
    let options = Options {
        client_id: "fuzz".into(),
        user: None,
        password: None,
        topics: vec![("#".into(), 2)],
        map: TopicMap::default(),
        version: None,
        receive_maximum: 4,
        max_packet_size: 2048,
    };
    let mut session = ClientSession::new(options, SourceId(7), Memory::default());
    let mut effects = Effects::default();
    session.connect(&mut effects.out);
    let mut buffer: Vec<u8> = Vec::new();
    for piece in stream.chunks(1 + usize::from(choice >> 2)) {
        buffer.extend_from_slice(piece);
        if !play(&mut session, &mut buffer, &mut effects, choice) {
            // What was decided before holds for the next connection.
            buffer.clear();
            effects = Effects::default();
            session.connect(&mut effects.out);
        }
        assert!(buffer.len() <= 2048 + 64, "the buffer is bounded");
    }
}

/// Receives until more bytes are needed; false at the end of the connection.
fn play(
    session: &mut ClientSession,
    buffer: &mut Vec<u8>,
    effects: &mut Effects,
    choice: u8,
) -> bool {
    loop {
        let (done, step) = session.receive(Time::ZERO, buffer, effects);
        buffer.drain(..done);
        assert!(effects.records.len() <= BATCH_MAX);
        for record in effects.records.drain(..) {
            assert!(!record.key.is_empty() && record.source == SourceId(7));
            if let Some(token) = record.token {
                let refused =
                    if choice & 2 == 2 { RefuseReason::Full } else { RefuseReason::NoRule };
                session.answer(token, if choice & 1 == 1 { Err(refused) } else { Ok(()) });
            }
        }
        if session.acknowledge(&mut effects.out).is_err() {
            return false;
        }
        let releases = std::mem::take(&mut effects.releases);
        session.released(&releases, &mut effects.out);
        session.forgotten(&mut effects.out);
        assert!(!session.must_wait(), "every answer is passed on");
        effects.out.clear();
        match step {
            Ok(ClientStep::Read(_)) => return true,
            Ok(ClientStep::Offer | ClientStep::Wait) => {}
            Err(_) => return false,
        }
    }
}
