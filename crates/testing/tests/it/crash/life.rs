//! A world's life: random steps, crashes, and what must hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_node::io::{Control, Event, Input, OutputId, PathState};
use tidegate_node::node::Node;
use tidegate_testing::{Disk, Wire, offer};
use tidegate_types::record::{Body, DeliveryId, DropReason, Offered, RefuseReason, Token};
use tidegate_types::units::Time;

use crate::crash::book::Book;
use crate::crash::clock::Clock;
use crate::crash::far::{Far, Name, name_of, payload};
use crate::crash::publisher::{Acted, Publisher};
use crate::crash::reader::Reader;
use crate::crash::world::{CHANGES, FORGETFUL, KEYS, MOVED, Make, Random};

/// Steps of a life.
pub(crate) const STEPS: usize = 250;
/// Bytes that a disk writes or does not write as one.
const SECTOR: usize = 64;

/// What else goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    /// The disk is honest: what is synced stays, and what is not stays up to some byte.
    Honest,
    /// Of what is not synced a crash leaves any sectors: others are zeros.
    Holes,
    /// Crashes flip bits, of synced bytes too.
    Flips,
}

/// What happens in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Publishers with QoS 1, far ends, paths, a disk, crashes.
    Narrow,
    /// And QoS 2, readers with positions, records that expire, clocks that jump, new rules, kills.
    Wide,
}

#[derive(Debug)]
pub(crate) struct Life {
    random: Random,
    make: Make,
    faults: Faults,
    scope: Scope,
    wire: Wire,
    pub(crate) far: Far,
    book: Book,
    clock: Clock,
    publishers: Vec<Publisher>,
    reader: Reader,
    boots: u64,
    /// What the operator chose for this process.
    variant: u64,
    /// Every change of rules that ever was in force.
    changes: u64,
    /// Every record that was offered: its key.
    offered: BTreeMap<Name, usize>,
    /// Those whose sender was told that they are accepted.
    accepted: BTreeSet<Name>,
    /// Those whose sender was told that the log had no room: they may be on their way nevertheless.
    unlogged: BTreeSet<Name>,
    /// Entries, answers and cuts that were looked at.
    seen: [usize; 3],
    /// How many records may arrive again.
    may_repeat: u64,
    /// Deliveries that earlier processes dropped for want of room, or because no rule wanted them.
    dropped: u64,
    pub(crate) tallies: Tallies,
}

/// How often a life saw what it is for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) crashes: u64,
    pub(crate) read_back: u64,
    pub(crate) refused_by_log: u64,
    pub(crate) damaged: u64,
    pub(crate) expired: u64,
    pub(crate) known_again: u64,
    pub(crate) reloads: u64,
}

impl Life {
    pub(crate) fn new(seed: u64, faults: Faults, scope: Scope) -> Self {
        let mut random = Random::new(seed);
        let make = Make::new(&mut random);
        let node = Node::new(make.options(1, 0)).expect("the world's options are good");
        let mut disk = Disk::new(Wire::log_name(&node), make.keys.clone());
        disk.undoes = scope == Scope::Narrow || !random.one_in(4);
        disk.room = [0, 512, 4096][random.below(3) as usize];
        let mut life = Life {
            random,
            make,
            faults,
            scope,
            wire: Wire::on(node, disk),
            far: Far::default(),
            book: Book::default(),
            clock: Clock::new(),
            publishers: (0..3).map(Publisher::new).collect(),
            reader: Reader::default(),
            boots: 1,
            variant: 0,
            changes: 0,
            offered: BTreeMap::new(),
            accepted: BTreeSet::new(),
            unlogged: BTreeSet::new(),
            seen: [0; 3],
            may_repeat: 0,
            dropped: 0,
            tallies: Tallies::default(),
        };
        life.open();
        life
    }

    fn is_wide(&self) -> bool {
        self.scope == Scope::Wide
    }

