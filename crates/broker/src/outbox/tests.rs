use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use tidegate_types::ids::SessionId;
use tidegate_types::record::Properties;

use super::AckOutcome::{Expected, Unknown, Wrong};
use super::queue::PLACE;
use super::*;
use crate::{Message, MessageReservation, MessageRun, Recipient, WINDOW_MAX};

const MANY: OutboxLimits = OutboxLimits { count: 100, bytes: 1 << 20 };

fn delivery(number: u32, class: u8, qos: u8, deadline: u64) -> SubscriberMessage {
    let message = Message {
        topic: Bytes::from_static(b"t"),
        payload: Bytes::copy_from_slice(&number.to_be_bytes()),
        properties: Properties::default(),
        qos,
        retain: false,
        arrived: Time::ZERO,
        expires: None,
        class: ClassId(class),
        deadline: Time::from_millis(deadline),
        source_unix_ns: None,
        meter: None,
    };
    SubscriberMessage {
        message: Arc::new(message),
        qos,
        retain: false,
        ids: None,
        charge: MessageReservation::default(),
        number: 0,
    }
}

/// A run of messages of one class, each with its QoS, and who gets it with the QoS that it has.
fn run(first: u32, class: u8, all_qos: &[u8], deadline: u64) -> (Arc<MessageRun>, Recipient) {
    let message =
        |(place, qos): (usize, &u8)| delivery(first + place as u32, class, *qos, deadline).message;
    let messages = all_qos.iter().enumerate().map(message).collect();
    (Arc::new(MessageRun::new(messages, None).unwrap()), recipient(2))
}

fn recipient(qos: u8) -> Recipient {
    Recipient { session: SessionId(1), qos, retain_as_published: false, ids: None }
}

fn outbox(bounds: OutboxLimits) -> Outbox {
    Outbox::new(bounds, &Account::new(1 << 30))
}

fn number(delivery: &SubscriberMessage) -> u32 {
    u32::from_be_bytes(delivery.message.payload[..].try_into().unwrap())
}

/// Numbers of all that goes now, and their identifiers.
fn sent(outbox: &mut Outbox, now: u64) -> Vec<(u32, Option<u16>, bool)> {
    let next = || match outbox.next(Time::from_millis(now))? {
        NextSend::Publish { delivery, id, again } => Some((number(&delivery), id, again)),
        NextSend::Release(id) => Some((u32::MAX, Some(id), true)),
    };
    std::iter::from_fn(next).collect()
}

fn numbers(outbox: &mut Outbox, now: u64) -> Vec<u32> {
    sent(outbox, now).into_iter().map(|(number, ..)| number).collect()
}

#[test]
fn the_earliest_deadline_goes_first_and_the_late_wait() {
    let mut outbox = outbox(MANY);
    outbox.connect(10);
    for (number, class, deadline) in [(1, 2, 1000), (2, 0, 50), (3, 1, 500), (4, 0, 60)] {
        outbox.push(delivery(number, class, 0, deadline));
    }
    assert_eq!(numbers(&mut outbox, 0), [2, 4, 3, 1]);
    for (number, class, deadline) in [(1, 2, 1000), (2, 0, 50), (3, 1, 80)] {
        outbox.push(delivery(number, class, 0, deadline));
    }
    assert_eq!(numbers(&mut outbox, 100), [1, 2, 3], "what can be met goes first, then by class");
}

#[test]
fn a_full_outbox_drops_what_is_least_urgent() {
    let mut outbox = outbox(OutboxLimits { count: 2, ..MANY });
    outbox.connect(10);
    outbox.push(delivery(1, 1, 0, 500));
    outbox.push(delivery(2, 2, 0, 1000));
    outbox.push(delivery(3, 0, 0, 50));
    outbox.push(delivery(4, 2, 0, 1000));
    outbox.push(delivery(5, 1, 0, 500));
    assert_eq!(numbers(&mut outbox, 0), [3, 5]);
    let drops = outbox.take_drops();
    let full = |class| drops[&(ClassId(class), OutboxDropReason::Full)];
    assert_eq!((full(2), full(1), drops.len()), (2, 1, 2));
    assert!(outbox.take_drops().is_empty());
}

#[test]
fn nobody_waits_with_quality_zero_for_who_is_away() {
    let mut outbox = outbox(MANY);
    outbox.push(delivery(1, 0, 0, 50));
    outbox.push(delivery(2, 0, 1, 50));
    outbox.connect(10);
    outbox.push(delivery(3, 0, 0, 50));
    outbox.disconnect();
    assert_eq!(outbox.take_drops()[&(ClassId(0), OutboxDropReason::Away)], 2);
    outbox.connect(10);
    assert_eq!(numbers(&mut outbox, 0), [2]);
}

