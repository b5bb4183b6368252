//! A world: a node with its log and its sink on one disk, publishers, and an account of what was promised.

mod check;

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_log::{DamageKind, Key, LogName, SegmentId};
use tidegate_node::io::{
    Control, Destination, Event, Fetch, Input, Output, OutputId, PathId, PathState,
};
use tidegate_node::node::Node;
use tidegate_node::options::NodeOptions;
use tidegate_types::class::ClassId;
use tidegate_types::random::SplitMix;
use tidegate_types::record::{DeliveryId, Offered, Properties, RefuseReason, SourceId, Token};
use tidegate_types::units::{Size, Time};

use super::account::{SINK, Tallies, node_options, payload_of};
use super::harm::{Destroyed, Harm, harm};
use super::lines::{Rotten, harm_lines};
use super::machine::{self, Machine};
use crate::node::contract::Transmit;
use crate::output::sink::FileOptions;
use crate::output::sink::files::{Files, Moment};
use crate::support::disk::model::Memory;

/// Steps of a life.
const STEPS: usize = 150;

/// A process.
#[derive(Debug)]
struct Process {
    node: Node,
    machine: Machine,
    sink: Option<Files>,
    now: Time,
    fetches: VecDeque<Fetch>,
    orders: VecDeque<Transmit>,
    is_up: bool,
}

#[derive(Debug)]
pub(super) struct World {
    random: SplitMix,
    harm: Harm,
    /// Keys of the log, if it is sealed.
    keys: Vec<Key>,
    disk: Memory,
    boots: u64,
    segment: u64,
    commit_max: usize,
    sink: FileOptions,
    process: Option<Process>,
    offered: u64,
    accepted: BTreeSet<u64>,
    destroyed: Destroyed,
    rotten: Rotten,
    named: BTreeSet<SegmentId>,
    /// What happened, for who must understand a seed.
    story: Vec<String>,
    tallies: Tallies,
}

impl World {
    pub(super) fn new(seed: u64, harm: Harm, is_sealed: bool) -> World {
        let mut random = SplitMix(seed);
        let segment = [1_500, 4_000, 30_000][random.below(3)];
        let file_max = Size([2_000, 20_000, 1 << 20][random.below(3)]);
        let sink = FileOptions {
            directory: PathBuf::from(SINK),
            file_max,
            // Nothing goes: what was confirmed is counted at the end.
            files: 10_000,
            sync: true,
            classes: ["ls".into(), "nm".into(), "lt".into()].into(),
        };
        World {
            commit_max: [1, 4, 256][random.below(3)],
            random,
            harm,
            keys: if is_sealed { vec![Key::new(&[7; 32])] } else { Vec::new() },
            disk: Memory::default(),
            boots: 0,
            segment,
            sink,
            process: None,
            offered: 0,
            accepted: BTreeSet::new(),
            destroyed: Destroyed::new(),
            rotten: Rotten::new(),
            named: BTreeSet::new(),
            story: Vec::new(),
            tallies: Tallies { worlds: 1, ..Tallies::default() },
        }
    }

