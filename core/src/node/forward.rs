//! The late choice: when the uplink is free, and never earlier, the most urgent ready record goes.

use std::collections::{BTreeMap, VecDeque};

use super::Node;
use crate::class::ClassId;
use crate::io::{Destination, Output, OutputId, PathId, Targets, UplinkId};
use crate::limits::CLASSES_MAX;
use crate::queue::{DeliveryKey, Timing};
use crate::schedule::{Choice, ClassView, Piece};
use crate::units::{Size, Time};

/// One connection of an output.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    pub(super) is_up: bool,
    /// The delivery of which some cuts are picked and some are not.
    pub(super) current: Option<DeliveryKey>,
    /// Cuts picked and not yet handed over, in order.
    pub(super) picked: VecDeque<(DeliveryKey, Size)>,
    /// Deliveries wholly picked and not yet confirmed, by their number.
    pub(super) unconfirmed: BTreeMap<u64, DeliveryKey>,
    pub(super) last_number: u64,
}

/// One output.
#[derive(Debug)]
pub(super) struct OutputState {
    pub(super) lanes: Vec<LaneState>,
    /// Place of its first lane among the paths of its uplink.
    pub(super) first_path: usize,
    /// Set by the driver where the whole destination is known to be down.
    pub(super) is_down: bool,
}

impl OutputState {
    pub(super) fn new(lanes: usize, first_path: usize) -> Self {
        let mut state = OutputState { lanes: Vec::new(), first_path, is_down: false };
        state.lanes.resize_with(lanes, LaneState::default);
        state
    }

    /// Deliveries sent in part or whole and not confirmed.
    pub(super) fn unconfirmed(&self) -> usize {
        let open = |lane: &LaneState| lane.unconfirmed.len() + usize::from(lane.current.is_some());
        self.lanes.iter().map(open).sum()
    }

    pub(super) fn forget_all(&mut self) {
        for lane in &mut self.lanes {
            let (is_up, last_number) = (lane.is_up, lane.last_number);
            *lane = LaneState { is_up, last_number, ..LaneState::default() };
        }
    }
}

/// The most urgent record of a list that could go now, and where.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    key: DeliveryKey,
    output: OutputId,
    piece: Piece,
    /// For the comparison between outputs.
    deadline: Time,
}

type Candidates = [[Option<Candidate>; 2]; CLASSES_MAX];

impl Node {
    /// Picks for one uplink, if it is free and anything is ready.
    pub(super) fn forward(&mut self, now: Time, uplink: UplinkId) -> Option<Output> {
        let place = usize::from(uplink.0);
        self.uplinks[place].uplink.tick(now);
        self.uplinks[place].wake = None;
        let candidates = self.candidates(now, uplink);
        let classes = self.options.classes.len();
        let mut views = [ClassView::default(); CLASSES_MAX];
        for (view, [live, late]) in views.iter_mut().zip(&candidates) {
            let piece = |candidate: &Option<Candidate>| candidate.map(|candidate| candidate.piece);
            *view = ClassView { live: piece(live), late: piece(late) };
        }
        let views = &views[..classes];
        let state = &mut self.uplinks[place];
        let Some(choice) = state.scheduler.next(now, views) else {
            state.wake = state.scheduler.next_timeout(now, views);
            if self.has_nothing_for(uplink) {
                self.uplinks[place].uplink.idle();
            }
            return None;
        };
        let candidate = candidates[choice.class.index()][choice.timing as usize]?;
        let is_urgent = choice.class == ClassId(0) && choice.timing == Timing::Live && classes > 1;
        if !state.uplink.is_free(now, candidate.piece.size, is_urgent) {
            state.wake = state.uplink.next_free(now, candidate.piece.size);
            return None;
        }
        state.scheduler.sent(now, choice, candidate.piece.size, views);
        Some(self.transmit(now, uplink, choice, candidate))
    }

    /// Whether no record waits for the uplink, sendable or not.
    fn has_nothing_for(&self, uplink: UplinkId) -> bool {
        let mut classes = self.options.classes.iter();
        let place = usize::from(uplink.0);
        let is_begun = |(output, spec): (&OutputState, &crate::options::OutputOptions)| {
            spec.uplink == uplink && output.lanes.iter().any(|lane| lane.current.is_some())
        };
        classes.all(|(class, _)| self.backlog_on(place, class) == Size::ZERO)
            && !self.outputs.iter().zip(&self.options.outputs).any(is_begun)
    }

