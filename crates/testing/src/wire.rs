//! A driver for tests: it collects what a node says, obeys when it is told to, and checks at every step
//! what any driver may rely on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::cut::Cut;
use super::disk::Disk;
use tidegate_capacity::pace::cut_size;
use tidegate_log::{LogName, SegmentId};
use tidegate_node::io::{
    Append, Control, Destination, Edit, Event, Fetch, Input, Output, OutputId, PathId, PathSample,
    PathState, QueueId, Refusal,
};
use tidegate_node::node::Node;
use tidegate_node::options::NodeOptions;
use tidegate_types::record::{DeliveryId, RefuseReason, SourceId, Token, WorkId};
use tidegate_types::units::{Size, Time};

/// More outputs than this in one go are an endless loop.
const POLLS_MAX: usize = 1_000_000;

/// An answer to an offer.
pub type Answer = (SourceId, Token, Result<(), RefuseReason>);

/// A node, its clock, and everything that it said.
#[derive(Debug)]
pub struct Wire {
    /// The node.
    pub node: Node,
    /// The virtual clock.
    pub now: Time,
    /// Cuts that are not reported as sent, in order.
    pub cuts: VecDeque<Cut>,
    /// Every cut there ever was.
    pub history: Vec<Cut>,
    /// Deliveries whose last cut was ordered and that have no fate.
    pub unconfirmed: Vec<(DeliveryId, PathId)>,
    /// Answers to offers.
    pub answers: Vec<Answer>,
    /// Connections whose sessions are ready.
    pub ready: Vec<SourceId>,
    /// Packet identifiers that clients may use again.
    pub freed: Vec<(SourceId, u16)>,
    /// `PauseInput` (true) and `ResumeInput` (false).
    pub pauses: Vec<(SourceId, bool)>,
    /// Work asked for.
    pub transforms: Vec<(WorkId, DeliveryId, u16)>,
    /// Entries for the log.
    pub appends: Vec<Append>,
    /// The log, which has them all.
    pub disk: Disk,
    /// Numbers of those that the log could not take.
    pub failed: Vec<u64>,
    /// Orders to read records back that are not answered.
    pub fetches: VecDeque<Fetch>,
    /// Segments that the log deleted.
    pub released: Vec<SegmentId>,
    /// Deliveries to be given up.
    pub cancels: Vec<DeliveryId>,
    /// Deliveries that their script has seen.
    pub seen: BTreeSet<DeliveryId>,
    /// Reports.
    pub events: Vec<Event>,
    /// Bytes on the wire that a cut has beside its own.
    pub framing: u64,
    /// What is begun on each path, and how far.
    begun: BTreeMap<PathId, (DeliveryId, u64)>,
    /// Bytes handed to each path since it came up: (all, acknowledged).
    handed: BTreeMap<PathId, (u64, u64)>,
}

impl Wire {
    /// A driver for this node, with an empty log; all its paths are down.
    pub fn new(node: Node) -> Self {
        let name = Wire::log_name(&node);
        Wire::on(node, Disk::new(name, Vec::new()))
    }

    /// The name of a node's log.
    pub fn log_name(node: &Node) -> LogName {
        let NodeOptions { name, incarnation, outputs, log, .. } = node.options();
        let outputs = outputs.iter().map(|output| output.name.clone()).collect();
        let boot = log.as_ref().map_or(0, |log| log.boot);
        LogName { node: name.clone(), incarnation: *incarnation, boot, outputs }
    }

    /// A driver for this node, whose log is on this disk; all its paths are down.
    pub fn on(node: Node, disk: Disk) -> Self {
        Wire {
            node,
            now: Time::from_millis(1000),
            cuts: VecDeque::new(),
            history: Vec::new(),
            unconfirmed: Vec::new(),
            answers: Vec::new(),
            ready: Vec::new(),
            freed: Vec::new(),
            pauses: Vec::new(),
            transforms: Vec::new(),
            appends: Vec::new(),
            disk,
            failed: Vec::new(),
            fetches: VecDeque::new(),
            released: Vec::new(),
            cancels: Vec::new(),
            seen: BTreeSet::new(),
            events: Vec::new(),
            framing: 0,
            begun: BTreeMap::new(),
            handed: BTreeMap::new(),
        }
    }

    /// All paths of the node.
    pub fn paths(&self) -> Vec<PathId> {
        let options = self.node.options();
        let outputs = (0..options.outputs.len() as u16).map(OutputId);
        let paths = outputs
            .flat_map(|output| (0..options.lanes(output)).map(move |lane| PathId { output, lane }));
        paths.collect()
    }

    /// Hands the node an input, then polls it.
    pub fn handle(&mut self, input: Input) {
        self.node.handle(self.now, input);
        self.poll();
    }