#[test]
fn a_receive_maximum_holds_back_all_but_quality_zero() {
    let mut outbox = outbox(MANY);
    outbox.connect(1);
    for number in 1..=2 {
        outbox.push(delivery(number, 0, 1, 50));
    }
    outbox.push(delivery(3, 1, 0, 500));
    assert_eq!(sent(&mut outbox, 0), [(1, Some(1), false), (3, None, false)]);
    assert_eq!([2, 1, 1].map(|id| outbox.acknowledged(id)), [Unknown, Expected, Unknown]);
    assert_eq!(sent(&mut outbox, 0), [(2, Some(2), false)]);
}

#[test]
fn a_large_window_that_was_full_goes_on_when_a_part_of_it_is_free() {
    let mut outbox = outbox(OutboxLimits { count: 10_000, bytes: 1 << 24 });
    outbox.connect(WINDOW_MAX);
    (0..5000).for_each(|number| _ = outbox.push(delivery(number, 0, 1, 9)));
    assert_eq!(numbers(&mut outbox, 0).len(), 4352);
    (1..257).for_each(|id| assert_eq!(outbox.acknowledged(id), Expected));
    assert!(!outbox.has_ready(Time::ZERO) && numbers(&mut outbox, 0).is_empty());
    outbox.acknowledged(257);
    assert_eq!(numbers(&mut outbox, 0).len(), 257);
    outbox.acknowledged(258);
    outbox.disconnect();
    outbox.connect(WINDOW_MAX);
    assert_eq!(numbers(&mut outbox, 0).len(), 4352, "of which one is new");
}

#[test]
fn who_says_how_many_it_takes_has_as_many_at_any_time() {
    let mut outbox = outbox(OutboxLimits { count: 10_000, bytes: 1 << 24 });
    outbox.connect(4096);
    (0..5000).for_each(|number| _ = outbox.push(delivery(number, 0, 1, 9)));
    assert_eq!(numbers(&mut outbox, 0).len(), 4096);
    outbox.acknowledged(1);
    assert_eq!(numbers(&mut outbox, 0).len(), 1);
}

#[test]
fn a_new_connection_gets_again_what_was_not_acknowledged() {
    let mut outbox = outbox(MANY);
    outbox.connect(10);
    for number in 1..=3 {
        outbox.push(delivery(number, 0, if number == 2 { 2 } else { 1 }, 50));
    }
    assert_eq!(numbers(&mut outbox, 0), [1, 2, 3]);
    assert_eq!([2, 2].map(|id| outbox.received(id, true)), [Expected; 2], "it may come again");
    let wrong = [outbox.received(1, true), outbox.completed(1), outbox.acknowledged(2)];
    assert_eq!((wrong, outbox.completed(9)), ([Wrong; 3], Unknown));
    outbox.disconnect();
    outbox.push(delivery(4, 0, 1, 50));
    outbox.connect(1);
    assert_eq!(sent(&mut outbox, 0), [(1, Some(1), true), (u32::MAX, Some(2), true)]);
    assert_eq!([outbox.completed(2), outbox.acknowledged(1)], [Expected; 2]);
    assert_eq!(sent(&mut outbox, 0), [(3, Some(3), true)]);
    assert_eq!(outbox.acknowledged(3), Expected);
    assert_eq!(sent(&mut outbox, 0), [(4, Some(4), false)]);
}

#[test]
fn an_identifier_in_use_is_not_given_again() {
    let mut outbox = outbox(MANY);
    outbox.connect(3);
    let mut given = Vec::new();
    for number in 0..3 * u32::from(u16::MAX) {
        outbox.push(delivery(number, 0, 1, 50));
        let id = sent(&mut outbox, 0)[0].1.unwrap();
        assert!(id != 0 && !given.contains(&id), "{id}");
        given.push(id);
        // The oldest one is never acknowledged, so the circle comes round to it.
        if given.len() == 3 {
            assert_eq!(outbox.acknowledged(given.remove(1)), Expected);
        }
    }
    assert_eq!(given[0], 1);
}