    fn open(&mut self) {
        self.wire.poll();
        if !self.random.one_in(4) {
            self.sync();
        }
        (0..3).for_each(|source| self.wire.open(source, &format!("sensor {source}")));
        if self.is_wide() {
            if !self.random.one_in(3) {
                self.clock.tell(&mut self.wire, &mut self.random);
            }
            self.publishers.iter_mut().for_each(|publisher| publisher.connect(&mut self.wire));
        }
        if !self.random.one_in(3) {
            self.wire.up();
        }
    }

    /// All steps; a crash after that of `crash_at`, or now and then.
    pub(crate) fn run(&mut self, crash_at: Option<usize>) {
        for step in 0..STEPS {
            let kinds = if self.is_wide() { 32 } else { 20 };
            match self.random.below(kinds) {
                kind @ 0..20 => self.step(kind),
                kind => self.wide_step(kind),
            }
            self.look();
            let is_time = match crash_at {
                Some(at) => at == step,
                None => self.random.one_in(60),
            };
            if is_time {
                self.crash();
                self.look();
            }
        }
    }

    fn step(&mut self, kind: u64) {
        match kind {
            0..=6 => self.offer(),
            7..=8 => self.sync(),
            9 => self.tallies.read_back += u64::from(self.wire.read_back()),
            10..=12 => {
                let count = self.random.below(6);
                (0..count).for_each(|_| _ = self.wire.send());
            }
            13..=15 => self.confirm(),
            16 => {
                let paths = self.wire.paths();
                let path = paths[self.random.below(paths.len() as u64) as usize];
                let is_up = !self.random.one_in(4);
                // A connection that comes up anew was gone before.
                self.allow_unconfirmed(path.output);
                self.wire.path(path, if is_up { PathState::Up } else { PathState::Down });
            }
            17 if self.random.one_in(3) => {
                let free = self.random.below(3000) as usize;
                let is_full = self.wire.disk.capacity < usize::MAX;
                let capacity = self.wire.disk.used() + free;
                self.wire.disk.capacity = if is_full { usize::MAX } else { capacity };
            }
            18 => self.advance(1500),
            _ => self.advance(40),
        }
    }

    /// What a wide life has beside.
    fn wide_step(&mut self, kind: u64) {
        match kind {
            20..=27 => {
                let publisher = self.random.below(3) as usize;
                self.act(publisher);
            }
            28 => {
                let by = self.random.below(3);
                self.reader.go_on(&mut self.wire, by);
            }
            29 => self.clock.tell(&mut self.wire, &mut self.random),
            _ if self.random.one_in(4) => {
                let change = self.random.below(CHANGES);
                self.changes |= change;
                let rules = self.make.changed_rules(self.variant, change);
                // What is under way to an output that a rule has left is finished there.
                self.allow_all_unconfirmed();
                // What is still owed to an output that no rule names any more goes to another one, which may
                // have it.
                let is_moved = self.changes & MOVED > 0;
                self.may_repeat += if is_moved { self.wire.node.held() } else { 0 };
                self.wire.control(Control::Rules(rules.into()));
                let is_good = |event: &Event| !matches!(event, Event::RulesRefused(_));
                assert!(self.wire.events.iter().all(is_good), "{:?}", self.wire.events);
                self.tallies.reloads += 1;
            }
            _ => {}
        }
    }

    fn act(&mut self, publisher: usize) {
        let name = self.offered.len() as Name + 1;
        // The name is used only if something is published under it.
        self.offered.insert(name, 0);
        let Life { publishers, wire, random, .. } = self;
        let Acted { published, accepted } = publishers[publisher].act(wire, random, name);
        match published {
            Some(key) => _ = self.offered.insert(name, key),
            None => _ = self.offered.remove(&name),
        }
        self.tallies.known_again += accepted.len() as u64;
        self.accepted.extend(accepted);
    }

    fn advance(&mut self, most: u64) {
        let span = Duration::from_millis(self.random.below(most));
        self.clock.pass(span);
        self.wire.advance(span);
    }

