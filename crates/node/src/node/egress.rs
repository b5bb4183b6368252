//! How records leave: outputs with their connections, uplinks with what decides on them, and neighbours.
//!
//! A decision is made as late as possible: when an uplink is free, and never earlier, the most urgent ready
//! record goes. In the order of reading:
//!
//! | file | what it has |
//! |---|---|
//! | this file | outputs, lanes and uplinks; one way to hand over |
//! | `choice.rs` | which record an uplink takes next |
//! | `redirection.rs`, `grant_pacer.rs` | which record a neighbour's uplink takes |
//! | `outage.rs` | an uplink that carries nothing: how it is known, and what leaves by neighbours then |
//! | `answers.rs` | what comes back: bytes handed over, confirmations, paths up and down, figures |
//! | `measures.rs` | rates, loads and states, for schedulers, scripts and people |

mod answers;
mod choice;
mod grant_pacer;
mod measures;
mod outage;
mod redirection;

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_capacity as capacity;
use tidegate_capacity::uplink::Uplink;
use tidegate_schedule::estimate::Meter;
use tidegate_schedule::queue::{DeliveryKey, List, ListEnd, QueueSpec, Timing};
use tidegate_schedule::{Choice, Scheduler};
use tidegate_types::class::ClassId;
use tidegate_types::units::{Size, Time};

use self::measures::Silence;
use self::outage::Trust;
use self::redirection::Redirection;
use super::holdings::{Cut, Holdings};
use crate::io::{Output, OutputId, PathId};
use crate::options::{NodeOptions, UplinkOptions};

/// Shorter than this a far end's refusals are a queue that is full for a moment.
const REFUSING: Duration = Duration::from_secs(1);

/// A cut that is picked and not yet handed over.
#[derive(Clone, Copy, Debug)]
struct Picked {
    key: DeliveryKey,
    class: ClassId,
    piece: Size,
    /// Number of the delivery on the connection, for it can be there twice: refused and sent again.
    number: u64,
    /// Whether the record is whole with it.
    is_last: bool,
}

/// One connection of an output.
#[derive(Debug, Default)]
struct LaneState {
    is_up: bool,
    /// The delivery of which some cuts are picked and some are not, and the list that it came from.
    current: Option<(DeliveryKey, Timing)>,
    /// Cuts picked and not yet handed over, in order.
    picked: VecDeque<Picked>,
    /// Deliveries wholly picked and not yet confirmed, in the order of picking.
    unconfirmed: List,
    last_number: u64,
    silence: Silence,
}

/// One output.
#[derive(Debug)]
struct OutputState {
    lanes: Vec<LaneState>,
    /// Index of its first lane among the paths of its uplink.
    first_path: usize,
    /// Set by the driver where the whole destination is known to be down.
    is_down: bool,
    /// Records and bytes that went by it though their queue is another output's.
    redirected: (u64, Size),
    /// When the far end refused for now what it was sent, and since when it has confirmed nothing.
    refused_since: Option<Time>,
    /// A connection went down after such a refusal: a new one shows nothing before it confirms something.
    is_shut: bool,
}

impl OutputState {
    fn new(lanes: usize, first_path: usize) -> Self {
        let mut state = OutputState {
            lanes: Vec::new(),
            first_path,
            is_down: false,
            redirected: Default::default(),
            refused_since: None,
            is_shut: false,
        };
        state.lanes.resize_with(lanes, LaneState::default);
        state
    }

    /// Whether it takes records, as far as can be seen.
    fn is_open(&self) -> bool {
        !self.is_shut && self.lanes.iter().any(|lane| lane.is_up)
    }

    /// Whether the far end has been refusing for so long that somebody should look.
    fn is_refusing(&self, now: Time) -> bool {
        self.refused_since.is_some_and(|since| now.since(since) >= REFUSING)
    }

    /// Deliveries sent in part or whole and not confirmed.
    fn unconfirmed(&self) -> usize {
        let open = |lane: &LaneState| {
            lane.unconfirmed.records() as usize + usize::from(lane.current.is_some())
        };
        self.lanes.iter().map(open).sum()
    }
}