#[test]
fn what_is_refused_or_too_large_is_over() {
    let mut outbox = outbox(MANY);
    outbox.connect(1);
    for number in 1..=3 {
        outbox.push(delivery(number, 0, 2, 50));
    }
    assert_eq!(numbers(&mut outbox, 0), [1]);
    assert_eq!((outbox.received(1, false), outbox.completed(1)), (Expected, Unknown));
    assert_eq!(sent(&mut outbox, 0), [(2, Some(2), false)]);
    outbox.give_up(ClassId(0), Some((2, 2)));
    assert_eq!(numbers(&mut outbox, 0), [3]);
    assert_eq!(outbox.take_drops()[&(ClassId(0), OutboxDropReason::Oversize)], 1);
}

#[test]
fn what_is_expired_is_dropped_when_its_turn_comes() {
    let mut outbox = outbox(MANY);
    outbox.connect(10);
    let mut expiring = delivery(1, 0, 1, 50);
    Arc::make_mut(&mut expiring.message).expires = Some(Time::from_millis(20));
    outbox.push(expiring);
    assert!(outbox.next(Time::from_millis(20)).is_none());
    assert_eq!(outbox.take_drops()[&(ClassId(0), OutboxDropReason::Expired)], 1);
}

#[test]
fn who_sleeps_is_told_once() {
    let mut outbox = outbox(MANY);
    outbox.connect(10);
    assert!(!outbox.push(delivery(1, 0, 0, 50)), "it is awake");
    assert_eq!(numbers(&mut outbox, 0), [1]);
    assert!(outbox.push(delivery(2, 0, 0, 50)) && !outbox.push(delivery(3, 0, 0, 50)));
    outbox.disconnect();
    assert!(!outbox.push(delivery(4, 0, 1, 50)));
}

#[test]
fn a_run_takes_one_place_and_what_it_reserves_is_free_with_its_last_message() {
    let account = Account::new(1 << 20);
    let mut outbox = Outbox::new(MANY, &account);
    outbox.connect(10);
    let (run, target) = run(1, 0, &[0, 1, 0], 50);
    let charge = MessageReservation::of(run.footprint(), &account).unwrap();
    assert_eq!(outbox.push_run(&run, &target, &charge), Some(false));
    drop(charge);
    assert_eq!((outbox.len(), outbox.places(), account.used()), (3, 1, run.footprint()));
    assert!(outbox.whole_run().is_none(), "one has an identifier");
    for number in 1..=2 {
        let sent = outbox.next(Time::ZERO).unwrap();
        assert!(
            matches!(sent, NextSend::Publish { delivery, .. } if self::number(&delivery) == number)
        );
    }
    let whole = outbox.footprint();
    assert!(whole > run.footprint() - 400, "what is gone of it still counts: {whole}");
    assert_eq!(numbers(&mut outbox, 0), [3]);
    assert_eq!(account.used(), run.footprint(), "one is not acknowledged");
    assert_eq!(outbox.acknowledged(1), Expected);
    assert_eq!((outbox.footprint(), account.used()), (0, 0));
}

#[test]
fn a_run_goes_as_it_is_where_nothing_else_waits() {
    let mut outbox = outbox(MANY);
    outbox.connect(10);
    let (plain, target) = run(1, 0, &[0, 1, 0], 50);
    let least = Recipient { qos: 0, ..target.clone() };
    outbox.push_run(&plain, &least, &MessageReservation::default()).unwrap();
    outbox.push(delivery(4, 1, 0, 500));
    assert!(outbox.whole_run().is_none(), "another class has a turn");
    assert_eq!(numbers(&mut outbox, 0), [1, 2, 3, 4]);
    outbox.push_run(&plain, &least, &MessageReservation::default()).unwrap();
    outbox.push(delivery(4, 0, 0, 50));
    assert_eq!(outbox.whole_run().map(|run| run.messages().len()), Some(3));
    outbox.take_whole_run();
    assert_eq!((outbox.len(), outbox.whole_run().is_none()), (1, true));
    assert_eq!(numbers(&mut outbox, 0), [4]);
    let told = Recipient { ids: Some([7].into()), ..least };
    outbox.push_run(&plain, &told, &MessageReservation::default()).unwrap();
    assert!(outbox.whole_run().is_none(), "it is told by which subscription");
    assert_eq!((numbers(&mut outbox, 0).len(), outbox.bytes()), (3, 0));
}

#[test]
fn a_run_that_does_not_fit_as_a_whole_is_left_to_its_messages() {
    let (run, target) = run(1, 0, &[1, 1, 1], 50);
    let none = MessageReservation::default();
    let mut small = outbox(OutboxLimits { count: 2, ..MANY });
    assert_eq!(small.push_run(&run, &target, &none), None, "who is away has no run");
    small.connect(10);
    assert_eq!((small.push_run(&run, &target, &none), small.len()), (None, 0));
    let empty = Account::new(0);
    let mut poor = Outbox::new(MANY, &empty);
    poor.connect(10);
    while poor.push_run(&run, &target, &none).is_some() {}
    assert!(poor.footprint() <= FREE && !poor.is_empty(), "{}", poor.footprint());
}

