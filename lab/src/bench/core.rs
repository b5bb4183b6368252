//! Nanoseconds per record through a node: offered, accepted, ordered, sent, confirmed and forgotten, over a
//! wire that takes no time. Half of the records carry a token.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use tidegate_capacity::RateControllerName;
use tidegate_node::io::{
    Control, Destination, Input, Output, OutputId, PathId, PathState, UplinkId,
};
use tidegate_node::node::Node;
use tidegate_node::options::{NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{Rule, Rules};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{Classes, default_classes};
use tidegate_types::record::{DeliveryId, Offered, Properties, SourceId, Token};
use tidegate_types::units::{Size, Time};

use crate::net::NetError;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Findings, figure};

/// Connections, each with a queue of its own.
const SOURCES: u32 = 10_000;
const RECORDS: u64 = 1_000_000;
const RUNS: usize = 7;
const PAYLOAD: usize = 200;
/// Records that wait at any time, one a queue: the queues are not empty while we measure.
const STANDING: usize = 10_000;
/// Records that are sent and unconfirmed at any time.
const UNCONFIRMED: usize = 1_024;

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Records in one input (may be given again)
    #[arg(long, default_values_t = [1, 64])]
    pub(crate) batch: Vec<usize>,
}

/// Runs it for each batch size and returns figures: the median, the least and the most of
/// several runs, in turn.
pub(crate) fn run(options: &Options) -> Result<Findings, NetError> {
    let batches = &options.batch;
    let _awake = Spinners::start()?;
    let progress = Progress::new("core", RUNS * batches.len());
    let mut runs = vec![Vec::new(); batches.len()];
    for _ in 0..RUNS {
        for (batch, runs) in batches.iter().zip(&mut runs) {
            progress.step(&format!("{batch} a batch"), None);
            runs.push(Bench::new().run(*batch));
        }
    }
    let mut figures = Vec::new();
    for (batch, mut runs) in batches.iter().zip(runs) {
        runs.sort_by(f64::total_cmp);
        figures.push(figure(&format!("core_batch_{batch}"), runs[RUNS / 2].round(), "ns"));
        figures.push(figure(&format!("core_batch_{batch}_least"), runs[0].round(), "ns"));
        figures.push(figure(&format!("core_batch_{batch}_most"), runs[RUNS - 1].round(), "ns"));
    }
    figures.push(figure("core_queues", SOURCES.into(), "queues"));
    Ok((Vec::new(), figures).into())
}

/// Time that this thread spent on a processor, so that neighbours on the machine count little; where the
/// system does not tell, time on the wall.
struct Clock(Option<u64>, Instant);

impl Clock {
    fn on_processor() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    fn start() -> Self {
        Clock(Clock::on_processor(), Instant::now())
    }

    fn elapsed(&self) -> Duration {
        match (self.0, Clock::on_processor()) {
            (Some(start), Some(now)) => Duration::from_nanos(now - start),
            _ => self.1.elapsed(),
        }
    }
}

/// A node and its driver.
struct Bench {
    node: Node,
    now: Time,
    offered: u64,
    answered: u64,
    /// Ordered and not confirmed.
    sent: VecDeque<DeliveryId>,
    payload: Bytes,
    keys: [Bytes; 3],
}

impl Bench {
    fn new() -> Self {
        let mut bench = Bench {
            node: Node::new(options()).expect("the options lead somewhere"),
            now: Time::from_millis(1000),
            offered: 0,
            answered: 0,
            sent: VecDeque::new(),
            payload: Bytes::from(vec![0; PAYLOAD]),
            keys: ["ls/a", "nm/a", "lt/a"].map(Bytes::from),
        };
        for source in 0..SOURCES {
            let name = format!("sensor-{source}").into();
            let open = Control::Open { source: SourceId(source), name, relays: None };
            bench.node.handle(bench.now, Input::Control(open));
        }
        bench
    }

