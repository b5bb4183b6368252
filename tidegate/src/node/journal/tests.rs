use std::future::poll_fn;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_broker::journal::{Flight, MessageNote, Note, SessionNote, Waiter, WillNote};
use tidegate_broker::{LedgerBounds, Message, SubscribeOptions, Subscription};
use tidegate_types::class::ClassId;
use tidegate_types::ids::SessionId;
use tidegate_types::record::{Offered, Properties, SourceId};
use tidegate_types::units::Time;
use tokio::sync::mpsc;

use super::start::{JournalOptions, Opened, TRIES, open_on, patiently};
use super::store::Store;
use super::{COST, HANGING, Journal, PENDING_MAX, Pending, REPEATED_MAX};
use crate::node::broker::Hub;
use crate::node::contract::{Arrival, Clock, Intake};
use crate::node::door::{Door, From, Plain};
use crate::support::disk::model::Memory;

const SEGMENT: u64 = 6000;

fn begin(disk: &Memory, young: u64) -> (Arc<Journal>, Store) {
    let opened = open(disk, young);
    (opened.journal.clone(), opened.load_now())
}

fn open(disk: &Memory, young: u64) -> Opened {
    let options = JournalOptions {
        directory: "/log".into(),
        keys: Vec::new(),
        node: "gate".into(),
        incarnation: 1,
        boot: 1,
        segment: SEGMENT,
        bounds: LedgerBounds { young, ..LedgerBounds::default() },
    };
    open_on(Arc::new(disk.clone()), &options).unwrap()
}

fn session(journal: &Journal, number: u32) {
    journal.write(&Note::Session(Box::new(note_of(SessionId(number)))));
}

fn note_of(session: SessionId) -> SessionNote {
    SessionNote {
        session,
        client: format!("client-{}", session.0).into(),
        user: None,
        payer: "nobody".into(),
        expiry: 60,
        ends: 0,
        will: None,
    }
}

/// A message of so many bytes.
fn message(number: u64, bytes: usize) -> MessageNote {
    MessageNote {
        number,
        message: Arc::new(Message {
            topic: "t".into(),
            payload: vec![number as u8; bytes].into(),
            properties: Properties::default(),
            qos: 1,
            retain: false,
            arrived: Time::ZERO,
            expires: None,
            class: ClassId(0),
            deadline: Time::ZERO,
            source_unix_ns: None,
            meter: None,
        }),
        expires: None,
        is_retained: false,
        waiters: Vec::new(),
        packet: None,
        will_of: None,
    }
}

/// The same, for the first sessions, so many of them.
fn publish(journal: &Journal, bytes: usize, sessions: u32) -> u64 {
    let mut pen = journal.pen();
    let number = pen.number();
    let waiter = |session| Waiter { session: SessionId(session), qos: 1, retain: false, ids: None };
    let waiters = (1..=sessions).map(waiter).collect();
    pen.write(&Note::Message(Box::new(MessageNote { waiters, ..message(number, bytes) })));
    pen.urge();
    number
}

fn done(journal: &Journal, numbers: impl Iterator<Item = u64>) {
    journal.write(&Note::Done(SessionId(1), numbers.collect()));
}

/// Steps until nothing is left to do.
fn settle(store: &mut Store) {
    let all = 2000;
    let steps = (0..all).take_while(|_| store.step()).count();
    assert!(steps < all, "it never rests");
}

fn segments(disk: &Memory, kind: &str) -> usize {
    let files = disk.files(Path::new("/log/sessions"));
    files.iter().filter(|path| path.extension().is_some_and(|name| name == kind)).count()
}

#[test]
fn messages_that_many_wait_for_are_not_written_again_without_end() {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, 0);
    (1..=300).for_each(|number| session(&journal, number));
    // Who waits takes fifty times the bytes of the message.
    disk.cut_after(20_000);
    for _ in 0..60 {
        publish(&journal, 20, 300);
        settle(&mut store);
    }
    assert!(!disk.is_off(), "20,000 calls for 60 messages");
    let held = journal.read(|ledger| ledger.held().0);
    assert_eq!(held, 60);
}

#[test]
fn a_message_in_a_damaged_segment_is_given_up_and_the_segment_put_aside() {
    // Where it is still young it is written again from memory.
    for (young, left) in [(0, 7), (1 << 20, 8)] {
        let (_, journal, numbers) = one_is_damaged(young, None);
        let waits = journal.read(|ledger| {
            let kept = ledger.session(SessionId(1)).unwrap();
            numbers.iter().filter(|one| kept.waits_for(**one)).count()
        });
        assert_eq!(waits, left, "of {numbers:?}");
    }
}