#[test]
fn messages_of_a_run_that_wait_for_their_acknowledgement_have_reserved_places() {
    for (bound, rest) in [(1 << 20, 0), (64 * PLACE, 999 - 64 - PLACES_FREE)] {
        let account = Account::new(bound);
        let mut outbox = Outbox::new(OutboxLimits { count: 5000, bytes: 1 << 20 }, &account);
        outbox.connect(u16::MAX);
        let (run, target) = run(0, 0, &[1; 999], 50);
        let held = MessageReservation::of(run.footprint(), &Account::new(1 << 20)).unwrap();
        outbox.push_run(&run, &target, &held).unwrap();
        while outbox.next(Time::ZERO).is_some() {}
        assert_eq!(outbox.in_flight(), 999 - rest);
        assert!(account.used() >= (outbox.in_flight() - PLACES_FREE) * PLACE);
        let dropped = outbox.take_drops().get(&(ClassId(0), OutboxDropReason::Full)).copied();
        assert_eq!(dropped.unwrap_or_default(), rest as u64);
    }
}

#[test]
fn who_leaves_keeps_of_a_run_what_may_wait_for_it() {
    let account = Account::new(1 << 20);
    let mut outbox = Outbox::new(MANY, &account);
    outbox.connect(1);
    let (run, target) = run(1, 0, &[0, 1, 0, 1, 1], 50);
    outbox.push_run(&run, &target, &MessageReservation::default()).unwrap();
    assert_eq!(numbers(&mut outbox, 0), [1, 2, 3]);
    outbox.disconnect();
    assert_eq!((outbox.len(), outbox.places(), outbox.in_flight()), (2, 3, 1));
    assert!(account.used() > 3 * 320, "nobody pays for it any more: {}", account.used());
    outbox.connect(10);
    assert_eq!(numbers(&mut outbox, 0), [2, 4, 5]);
    outbox.close();
    assert_eq!((outbox.footprint(), account.used()), (0, 0));
}

#[test]
fn packets_are_made_once_and_reserved_first() {
    let messages = || (1..=3).map(|number| delivery(number, 0, 0, 50).message).collect();
    let account = Account::new(100);
    let run = MessageRun::new(messages(), Some(account.clone())).unwrap();
    let made = run.packets(1, |out| {
        out.extend(b"packets");
        true
    });
    assert_eq!(made, Some(&b"packets"[..]));
    assert_eq!(run.packets(1, |_| panic!("they are made")), made);
    assert_eq!(account.used(), run.packets_max());
    assert_eq!(run.packets(0, |_| true), Some(&[][..]), "another layout");
    let one_more = MessageRun::new(messages(), Some(account.clone())).unwrap();
    assert_eq!(one_more.packets(0, |_| panic!("there is no memory")), None);
    drop(run);
    assert_eq!(account.used(), 0);
    let own = MessageRun::new(messages(), None).unwrap();
    assert_eq!(own.packets(0, |_| panic!("for one they are not kept")), None);
}

#[derive(Clone, Debug)]
enum Step {
    Push {
        class: u8,
        qos: u8,
    },
    Run {
        class: u8,
        qos: Vec<u8>,
    },
    Next,
    /// Takes a run as it is, where one may go.
    Whole,
    /// Answers the oldest publish that waits for an answer.
    Answer,
    Reconnect,
    Later(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_u8, 0..3_u8).prop_map(|(class, qos)| Step::Push { class, qos }),
        2 => (0..3_u8, prop::collection::vec(0..3_u8, 2..5))
            .prop_map(|(class, qos)| Step::Run { class, qos }),
        1 => (0..3_u8, 2..5_usize)
            .prop_map(|(class, count)| Step::Run { class, qos: vec![0; count] }),
        4 => Just(Step::Next),
        2 => Just(Step::Whole),
        3 => Just(Step::Answer),
        1 => Just(Step::Reconnect),
        1 => (1..400_u16).prop_map(Step::Later),
    ]
}

/// A subscriber that takes what it is sent.
#[derive(Default)]
struct Model {
    pushed: Vec<(u32, u8, u8)>,
    /// Publishes that wait for an answer: identifier, QoS, whether it is received.
    open: Vec<(u16, u8, bool)>,
    /// Each number that came, and how often in different publishes.
    got: Vec<u32>,
    seen: BTreeSet<u32>,
}

