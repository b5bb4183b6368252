//! A node with scripts in virtual time, on a line of a given rate: for `tidegate script`, and for tests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_node::io::{
    Control, Destination, Edit, Input, Output, OutputId, PathId, PathSample, PathState, TcpState,
    UplinkId,
};
use tidegate_node::node::Node;
use tidegate_node::options::{NodeOptions, OptionsError, OutputOptions, UplinkOptions};
use tidegate_node::rules::{Rule, Rules, ScriptId};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{Classes, default_classes};
use tidegate_types::record::{DeliveryId, Offered, Record, SourceId};
use tidegate_types::units::{Rate, Size, Time};

use super::effects::ScriptNotice;
use super::{LoadError, Moment, Ran, ScriptSpec, Scripts, Seat};

/// What the world's clock shows when a rehearsal begins, where nobody says.
const UNIX_NS: u64 = 1_700_000_000_000_000_000;
/// Memory of the node: its queues are what a script is for.
const MEMORY: Size = Size(256 << 20);

/// What to rehearse on.
#[derive(Clone, Debug)]
pub struct Line {
    /// Names of outputs; records go to the first.
    pub outputs: Vec<String>,
    /// What all of them carry together; without end if not given.
    pub rate: Option<Rate>,
    /// From the last byte of a record to its confirmation.
    pub rtt: Duration,
    /// Bound on residence.
    pub latency: Duration,
    /// Whether each output has an uplink of its own, whose rate is measured; else all have one of a known rate.
    pub is_measured: bool,
}

impl Default for Line {
    /// One output, `cloud`, without bounds and 20 ms away.
    fn default() -> Self {
        Line {
            outputs: vec!["cloud".into()],
            rate: None,
            rtt: Duration::from_millis(20),
            latency: Duration::from_secs(1),
            is_measured: false,
        }
    }
}

/// A record whose last byte went.
#[derive(Clone, Debug)]
pub struct Went {
    /// By which output.
    pub output: OutputId,
    /// As it went.
    pub record: Arc<Record>,
    /// When its last byte was handed over.
    pub at: Time,
}

#[derive(Debug)]
enum Happening {
    Sent { path: PathId, id: DeliveryId, bytes: Size, is_last: bool },
    Confirmed { path: PathId, id: DeliveryId },
}

/// A node, its line and its scripts.
#[derive(Debug)]
pub struct Rehearsal {
    /// The node.
    pub seat: Seat,
    /// Its scripts.
    pub scripts: Scripts,
    /// The virtual clock.
    pub now: Time,
    /// What went, in order.
    pub went: Vec<Went>,
    /// What `notify` was told.
    pub notices: Vec<String>,
    /// Endpoints that were asked, each with the payload.
    pub asked: Vec<(String, bytes::Bytes)>,
    /// What endpoints answer; none: they do not.
    pub answer: Option<bytes::Bytes>,
    /// Whether they answer with the first half of what they are asked.
    pub halves: bool,
    /// Outputs whose far end gets nothing any more, and of which nobody says so.
    pub silent: Vec<OutputId>,
    /// Whether scripts do not run by themselves, and what they decide counts for nothing.
    pub is_watching_only: bool,
    /// What the world's clock shows when the rehearsal begins.
    pub unix_ns: u64,
    /// Every verdict, with its time and its record: key, time waited, bytes.
    pub verdicts: Vec<(Time, Edit, (bytes::Bytes, Duration, u64))>,
    line: Line,
    free_at: Time,
    happenings: BTreeMap<Time, VecDeque<Happening>>,
    /// Bytes that each path was handed, and those that were acknowledged.
    handed: BTreeMap<PathId, (Size, Size)>,
}

