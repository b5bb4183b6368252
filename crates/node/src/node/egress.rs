//! How records leave: outputs with their connections, uplinks with what decides on them, and neighbours.
//!
//! A decision is made as late as possible: when an uplink is free, and never earlier, the most urgent ready
//! record goes. In the order of reading:
//!
//! | file | what it has |
//! |---|---|
//! | `state.rs`, `grants.rs` | what is known of a connection, an output, an uplink; what neighbours grant |
//! | `candidates.rs` | what could go now, for the choice to be made among |
//! | this file | one way to hand over |
//! | `choice.rs` | which record an uplink takes next |
//! | `redirection.rs` | which record a neighbour's uplink takes |
//! | `ways.rs` | an alarm by two ways: which ends it, and when it goes again |
//! | `outage.rs` | an uplink that carries nothing: how it is known, and what leaves by neighbours then |
//! | `answers.rs` | what comes back: bytes handed over, confirmations, paths up and down, figures |
//! | `measures.rs` | rates, loads and states, for schedulers, scripts and people |

mod answers;
mod candidates;
mod choice;
mod grants;
mod measures;
mod outage;
mod redirection;
mod state;
mod ways;

use tidegate_capacity as capacity;
use tidegate_capacity::uplink::Uplink;
use tidegate_schedule::Choice;
use tidegate_schedule::queue::{DeliveryKey, ListEnd, QueueSpec};
use tidegate_types::class::ClassId;
use tidegate_types::units::{Size, Time};

use self::candidates::UplinkCandidates;
use self::grants::Grants;
use self::state::{OutputState, Picked, Trust, UplinkState};
use super::base::Base;
use super::holdings::Cut;
use crate::io::{Output, OutputId, PathId, UplinkId};
use crate::options::{NodeOptions, UplinkOptions};

/// The most urgent class: what it has is few, and waits for nobody.
pub(super) const ALARM: ClassId = ClassId(0);

/// Outputs, uplinks and neighbours.
#[derive(Debug)]
pub(super) struct Egress {
    outputs: Vec<OutputState>,
    uplinks: Vec<UplinkState>,
    grants: Grants,
    /// What is found anew at each choice; kept for its memory only.
    candidates: UplinkCandidates,
}

/// Bytes of a record that are to go now.
struct Handing {
    key: DeliveryKey,
    /// By which output: its queue's own, or a neighbour's.
    output: OutputId,
    choice: Choice,
    piece: Size,
}

/// The class as which a record is metered: neighbours' are no part of what our own classes want and use.
#[inline]
fn metered(options: &NodeOptions, spec: QueueSpec) -> ClassId {
    let seat = options.fleet.filter(|_| options.rules.get(spec.rule).relays.is_some());
    seat.map_or(spec.class, |seat| seat.relayed)
}

impl Egress {
    pub(super) fn new(options: &NodeOptions) -> Self {
        let (outputs, uplinks) = (Vec::new(), Vec::new());
        let (grants, candidates) = (Grants::default(), UplinkCandidates::default());
        let mut egress = Egress { outputs, uplinks, grants, candidates };
        egress.extend(options);
        egress
    }

    /// Begins those outputs and uplinks of the options that are new: they stand behind the others.
    pub(super) fn extend(&mut self, options: &NodeOptions) {
        let uplink = |spec: &UplinkOptions| UplinkState {
            uplink: Uplink::new(spec, capacity::build(spec), 0),
            scheduler: options.scheduler.build(&options.classes),
            meters: vec![Default::default(); options.classes.len()],
            wake: None,
            trust: Trust::default(),
            overtaken: Size::ZERO,
            is_flooded: false,
        };
        self.uplinks.extend(options.uplinks.iter().skip(self.uplinks.len()).map(uplink));
        for place in self.outputs.len()..options.outputs.len() {
            let output = &options.outputs[place];
            let uplink = usize::from(output.uplink.0);
            let lanes = usize::from(options.lanes(OutputId(place as u16)));
            let first = self.uplinks[uplink].uplink.add_paths(lanes);
            self.outputs.push(OutputState::new(lanes, output.unconfirmed_max, uplink, first));
        }
    }

    /// Holds an uplink to these options.
    pub(super) fn govern(&mut self, uplink: UplinkId, options: &UplinkOptions) {
        if let Some(state) = self.uplinks.get_mut(usize::from(uplink.0)) {
            state.uplink.govern(options);
            // What waited for its pace is looked at anew.
            state.wake = None;
        }
    }

    /// When something can go that could not before.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let uplinks = self.uplinks.iter().flat_map(|state| {
            [state.wake, state.uplink.next_timeout(), state.scheduler.next_reallocation()]
        });
        uplinks.chain([self.grants.wake]).flatten().min()
    }

    /// Bytes came to a queue.
    #[inline]
    pub(super) fn count_arrival(
        &mut self,
        options: &NodeOptions,
        now: Time,
        spec: QueueSpec,
        size: Size,
    ) {
        let uplink = self.outputs[usize::from(spec.output.0)].uplink;
        let class = metered(options, spec);
        self.uplinks[uplink].meters[class.index()].0.count(now, size);
    }

    /// Hands bytes of a record to a connection: the one way out of the node.
    fn hand_over(&mut self, base: &mut Base, handing: Handing) -> Output {
        let Handing { key, output, choice, piece } = handing;
        let lane_index = base.options.lane_of(output, choice.class);
        let lane = &mut self.outputs[usize::from(output.0)].lanes[usize::from(lane_index)];
        let mut cut = base.holdings.take_cut(base.now, key, piece, &mut lane.last_number);
        if cut.is_last {
            lane.current = lane.current.filter(|(current, _)| *current != key);
            base.holdings.await_fate(&mut lane.unconfirmed, key);
        } else {
            lane.current.get_or_insert((key, choice.timing));
        }
        let is_new = choice.class == ALARM && cut.start == Size::ZERO && cut.is_last && !cut.again;
        if is_new && self.may_go_twice(base, key, output) {
            self.grants.once.push_back(key);
            // Nobody knows which of two copies comes first.
            cut.again = true;
        }
        self.transmit(base, key, PathId { output, lane: lane_index }, cut)
    }

    /// Gives a cut to the driver.
    fn transmit(&mut self, base: &Base, key: DeliveryKey, path: PathId, cut: Cut) -> Output {
        let Cut { start, end, number, again, is_last } = cut;
        let spec = base.holdings.delivery(key).map(|delivery| delivery.spec);
        let class = spec.map_or(ALARM, |spec| metered(&base.options, spec));
        let state = &mut self.outputs[usize::from(path.output.0)];
        let (lane, piece) = (usize::from(path.lane), end - start);
        state.lanes[lane].picked.push_back(Picked { key, class, piece, number, is_last });
        let uplink = &mut self.uplinks[state.uplink].uplink;
        uplink.picked_for(base.now, state.first_path + lane, piece);
        Output::Transmit { path, id: key.into(), range: start.0..end.0, again }
    }

    /// Takes everything off the connections: the node gives up what it holds.
    pub(super) fn recall_all(&mut self, base: &mut Base) {
        for lane in self.outputs.iter_mut().flat_map(|output| &mut output.lanes) {
            lane.current = None;
            while let Some(key) = lane.unconfirmed.at(ListEnd::Front) {
                base.holdings.take_unconfirmed(&mut lane.unconfirmed, key);
            }
        }
    }
}