    /// Polls until the node has nothing more to say.
    pub fn poll(&mut self) {
        for _ in 0..POLLS_MAX {
            let windows = self.windows();
            let Some(output) = self.node.poll(self.now) else {
                let next = self.node.next_timeout();
                assert!(next.is_none_or(|at| at > self.now), "a timeout in the past: busy loop");
                assert_eq!(self.node.audit(), 0, "accepted - confirmed - dropped - held");
                return;
            };
            if let Output::Transmit { path, range, .. } = &output {
                let uplink = self.node.options().outputs[usize::from(path.output.0)].uplink;
                let state = &self.node.uplinks()[usize::from(uplink.0)];
                let window = windows[usize::from(uplink.0)].max(state.window);
                let cut = Size(range.end - range.start);
                // Urgent records fill a window of their own beside what is under way.
                let is_urgent = path.lane == 0 && self.node.options().classes.len() > 1;
                let own = if is_urgent { window } else { Size::ZERO };
                let most = window + cut_size(state.capacity).max(cut) + own;
                assert!(state.in_flight <= most, "{state:?}, after {cut:?}");
            }
            self.note(output);
        }
        panic!("poll does not end");
    }

    fn windows(&self) -> Vec<Size> {
        self.node.uplinks().iter().map(|uplink| uplink.window).collect()
    }

    fn note(&mut self, output: Output) {
        match output {
            Output::Append(appends) => {
                let failed = self.disk.append(&appends);
                self.appends.extend(appends);
                if !failed.is_empty() {
                    self.failed.extend(&failed);
                    let reason = RefuseReason::Storage;
                    self.node.handle(self.now, Input::AppendFailed { appends: failed, reason });
                }
            }
            Output::Release(segments) => {
                self.disk.release(&segments);
                self.released.extend(segments);
            }
            Output::Fetch(order) => self.fetches.push_back(order),
            Output::Accept { source, token, result } => self.answers.push((source, token, result)),
            Output::SessionReady(source) => self.ready.push(source),
            Output::Released(source, packets) => {
                self.freed.extend(packets.into_iter().map(|packet| (source, packet)));
            }
            Output::PauseInput(source) => self.pauses.push((source, true)),
            Output::ResumeInput(source) => self.pauses.push((source, false)),
            Output::Transform { work, id, endpoint } => self.transforms.push((work, id, endpoint)),
            Output::Cancel(id) => self.cancels.push(id),
            Output::Report(event) => self.events.push(event),
            Output::RunScript { queue, delivery } => self.adapt(queue, delivery),
            Output::Transmit { path, id, range, again } => {
                let size = self.node.size_of(id).map(|size| size.0);
                assert!(size.is_some(), "a transmitted delivery is held");
                let key = self.key_of(id).unwrap_or_default();
                let cut = Cut { path, id, key, range, size: size.unwrap_or_default(), again };
                self.transmitted(cut);
            }
        }
    }

    /// A script that lets most records pass, and moves or drops some.
    fn adapt(&mut self, queue: QueueId, id: DeliveryId) {
        self.seen.insert(id);
        let verdict = [(3, Edit::MoveFront(id)), (5, Edit::Drop(id))];
        let place = self.seen.len() % 7;
        let operations =
            verdict.into_iter().filter(|(at, _)| *at == place).map(|(_, edit)| edit).collect();
        self.node.handle(self.now, Input::Edits { queue, operations });
    }

    /// The log makes safe what it has; false if there was nothing.
    pub fn sync(&mut self) -> bool {
        let upto = self.disk.sync();
        upto.into_iter().for_each(|upto| self.handle(Input::Appended { upto }));
        upto.is_some()
    }

    /// The log reads back what was asked for first; false if nothing was.
    pub fn read_back(&mut self) -> bool {
        let Some(order) = self.fetches.pop_front() else { return false };
        let fetched = self.disk.fetch(&order);
        self.handle(Input::Fetched(fetched));
        true
    }

    /// Cuts of a delivery follow each other on one path, and nothing comes between them there.
    fn transmitted(&mut self, cut: Cut) {
        let Cut { path, id, range, size, .. } = cut.clone();
        assert!(range.start <= range.end && range.end <= size, "{cut:?}");
        assert!(range.start < range.end || size == 0, "an empty cut: {cut:?}");
        assert!(self.node.record(id).is_some(), "{cut:?}");
        let begun = self.begun.remove(&path).unwrap_or((id, 0));
        assert_eq!(begun, (id, range.start), "what is begun on a path is finished first");
        match cut.is_last() {
            true => self.unconfirmed.push((id, path)),
            false => {
                self.begun.insert(path, (id, range.end));
            }
        }
        self.history.push(cut.clone());
        self.cuts.push_back(cut);
    }

    /// Opens a connection.
    pub fn open(&mut self, source: u32, name: &str) {
        self.control(Control::Open { source: SourceId(source), name: name.into(), relays: None });
    }

    /// An order of people.
    pub fn control(&mut self, control: Control) {
        if let Control::Outputs(changed) = &control {
            self.disk.name_outputs(changed.0.iter().map(|output| output.name.clone()).collect());
        }
        self.handle(Input::Control(control));
    }

    /// A path comes up or goes down. What was on it is gone.
    pub fn path(&mut self, path: PathId, state: PathState) {
        self.forget_path(path);
        self.handle(Input::PathState { path, state });
    }