    fn offer(&mut self) {
        let source = self.random.below(3) as u32;
        let count = 1 + self.random.below(4);
        let mut offers = Vec::new();
        for _ in 0..count {
            let name = self.offered.len() as Name + 1;
            let key = self.random.below(KEYS.len() as u64) as usize;
            let size = self.random.below(200) as usize;
            self.offered.insert(name, key);
            let is_mortal = self.is_wide() && self.random.one_in(5);
            let lives = [20, 500, 3_000, 3_600_000];
            let ttl = is_mortal.then(|| {
                Duration::from_millis(lives[self.random.below(lives.len() as u64) as usize])
            });
            self.clock.born(name, ttl);
            let plain = offer(self.wire.now, source, KEYS[key].0, 0);
            let body = Body::Resident(payload(name, size).into());
            offers.push(Offered { body, ttl, token: Some(Token(name)), ..plain });
        }
        self.wire.handle(Input::Arrived(offers));
    }

    /// The disk makes safe what it has: fates in it are known for ever.
    fn sync(&mut self) {
        self.note_appends();
        self.wire.sync();
        self.book.synced(&self.wire.failed);
        self.reader.synced(&self.wire.failed);
    }

    fn confirm(&mut self) {
        let count = self.random.below(6) as usize;
        let ids: Vec<DeliveryId> =
            self.wire.unconfirmed.iter().take(count).map(|(id, _)| *id).collect();
        for id in ids {
            let path = self.wire.unconfirmed.iter().find(|(other, _)| *other == id);
            let output = path.map_or(OutputId(0), |(_, path)| path.output);
            let identity = self.wire.node.record(id).expect("it is unconfirmed").identity.clone();
            // A checkpoint that came before this confirmation does not know it.
            self.note_appends();
            self.book.confirmed(identity.stream, identity.seq, output.0);
            self.wire.confirm(&[id]);
        }
    }

    /// What is sent and not confirmed on an output may be sent again.
    fn allow_unconfirmed(&mut self, output: OutputId) {
        self.may_repeat += self.wire.unconfirmed_on(output) as u64;
    }

    fn allow_all_unconfirmed(&mut self) {
        let outputs = self.wire.node.options().outputs.len();
        (0..outputs).for_each(|output| self.allow_unconfirmed(OutputId(output as u16)));
    }

    /// Takes in what the node said, and what its publishers do about it.
    fn look(&mut self) {
        self.note_appends();
        self.note_answers();
        let [_, _, history_seen] = &mut self.seen;
        for cut in &self.wire.history[*history_seen..] {
            // A far end may have a record as soon as its last cut is on the way.
            if cut.is_last()
                && let Some(record) = self.wire.node.record(cut.id)
            {
                let place = usize::from(cut.path.output.0);
                let output = &self.wire.node.options().outputs[place].name;
                assert!(self.offered.contains_key(&name_of(record)), "never published");
                self.far.receive(record, output);
            }
        }
        *history_seen = self.wire.history.len();
        while !self.wire.ready.is_empty() || !self.wire.freed.is_empty() {
            for (source, packet) in std::mem::take(&mut self.wire.freed) {
                let Life { publishers, random, .. } = self;
                publishers.iter_mut().for_each(|one| one.freed(random, source, packet));
            }
            for source in std::mem::take(&mut self.wire.ready) {
                let Life { publishers, wire, .. } = self;
                let heard = publishers.iter_mut().flat_map(|one| one.ready(wire, source));
                let heard: Vec<Name> = heard.collect();
                self.tallies.known_again += heard.len() as u64;
                self.accepted.extend(heard);
            }
            self.note_appends();
            self.note_answers();
        }
        let memory = self.wire.node.options().memory;
        assert!(self.wire.node.held_bytes() <= memory, "memory is bounded");
        let (_, bytes) = self.wire.node.log_use();
        let bound = self.wire.node.options().log.as_ref().map_or(0, |log| log.bound.0);
        // What makes room again may go beyond: fates and checkpoints.
        assert!(bytes.0 <= bound * 2 + 20_000, "the log is bounded: {bytes:?} of {bound}");
    }