/// An uplink with what decides on it.
#[derive(Debug)]
struct UplinkState {
    uplink: Uplink,
    scheduler: Box<dyn Scheduler>,
    /// Arrivals and departures of each class.
    meters: Vec<(Meter, Meter)>,
    /// When the pacer or a cap lets it go on.
    wake: Option<Time>,
    /// What its failures have taught.
    trust: Trust,
    /// Bytes of urgent records that went before one that the scheduler had chosen, since it waits.
    overtaken: Size,
}

/// Outputs, uplinks and neighbours.
#[derive(Debug)]
pub(super) struct Egress {
    outputs: Vec<OutputState>,
    uplinks: Vec<UplinkState>,
    redirection: Redirection,
}

/// Bytes of a record that are to go now.
struct Handing {
    key: DeliveryKey,
    /// By which output: its queue's own, or a neighbour's.
    output: OutputId,
    choice: Choice,
    piece: Size,
}

impl Egress {
    pub(super) fn new(options: &NodeOptions) -> Self {
        let lanes = usize::from(options.scheduler.lanes(&options.classes));
        let mut outputs = Vec::new();
        let mut paths = vec![0; options.uplinks.len()];
        for output in &options.outputs {
            let uplink = usize::from(output.uplink.0);
            outputs.push(OutputState::new(lanes, paths[uplink]));
            paths[uplink] += lanes;
        }
        let uplink = |(index, spec): (usize, &UplinkOptions)| UplinkState {
            uplink: Uplink::new(spec, capacity::build(spec), paths[index]),
            scheduler: options.scheduler.build(&options.classes),
            meters: vec![Default::default(); options.classes.len()],
            wake: None,
            trust: Trust::default(),
            overtaken: Size::ZERO,
        };
        let uplinks = options.uplinks.iter().enumerate().map(uplink).collect();
        Egress { outputs, uplinks, redirection: Redirection::default() }
    }

    /// Whether there is such an output.
    pub(super) fn has_output(&self, output: OutputId) -> bool {
        usize::from(output.0) < self.outputs.len()
    }

    /// When something can go that could not before.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let uplinks = self.uplinks.iter().flat_map(|state| {
            [state.wake, state.uplink.next_timeout(), state.scheduler.next_reallocation()]
        });
        uplinks.chain([self.redirection.wake()]).flatten().min()
    }

    /// Bytes came to a queue.
    pub(super) fn count_arrival(
        &mut self,
        now: Time,
        options: &NodeOptions,
        spec: QueueSpec,
        size: Size,
    ) {
        let uplink = uplink_of(options, spec.output);
        self.uplinks[uplink].meters[spec.class.index()].0.count(now, size);
    }

    /// Hands bytes of a record to a connection: the one way out of the node.
    fn hand_over(
        &mut self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
        handing: Handing,
    ) -> Output {
        let Handing { key, output, choice, piece } = handing;
        let lane_index = options.scheduler.lane_of(choice.class);
        let state = &mut self.outputs[usize::from(output.0)];
        let path = state.first_path + usize::from(lane_index);
        let lane = &mut state.lanes[usize::from(lane_index)];
        let cut = holdings.take_cut(now, key, piece, &mut lane.last_number);
        let Cut { start, end, number, again, is_last } = cut;
        if is_last {
            lane.current = lane.current.filter(|(current, _)| *current != key);
            holdings.await_fate(&mut lane.unconfirmed, key);
        } else {
            lane.current.get_or_insert((key, choice.timing));
        }
        lane.picked.push_back(Picked { key, class: choice.class, piece, number, is_last });
        self.uplinks[uplink_of(options, output)].uplink.picked_for(now, path, piece);
        Output::Transmit {
            path: PathId { output, lane: lane_index },
            id: key.into(),
            range: start.0..end.0,
            again,
        }
    }

    /// Takes everything off the connections: the node gives up what it holds.
    pub(super) fn recall_all(&mut self, holdings: &mut Holdings) {
        for lane in self.outputs.iter_mut().flat_map(|output| &mut output.lanes) {
            lane.current = None;
            while let Some(key) = lane.unconfirmed.at(ListEnd::Front) {
                holdings.take_unconfirmed(&mut lane.unconfirmed, key);
            }
        }
    }
}

/// Index of an output's uplink.
fn uplink_of(options: &NodeOptions, output: OutputId) -> usize {
    usize::from(options.outputs[usize::from(output.0)].uplink.0)
}
