//! The journal of sessions, all of it the shipped code, on a disk that loses what is not synced, fails syncs and fills
//! up. One thread steps it, so a seed repeats.
//!
//! What must hold after each end of a process: what was safe is there, what was undone and safe is not, and each message
//! that somebody waits for can be read.
//!
//! `TIDEGATE_SEEDS=100000 cargo test -p tidegate --lib node::journal::trial::` plays more worlds.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_broker::journal::{MessageNote, Note, SessionNote, Waiter};
use tidegate_broker::{LedgerBounds, Message, SubscribeOptions};
use tidegate_types::class::ClassId;
use tidegate_types::ids::SessionId;
use tidegate_types::random::SplitMix;
use tidegate_types::record::Properties;
use tidegate_types::units::Time;

use super::Journal;
use super::start::{JournalOptions, open_on};
use super::store::Store;
use crate::support::disk::model::Memory;

/// Worlds in a plain `cargo test`.
const SEEDS: u64 = 150;
const STEPS: usize = 250;

/// Whether something is there, as it was said last, and the mark of that.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    is_there: bool,
    mark: u64,
}

impl Said {
    /// Whether it must be, or must not be; `None` where nobody knows.
    fn must(self, safe: u64) -> Option<bool> {
        if self.mark <= safe { Some(self.is_there) } else { None }
    }
}

type Model<K> = BTreeMap<K, Said>;

fn say<K: Ord>(model: &mut Model<K>, key: K, is_there: bool, mark: u64) {
    let said = model.entry(key).or_default();
    (said.is_there, said.mark) = (is_there, mark);
}

struct World {
    random: SplitMix,
    disk: Memory,
    boots: u64,
    options: JournalOptions,
    journal: Arc<Journal>,
    store: Store,
    sessions: Model<SessionId>,
    subscriptions: Model<(SessionId, String)>,
    waiting: Model<(SessionId, u64)>,
    /// By topic: the number of what is retained.
    retained: BTreeMap<Bytes, (Option<u64>, u64)>,
    cuts: u64,
}

fn payload(number: u64) -> Bytes {
    format!("{number}-{}", "x".repeat((number % 700) as usize)).into()
}