    fn note_answers(&mut self) {
        let [_, seen, _] = &mut self.seen;
        let is_exact = self.faults == Faults::Honest;
        let forgets = self.changes & FORGETFUL > 0 || self.make.drops_newest();
        for &(source, token, result) in &self.wire.answers[*seen..] {
            let name = token.0;
            match result {
                // A rule that is not durable promises nothing over a crash; what a full stream takes and
                // drops in the same breath is in no log either, and counted as dropped.
                Ok(()) if forgets && !self.book.logged.contains(&name) => {}
                Ok(()) => {
                    let is_new = self.accepted.insert(name);
                    assert!(is_new || forgets || !is_exact, "{token:?} is accepted twice");
                }
                Err(RefuseReason::Storage) => {
                    self.tallies.refused_by_log += 1;
                    self.unlogged.insert(name);
                }
                Err(_) => {}
            }
            self.publishers[source.0 as usize].answered(&mut self.random, name, result);
        }
        *seen = self.wire.answers.len();
    }

    /// What is on its way to the disk.
    fn note_appends(&mut self) {
        let [seen, ..] = &mut self.seen;
        for append in &self.wire.appends[*seen..] {
            self.book.written(append, &self.clock);
            self.reader.written(append.number, &append.entry);
        }
        *seen = self.wire.appends.len();
    }

    /// The process ends, and another one begins with what the disk has.
    pub(crate) fn crash(&mut self) {
        self.tallies.crashes += 1;
        self.boots += 1;
        self.allow_all_unconfirmed();
        self.may_repeat += self.book.crash();
        self.dropped += self.dropped_on_purpose();
        self.tallies.expired += self.wire.node.counts().dropped[DropReason::Expired.index()];
        self.variant = if self.random.one_in(3) { self.random.below(4) } else { 0 };
        let options = self.make.options(self.boots, self.variant);
        let keys = self.make.keys.clone();
        let empty = Disk::new(Wire::log_name(&self.wire.node), keys);
        let mut disk = std::mem::replace(&mut self.wire.disk, empty);
        disk.capacity = usize::MAX;
        self.lose(&mut disk);
        let recovery = disk.recover().expect("the log can be used");
        // A disk that refuses to cut is lived with.
        if !self.random.one_in(4) {
            disk.cut(&recovery);
        }
        let node = Node::resume(options, recovery).expect("the world's options are good");
        let name = Wire::log_name(&node);
        let mut wire = Wire::on(node, disk.boot(name));
        // The new process has a clock of its own.
        wire.now = Time::from_millis(1 + self.random.below(5000));
        self.wire = wire;
        self.seen = [0; 3];
        if self.is_wide() {
            let away = [1, 60_000, 7_200_000][self.random.below(3) as usize];
            self.clock.pass(Duration::from_millis(self.random.below(away)));
            self.publishers.iter_mut().for_each(|publisher| publisher.restart(&self.wire));
            self.reader.restart(&self.wire, self.faults != Faults::Flips);
        }
        self.open();
    }

    /// What is not safe goes, or a part of it. A process that is only killed, as when a standby takes over,
    /// leaves all that it wrote.
    fn lose(&mut self, disk: &mut Disk) {
        let is_killed = self.is_wide() && self.random.one_in(3);
        let random = &mut self.random;
        match self.faults {
            _ if is_killed => disk.crash(|unsynced| unsynced),
            Faults::Honest => disk.crash(|unsynced| random.below(unsynced as u64 + 1) as usize),
            Faults::Holes => {
                for file in disk.files.values_mut() {
                    for sector in file.bytes[file.synced..].chunks_mut(SECTOR) {
                        if random.one_in(3) {
                            sector.fill(0);
                        }
                    }
                }
                disk.crash(|unsynced| unsynced);
            }
            Faults::Flips => {
                disk.crash(|unsynced| random.below(unsynced as u64 + 1) as usize);
                self.flip(disk);
            }
        }
    }

