//! A node under random operations, and what must hold after each of them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::steps::NodeOp;
use super::wire::Wire;
use super::{changed_rules, offer, trial_options};
use tidegate_node::io::{
    Content, Control, Destination, Edit, Event, Input, OutputId, PathId, PathState, Refusal,
};
use tidegate_node::node::Node;
use tidegate_node::options::OutputOptions;
use tidegate_schedule::SchedulerName;
use tidegate_types::record::{DeliveryId, DropReason, Offered, SourceId, Token, WorkId};
use tidegate_types::units::Size;

/// Connections that operations name.
const SOURCES: u8 = 6;
/// Keys: the rules of `trial_options`, and one that no rule covers.
const KEYS: [&str; 6] = ["ls/a", "newest/", "lifo/a", "strict/a", "lt/a", "nowhere"];
/// How long the end may take: a class with a cap drains slowly.
const END: Duration = Duration::from_secs(60);

/// A node under random operations, and a model of what it owes.
#[derive(Debug)]
pub struct Trial {
    /// The node and its driver.
    pub wire: Wire,
    /// Which life of each connection is open.
    lives: [Option<u64>; SOURCES as usize],
    last_life: u64,
    last_token: u64,
    /// Tokens without an answer, and the connection that asked.
    asked: BTreeMap<Token, (u8, u64)>,
    answers_seen: usize,
    confirmed: u64,
    refused_for_good: u64,
    prepared: usize,
    steps: usize,
    /// Records may have moved to a stream with a smaller bound.
    is_changed: bool,
}

impl Trial {
    /// A node whose make-up the number chooses, with all paths up and one connection open.
    pub fn new(setup: u8) -> Self {
        let options = trial_options(setup);
        let node = Node::new(options).unwrap_or_else(|error| panic!("{error}"));
        let mut trial = Trial {
            wire: Wire::new(node),
            lives: Default::default(),
            last_life: 0,
            last_token: 0,
            asked: BTreeMap::new(),
            answers_seen: 0,
            confirmed: 0,
            refused_for_good: 0,
            prepared: 0,
            steps: 0,
            is_changed: false,
        };
        trial.wire.framing = u64::from(setup % 3) * 20;
        trial.wire.poll();
        trial.wire.sync();
        trial.apply(NodeOp::Open(0));
        trial.wire.up();
        trial
    }

    /// Does one step and checks what must hold.
    pub fn apply(&mut self, operation: NodeOp) {
        let wire = &mut self.wire;
        match operation {
            NodeOp::Open(source) => self.open(source % SOURCES),
            NodeOp::Close(source) => self.close(source % SOURCES),
            NodeOp::Offer { source, key, size } => self.offer(source % SOURCES, key, size),
            NodeOp::Send { path, count } => {
                let path = nth(&wire.paths(), path);
                (0..=count % 8).for_each(|_| _ = wire.send_on(path));
            }
            NodeOp::Acknowledge { path, rtt } => {
                let path = nth(&wire.paths(), path);
                wire.acknowledge(path, Duration::from_millis(u64::from(rtt)));
            }
            NodeOp::Confirm { place, count } => self.confirm(place, count % 8),
            NodeOp::Refuse { place, is_final } => self.refuse(place, is_final),
            NodeOp::Path { path, is_up } => {
                let path = nth(&wire.paths(), path);
                wire.path(path, if is_up { PathState::Up } else { PathState::Down });
            }
            NodeOp::Destination { output, is_up } => {
                let outputs = wire.node.options().outputs.len();
                wire.destination(OutputId(u16::from(output) % outputs as u16), is_up);
            }
            NodeOp::Appended(count) => {
                wire.sync();
                if count % 4 != 0 {
                    wire.read_back();
                }
            }
            NodeOp::AppendFailed => {
                // Full, or with room again.
                let is_full = wire.disk.capacity < usize::MAX;
                wire.disk.capacity = if is_full { usize::MAX } else { 0 };
            }
            NodeOp::Prepared { place, outcome } => self.prepare(place, outcome),
            NodeOp::Edit { queue, place, kind } => self.edit(queue, place, kind),
            NodeOp::Nonsense { kind, name } => self.nonsense(kind, u64::from(name)),
            NodeOp::Advance(millis) => wire.advance(Duration::from_millis(u64::from(millis))),
            NodeOp::AdvanceSeconds(count) => {
                wire.advance(Duration::from_secs(u64::from(count % 4)));
            }
            NodeOp::Stop => wire.control(Control::Stop),
            NodeOp::Rules(change) => {
                let rules = changed_rules(&wire.node.options().classes, change);
                wire.control(Control::Rules(rules.into()));
                self.is_changed = true;
                self.change_outputs(change);
            }
        }
        self.check();
    }

