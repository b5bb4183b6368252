use crate::journal::Flight;
use tidegate_types::record::Properties;
use tidegate_types::units::Time;

use super::*;

const BIG: usize = 1000;

fn session(number: u32) -> Note {
    Note::Session(Box::new(SessionNote {
        session: SessionId(number),
        client: format!("client-{number}").into(),
        user: None,
        payer: "at 10.0.0.1".into(),
        expiry: 60,
        ends: 0,
        will: None,
    }))
}

fn message(number: u64, class: u8, waiters: &[(u32, u8)]) -> MessageNote {
    let waiter = |&(session, qos): &(u32, u8)| Waiter {
        session: SessionId(session),
        qos,
        retain: false,
        ids: None,
    };
    MessageNote {
        number,
        message: Arc::new(Message {
            topic: format!("t/{number}").into(),
            payload: vec![0; BIG].into(),
            properties: Properties::default(),
            qos: 2,
            retain: false,
            arrived: Time::ZERO,
            expires: None,
            class: ClassId(class),
            deadline: Time::ZERO,
            source_unix_ns: None,
            meter: None,
        }),
        expires: None,
        is_retained: false,
        waiters: waiters.iter().map(waiter).collect(),
        packet: None,
        will_of: None,
    }
}

fn note(message: MessageNote) -> Note {
    Note::Message(Box::new(message))
}

/// Of two sessions.
fn ledger(bounds: LedgerBounds) -> SessionLedger {
    let mut ledger = SessionLedger::new(bounds);
    for number in [1, 2] {
        ledger.apply(&session(number));
    }
    ledger
}

fn waits(ledger: &SessionLedger, session: u32) -> Vec<u64> {
    (1..100).filter(|number| ledger.sessions[&SessionId(session)].waits_for(*number)).collect()
}

#[test]
fn a_session_that_has_a_message_by_two_subscriptions_holds_it_once() {
    let mut ledger = ledger(LedgerBounds::default());
    ledger.apply(&note(message(1, 0, &[(1, 1), (1, 2), (2, 1)])));
    assert_eq!((ledger.entries, ledger.held().0), (2, 1));
    assert_eq!(ledger.pull(SessionId(1), usize::MAX)[0].waiter.qos, 2, "the larger one");
    ledger.apply(&Note::Done(SessionId(1), vec![1]));
    assert_eq!((ledger.sessions[&SessionId(1)].bytes(), waits(&ledger, 2)), (0, vec![1]));
    ledger.apply(&Note::Done(SessionId(2), vec![1]));
    assert_eq!((ledger.held(), ledger.entries), ((0, 0), 0), "nobody needs it");
}

#[test]
fn the_oldest_of_the_least_urgent_class_makes_room_and_a_start_drops_nothing_again() {
    let bounds = LedgerBounds { session: 4 * BIG as u64, ..LedgerBounds::default() };
    let notes = [(1, 1), (2, 0), (3, 1), (4, 0)].map(|(number, class)| {
        let one = message(number, class, &[(1, 1)]);
        (number, note(one))
    });
    let mut written = ledger(bounds);
    let dropped: Vec<_> = notes.iter().flat_map(|(_, note)| written.apply(note).dropped).collect();
    assert_eq!(dropped, [(SessionId(1), 1, ClassId(1))]);
    assert_eq!(waits(&written, 1), [2, 3, 4]);
    let mut read = ledger(bounds);
    for (number, note) in &notes {
        let place = NotePlace { segment: 1, offset: *number as u32, length: 1 };
        assert_eq!(read.apply_message(note, Some(place)).dropped, [], "as it was written");
    }
    read.apply_message(&Note::Done(SessionId(1), vec![1]), None);
    read.loaded();
    assert_eq!((waits(&read, 1), read.entries), (vec![2, 3, 4], 3));
    // One that is larger than all that a session may have drops nothing else.
    let huge =
        Message { payload: vec![0; 5 * BIG].into(), ..Message::clone(&message(5, 0, &[]).message) };
    let huge = MessageNote { message: Arc::new(huge), ..message(5, 0, &[(1, 1)]) };
    assert_eq!(written.apply(&note(huge)).dropped, [(SessionId(1), 5, ClassId(0))]);
    assert_eq!(waits(&written, 1), [2, 3, 4]);
}

#[test]
fn where_all_is_full_who_has_most_makes_room_and_who_keeps_up_loses_nothing() {
    let bounds = LedgerBounds { all: 4 * BIG as u64, ..LedgerBounds::default() };
    let mut ledger = ledger(bounds);
    for number in 1..=3 {
        assert_eq!(ledger.apply(&note(message(number, 0, &[(1, 1)]))).dropped, []);
    }
    for number in 4..=6 {
        let dropped = ledger.apply(&note(message(number, 0, &[(2, 1)]))).dropped;
        assert_eq!(dropped, [(SessionId(1), number - 3, ClassId(0))]);
        // It keeps up: its outbox takes what comes.
        assert_eq!(ledger.pull(SessionId(2), usize::MAX).len(), 1);
    }
    assert_eq!((waits(&ledger, 1), waits(&ledger, 2)), (vec![], vec![4, 5, 6]));
    assert!(ledger.held().1 <= bounds.all);
}

#[test]
fn what_is_under_way_is_not_dropped_and_what_is_retained_ends_with_its_time() {
    let bounds = LedgerBounds { session: 3 * BIG as u64, ..LedgerBounds::default() };
    let mut ledger = ledger(bounds);
    ledger.apply(&note(message(1, 0, &[(1, 2)])));
    ledger
        .apply(&Note::Flights(SessionId(1), vec![Flight { number: 1, id: 7, is_received: true }]));
    ledger.loaded();
    for number in 2..=4 {
        ledger.apply(&note(message(number, 0, &[(1, 1)])));
    }
    assert_eq!(waits(&ledger, 1), [1, 4]);
    let kept = MessageNote { is_retained: true, expires: Some(10), ..message(9, 0, &[]) };
    ledger.apply(&note(kept));
    assert!(ledger.retained_over(9).is_empty());
    let over = ledger.retained_over(10);
    assert_eq!(over, ["t/9"]);
    ledger.apply(&Note::Unretained(over[0].clone()));
    assert!(ledger.retained_over(u64::MAX).is_empty() && !ledger.is_retained(9));
}
