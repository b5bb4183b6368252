//! A world's life: random steps, crashes, and what must hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_core::io::{Control, Input, OutputId, PathState};
use tidegate_core::log::{Entry, FateRun};
use tidegate_core::node::Node;
use tidegate_core::record::{DeliveryId, DropReason, Offered, StreamId, Token};
use tidegate_core::testing::{Disk, Wire, offer};
use tidegate_core::units::Time;

use crate::far::{Far, Name, name_of, payload};
use crate::world::{KEYS, Make, Random};

/// Steps of a life.
pub(crate) const STEPS: usize = 250;

/// What else goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    /// The disk is honest: what is synced stays.
    Honest,
    /// Crashes flip bits, of synced bytes too.
    Flips,
}

/// A delivery that the far end confirmed, as the log names it.
type Confirmed = (StreamId, u64, u16);

#[derive(Debug)]
pub(crate) struct Life {
    random: Random,
    make: Make,
    faults: Faults,
    wire: Wire,
    pub(crate) far: Far,
    boots: u64,
    /// Every record that was offered: its key.
    offered: BTreeMap<Name, usize>,
    /// Those whose sender was told that they are accepted.
    accepted: BTreeSet<Name>,
    answers_seen: usize,
    history_seen: usize,
    appends_seen: usize,
    /// Confirmed, and perhaps not yet known to the log.
    unsafe_fates: BTreeSet<Confirmed>,
    /// The same, by the number of the append that says so.
    on_the_way: Vec<(u64, Vec<Confirmed>)>,
    /// How many records may arrive again.
    may_repeat: u64,
    /// Deliveries dropped because a stream was full, by earlier processes.
    dropped: u64,
    pub(crate) crashes: u64,
    pub(crate) read_back: u64,
    pub(crate) refused_by_log: u64,
    pub(crate) damaged: u64,
}