impl Rehearsal {
    /// A node whose records all meet the first of these scripts.
    ///
    /// # Errors
    /// A script cannot be used.
    pub fn new(specs: &[Arc<ScriptSpec>], line: Line) -> Result<Rehearsal, LoadError> {
        let scripts = Scripts::load(specs)?;
        let node = node(&line, !specs.is_empty()).expect("options without a contradiction");
        let mut rehearsal = Rehearsal {
            seat: Seat::new(node),
            scripts,
            now: Time::from_millis(1),
            went: Vec::new(),
            notices: Vec::new(),
            asked: Vec::new(),
            answer: None,
            halves: false,
            silent: Vec::new(),
            is_watching_only: false,
            unix_ns: UNIX_NS,
            verdicts: Vec::new(),
            line,
            free_at: Time::ZERO,
            happenings: BTreeMap::new(),
            handed: BTreeMap::new(),
        };
        let open = Control::Open { source: SourceId(0), name: "trace".into(), relays: None };
        rehearsal.handle(Input::Control(open));
        (0..rehearsal.line.outputs.len()).for_each(|output| rehearsal.connect(output, true));
        Ok(rehearsal)
    }

    /// An output is connected, or is not.
    pub fn connect(&mut self, output: usize, is_up: bool) {
        let output = OutputId(output as u16);
        for lane in 0..self.seat.options().lanes(output) {
            let path = PathId { output, lane };
            if !is_up {
                self.handed.remove(&path);
                let on = |happening: &Happening| match happening {
                    Happening::Sent { path: of, .. } | Happening::Confirmed { path: of, .. } => {
                        *of != path
                    }
                };
                self.happenings.values_mut().for_each(|all| all.retain(on));
            }
            let state = if is_up { PathState::Up } else { PathState::Down };
            self.handle(Input::PathState { path, state });
            if is_up {
                // What the kernel knows of a connection when it has been made.
                let (window, srtt) = (Size(14_480), self.line.rtt);
                let tcp = Some(TcpState { window, srtt, ..TcpState::default() });
                self.handle(Input::PathSample {
                    path,
                    sample: PathSample { tcp, ..PathSample::default() },
                });
            }
        }
    }

    /// No queue is held to a rate any more.
    pub fn free_queues(&mut self) {
        let queues: Vec<_> = self.seat.queues().collect();
        for queue in queues {
            self.handle(Input::Control(Control::Pace { queue, rate: None }));
        }
    }

    /// A record arrives.
    pub fn offer(&mut self, record: Offered) {
        self.handle(Input::Arrived(vec![Offered { read_at: self.now, ..record }]));
    }

    /// Hands the node something and does what it says.
    pub fn handle(&mut self, input: Input) {
        self.seat.handle(self.now, input);
        self.poll();
    }

    /// The present.
    pub fn moment(&self) -> Moment {
        Moment { now: self.now, unix_ns: self.unix_ns + self.now.as_nanos() }
    }

    fn poll(&mut self) {
        while let Some(output) = self.seat.poll(self.now) {
            match output {
                Output::RunScript { .. } if self.is_watching_only => {}
                Output::RunScript { queue, delivery } => {
                    let moment = self.moment();
                    let ran = self.scripts.run(&mut self.seat, moment, queue, delivery);
                    self.take(ran);
                }
                Output::Transmit { path, id, range, .. } => self.transmit(path, id, range),
                Output::Transform { work, id, endpoint } => {
                    let payload = self.transform(id, endpoint);
                    self.seat.handle(self.now, Input::Transformed { work, payload });
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, ran: Ran) {
        for (id, ScriptNotice { name, text }) in ran.notices {
            let spec = self.scripts.get(id).map(|script| script.spec());
            let name = name.and_then(|place| Some(&spec?.notifications.get(place)?.0));
            self.notices.push(name.map_or(text.clone(), |name| format!("{name}: {text}")));
        }
        if self.is_watching_only {
            return;
        }
        for input in ran.inputs {
            if let Input::Edits { operations, .. } = &input {
                self.note(operations);
            }
            self.seat.handle(self.now, input);
        }
    }

    fn note(&mut self, operations: &[Edit]) {
        for edit in operations {
            if let Some(record) = self.seat.record(edit.delivery()) {
                let age = self.now.since(record.arrived);
                let what = (record.key.clone(), age, record.payload.len() as u64);
                self.verdicts.push((self.now, edit.clone(), what));
            }
        }
    }

    fn transform(&mut self, id: DeliveryId, endpoint: u16) -> Option<bytes::Bytes> {
        let name = self.scripts.endpoint(endpoint).map(|(_, to)| to.to_string());
        let payload = self.seat.record(id).map(|record| record.payload.clone());
        if let (Some(name), Some(payload)) = (name, payload) {
            if self.halves {
                return Some(payload.slice(..payload.len() / 2));
            }
            self.asked.push((name, payload));
        }
        self.answer.clone()
    }

    fn transmit(&mut self, path: PathId, id: DeliveryId, range: std::ops::Range<u64>) {
        let bytes = Size(range.end - range.start);
        let is_last = self.seat.size_of(id).is_none_or(|size| range.end >= size.0);
        let time = self
            .line
            .rate
            .map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes.as_f64() / rate.as_f64()));
        self.free_at = self.free_at.max(self.now) + time;
        self.handed.entry(path).or_default().0 += bytes;
        let sent = Happening::Sent { path, id, bytes, is_last };
        self.happenings.entry(self.free_at).or_default().push_back(sent);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Sent { path, id, bytes, is_last } => {
                if let Some(record) = self.seat.record(id).filter(|_| is_last) {
                    let went = Went { output: path.output, record: record.clone(), at: self.now };
                    self.went.push(went);
                }
                self.handle(Input::Sent { id, bytes });
                let (handed, acknowledged) = self.handed.entry(path).or_default();
                let is_silent = self.silent.contains(&path.output);
                *acknowledged += if is_silent { Size::ZERO } else { bytes };
                let sample = PathSample {
                    rtt: (!is_silent).then_some(self.line.rtt),
                    delivered: *acknowledged,
                    in_flight: *handed - *acknowledged,
                    ..PathSample::default()
                };
                self.handle(Input::PathSample { path, sample });
                if is_last && !is_silent {
                    let at = self.now + self.line.rtt;
                    let confirmed = Happening::Confirmed { path, id };
                    self.happenings.entry(at).or_default().push_back(confirmed);
                }
            }
            Happening::Confirmed { path, id } => {
                let destination = Destination::Output(path.output);
                self.handle(Input::Confirmed { destination, ids: vec![id] });
            }
        }
    }