    /// Returns nanoseconds per record.
    fn run(mut self, batch: usize) -> f64 {
        // The lanes are down at first: a backlog builds up, which then stands at its height.
        for _ in 0..(STANDING + UNCONFIRMED) / 64 {
            self.offer(64);
        }
        for lane in 0..3 {
            let path = PathId { output: OutputId(0), lane };
            self.node.handle(self.now, Input::PathState { path, state: PathState::Up });
        }
        self.obey(UNCONFIRMED);
        let (offered, start) = (self.offered, Clock::start());
        while self.offered - offered < RECORDS {
            self.offer(batch);
            self.now += Duration::from_micros(batch as u64);
            self.obey(batch);
            self.confirm(batch);
        }
        let spent = start.elapsed();
        let count = (self.offered - offered) as f64;
        while !self.sent.is_empty() {
            self.obey(1024);
            self.confirm(1024);
        }
        let status = self.node.status(self.now);
        assert_eq!((status.held, status.counts.confirmed), (0, self.offered), "all arrived");
        assert_eq!(self.answered, self.offered / 2, "every second one was answered");
        spent.as_secs_f64() * 1e9 / count
    }

    fn offer(&mut self, batch: usize) {
        let mut records = Vec::with_capacity(batch);
        for _ in 0..batch {
            self.offered += 1;
            let number = self.offered;
            // A step that shares no factor with the count visits every source in turn.
            let source = (number * 7919 % u64::from(SOURCES)) as u32;
            records.push(Offered {
                source: SourceId(source),
                token: number.is_multiple_of(2).then_some(Token(number)),
                key: self.keys[source as usize % 3].clone(),
                properties: Properties::default(),
                payload: self.payload.clone(),
                read_at: self.now,
                source_unix_ns: None,
                ttl: None,
                foreign: None,
                packet: None,
            });
        }
        self.node.handle(self.now, Input::Arrived(records));
    }

    /// Polls until the node has nothing more to say or so many records were ordered, each reported as
    /// sent at once, as by a socket that has room.
    fn obey(&mut self, records: usize) {
        let mut left = records;
        while let Some(output) = self.node.poll(self.now) {
            match output {
                Output::Accept { .. } => self.answered += 1,
                Output::Transmit { id, range, .. } => {
                    let bytes = Size(range.end - range.start);
                    self.node.handle(self.now, Input::Sent { id, bytes });
                    self.sent.push_back(id);
                    left -= 1;
                    if left == 0 {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    fn confirm(&mut self, records: usize) {
        let ids: Vec<DeliveryId> = self.sent.drain(..records.min(self.sent.len())).collect();
        let destination = Destination::Output(OutputId(0));
        self.node.handle(self.now, Input::Confirmed { destination, ids });
    }
}

fn options() -> NodeOptions {
    let classes = Classes::new(default_classes()).expect("the default classes are good");
    let all = Rule::catch_all(&classes, vec![OutputId(0)]);
    let rule = |(name, millis): (&str, u64)| {
        let filter = format!("{name}/#");
        let latency = Duration::from_millis(millis);
        all.clone().for_topics(&classes, name, &[&filter], latency).expect("a good filter")
    };
    let rules = [("ls", 50), ("nm", 500), ("lt", 1000)].map(rule).to_vec();
    NodeOptions {
        name: "bench".into(),
        incarnation: 1,
        rules: Rules::new(rules).expect("the rules lead somewhere"),
        classes,
        uplinks: vec![UplinkOptions {
            name: "none".into(),
            controller: RateControllerName::Unlimited,
            cap: None,
            ..UplinkOptions::default()
        }],
        outputs: vec![OutputOptions {
            name: "void".into(),
            uplink: UplinkId(0),
            overhead: Size(40),
            unconfirmed_max: 100_000,
            one_lane: false,
            is_gone: false,
        }],
        scheduler: SchedulerName::Tidegate,
        memory: Size::from_mib(256),
        inbound: None,
        record_max: Size::from_mib(1),
        fleet: None,
        log: None,
    }
}