impl Life {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let mut random = Random::new(seed);
        let make = Make::new(&mut random);
        let node = Node::new(make.options(1, 0)).expect("the world's options are good");
        let disk = Disk::new(Wire::log_name(&node), make.keys.clone());
        let mut life = Life {
            random,
            make,
            faults,
            wire: Wire::on(node, disk),
            far: Far::default(),
            boots: 1,
            offered: BTreeMap::new(),
            accepted: BTreeSet::new(),
            answers_seen: 0,
            history_seen: 0,
            appends_seen: 0,
            unsafe_fates: BTreeSet::new(),
            on_the_way: Vec::new(),
            may_repeat: 0,
            dropped: 0,
            crashes: 0,
            read_back: 0,
            refused_by_log: 0,
            damaged: 0,
        };
        life.open();
        life
    }

    fn open(&mut self) {
        self.wire.poll();
        if !self.random.one_in(4) {
            self.wire.sync();
        }
        (0..3).for_each(|source| self.wire.open(source, &format!("sensor {source}")));
        if !self.random.one_in(3) {
            self.wire.up();
        }
    }

    /// All steps; a crash after that of `crash_at`, or now and then.
    pub(crate) fn run(&mut self, crash_at: Option<usize>) {
        for step in 0..STEPS {
            self.step();
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

    fn step(&mut self) {
        match self.random.below(20) {
            0..=6 => self.offer(),
            7..=8 => self.sync(),
            9 => self.read_back += u64::from(self.wire.read_back()),
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
            18 => self.wire.advance(Duration::from_millis(self.random.below(1500))),
            _ => self.wire.advance(Duration::from_millis(self.random.below(40))),
        }
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
            let plain = offer(self.wire.now, source, KEYS[key].0, 0);
            let body = tidegate_core::record::Body::Resident(payload(name, size).into());
            offers.push(Offered { body, token: Some(Token(name)), ..plain });
        }
        self.wire.handle(Input::Arrived(offers));
    }

    /// The disk makes safe what it has: fates in it are known for ever.
    fn sync(&mut self) {
        self.note_appends();
        self.wire.sync();
        for (number, fates) in std::mem::take(&mut self.on_the_way) {
            let is_safe = !self.wire.failed.contains(&number);
            for fate in fates.into_iter().filter(|_| is_safe) {
                self.unsafe_fates.remove(&fate);
            }
        }
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
            self.unsafe_fates.insert((identity.stream, identity.seq, output.0));
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

    /// Takes in what the node said.
    fn look(&mut self) {
        self.note_appends();
        for (_, token, result) in &self.wire.answers[self.answers_seen..] {
            match result {
                Ok(()) => assert!(self.accepted.insert(token.0), "{token:?} is accepted twice"),
                Err(tidegate_core::record::RefuseReason::Storage) => self.refused_by_log += 1,
                Err(_) => {}
            }
        }
        self.answers_seen = self.wire.answers.len();
        for cut in &self.wire.history[self.history_seen..] {
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
        self.history_seen = self.wire.history.len();
        let memory = self.wire.node.options().memory;
        assert!(self.wire.node.held_bytes() <= memory, "memory is bounded");
        let (_, bytes) = self.wire.node.log_use();
        let bound = self.wire.node.options().log.as_ref().map_or(0, |log| log.bound.0);
        // What makes room again may go beyond: fates and checkpoints.
        assert!(bytes.0 <= bound * 2 + 20_000, "the log is bounded: {bytes:?} of {bound}");
    }

    /// Which fates are on their way to the disk.
    fn note_appends(&mut self) {
        for append in &self.wire.appends[self.appends_seen..] {
            let fates = match &append.entry {
                Entry::Fates(fates) => fates.runs.iter().flat_map(flat).collect(),
                Entry::Checkpoint(_) => self.unsafe_fates.iter().copied().collect(),
                _ => continue,
            };
            self.on_the_way.push((append.number, fates));
        }
        self.appends_seen = self.wire.appends.len();
    }

    /// The power fails, and another process begins with what the disk has.
    pub(crate) fn crash(&mut self) {
        self.crashes += 1;
        self.boots += 1;
        self.allow_all_unconfirmed();
        self.may_repeat += self.unsafe_fates.len() as u64;
        self.unsafe_fates.clear();
        self.on_the_way.clear();
        self.dropped += self.dropped_for_room();
        let variant = if self.random.one_in(3) { self.random.below(4) } else { 0 };
        let options = self.make.options(self.boots, variant);
        let keys = self.make.keys.clone();
        let empty = Disk::new(Wire::log_name(&self.wire.node), keys);
        let mut disk = std::mem::replace(&mut self.wire.disk, empty);
        disk.capacity = usize::MAX;
        let random = &mut self.random;
        disk.crash(|unsynced| random.below(unsynced as u64 + 1) as usize);
        if self.faults == Faults::Flips {
            self.flip(&mut disk);
        }
        let recovery = disk.recover().expect("the log can be used");
        let node = Node::resume(options, recovery).expect("the world's options are good");
        let name = Wire::log_name(&node);
        let mut wire = Wire::on(node, disk.boot(name));
        // The new process has a clock of its own.
        wire.now = Time::from_millis(1 + self.random.below(5000));
        self.wire = wire;
        (self.answers_seen, self.history_seen, self.appends_seen) = (0, 0, 0);
        self.open();
    }

    fn flip(&mut self, disk: &mut Disk) {
        let files = disk.files.len() as u64;
        let Some(file) = disk.files.values_mut().nth(self.random.below(files) as usize) else {
            return;
        };
        let at = self.random.below(file.bytes.len() as u64) as usize;
        file.bytes[at] ^= 1 << self.random.below(8);
        self.damaged += 1;
    }

    fn dropped_for_room(&self) -> u64 {
        self.wire.node.counts().dropped[DropReason::Full.index()]
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
            self.wire.advance(Duration::from_millis(20));
            self.look();
            let node = &self.wire.node;
            if node.held() == 0 && !self.wire.disk.is_dirty() && self.wire.unconfirmed.is_empty() {
                break;
            }
        }
        assert_eq!(
            self.wire.node.held(),
            0,
            "something is never sent: {:?}",
            self.wire.node.counts()
        );
        assert_eq!(self.wire.node.audit(), 0);
        self.check();
        self.stop();
    }

    fn check(&self) {
        let is_missing = |name: &&Name| {
            let (_, to) = KEYS[self.offered[*name]];
            to.iter().any(|output| !self.far.has(**name, output))
        };
        let missing: Vec<_> = self.accepted.iter().filter(is_missing).collect();
        let counts = self.wire.node.counts();
        match self.faults {
            Faults::Honest => {
                let dropped = self.dropped + self.dropped_for_room();
                let is_told = missing.len() as u64 <= dropped;
                assert!(is_told, "accepted and lost: {missing:?}, {counts:?}");
                let again = self.far.again();
                assert!(again <= self.may_repeat, "{again} came again, {} might", self.may_repeat);
            }
            Faults::Flips => {
                let is_harmed = self.damaged > 0;
                assert!(missing.is_empty() || is_harmed, "accepted and lost: {missing:?}");
            }
        }
        assert!(self.far.names().all(|name| self.offered.contains_key(&name)));
    }

    /// A process that stops in peace leaves nothing to be sent again.
    fn stop(&mut self) {
        self.wire.control(Control::Stop);
        for _ in 0..100 {
            self.sync();
            self.wire.advance(Duration::from_millis(20));
        }
        assert!(self.wire.events.contains(&tidegate_core::io::Event::Drained));
        let recovery = self.wire.disk.recover().expect("the log can be used");
        let live: Vec<_> = recovery.live().collect();
        assert!(live.is_empty(), "{live:?}");
    }
}

fn flat(fates: &FateRun) -> impl Iterator<Item = Confirmed> {
    let FateRun { stream, run, .. } = *fates;
    (run.first..=run.last).flat_map(move |seq| {
        run.destinations.places().map(move |place| (stream, seq, place as u16))
    })
}