    fn flip(&mut self, disk: &mut Disk) {
        let files = disk.files.len() as u64;
        let Some(file) = disk.files.values_mut().nth(self.random.below(files) as usize) else {
            return;
        };
        let at = self.random.below(file.bytes.len() as u64) as usize;
        file.bytes[at] ^= 1 << self.random.below(8);
        self.tallies.damaged += 1;
    }

    fn dropped_on_purpose(&self) -> u64 {
        let counts = self.wire.node.counts();
        counts.dropped[DropReason::Full.index()] + counts.dropped[DropReason::Unroutable.index()]
    }

    /// Everything works again, and time enough passes.
    pub(crate) fn finish(&mut self) {
        self.wire.disk.capacity = usize::MAX;
        self.allow_all_unconfirmed();
        self.wire.up();
        for _ in 0..100_000 {
            self.sync();
            self.wire.read_back();
            while self.wire.send() {}
            self.look();
            self.confirm();
            self.clock.pass(Duration::from_millis(20));
            self.wire.advance(Duration::from_millis(20));
            self.look();
            for publisher in &mut self.publishers {
                let heard = publisher.resend(&mut self.wire);
                self.accepted.extend(heard);
            }
            self.look();
            let is_quiet = self.publishers.iter().all(Publisher::is_idle);
            let node = &self.wire.node;
            let is_empty = node.held() == 0 && self.wire.unconfirmed.is_empty();
            if is_empty && is_quiet && !self.wire.disk.is_dirty() {
                break;
            }
        }
        let counts = self.wire.node.counts();
        assert_eq!(self.wire.node.held(), 0, "something is never sent: {counts:?}");
        assert_eq!(self.wire.node.audit(), 0);
        assert!(
            self.publishers.iter().all(Publisher::is_idle),
            "a publish is never complete: {:?}",
            self.publishers
        );
        self.check();
        self.stop();
    }

    fn check(&self) {
        let is_missing = |name: &&Name| {
            let (_, to) = KEYS[self.offered[*name]];
            let mut has = to.iter().map(|output| self.far.has(**name, output));
            let is_here =
                if self.changes & MOVED > 0 { has.any(|has| has) } else { has.all(|has| has) };
            !is_here && !self.clock.is_mortal(**name)
        };
        let missing: Vec<_> = self.accepted.iter().filter(is_missing).collect();
        let counts = self.wire.node.counts();
        let dropped = self.dropped + self.dropped_on_purpose();
        // Bytes that are spoilt after they were safe may be a record.
        let is_told = missing.len() as u64 <= dropped || self.tallies.damaged > 0;
        assert!(is_told, "accepted and lost: {missing:?}, {counts:?}");
        if self.faults != Faults::Flips {
            let again = self.far.again();
            assert!(again <= self.may_repeat, "{again} came again, {} might", self.may_repeat);
        }
        let mut twice = self.far.twice.difference(&self.unlogged);
        let is_exact = self.faults == Faults::Honest;
        assert!(!is_exact || twice.next().is_none(), "accepted twice: {:?}", self.far.twice);
        assert!(self.far.names().all(|name| self.offered.contains_key(&name)));
    }

    /// A process that stops in peace leaves nothing to be sent again.
    fn stop(&mut self) {
        self.wire.control(Control::Stop);
        for _ in 0..100 {
            self.sync();
            self.wire.advance(Duration::from_millis(20));
        }
        assert!(self.wire.events.contains(&Event::Drained));
        let recovery = self.wire.disk.recover().expect("the log can be used");
        let live: Vec<_> = recovery.live().collect();
        assert!(live.is_empty(), "{live:?}");
    }
}