    /// For each class and list, the most urgent record over the uplink's outputs.
    fn candidates(&mut self, now: Time, uplink: UplinkId) -> Candidates {
        let mut candidates = [[None; 2]; CLASSES_MAX];
        let cut = self.uplinks[usize::from(uplink.0)].uplink.cut();
        for output in 0..self.outputs.len() {
            let spec = &self.options.outputs[output];
            if spec.uplink != uplink || self.outputs[output].is_down {
                continue;
            }
            let has_window = self.outputs[output].unconfirmed() < spec.unconfirmed_max;
            for class in 0..self.options.classes.len() {
                let (class, output) = (ClassId(class as u8), OutputId(output as u16));
                let found = self.candidates_of(now, class, output, has_window, cut);
                for (best, found) in candidates[class.index()].iter_mut().zip(found) {
                    let rank = |candidate: Candidate| (candidate.deadline, candidate.piece.order);
                    let is_better = |best: Option<Candidate>, found| {
                        best.is_none_or(|best| rank(found) < rank(best))
                    };
                    if let Some(found) = found.filter(|&found| is_better(*best, found)) {
                        *best = Some(found);
                    }
                }
            }
        }
        candidates
    }

    fn candidates_of(
        &mut self,
        now: Time,
        class: ClassId,
        output: OutputId,
        has_window: bool,
        cut: Size,
    ) -> [Option<Candidate>; 2] {
        let state = &self.outputs[usize::from(output.0)];
        let lane_place = usize::from(self.options.scheduler.lane_of(class));
        let lane = &state.lanes[lane_place];
        let uplink =
            &self.uplinks[usize::from(self.options.outputs[usize::from(output.0)].uplink.0)];
        // A lane takes a cut's worth ahead, so that small records do not cost a wake-up each.
        let is_busy = uplink.uplink.picked(state.first_path + lane_place) >= cut;
        if !lane.is_up || is_busy {
            return [None; 2];
        }
        let candidate = |queues: &crate::queue::Queues, key: DeliveryKey| {
            let delivery = queues.get(key).expect("heads and currents are known");
            let size = (delivery.size - delivery.progress.picked).min(cut);
            let piece = Piece { size, order: delivery.order };
            Candidate { key, output, piece, deadline: delivery.deadline }
        };
        if let Some(current) = lane.current {
            // What is begun is finished first: nothing else can use its connection.
            let is_own = self.queues.spec_of(current).is_some_and(|spec| spec.class == class);
            return [is_own.then(|| candidate(&self.queues, current)), None];
        }
        if !has_window {
            return [None; 2];
        }
        [Timing::Live, Timing::Late].map(|timing| {
            let head = self.queues.head(class, output, timing, now)?;
            Some(candidate(&self.queues, head))
        })
    }

    /// Takes one cut of a record and hands it to the driver.
    fn transmit(
        &mut self,
        now: Time,
        uplink: UplinkId,
        choice: Choice,
        candidate: Candidate,
    ) -> Output {
        let Candidate { key, output, piece, .. } = candidate;
        let lane_place = self.options.scheduler.lane_of(choice.class);
        let state = &mut self.outputs[usize::from(output.0)];
        let path = state.first_path + usize::from(lane_place);
        let lane = &mut state.lanes[usize::from(lane_place)];
        if self.queues.take(key) {
            lane.last_number += 1;
            let progress = self.queues.progress_mut(key).expect("it was just taken");
            progress.picked_at = now;
            progress.number = lane.last_number;
        }
        let delivery = self.queues.get(key).expect("a candidate is known");
        let (size, start, again) =
            (delivery.size, delivery.progress.picked, delivery.progress.again);
        let end = start + piece.size;
        let number = delivery.progress.number;
        self.queues.progress_mut(key).expect("it is known").picked = end;
        lane.current = (end < size).then_some(key);
        if end == size {
            lane.unconfirmed.insert(number, key);
        }
        lane.picked.push_back((key, piece.size));
        self.uplinks[usize::from(uplink.0)].uplink.picked_for(now, path, piece.size);
        Output::Transmit {
            destinations: Targets::One(Destination::Output(output)),
            path: PathId { output, lane: lane_place },
            id: key.into(),
            range: start.0..end.0,
            again,
        }
    }
}
