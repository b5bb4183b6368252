//! A node with a script in virtual time: the product's engine over core's queues. What lies behind its outputs
//! is the case study's: it is told what went, and confirms it when it likes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate::script::board::ScriptCounts;
use tidegate::script::spec::Parameter;
use tidegate::script::vm::{Limits, thread_time};
use tidegate::script::{Moment, Ran, ScriptSpec, Scripts, Seat, Side};
use tidegate_capacity::RateControllerName;
use tidegate_node::io::{
    Control, Destination, Input, Output, OutputId, PathId, PathState, UplinkId,
};
use tidegate_node::node::Node;
use tidegate_node::options::{NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{RuleId, Rules, ScriptId};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{Classes, default_classes};
use tidegate_types::record::{DeliveryId, Offered, Properties, Record, SourceId};
use tidegate_types::units::{Size, Time};

/// What the world's clock shows at the node's time zero.
pub(crate) const UNIX_NS: u64 = 1_700_000_000_000_000_000;
/// Memory of the node: its queues are what a script is for.
const MEMORY: Size = Size(512 << 20);
/// A call may take as long as a loaded machine needs, even one that stops for a while: the result must not depend on it.
const TIME: Duration = Duration::from_secs(3600);

/// A stream of records, which the script sees from one side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) name: &'static str,
    pub(super) side: Side,
    /// Its output, by place.
    pub(super) to: u16,
    /// Whether a script sees it, if there is one.
    pub(super) is_adapted: bool,
}

/// A record that was handed over.
#[derive(Clone, Debug)]
pub(super) struct Went {
    pub(super) output: OutputId,
    pub(super) id: DeliveryId,
    pub(super) record: Arc<Record>,
}

impl Went {
    pub(super) fn payload(&self) -> Bytes {
        self.record.payload.clone()
    }
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Stage {
    seat: Seat,
    scripts: Scripts,
    now: Time,
    went: Vec<Went>,
    /// What an edit of the node takes, where what scripts do takes time: nothing else happens meanwhile.
    pub(super) edit_takes: Option<Duration>,
    pub(super) real: Real,
}

/// What this processor took meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Real {
    /// For turns of scripts, and for doing what they decided.
    pub(super) turns: Duration,
    pub(super) edits: Duration,
    pub(super) edit_count: u64,
}

/// A script with parameters, as a configuration would have it.
pub(super) fn spec(name: &str, text: &str, parameters: &[(&str, Parameter)]) -> ScriptSpec {
    let pairs = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    ScriptSpec {
        parameters: pairs.collect(),
        limits: Limits { time: TIME, ..Limits::default() },
        ..ScriptSpec::new(name, text)
    }
}

impl Stage {
    /// A node whose streams all have this script, or none. Outputs take so many unconfirmed records each.
    pub(super) fn new(
        script: Option<ScriptSpec>,
        streams: &[Stream],
        outputs: &[(&str, usize)],
    ) -> anyhow::Result<Stage> {
        let specs: Vec<Arc<ScriptSpec>> = script.into_iter().map(Arc::new).collect();
        let scripts = Scripts::load(&specs)?;
        let node = Node::new(options(&scripts, streams, outputs)?)?;
        let now = Time::from_millis(1);
        let (seat, went) = (Seat::new(node), Vec::new());
        let real = Real::default();
        let mut stage = Stage { seat, scripts, now, went, edit_takes: None, real };
        for (place, stream) in streams.iter().enumerate() {
            let (source, rule) = (SourceId(place as u32), RuleId(place as u16));
            let open = Control::Open { source, name: stream.name.into(), relays: None };
            stage.handle(Input::Control(open));
            stage.handle(Input::Control(Control::Bind { source, rule }));
        }
        for output in (0..outputs.len() as u16).map(OutputId) {
            for lane in 0..stage.seat.options().lanes(output) {
                let path = PathId { output, lane };
                stage.handle(Input::PathState { path, state: PathState::Up });
            }
        }
        Ok(stage)
    }

    /// The present.
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// What the world's clock shows, in nanoseconds since 1970.
    pub(super) fn unix_ns(&self) -> u64 {
        UNIX_NS + self.now.as_nanos()
    }

    /// A record comes to a stream.
    pub(super) fn offer(
        &mut self,
        stream: usize,
        key: &str,
        headers: &[(&str, &str)],
        payload: Bytes,
    ) {
        let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let pairs = headers.iter().map(|(name, value)| (text(name), text(value))).collect();
        let offered = Offered {
            source: SourceId(stream as u32),
            token: None,
            key: text(key),
            properties: Properties::new(pairs),
            payload,
            read_at: self.now,
            source_unix_ns: None,
            ttl: None,
            foreign: None,
            packet: None,
        };
        self.handle(Input::Arrived(vec![offered]));
    }