    /// One more output, or the last one goes or comes back, whether rules name it or not.
    fn change_outputs(&mut self, change: u8) {
        let options = self.wire.node.options();
        let (mut outputs, uplinks) = (options.outputs.clone(), options.uplinks.clone());
        let last = OutputId(outputs.len() as u16 - 1);
        match change / 32 % 4 {
            0 if outputs.len() < 4 => {
                outputs.push(OutputOptions { name: "more".into(), ..outputs[0].clone() });
            }
            1 if last != OutputId(0) => {
                let goes = !outputs[usize::from(last.0)].is_gone;
                self.wire.destination(last, !goes);
                outputs[usize::from(last.0)].is_gone = goes;
            }
            _ => return,
        }
        self.wire.control(Control::Outputs(Box::new((outputs, uplinks))));
    }

    fn open(&mut self, source: u8) {
        self.last_life += 1;
        self.lives[usize::from(source)] = Some(self.last_life);
        // Two connections of one name feed the same streams.
        self.wire.open(u32::from(source), &format!("client {}", source / 2));
    }

    fn close(&mut self, source: u8) {
        self.lives[usize::from(source)] = None;
        self.wire.control(Control::Close(SourceId(u32::from(source))));
    }

    fn offer(&mut self, source: u8, key: u8, size: u8) {
        let (count, key_place) = (key >> 5, usize::from(key & 31));
        let mut records = Vec::new();
        for number in 0..=count {
            let mut name = KEYS[key_place % KEYS.len()].to_owned();
            if name.ends_with('/') {
                name.push(char::from(b'a' + number % 3));
            }
            let payload = usize::from(size) * 8;
            let plain = offer(self.wire.now, u32::from(source), &name, payload);
            self.last_token += 1;
            let token = (key_place % 2 == 0).then_some(Token(self.last_token));
            let ttl =
                (key_place % 5 == 0).then_some(Duration::from_millis(u64::from(payload as u8)));
            if let (Some(token), Some(life)) = (token, self.lives[usize::from(source)]) {
                self.asked.insert(token, (source, life));
            }
            records.push(Offered { token, ttl, ..plain });
        }
        self.wire.handle(Input::Arrived(records));
    }

    fn confirm(&mut self, place: u8, count: u8) {
        for _ in 0..=count {
            let Some(id) = nth_of(&self.wire.unconfirmed, place).map(|(id, _)| id) else { return };
            self.confirmed += 1;
            self.wire.confirm(&[id]);
        }
    }

    fn refuse(&mut self, place: u8, is_final: bool) {
        let Some((id, _)) = nth_of(&self.wire.unconfirmed, place) else { return };
        self.refused_for_good += u64::from(is_final);
        let reason = if is_final { Refusal::Final(DropReason::Refused) } else { Refusal::Retry };
        self.wire.refuse(&[id], reason);
    }