fn begin(disk: &Memory, options: &JournalOptions) -> Option<(Arc<Journal>, Store)> {
    let opened = open_on(Arc::new(disk.clone()), options).ok()?;
    let journal = opened.journal.clone();
    let mut store = opened.load_now();
    // Several times a segment.
    store.copy = 1_000;
    journal.lock().repeated_max = 600;
    Some((journal, store))
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = SplitMix(seed);
        let options = JournalOptions {
            directory: "/log".into(),
            keys: if seed.is_multiple_of(3) {
                vec![tidegate_log::Key::new(&[7; 32])]
            } else {
                Vec::new()
            },
            node: "gate".into(),
            incarnation: 1,
            boot: 1,
            segment: [6_000, 9_000, 40_000][random.below(3)],
            bounds: LedgerBounds { young: 2_000, ..LedgerBounds::default() },
        };
        let disk = Memory::default();
        let (journal, store) = begin(&disk, &options).expect("an empty disk");
        World {
            random,
            disk,
            boots: 1,
            options,
            journal,
            store,
            sessions: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            waiting: BTreeMap::new(),
            retained: BTreeMap::new(),
            cuts: 0,
        }
    }

    fn write(&mut self, note: &Note) -> u64 {
        self.journal.write(note)
    }

    fn some_session(&mut self) -> Option<SessionId> {
        let all: Vec<SessionId> =
            self.journal.read(|ledger| ledger.sessions().map(|kept| kept.note.session).collect());
        (!all.is_empty()).then(|| all[self.random.below(all.len())])
    }

    fn step(&mut self) {
        match self.random.below(24) {
            0..=1 => self.connect(),
            2..=3 => self.subscribe(),
            4..=9 => self.publish(),
            10..=14 => self.done(),
            15 => self.end(),
            16 => {
                let calls = self.random.below(12) as u64;
                self.disk.cut_after(1 + calls);
            }
            17 if self.random.one_in(3) => self.disk.fail_syncs(1),
            18 if self.random.one_in(3) => {
                let free = self.random.below(9_000);
                let is_full = self.random.one_in(2);
                self.disk.fill(is_full.then_some(free));
            }
            _ => {
                self.store.step();
            }
        }
    }

    fn connect(&mut self) {
        let session = SessionId(self.journal.read(|ledger| ledger.next_session()));
        let note = SessionNote {
            session,
            client: format!("client-{}", session.0).into(),
            user: None,
            payer: "nobody".into(),
            expiry: 60,
            ends: 0,
            will: None,
        };
        let mark = self.write(&Note::Session(Box::new(note)));
        say(&mut self.sessions, session, true, mark);
    }

    fn subscribe(&mut self) {
        let Some(session) = self.some_session() else { return };
        let text = format!("topic/{}", self.random.below(3));
        let is_there = self.random.one_in(2);
        let note = match is_there {
            true => Note::Subscribed(session, text.as_str().into(), SubscribeOptions::default()),
            false => Note::Unsubscribed(session, text.as_str().into()),
        };
        let mark = self.write(&note);
        say(&mut self.subscriptions, (session, text), is_there, mark);
    }

    fn publish(&mut self) {
        let all: Vec<SessionId> =
            self.journal.read(|ledger| ledger.sessions().map(|kept| kept.note.session).collect());
        let waiters: Vec<SessionId> =
            all.into_iter().filter(|_| self.random.one_in(2)).take(5).collect();
        let topic: Bytes = format!("topic/{}", self.random.below(4)).into();
        let is_retained = self.random.one_in(4);
        if waiters.is_empty() && !is_retained {
            return;
        }
        let journal = self.journal.clone();
        let mut pen = journal.pen();
        let number = pen.number();
        let message = Message {
            topic: topic.clone(),
            payload: payload(number),
            properties: Properties::default(),
            qos: 1,
            retain: is_retained,
            arrived: Time::ZERO,
            expires: None,
            class: ClassId(0),
            deadline: Time::ZERO,
            source_unix_ns: None,
            meter: None,
        };
        let waiter =
            |session: &SessionId| Waiter { session: *session, qos: 1, retain: false, ids: None };
        pen.write(&Note::Message(Box::new(MessageNote {
            number,
            message: message.into(),
            expires: None,
            is_retained,
            waiters: waiters.iter().map(waiter).collect(),
            packet: None,
            will_of: None,
        })));
        // A client may be told of it only later, by a mark of something else.
        let mark = pen.mark();
        if !self.random.one_in(4) {
            pen.urge();
        }
        for session in waiters {
            say(&mut self.waiting, (session, number), true, mark);
        }
        if is_retained {
            self.retained.insert(topic, (Some(number), mark));
        }
    }

    fn done(&mut self) {
        let Some(session) = self.some_session() else { return };
        let numbers: Vec<u64> = self
            .waiting
            .iter()
            .filter(|((of, _), said)| *of == session && said.is_there)
            .map(|((_, number), _)| *number)
            .take(1 + self.random.below(4))
            .collect();
        if numbers.is_empty() {
            return;
        }
        // As a subscriber's acknowledgement: nobody waits for it.
        let journal = self.journal.clone();
        let mut pen = journal.pen();
        pen.write(&Note::Done(session, numbers.clone()));
        let is_urgent = self.random.one_in(2);
        let mark = if is_urgent { pen.urge() } else { u64::MAX };
        for number in numbers {
            say(&mut self.waiting, (session, number), false, mark);
        }
    }

    fn end(&mut self) {
        if !self.random.one_in(3) {
            return;
        }
        let Some(session) = self.some_session() else { return };
        let mark = self.write(&Note::Over(session));
        say(&mut self.sessions, session, false, mark);
        for (_, said) in self.waiting.iter_mut().filter(|((of, _), _)| *of == session) {
            (said.is_there, said.mark) = (false, mark);
        }
        for (_, said) in self.subscriptions.iter_mut().filter(|((of, _), _)| *of == session) {
            (said.is_there, said.mark) = (false, mark);
        }
    }

    fn restart(&mut self) {
        let safe = *self.journal.safe.borrow();
        let is_cut = self.disk.is_off() || !self.random.one_in(3);
        self.cuts += u64::from(is_cut);
        self.disk.fail_syncs(0);
        self.disk.restart(&mut self.random, is_cut);
        self.disk.fill(None);
        self.boots += 1;
        self.options.boot = self.boots;
        (self.journal, self.store) = loop {
            // One that is cut off while it begins changes nothing.
            if let Some(begun) = begin(&self.disk, &self.options) {
                break begun;
            }
            self.disk.restart(&mut self.random, true);
        };
        self.check(safe);
        self.learn();
    }

    /// What was safe is there, and nothing else that is known to be gone.
    fn check(&self, safe: u64) {
        self.journal.read(|ledger| {
            for (session, said) in &self.sessions {
                if let Some(must) = said.must(safe) {
                    assert_eq!(ledger.session(*session).is_some(), must, "{session:?} {said:?}");
                }
            }
            for ((session, text), said) in &self.subscriptions {
                let kept = ledger.session(*session);
                let is_there =
                    kept.is_some_and(|kept| kept.subscriptions.contains_key(text.as_str()));
                if let Some(must) = said.must(safe) {
                    assert_eq!(is_there, must, "{session:?} {text} {said:?} {safe}");
                }
            }
            for ((session, number), said) in &self.waiting {
                let is_there = ledger.session(*session).is_some_and(|kept| kept.waits_for(*number));
                if let Some(must) = said.must(safe) {
                    assert_eq!(is_there, must, "{session:?} {number} {said:?} {safe}");
                }
                assert!(!is_there || ledger.find(*number).is_some());
            }
            for (topic, (number, mark)) in &self.retained {
                if let Some(number) = number.filter(|_| *mark <= safe) {
                    assert!(ledger.is_retained(number), "{topic:?}: {number}");
                }
            }
        });
        self.check_messages();
    }

    /// Each message that somebody waits for can be read.
    fn check_messages(&self) {
        for (_, number) in self.waiting.keys() {
            match self.journal.read(|ledger| ledger.find(*number)) {
                Some(Err(place)) => {
                    let note = self.journal.fetch(*number, place).expect("a disk that reads");
                    let note = note.unwrap_or_else(|| panic!("{number} at {place:?}"));
                    assert_eq!(note.message.payload, payload(*number));
                }
                Some(Ok(message)) => assert_eq!(message.payload, payload(*number)),
                None => {}
            }
        }
    }

    /// What is there now is what must be there at the next end.
    fn learn(&mut self) {
        let World { journal, sessions, subscriptions, waiting, retained, .. } = self;
        journal.read(|ledger| {
            for (session, said) in sessions.iter_mut() {
                let is_there = ledger.session(*session).is_some();
                *said = Said { is_there, mark: 0 };
            }
            for ((session, text), said) in subscriptions.iter_mut() {
                let kept = ledger.session(*session);
                let is_there =
                    kept.is_some_and(|kept| kept.subscriptions.contains_key(text.as_str()));
                *said = Said { is_there, mark: 0 };
            }
            for ((session, number), said) in waiting.iter_mut() {
                let kept = ledger.session(*session);
                let is_there = kept.is_some_and(|kept| kept.waits_for(*number));
                *said = Said { is_there, mark: 0 };
            }
            retained.clear();
        });
        waiting.retain(|_, said| said.is_there);
    }
}

fn live(seed: u64) -> u64 {
    let outcome = std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
            if world.disk.is_off() || world.random.one_in(50) {
                world.restart();
            }
        }
        world.disk.fill(None);
        world.restart();
        world.cuts
    });
    outcome.unwrap_or_else(|_| panic!("seed {seed}"))
}

#[test]
fn what_sessions_were_promised_is_there_through_power_cuts_failed_syncs_and_full_disks() {
    let seeds = std::env::var("TIDEGATE_SEEDS").ok();
    let most = seeds.map_or(SEEDS, |seeds| seeds.parse().expect("TIDEGATE_SEEDS is a number"));
    let cuts: u64 = (1..=most).map(live).sum();
    assert!(cuts > most, "{cuts} power cuts in {most} worlds");
}