impl Model {
    fn take(&mut self, next: NextSend) {
        match next {
            NextSend::Release(id) => {
                assert!(self.open.iter().any(|(open, _, received)| *open == id && *received));
            }
            NextSend::Publish { delivery, id, again } => {
                let number = number(&delivery);
                assert_eq!(self.seen.insert(number), !again, "only a repeated one comes twice");
                if !again {
                    self.get(number);
                }
                match id {
                    None => assert_eq!((delivery.qos, again), (0, false)),
                    Some(id) if !again => self.open.push((id, delivery.qos, false)),
                    Some(id) => assert!(self.open.contains(&(id, delivery.qos, false))),
                }
            }
        }
    }

    fn get(&mut self, number: u32) {
        self.got.push(number);
        let class = |of: u32| self.pushed[of as usize].1;
        let before = self.got.iter().rev().skip(1);
        let last = before.copied().find(|&other| class(other) == class(number));
        assert!(last.is_none_or(|last| last < number), "a class is in order");
    }

    fn answer(&mut self, outbox: &mut Outbox) {
        if self.open.is_empty() {
            return;
        }
        let (id, qos, received) = self.open.remove(0);
        match (qos, received) {
            (1, _) => assert_eq!(outbox.acknowledged(id), Expected),
            (_, true) => assert_eq!(outbox.completed(id), Expected),
            (_, false) => {
                assert_eq!(outbox.received(id, true), Expected);
                self.open.insert(0, (id, qos, true));
            }
        }
    }
}

proptest! {
    /// Whatever happens, bounds hold, nothing comes twice as new, each class is in order, and what was
    /// pushed was sent, dropped with a reason, or still waits.
    #[test]
    fn an_outbox_keeps_its_promises(
        steps in prop::collection::vec(step(), 1..200),
        count in 1..9_usize,
        receive_maximum in 1..4_u16,
    ) {
        let account = Account::new(1 << 30);
        let mut outbox = Outbox::new(OutboxLimits { count, bytes: 1 << 20 }, &account);
        outbox.connect(receive_maximum);
        let (mut model, mut now, mut drops) = (Model::default(), 0_u64, 0);
        for step in steps {
            match step {
                Step::Push { class, qos } => {
                    let number = model.pushed.len() as u32;
                    model.pushed.push((number, class, qos));
                    outbox.push(delivery(number, class, qos, now + 50 * u64::from(class + 1)));
                }
                Step::Run { class, qos: all_qos } => {
                    let first = model.pushed.len() as u32;
                    let numbers = (first..).zip(&all_qos);
                    model.pushed.extend(numbers.map(|(number, qos)| (number, class, *qos)));
                    let deadline = now + 50 * u64::from(class + 1);
                    let (run, target) = run(first, class, &all_qos, deadline);
                    if outbox.push_run(&run, &target, &MessageReservation::default()).is_none() {
                        for (number, qos) in (first..).zip(&all_qos) {
                            outbox.push(delivery(number, class, *qos, deadline));
                        }
                    }
                }
                Step::Whole => {
                    if let Some(run) = outbox.whole_run().cloned() {
                        outbox.take_whole_run();
                        for message in run.messages() {
                            let number = u32::from_be_bytes(message.payload[..].try_into().unwrap());
                            prop_assert!(model.seen.insert(number), "only a repeated one comes twice");
                            model.get(number);
                        }
                    }
                }
                Step::Next => {
                    if let Some(next) = outbox.next(Time::from_millis(now)) {
                        model.take(next);
                    }
                }
                Step::Answer => model.answer(&mut outbox),
                Step::Reconnect => {
                    outbox.disconnect();
                    outbox.connect(receive_maximum);
                }
                Step::Later(millis) => now += u64::from(millis),
            }
            drops += outbox.take_drops().values().sum::<u64>() as usize;
            prop_assert!(outbox.len() <= count);
            prop_assert!(outbox.in_flight() <= usize::from(receive_maximum));
            prop_assert_eq!(model.pushed.len(), model.got.len() + drops + outbox.len());
        }
        // In the end all of it comes.
        while !outbox.is_empty() || !model.open.is_empty() {
            while let Some(next) = outbox.next(Time::from_millis(now)) {
                model.take(next);
            }
            model.answer(&mut outbox);
        }
        prop_assert_eq!(outbox.in_flight(), 0);
        prop_assert!(outbox.next(Time::from_millis(now)).is_none());
        prop_assert_eq!((outbox.bytes(), outbox.footprint(), account.used()), (0, 0, 0));
    }
}