    fn prepare(&mut self, place: u8, outcome: u8) {
        let left = self.wire.transforms.len() - self.prepared;
        if left == 0 {
            return;
        }
        let place = self.prepared + usize::from(place) % left;
        self.wire.transforms.swap(self.prepared, place);
        let (work, id, _) = self.wire.transforms[self.prepared];
        self.prepared += 1;
        let size = self.wire.node.record(id).map_or(0, |record| record.payload.len());
        let payload = match outcome % 4 {
            0 => None,
            1 => Some(Bytes::from(vec![0; size / 2])),
            _ => Some(Bytes::from(vec![0; size])),
        };
        self.wire.handle(Input::Transformed { work, payload: payload.clone() });
        self.wire.handle(Input::Transformed { work, payload });
    }

    fn edit(&mut self, queue: u8, place: u8, kind: u8) {
        let queues: Vec<_> = self.wire.node.queues().collect();
        let Some(queue) = nth_of(&queues, queue) else { return };
        let waiting: Vec<DeliveryId> = self.wire.node.waiting(queue).collect();
        let Some(id) = nth_of(&waiting, place) else { return };
        let edit = edit_of(kind, id);
        // Twice: the second finds a record that left, or one that is there already.
        let operations = vec![edit.clone(), edit];
        self.wire.handle(Input::Edits { queue, operations });
    }

    fn nonsense(&mut self, kind: u8, name: u64) {
        let id = DeliveryId(name << 32 | name);
        let is_known = self.wire.node.record(id).is_some();
        let destination = Destination::Output(OutputId(name as u16 + 2));
        let path = PathId { output: OutputId(name as u16), lane: 100 };
        let wire = &mut self.wire;
        match kind % 5 {
            0 if !is_known => wire.handle(Input::Sent { id, bytes: Size(name) }),
            1 => wire.handle(Input::Confirmed { destination, ids: vec![id, id] }),
            2 => {
                let reason = Refusal::Retry;
                wire.handle(Input::Refused { destination, ids: vec![id, id], reason });
            }
            3 => wire.handle(Input::PathState { path, state: PathState::Up }),
            _ => {
                let work = WorkId(name + 1_000_000);
                wire.handle(Input::Transformed { work, payload: None });
            }
        }
    }

    /// What must hold at any time.
    fn check(&mut self) {
        self.check_answers();
        let node = &self.wire.node;
        let counts = node.counts();
        assert_eq!(counts.confirmed, self.confirmed, "one confirmation, one fate");
        assert_eq!(counts.dropped[DropReason::Refused.index()], self.refused_for_good);
        assert!(node.held_bytes() <= node.options().memory, "memory is bounded");
        for (id, _) in &self.wire.unconfirmed {
            assert!(node.record(*id).is_some(), "what is under way has no fate yet: {id:?}");
        }
        for (place, output) in node.options().outputs.iter().enumerate() {
            let unconfirmed = self.wire.unconfirmed_on(OutputId(place as u16));
            assert!(unconfirmed <= output.unconfirmed_max, "{unconfirmed} on output {place}");
        }
        self.steps += 1;
        if self.steps.is_multiple_of(16) {
            self.check_status();
        }
    }

    fn check_answers(&mut self) {
        for (source, token, _) in &self.wire.answers[self.answers_seen..] {
            let asked = self.asked.remove(token);
            let Some((asker, life)) = asked else { panic!("{token:?} was answered twice") };
            assert_eq!(u32::from(asker), source.0, "{token:?} was answered to another connection");
            assert_eq!(self.lives[usize::from(asker)], Some(life), "the asker is gone: {token:?}");
        }
        self.answers_seen = self.wire.answers.len();
    }