    /// Time passes.
    pub fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let times = [
                self.seat.next_timeout(),
                self.scripts.next_timer(),
                self.happenings.keys().next().copied(),
            ];
            let Some(at) = times.into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            let due = self.happenings.first_entry().filter(|first| *first.key() <= self.now);
            for happening in due.map(|first| first.remove()).unwrap_or_default() {
                self.happen(happening);
            }
            let moment = self.moment();
            while let Some(ran) = self.scripts.fire(&mut self.seat, moment) {
                self.take(ran);
            }
            self.poll();
        }
        self.now = end;
        self.poll();
    }
}

fn node(line: &Line, is_scripted: bool) -> Result<Node, OptionsError> {
    let classes = Classes::new(default_classes()).expect("the default classes are right");
    let plain = Rule::catch_all(&classes, vec![OutputId(0)]);
    let rule = Rule {
        name: "messages".into(),
        latency: line.latency,
        class: classes.for_latency(line.latency),
        script: is_scripted.then_some(ScriptId(0)),
        bound: MEMORY,
        memory: MEMORY,
        ..plain
    };
    let output = |(place, name): (usize, &String)| OutputOptions {
        name: name.as_str().into(),
        uplink: UplinkId(if line.is_measured { place as u16 } else { 0 }),
        overhead: Size::ZERO,
        unconfirmed_max: 256,
        one_lane: false,
        is_gone: false,
    };
    let controller = match line.rate {
        _ if line.is_measured => RateControllerName::Tide,
        Some(_) => RateControllerName::Known,
        None => RateControllerName::Unlimited,
    };
    let uplink = |name: &String| UplinkOptions {
        name: name.as_str().into(),
        controller,
        cap: line.rate.filter(|_| !line.is_measured),
        ..UplinkOptions::default()
    };
    let uplinks = if line.is_measured { line.outputs.len() } else { 1 };
    Node::new(NodeOptions {
        name: "rehearsal".into(),
        incarnation: 1,
        rules: Rules::new(vec![rule]).map_err(OptionsError::Rules)?,
        uplinks: line.outputs.iter().take(uplinks).map(uplink).collect(),
        outputs: line.outputs.iter().enumerate().map(output).collect(),
        scheduler: SchedulerName::Tidegate,
        memory: Size(MEMORY.0 * 2),
        inbound: None,
        record_max: Size(16 << 20),
        log: None,
        fleet: None,
        classes,
    })
}