    fn forget_path(&mut self, path: PathId) {
        self.cuts.retain(|cut| cut.path != path);
        self.unconfirmed.retain(|(_, other)| *other != path);
        self.begun.remove(&path);
        self.handed.insert(path, (0, 0));
    }

    /// Deliveries of an output that are picked in part or whole and have no fate.
    pub fn unconfirmed_on(&self, output: OutputId) -> usize {
        let whole = self.unconfirmed.iter().filter(|(_, path)| path.output == output).count();
        whole + self.begun.keys().filter(|path| path.output == output).count()
    }

    /// An output as a whole comes up or goes down; its paths come up one by one later.
    pub fn destination(&mut self, output: OutputId, up: bool) {
        let paths = self.paths().into_iter().filter(|path| !up && path.output == output);
        paths.for_each(|path| self.forget_path(path));
        let destination = Destination::Output(output);
        self.handle(Input::DestinationState { destination, up });
    }

    /// All paths come up.
    pub fn up(&mut self) {
        self.paths().into_iter().for_each(|path| self.path(path, PathState::Up));
    }

    /// All paths go down.
    pub fn down(&mut self) {
        self.paths().into_iter().for_each(|path| self.path(path, PathState::Down));
    }

    /// Reports the oldest cut of a path as sent; false if there is none.
    pub fn send_on(&mut self, path: PathId) -> bool {
        let place = self.cuts.iter().position(|cut| cut.path == path);
        self.send_at(place)
    }

    /// Reports the oldest cut of all as sent; false if there is none.
    pub fn send(&mut self) -> bool {
        self.send_at((!self.cuts.is_empty()).then_some(0))
    }

    fn send_at(&mut self, place: Option<usize>) -> bool {
        let Some(cut) = place.and_then(|place| self.cuts.remove(place)) else { return false };
        let bytes = cut.range.end - cut.range.start + self.framing;
        self.handed.entry(cut.path).or_default().0 += bytes;
        self.handle(Input::Sent { id: cut.id, bytes: Size(bytes) });
        true
    }

    /// Acknowledges every byte that was handed to a path, `rtt` after it was.
    pub fn acknowledge(&mut self, path: PathId, rtt: Duration) {
        let (all, acknowledged) = self.handed.entry(path).or_default();
        let is_new = std::mem::replace(acknowledged, *all) < *all;
        self.sample(path, is_new.then_some(rtt));
    }

    /// Reports what is on the way of a path.
    pub fn sample(&mut self, path: PathId, rtt: Option<Duration>) {
        let (all, acknowledged) = self.handed.get(&path).copied().unwrap_or_default();
        let (delivered, in_flight) = (Size(acknowledged), Size(all - acknowledged));
        let sample = PathSample { rtt, delivered, in_flight, ..PathSample::default() };
        self.handle(Input::PathSample { path, sample });
    }

    /// Confirms some deliveries.
    pub fn confirm(&mut self, ids: &[DeliveryId]) {
        for (output, ids) in self.by_output(ids) {
            self.handle(Input::Confirmed { destination: Destination::Output(output), ids });
        }
    }

    /// Refuses some deliveries.
    pub fn refuse(&mut self, ids: &[DeliveryId], reason: Refusal) {
        for (output, ids) in self.by_output(ids) {
            self.handle(Input::Refused { destination: Destination::Output(output), ids, reason });
        }
    }

    fn by_output(&mut self, ids: &[DeliveryId]) -> BTreeMap<OutputId, Vec<DeliveryId>> {
        let mut groups: BTreeMap<OutputId, Vec<DeliveryId>> = BTreeMap::new();
        for &id in ids {
            let known = self.unconfirmed.iter().position(|(other, _)| *other == id);
            let path = known.map(|place| self.unconfirmed.remove(place).1);
            groups.entry(path.map_or(OutputId(0), |path| path.output)).or_default().push(id);
        }
        groups
    }

    /// Confirms everything that was sent.
    pub fn confirm_all(&mut self) {
        let ids: Vec<DeliveryId> = self.unconfirmed.iter().map(|(id, _)| *id).collect();
        self.confirm(&ids);
    }

    /// Sends, acknowledges and confirms until nothing moves at this time.
    pub fn carry(&mut self) {
        while !self.cuts.is_empty() || !self.unconfirmed.is_empty() {
            while self.send() {}
            for path in self.paths() {
                self.acknowledge(path, Duration::from_millis(1));
            }
            self.confirm_all();
        }
    }

    /// Time passes; the node is polled whenever it asked to be.
    pub fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.node.next_timeout().filter(|&at| at <= end) {
            self.now = at;
            self.poll();
        }
        self.now = end;
        self.poll();
    }

    /// Carries for so long.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.carry();
            self.advance(Duration::from_millis(1));
        }
        self.carry();
    }

    /// The key of a delivery that is held.
    pub fn key_of(&self, id: DeliveryId) -> Option<String> {
        let record = self.node.record(id)?;
        Some(String::from_utf8_lossy(&record.key).into_owned())
    }

    /// Forgets what was collected so far, but for what is under way.
    pub fn forget_history(&mut self) {
        self.history.clear();
        self.answers.clear();
        self.pauses.clear();
        self.events.clear();
    }
}