    fn check_status(&mut self) {
        let status = self.wire.node.status(self.wire.now);
        assert_eq!(status.counts.lost(status.held), 0);
        let mut held = 0;
        for (rule, (_, options)) in status.rules.iter().zip(self.wire.node.options().rules.iter()) {
            assert_eq!(rule.counts.lost(rule.held), 0, "{}", rule.name);
            let is_bounded = rule.held_bytes.0 <= options.bound.0 * rule.streams;
            assert!(is_bounded || self.is_changed, "{}", rule.name);
            held += rule.held;
        }
        assert_eq!(held, status.held);
        let allocated: f64 = status.classes.iter().map(|class| class.allocated_rate.as_f64()).sum();
        let capacity: f64 = status.uplinks.iter().map(|uplink| uplink.capacity.as_f64()).sum();
        // Who gives rates ahead gives those of the capacity that was known then.
        let scheduler = self.wire.node.options().scheduler;
        let is_of_now = matches!(scheduler, SchedulerName::Native | SchedulerName::Tidegate);
        let is_right = allocated <= capacity * 1.000_001 + 1e-6;
        assert!(is_right || !is_of_now, "{allocated} of {capacity}");
    }

    /// Lets everything end well: every record has its fate, every open connection its answers.
    pub fn finish(mut self) {
        let options = self.wire.node.options();
        let (mut outputs, uplinks) = (options.outputs.clone(), options.uplinks.clone());
        outputs.iter_mut().for_each(|output| output.is_gone = false);
        self.wire.control(Control::Outputs(Box::new((outputs, uplinks))));
        for output in 0..self.wire.node.options().outputs.len() {
            self.wire.destination(OutputId(output as u16), true);
        }
        self.wire.up();
        self.wire.control(Control::Stop);
        let end = self.wire.now + END;
        while !self.wire.events.contains(&Event::Drained) && self.wire.now < end {
            while self.prepared < self.wire.transforms.len() {
                self.prepare(0, 2);
            }
            self.wire.disk.capacity = usize::MAX;
            self.wire.sync();
            self.wire.read_back();
            while self.wire.send() {}
            for path in self.wire.paths() {
                self.wire.acknowledge(path, Duration::from_millis(20));
            }
            self.confirm(0, u8::MAX);
            self.wire.advance(Duration::from_millis(5));
            self.check();
        }
        self.check();
        self.check_status();
        let node = &self.wire.node;
        assert!(
            self.wire.events.contains(&Event::Drained),
            "it does not drain: {:?}",
            node.counts()
        );
        assert_eq!(node.held_bytes(), Size::ZERO);
        let is_open = |(source, life): &(u8, u64)| self.lives[usize::from(*source)] == Some(*life);
        let unanswered: Vec<_> = self.asked.iter().filter(|(_, asker)| is_open(asker)).collect();
        assert!(unanswered.is_empty(), "{unanswered:?}");
    }
}

/// Runs what these bytes mean: the first chooses the node, every four of the others are a step.
pub fn run(bytes: &[u8]) {
    let Some((&setup, steps)) = bytes.split_first() else { return };
    let mut trial = Trial::new(setup);
    for step in steps.chunks_exact(4) {
        trial.apply(NodeOp::decode([step[0], step[1], step[2], step[3]]));
    }
    trial.finish();
}

/// One of all edits, of any size.
fn edit_of(kind: u8, id: DeliveryId) -> Edit {
    let (kind, much) = (kind % 8, kind / 8);
    let content = Content {
        key: (much % 3 == 1).then(|| Bytes::from_static(b"changed")),
        properties: None,
        // The largest is larger than any record may be.
        payload: (much % 3 != 1).then(|| Bytes::from(vec![1; usize::from(much) * 64])),
    };
    match kind {
        0 => Edit::Drop(id),
        1 => Edit::MoveFront(id),
        2 => Edit::MoveBack(id),
        3 => Edit::Redirect(id, Destination::Output(OutputId(u16::from(much % 3)))),
        4 => Edit::Replace(id, content),
        5 => Edit::Insert(id, content),
        _ => Edit::Transform { id, endpoint: u16::from(much), ordered: kind == 7 },
    }
}

fn nth<T: Copy>(all: &[T], place: u8) -> T {
    all[usize::from(place) % all.len()]
}

fn nth_of<T: Copy>(all: &[T], place: u8) -> Option<T> {
    (!all.is_empty()).then(|| nth(all, place))
}
