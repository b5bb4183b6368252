//! A node without queues or clock: it orders records by their lane, keeps a window of unconfirmed ones,
//! sends again what a lost connection leaves open, and writes down each record's fate.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate::node::contract::{Arrival, Clock, Feedback, Orders, OutputPort, Transmit};
use tidegate::output::kind::Driver;
use tidegate_node::io::{Input, OutputId, PathState, Refusal};
use tidegate_types::class::ClassId;
use tidegate_types::record::{
    DeliveryId, DropReason, Identity, Origin, Properties, Record, StreamId,
};
use tidegate_types::units::Time;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::PATIENCE;

/// How often `done` is asked where nothing happens.
const POLL: Duration = Duration::from_millis(20);
/// Cuts of larger records.
const CUT: u64 = 7000;

/// How a record ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Confirmed,
    Dropped(DropReason),
}

#[derive(Default)]
struct LaneState {
    is_up: bool,
    downs: u64,
    waiting: VecDeque<u64>,
    sent: Vec<u64>,
}

/// See the file's header.
pub(crate) struct Node {
    orders: Orders,
    reports: mpsc::Receiver<Arrival>,
    output: JoinHandle<()>,
    lanes: Vec<LaneState>,
    window: usize,
    records: BTreeMap<u64, (Arc<Record>, bool)>,
    pub(crate) fates: BTreeMap<u64, End>,
    /// Bytes that the output reported as handed over.
    pub(crate) handed: u64,
    /// How often it told what the kernel counted.
    pub(crate) samples: u64,
    /// Records that were refused for now, each time.
    pub(crate) refused: u64,
}

impl Node {
    /// Starts an output with so many lanes.
    pub(crate) fn start(options: impl Driver + 'static, lanes: u8, window: usize) -> Node {
        let (sender, reports) = mpsc::channel(64);
        let feedback = Feedback::new(sender, OutputId(0), Clock::start());
        let (id, name) = (OutputId(0), "output".into());
        let (orders, port) = OutputPort::new(id, name, lanes, feedback);
        let mut states = Vec::new();
        states.resize_with(usize::from(lanes), LaneState::default);
        Node {
            orders,
            reports,
            output: tokio::spawn(Box::new(options).run(port)),
            lanes: states,
            window,
            records: BTreeMap::new(),
            fates: BTreeMap::new(),
            handed: 0,
            samples: 0,
            refused: 0,
        }
    }

    /// Accepts a record; its number is also its `seq`. Even numbers take lane 0.
    pub(crate) fn offer(&mut self, number: u64, key: &str, payload: Bytes) {
        let origin = Arc::new(Origin { node: "gate-7".into(), incarnation: 0x1c9f });
        let name = (Bytes::from_static(b"unit"), Bytes::from_static(b"celsius"));
        let record = Record {
            identity: Identity { origin, stream: StreamId(12), seq: number },
            key: Bytes::copy_from_slice(key.as_bytes()),
            properties: Properties::new(vec![name]),
            payload,
            arrived: Time::from_millis(1000),
            deadline: Time::from_millis(1050),
            expires: None,
            source_unix_ns: Some(1_700_000_000_000_000_000 + number),
        };
        self.records.insert(number, (Arc::new(record), false));
        let lane = number as usize % self.lanes.len();
        self.lanes[lane].waiting.push_back(number);
    }

    /// How often a lane went down.
    pub(crate) fn downs(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.downs).sum()
    }

    /// Whether all accepted records have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.fates.len() == self.records.len()
    }

    /// Works until `done` says so.
    pub(crate) async fn run_until(&mut self, mut done: impl FnMut(&Node) -> bool) {
        let work = async {
            while !done(self) {
                self.order();
                // `done` may ask for something that brings no report.
                if let Ok(arrival) = timeout(POLL, self.reports.recv()).await {
                    self.take(arrival.expect("the output runs"));
                }
            }
        };
        if timeout(PATIENCE, work).await.is_err() {
            panic!("{} of {} records have a fate", self.fates.len(), self.records.len());
        }
    }

    fn order(&mut self) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            while lane.is_up && lane.sent.len() < self.window {
                let Some(id) = lane.waiting.pop_front() else { break };
                lane.sent.push(id);
                let (record, again) = &self.records[&id];
                let size = record.payload.len() as u64 + 400;
                for start in (0..size).step_by(CUT as usize) {
                    let order = Transmit {
                        id: DeliveryId(id),
                        lane: number as u8,
                        epoch: lane.downs,
                        record: record.clone(),
                        class: ClassId(number as u8),
                        start,
                        end: (start + CUT).min(size),
                        size,
                        again: *again,
                    };
                    self.orders.transmit(order);
                }
            }
        }
    }

    fn take(&mut self, arrival: Arrival) {
        let input = match arrival {
            Arrival::Input(input) => input,
            Arrival::Sent(all) => {
                return all.into_iter().for_each(|(_, bytes)| self.handed += bytes.0);
            }
            other => panic!("no input: {other:?}"),
        };
        match input {
            Input::PathState { path, state } => {
                let lane = &mut self.lanes[usize::from(path.lane)];
                let is_up = state == PathState::Up;
                assert_ne!(lane.is_up, is_up, "each change is told once");
                lane.is_up = is_up;
                if !is_up {
                    lane.downs += 1;
                    while let Some(id) = lane.sent.pop() {
                        self.records.get_mut(&id).unwrap().1 = true;
                        lane.waiting.push_front(id);
                    }
                }
            }
            Input::Sent { bytes, .. } => self.handed += bytes.0,
            Input::Confirmed { ids, .. } | Input::Carried { ids, .. } => {
                ids.into_iter().for_each(|id| self.end(id.0, End::Confirmed));
            }
            Input::Refused { ids, reason: Refusal::Final(reason), .. } => {
                ids.into_iter().for_each(|id| self.end(id.0, End::Dropped(reason)));
            }
            Input::Refused { ids, reason: Refusal::Retry, .. } => {
                self.refused += ids.len() as u64;
                for DeliveryId(id) in ids {
                    let lane = id as usize % self.lanes.len();
                    self.lanes[lane].sent.retain(|&sent| sent != id);
                    self.lanes[lane].waiting.push_front(id);
                }
            }
            Input::PathSample { .. } => self.samples += 1,
            Input::Window { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, id: u64, end: End) {
        let lane = id as usize % self.lanes.len();
        self.lanes[lane].sent.retain(|&sent| sent != id);
        assert_eq!(self.fates.insert(id, end), None, "record {id} ends once");
    }

    /// Stops the output politely.
    pub(crate) async fn stop(self) {
        self.orders.stop();
        let Node { mut reports, output, .. } = self;
        let drain = async { while reports.recv().await.is_some() {} };
        let (stopped, ()) = tokio::join!(timeout(PATIENCE, output), drain);
        stopped.expect("an output stops").expect("without a panic");
    }
}