#[test]
fn a_delivery_under_way_whose_message_is_given_up_keeps_its_identifier_until_it_is_released() {
    let (disk, journal, numbers) = one_is_damaged(0, Some(7));
    let flights = |journal: &Journal| {
        let pulled = journal.change(|ledger| ledger.pull_flights(SessionId(1)));
        pulled.into_iter().map(|one| (one.number, one.flight)).collect::<Vec<_>>()
    };
    let released = [(numbers[3], Some((7, true)))];
    assert_eq!(flights(&journal), released);
    let (journal, mut store) = begin(&disk, 0);
    assert_eq!(flights(&journal), released, "the next process knows it too");
    done(&journal, std::iter::once(numbers[3]));
    settle(&mut store);
    assert_eq!(flights(&begin(&disk, 0).0), []);
}

/// One of eight messages that wait is damaged, perhaps one that is under way by this identifier.
fn one_is_damaged(young: u64, id: Option<u16>) -> (Memory, Arc<Journal>, Vec<u64>) {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, young);
    session(&journal, 1);
    settle(&mut store);
    let numbers: Vec<u64> = (0..8).map(|_| publish(&journal, 500, 1)).collect();
    if let Some(id) = id {
        let flight = Flight { number: numbers[3], id, is_received: false };
        journal.write(&Note::Flights(SessionId(1), vec![flight]));
    }
    settle(&mut store);
    let payload = vec![numbers[3] as u8; 500];
    let files = disk.files(Path::new("/log/sessions"));
    let found = files.iter().find_map(|path| {
        let content = disk.content(path);
        let at = content.windows(500).position(|part| part == payload)?;
        Some((path, content, at))
    });
    let (path, mut content, at) = found.expect("it is on disk");
    content[at + 100] ^= 1;
    disk.rot(path, Some(content));
    let segment = path.file_stem().and_then(|name| name.to_str()?.parse().ok()).unwrap();
    // What is published and done with behind it makes old segments go.
    for _ in 0..80 {
        let number = publish(&journal, 500, 1);
        done(&journal, std::iter::once(number));
        settle(&mut store);
    }
    assert_eq!(journal.read(|ledger| ledger.held_of(segment)), (0, 0));
    assert_eq!(segments(&disk, "damaged"), 1);
    (disk, journal, numbers)
}

#[test]
fn a_newer_retained_message_outlives_a_start_that_has_only_read_the_older_one() {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, 0);
    let older = MessageNote { is_retained: true, expires: Some(1), ..message(1, 10) };
    let newer = MessageNote { is_retained: true, ..message(2, 10) };
    for note in [&older, &newer] {
        journal.write(&Note::Message(Box::new(note.clone())));
    }
    settle(&mut store);
    let mut opened = open(&disk, 0);
    let older = Note::Message(Box::new(older));
    opened.journal.change(|ledger| ledger.apply_message(&older, None));
    opened.step();
    let (journal, _) = begin(&disk, 0);
    assert!(journal.read(|ledger| ledger.is_retained(2)));
}

#[test]
fn an_error_of_the_disk_that_passes_gives_no_message_up_and_one_that_stays_ends() {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, 0);
    session(&journal, 1);
    let number = publish(&journal, 500, 1);
    settle(&mut store);
    let place = journal.read(|ledger| ledger.find(number)).unwrap().unwrap_err();
    disk.fail_reads(u32::MAX);
    assert!(journal.fetch(number, place).is_err());
    disk.fail_reads(0);
    assert!(journal.fetch(number, place).unwrap().is_some());
    let of = place.unwrap().segment;
    let segment = journal.lock().segments[&of].clone();
    let read = |fails| {
        disk.fail_reads(fails);
        patiently(&journal, &segment, (of, 20_000), Duration::ZERO).unwrap().len()
    };
    assert!(read(TRIES - 1) > 0, "it passed at the last try");
    assert!(read(TRIES) > 0, "all pieces could be read");
    assert_eq!(read(u32::MAX), 0, "nothing could be read, and that has an end");
}

#[test]
fn what_clients_do_while_the_disk_fails_waits_within_a_bound() {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, 0);
    session(&journal, 1);
    let number = publish(&journal, 500, 1);
    settle(&mut store);
    disk.fail_syncs(u32::MAX);
    let subscribe = |text: &str| {
        let options = SubscribeOptions::default();
        journal.write(&Note::Subscribed(SessionId(1), text.into(), options))
    };
    let mut mark = subscribe("first");
    store.step();
    assert!(journal.is_failing() && !journal.is_safe(mark));
    for _ in 0..100_000 {
        journal.write(&Note::Unsubscribed(SessionId(1), "a/b".into()));
        mark = subscribe("a/b");
    }
    done(&journal, std::iter::once(number));
    let memory: usize = journal.lock().pending.iter().map(Pending::cost).sum();
    assert!(memory < 2 * REPEATED_MAX, "{memory} bytes");
    disk.fail_syncs(0);
    settle(&mut store);
    assert!(journal.is_safe(mark));
    let (journal, _) = begin(&disk, 0);
    journal.read(|ledger| {
        let kept = ledger.session(SessionId(1)).unwrap();
        let texts: Vec<&str> = kept.subscriptions.keys().map(|text| &**text).collect();
        assert_eq!((texts, kept.waiting()), (vec!["a/b", "first"], 0));
    });
}