    pub(super) fn run(&mut self) {
        for _ in 0..STEPS {
            if self.process.is_none() && !self.start() {
                self.restart(true);
                continue;
            }
            self.step();
            if self.disk.is_off() {
                self.restart(true);
            } else if self.random.one_in(70) {
                let is_cut = !self.random.one_in(3);
                self.restart(is_cut);
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=5 => self.offer(),
            6..=9 => self.write(),
            10 => _ = self.read_back(),
            11..=13 => self.deliver(),
            14 => {
                let calls = self.random.below(25) as u64;
                self.disk.cut_after(1 + calls);
            }
            15 if self.random.one_in(3) => self.disk.fail_syncs(1),
            16 if self.random.one_in(3) => {
                let free = self.random.below(12_000);
                let is_full = self.random.one_in(2);
                self.disk.fill(is_full.then_some(free));
            }
            _ => {
                let span = Duration::from_millis(self.random.below(400) as u64);
                self.advance(span);
            }
        }
    }

    /// Another process begins; false if the disk refuses, which only one without power does.
    fn start(&mut self) -> bool {
        self.boots += 1;
        let options = machine::options(self.commit_max, self.keys.clone());
        let Ok(begun) = machine::open(&self.disk, &options, self.boots) else { return false };
        let damaged =
            begun.recovery.damage.iter().filter(|damage| damage.verdict != DamageKind::Torn);
        self.named.extend(damaged.map(|damage| damage.segment));
        let damage = begun.recovery.damage.iter();
        let told: Vec<_> =
            damage.map(|one| (one.segment.0, one.verdict, one.from, one.to)).collect();
        let live: Vec<_> = begun.recovery.live().map(|(_, at, run)| (at.0, run.first)).collect();
        let next = begun.recovery.next_segment();
        self.story.push(format!("boot {}: next {next}, {told:?}, owed {live:?}", self.boots));
        let node_options = node_options(self.segment, begun.incarnation, self.boots);
        let node = Node::resume(node_options, begun.recovery.clone()).expect("good options");
        let NodeOptions { name: node_name, incarnation, outputs, .. } = node.options();
        let outputs = outputs.iter().map(|output| output.name.clone()).collect();
        let (incarnation, boot) = (*incarnation, self.boots);
        let name = LogName { node: node_name.clone(), incarnation, boot, outputs };
        let machine = Machine::new(begun, name, &options);
        let mut process = Process {
            node,
            machine,
            sink: None,
            now: Time::from_millis(1000),
            fetches: VecDeque::new(),
            orders: VecDeque::new(),
            is_up: false,
        };
        let open = |source| {
            let (source, name, relays) =
                (SourceId(source), format!("sensor {source}").into(), None);
            Input::Control(Control::Open { source, name, relays })
        };
        (0..3).for_each(|source| process.node.handle(process.now, open(source)));
        self.process = Some(process);
        self.poll();
        true
    }

    fn restart(&mut self, is_cut: bool) {
        match is_cut {
            true => self.tallies.cuts += 1,
            false => self.tallies.kills += 1,
        }
        self.process = None;
        self.disk.restart(&mut self.random, is_cut);
        if is_cut && self.random.one_in(2) {
            let World { disk, random, destroyed, story, keys, .. } = self;
            harm(disk, random, (self.harm, keys), destroyed, story);
            if self.harm == Harm::Sink {
                harm_lines(disk, random, &mut self.rotten, story);
            }
        }
    }

    fn handle(&mut self, input: Input) {
        let Some(process) = &mut self.process else { return };
        process.node.handle(process.now, input);
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(process) = &mut self.process
            && let Some(output) = process.node.poll(process.now)
        {
            match output {
                Output::Append(appends) => process.machine.append(appends),
                Output::Release(segments) => process.machine.release(segments),
                Output::Fetch(order) => process.fetches.push_back(order),
                Output::Accept { token, result, .. } => match result {
                    Ok(()) => self.tallies.accepted += u64::from(self.accepted.insert(token.0)),
                    Err(RefuseReason::Storage) => self.tallies.refused += 1,
                    Err(_) => {}
                },
                Output::Transmit { path, id, range, again, .. } => {
                    let size = process.node.size_of(id).map_or(0, |size| size.0);
                    let record = process.node.record(id).expect("it is held").clone();
                    let (lane, epoch, class) = (path.lane, 0, ClassId(0));
                    let (start, end) = (range.start, range.end);
                    let order =
                        Transmit { id, lane, epoch, record, class, start, end, size, again };
                    process.orders.push_back(order);
                }
                Output::Report(Event::LogLacks { segment, .. }) => _ = self.named.insert(segment),
                _ => {}
            }
        }
    }

    fn offer(&mut self) {
        let Some(process) = &self.process else { return };
        let mut offers = Vec::new();
        for _ in 0..1 + self.random.below(5) {
            self.offered += 1;
            let size = 10 + self.random.below(700);
            let source = SourceId(self.random.below(3) as u32);
            offers.push(Offered {
                source,
                token: Some(Token(self.offered)),
                key: Bytes::from_static(b"plant/1"),
                properties: Properties::default(),
                payload: payload_of(self.offered, size),
                read_at: process.now,
                source_unix_ns: None,
                ttl: None,
                foreign: None,
                packet: None,
            });
        }
        self.handle(Input::Arrived(offers));
    }

    /// The thread that writes does what it has, and the node hears of it.
    fn write(&mut self) {
        let many = 1 + self.random.below(4);
        for _ in 0..many {
            let Some(process) = &mut self.process else { return };
            if !process.machine.write() {
                break;
            }
            self.hear();
        }
    }

    fn hear(&mut self) {
        while let Some(input) = self.process.as_mut().and_then(|process| process.machine.hear()) {
            if matches!(input, Input::AppendFailed { .. }) {
                self.tallies.failed += 1;
            }
            self.handle(input);
        }
    }

    fn read_back(&mut self) -> bool {
        let Some(process) = &mut self.process else { return false };
        let Some(order) = process.fetches.pop_front() else { return false };
        let fetched = process.machine.fetch(&order);
        let numbers = fetched.records.iter().map(|record| (record.stream.0, record.seq));
        self.story.push(format!(
            "read {} from {} to {}: {:?}, damaged {:?}",
            order.segment,
            order.from,
            fetched.next,
            numbers.collect::<Vec<_>>(),
            fetched.damaged
        ));
        if fetched.damaged.is_some() {
            self.named.insert(order.segment);
        }
        self.handle(Input::Fetched(fetched));
        true
    }

    /// The sink takes what was ordered, and confirms what is safe; it goes down and up again with its disk.
    fn deliver(&mut self) {
        let Some(process) = &mut self.process else { return };
        let lanes = process.node.options().lanes(OutputId(0));
        let paths = (0..lanes).map(|lane| PathId { output: OutputId(0), lane });
        if !process.is_up {
            process.is_up = true;
            let state = PathState::Up;
            paths.for_each(|path| self.handle(Input::PathState { path, state }));
            return;
        }
        let many = 1 + self.random.below(8);
        let mut whole = Vec::new();
        for _ in 0..many {
            let Some(process) = &mut self.process else { return };
            let Some(order) = process.orders.pop_front() else { break };
            let (id, bytes) = (order.id, Size(order.end - order.start));
            if order.end >= order.size {
                whole.push(order);
            }
            self.handle(Input::Sent { id, bytes });
        }
        let Some(process) = self.process.as_mut().filter(|_| !whole.is_empty()) else { return };
        let moment = Moment::now(process.now);
        let opened = match process.sink.take() {
            Some(sink) => Ok(sink),
            None => Files::open(Arc::new(self.disk.clone()), self.sink.clone()),
        };
        let (written, sink) = match opened {
            Ok(mut sink) => {
                let (written, result) = sink.append(moment, &whole);
                (written, result.is_ok().then_some(sink))
            }
            Err(_) => (0, None),
        };
        let is_down = sink.is_none();
        process.sink = sink;
        let ids: Vec<DeliveryId> = whole[..written].iter().map(|order| order.id).collect();
        let destination = Destination::Output(OutputId(0));
        // A confirmation may get lost with its connection; the record then goes again.
        let is_unheard = self.random.one_in(20);
        if !is_unheard {
            self.handle(Input::Confirmed { destination, ids });
        }
        if (is_down || is_unheard)
            && let Some(process) = &mut self.process
        {
            process.is_up = false;
            process.orders.clear();
            let state = PathState::Down;
            paths.for_each(|path| self.handle(Input::PathState { path, state }));
        }
    }

    fn advance(&mut self, span: Duration) {
        let Some(process) = &mut self.process else { return };
        let end = process.now + span;
        while let Some(process) = &mut self.process
            && let Some(at) = process.node.next_timeout().filter(|&at| at <= end)
        {
            process.now = at;
            self.poll();
        }
        if let Some(process) = &mut self.process {
            process.now = end;
        }
        self.poll();
        self.hear();
    }

    /// Everything works, until nothing is owed; then the power fails once more.
    pub(super) fn finish(mut self) -> Tallies {
        self.restart(true);
        assert!(self.start(), "a log cannot be used");
        for round in 0.. {
            let held = self.process.as_ref().map_or(0, |process| process.node.held());
            assert!(round < 5_000, "{held} records are never sent");
            while self.process.as_mut().is_some_and(|process| process.machine.write()) {
                self.hear();
            }
            while self.read_back() {}
            self.deliver();
            self.advance(Duration::from_millis(20));
            let process = self.process.as_ref().expect("nothing ends it");
            if process.node.held() == 0 && process.fetches.is_empty() && round > 10 {
                break;
            }
        }
        self.process = None;
        self.disk.restart(&mut self.random, true);
        self.check();
        self.tallies
    }
}