    /// A far end has a record.
    pub(super) fn confirm(&mut self, output: OutputId, id: DeliveryId) {
        let destination = Destination::Output(output);
        self.handle(Input::Confirmed { destination, ids: vec![id] });
    }

    pub(super) fn advance(&mut self, until: Time) {
        while let Some(at) = self.next().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            while self.now <= until {
                let moment = self.moment();
                let begun = thread_time();
                let ran = self.scripts.fire(&mut self.seat, moment);
                self.real.turns += Duration::from_nanos(thread_time().saturating_sub(begun));
                let Some(ran) = ran else { break };
                self.take(ran);
            }
            self.poll();
            if self.now > until {
                break;
            }
        }
        self.now = self.now.max(until);
        self.poll();
    }

    /// When something is due by itself.
    pub(super) fn next(&self) -> Option<Time> {
        [self.seat.next_timeout(), self.scripts.next_timer()].into_iter().flatten().min()
    }

    /// What was handed over since the last question.
    pub(super) fn went(&mut self) -> Vec<Went> {
        std::mem::take(&mut self.went)
    }

    /// Records that the node has not given up or confirmed.
    pub(super) fn held(&self) -> u64 {
        self.seat.held()
    }

    /// What became of the script's calls.
    pub(super) fn counts(&self) -> ScriptCounts {
        self.scripts.get(ScriptId(0)).map(|script| script.counts().clone()).unwrap_or_default()
    }

    /// Why a call failed, if one did.
    pub(super) fn failure(&self) -> Option<String> {
        let counts = self.counts();
        let failed = counts.too_long + counts.too_large + counts.wrong + counts.unadapted;
        let script = self.scripts.get(ScriptId(0))?;
        let last = script.last_failure().map(ToString::to_string).unwrap_or_default();
        (failed > 0).then(|| format!("{failed} calls failed: {last}"))
    }

    fn moment(&self) -> Moment {
        Moment { now: self.now, unix_ns: self.unix_ns() }
    }

    fn handle(&mut self, input: Input) {
        self.seat.handle(self.now, input);
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(output) = self.seat.poll(self.now) {
            match output {
                Output::RunScript { queue, delivery } => {
                    let moment = self.moment();
                    let begun = thread_time();
                    let ran = self.scripts.run(&mut self.seat, moment, queue, delivery);
                    self.real.turns += Duration::from_nanos(thread_time().saturating_sub(begun));
                    self.take(ran);
                }
                Output::Transmit { path, id, range, .. } => {
                    let is_last = self.seat.size_of(id).is_none_or(|size| range.end >= size.0);
                    if let Some(record) = self.seat.record(id).filter(|_| is_last) {
                        let record = record.clone();
                        self.went.push(Went { output: path.output, id, record });
                    }
                    let bytes = Size(range.end - range.start);
                    self.seat.handle(self.now, Input::Sent { id, bytes });
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, ran: Ran) {
        if let Some(edit_takes) = self.edit_takes {
            let edits = ran.inputs.iter().map(|input| match input {
                Input::Edits { operations, .. } => operations.len() as u32,
                _ => 1,
            });
            let edits = edits.sum::<u32>();
            self.now += ran.took + edit_takes * edits;
            self.real.edit_count += u64::from(edits);
        }
        let begun = thread_time();
        ran.inputs.into_iter().for_each(|input| self.seat.handle(self.now, input));
        self.real.edits += Duration::from_nanos(thread_time().saturating_sub(begun));
    }
}

fn options(
    scripts: &Scripts,
    streams: &[Stream],
    outputs: &[(&str, usize)],
) -> anyhow::Result<NodeOptions> {
    let classes = Classes::new(default_classes())?;
    let rule = |stream: &Stream| {
        let plain = tidegate_node::rules::Rule::catch_all(&classes, vec![OutputId(stream.to)]);
        tidegate_node::rules::Rule {
            name: stream.name.into(),
            script: (stream.is_adapted && !scripts.is_empty()).then(|| stream.side.of(0)),
            bound: MEMORY,
            memory: MEMORY,
            ..plain
        }
    };
    let output = |(name, unconfirmed_max): &(&str, usize)| OutputOptions {
        name: (*name).into(),
        uplink: UplinkId(0),
        overhead: Size::ZERO,
        unconfirmed_max: *unconfirmed_max,
        one_lane: false,
        is_gone: false,
    };
    let line = UplinkOptions {
        name: "line".into(),
        controller: RateControllerName::Unlimited,
        cap: None,
        ..UplinkOptions::default()
    };
    Ok(NodeOptions {
        name: "stage".into(),
        incarnation: 1,
        rules: Rules::new(streams.iter().map(rule).collect())?,
        uplinks: vec![line],
        outputs: outputs.iter().map(output).collect(),
        scheduler: SchedulerName::Tidegate,
        memory: Size(MEMORY.0 * 2),
        inbound: None,
        record_max: Size(16 << 20),
        log: None,
        fleet: None,
        classes,
    })
}