#[test]
fn of_more_than_a_full_disk_has_room_for_as_much_as_fits_is_safe() {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, 0);
    session(&journal, 1);
    settle(&mut store);
    disk.fill(Some(100_000));
    let marks = (0..100).map(|_| {
        publish(&journal, 10_000, 1);
        journal.pen().mark()
    });
    let marks: Vec<u64> = marks.collect();
    (0..50).for_each(|_| _ = store.step());
    let is_safe: Vec<bool> = marks.iter().map(|mark| journal.is_safe(*mark)).collect();
    let safe = is_safe.iter().filter(|is_safe| **is_safe).count();
    assert!((5..50).contains(&safe), "{safe} of a tenth that fits, and what the reserve gave");
    assert!(is_safe.is_sorted_by_key(|is_safe| !is_safe), "the first ones");
    disk.fill(None);
    settle(&mut store);
    assert!(marks.iter().all(|mark| journal.is_safe(*mark)));
    let (journal, _) = begin(&disk, 0);
    assert_eq!(journal.read(|ledger| ledger.held().0), marks.len(), "each once");
}

/// What a session has sent with QoS 2, and its will.
fn send(journal: &Journal, packet: Option<(SessionId, u16)>, will_of: Option<SessionId>) -> u64 {
    let mut pen = journal.pen();
    let waiters = vec![Waiter { session: SessionId(1), qos: 1, retain: false, ids: None }];
    let note = MessageNote { waiters, packet, will_of, ..message(pen.number(), 3000) };
    pen.write(&Note::Message(Box::new(note)));
    pen.urge()
}

#[test]
fn a_part_that_fits_says_nothing_of_a_packet_or_a_will_whose_message_does_not() {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, 0);
    session(&journal, 1);
    let message = message(0, 10).message;
    let will = Some(WillNote { message, ttl: None, delay: 0, due: 0 });
    let sender = SessionNote { will, ..note_of(SessionId(2)) };
    journal.write(&Note::Session(Box::new(sender)));
    settle(&mut store);
    disk.fill(Some(30_000));
    (0..20).for_each(|_| _ = publish(&journal, 3000, 1));
    let sender = SessionId(2);
    let marks = [send(&journal, Some((sender, 7)), None), send(&journal, None, Some(sender))];
    (0..20).for_each(|_| _ = publish(&journal, 3000, 1));
    for _ in 0..50 {
        store.step();
        // As after a kill: what is on the disk now must not know more than it has.
        let copy = disk.copy();
        let (again, _) = begin(&copy, 0);
        let count = again.read(|ledger| ledger.held().0);
        let (packets, will) = again.read(|ledger| {
            let kept = ledger.session(sender).unwrap();
            (kept.packets.len(), kept.note.will.is_some())
        });
        assert!(packets == 0 || count >= 21, "{count} messages, and the packet is known");
        assert!(will || count >= 22, "{count} messages, and the will is gone");
    }
    disk.fill(None);
    settle(&mut store);
    assert!(marks.iter().all(|mark| journal.is_safe(*mark)));
    let (journal, _) = begin(&disk, 0);
    journal.read(|ledger| {
        let kept = ledger.session(sender).unwrap();
        assert!(kept.packets.contains(&7) && kept.note.will.is_none());
        assert_eq!(ledger.held().0, 42);
    });
}

#[test]
fn what_clients_do_while_the_disk_hangs_waits_within_a_bound() {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, 0);
    journal.lock().repeated_max = 1000;
    session(&journal, 1);
    settle(&mut store);
    // The store takes nothing now, and no error says so.
    session(&journal, 2);
    let number = publish(&journal, 500, 2);
    let subscribe = |text: String| {
        let options = SubscribeOptions::default();
        journal.write(&Note::Subscribed(SessionId(1), text.into(), options));
    };
    let times = 3 * HANGING * 1000 / COST;
    (0..times).for_each(|number| subscribe(number.to_string()));
    let memory: usize = journal.lock().pending.iter().map(Pending::cost).sum();
    assert!(memory < (HANGING + 1) * 1000 + 700, "{memory} bytes");
    settle(&mut store);
    let (journal, _) = begin(&disk, 0);
    journal.read(|ledger| {
        assert_eq!(ledger.session(SessionId(1)).unwrap().subscriptions.len(), times);
        assert!(ledger.session(SessionId(2)).unwrap().waits_for(number), "its session is known");
    });
}

#[test]
fn what_was_left_out_is_written_when_the_disk_is_well_again_though_nothing_else_is() {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, 0);
    journal.lock().repeated_max = 1000;
    session(&journal, 1);
    settle(&mut store);
    let note = Note::Subscribed(SessionId(1), "a".into(), SubscribeOptions::default());
    let mut mark = journal.write(&note);
    while !journal.lock().pending.is_empty() {
        mark = journal.write(&note);
    }
    settle(&mut store);
    assert!(journal.is_safe(mark));
}

#[test]
fn an_old_segment_that_cannot_be_read_is_tried_ten_times_and_then_given_up() {
    let disk = Memory::default();
    let (journal, mut store) = begin(&disk, 0);
    session(&journal, 1);
    settle(&mut store);
    let numbers: Vec<u64> = (0..8).map(|_| publish(&journal, 500, 1)).collect();
    settle(&mut store);
    let waiting = || {
        journal.read(|ledger| {
            let kept = ledger.session(SessionId(1)).unwrap();
            numbers.iter().filter(|one| kept.waits_for(**one)).count()
        })
    };
    disk.fail_reads(u32::MAX);
    let mut failed = 0;
    loop {
        // As if a minute had gone by. What is published and done with behind it makes the old segment go.
        store.later = 0;
        let number = publish(&journal, 500, 1);
        done(&journal, std::iter::once(number));
        settle(&mut store);
        if segments(&disk, "damaged") > 0 {
            break;
        }
        assert_eq!(waiting(), 8, "after {failed} tries");
        failed += usize::from(store.later > 0);
        assert!(failed < 10, "it is never given up");
    }
    assert_eq!(failed, 9);
    assert!(waiting() < 8);
}

#[test]
fn a_subscription_that_says_what_is_known_writes_nothing() {
    let (journal, _store) = begin(&Memory::default(), 0);
    let hub = Hub::default();
    hub.set_journal(journal.clone());
    let subscriber = hub.subscriber(&hub.anybody());
    subscriber.endure(note_of(subscriber.id()), true);
    let before = journal.pen().mark();
    let notes = [1, 1, 2, 2, 1].map(|qos| {
        let options = SubscribeOptions { qos, ..SubscribeOptions::default() };
        let filter = Subscription::new("a/#").unwrap();
        hub.subscribe(&subscriber, filter, options, |_| true).unwrap();
        journal.pen().mark() - before
    });
    assert_eq!(notes, [1, 1, 2, 2, 3]);
    assert_eq!(subscriber.seat().mark(), before + 3);
}

/// Whether something is still to come.
async fn waits(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn links_and_replay_wait_at_the_door_for_the_journal_and_a_will_for_its_reading_only() {
    let disk = Memory::default();
    let opened = open(&disk, 0);
    let journal = opened.journal.clone();
    let hub = Hub::default();
    hub.set_journal(journal.clone());
    let (sender, mut arrivals) = mpsc::channel(16);
    let intake = Intake::with(sender, Clock::start(), hub.clone());
    let answer = async {
        let Some(Arrival::Open { reply, .. }) = arrivals.recv().await else { panic!("it opens") };
        reply.send(SourceId(0)).unwrap();
    };
    let (source, ()) = tokio::join!(intake.open("s".into()), answer);
    let source = source.unwrap();
    let record = Offered {
        source: SourceId(0),
        token: None,
        key: "t".into(),
        properties: Properties::default(),
        payload: "x".into(),
        read_at: Time::ZERO,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    };
    let (mut of_link, mut of_replay, mut of_will) =
        (vec![record.clone()], vec![record.clone()], vec![record]);
    let mut doors = [(); 3].map(|()| Door::new(&hub));
    let [link, replay, will] = &mut doors;
    let (mut one, mut two, mut three) = (Plain::new(1), Plain::new(1), Plain::new(1));
    let mut link = pin!(link.admit(&source, From::Node("far"), &mut of_link, &mut one));
    let mut replay = pin!(replay.admit(&source, From::Outside, &mut of_replay, &mut two));
    let mut will = pin!(will.let_in(&source, From::Outside, &mut of_will, &mut three));
    assert!(waits(link.as_mut()).await && waits(replay.as_mut()).await, "it is still read");
    assert!(waits(will.as_mut()).await, "it is still read");
    let mut store = opened.load_now();
    // More than may wait for the disk.
    let large = 1 << 20;
    (0..=PENDING_MAX / large).for_each(|_| _ = publish(&journal, large, 0));
    assert!(!waits(will.as_mut()).await, "it holds its client's name");
    assert!(waits(link.as_mut()).await && waits(replay.as_mut()).await, "the disk is behind");
    settle(&mut store);
    assert!(!waits(link.as_mut()).await && !waits(replay.as_mut()).await);
}
