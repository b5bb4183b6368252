//! The late choice: when the uplink is free, and never earlier, the most urgent ready record goes.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_schedule::queue::{DeliveryKey, List, Timing};
use tidegate_schedule::{Choice, ClassView, Piece};
use tidegate_types::class::ClassId;
use tidegate_types::limits::CLASSES_MAX;
use tidegate_types::units::{Size, Time};

use super::Node;
use super::facts::Silence;
use crate::io::{Destination, Output, OutputId, PathId, Targets, UplinkId};

/// The choice that may overdraw the uplink.
const URGENT: Choice = Choice { class: ClassId(0), timing: Timing::Live };

/// A cut that is picked and not yet handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picked {
    pub(super) key: DeliveryKey,
    pub(super) class: ClassId,
    pub(super) piece: Size,
    /// Number of the delivery on the connection, for it can be there twice: refused and sent again.
    pub(super) number: u64,
    /// Whether the record is whole with it.
    pub(super) is_last: bool,
}

/// One connection of an output.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    pub(super) is_up: bool,
    /// The delivery of which some cuts are picked and some are not, and the list that it came from.
    pub(super) current: Option<(DeliveryKey, Timing)>,
    /// Cuts picked and not yet handed over, in order.
    pub(super) picked: VecDeque<Picked>,
    /// Deliveries wholly picked and not yet confirmed, in the order of picking.
    pub(super) unconfirmed: List,
    pub(super) last_number: u64,
    pub(super) silence: Silence,
}

/// One output.
#[derive(Debug)]
pub(super) struct OutputState {
    pub(super) lanes: Vec<LaneState>,
    /// Place of its first lane among the paths of its uplink.
    pub(super) first_path: usize,
    /// Set by the driver where the whole destination is known to be down.
    pub(super) is_down: bool,
    /// Records and bytes that went by it though their queue is another output's.
    pub(super) redirected: (u64, Size),
    /// When the far end refused for now what it was sent, and since when it has confirmed nothing.
    pub(super) refused_since: Option<Time>,
    /// A connection went down after such a refusal: a new one shows nothing before it confirms something.
    pub(super) is_shut: bool,
}

/// Shorter than this a far end's refusals are a queue that is full for a moment.
const REFUSING: Duration = Duration::from_secs(1);

impl OutputState {
    pub(super) fn new(lanes: usize, first_path: usize) -> Self {
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
    pub(super) fn is_open(&self) -> bool {
        !self.is_shut && self.lanes.iter().any(|lane| lane.is_up)
    }

    /// Whether the far end has been refusing for so long that somebody should look.
    pub(super) fn is_refusing(&self, now: Time) -> bool {
        self.refused_since.is_some_and(|since| now.since(since) >= REFUSING)
    }

    /// Deliveries sent in part or whole and not confirmed.
    pub(super) fn unconfirmed(&self) -> usize {
        let open = |lane: &LaneState| {
            lane.unconfirmed.records() as usize + usize::from(lane.current.is_some())
        };
        self.lanes.iter().map(open).sum()
    }
}

/// The most urgent record of a list that could go now, and where.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    key: DeliveryKey,
    output: OutputId,
    piece: Piece,
    /// For the comparison between outputs: as records rank inside a class.
    rank: (u64, u64),
}

/// What an uplink could send now.
#[derive(Default)]
struct Candidates {
    of_class: [[Option<Candidate>; 2]; CLASSES_MAX],
    views: [ClassView; CLASSES_MAX],
    /// A lane has all that it may take ahead: what holds us up is below.
    is_any_busy: bool,
}

impl Node {
    /// Picks for one uplink, if it is free and anything is ready.
    pub(super) fn forward(&mut self, now: Time, uplink: UplinkId) -> Option<Output> {
        let place = usize::from(uplink.0);
        self.uplinks[place].uplink.tick(now);
        self.reallocate(now, place);
        let mut candidates = Candidates::default();
        self.add_all(now, uplink, &mut candidates);
        let views = &candidates.views[..self.options.classes.len()];
        let state = &mut self.uplinks[place];
        let Some(mut choice) = state.scheduler.next(now, views) else {
            state.wake = state.scheduler.next_timeout(now, views);
            if !candidates.is_any_busy {
                state.uplink.idle();
            }
            return None;
        };
        let mut candidate = candidates.of(choice)?;
        if !self.is_free(now, place, choice, candidate) {
            let Some(urgent) = self.overtaker(now, place, &candidates) else {
                let state = &mut self.uplinks[place];
                let free = state.uplink.next_free(now, candidate.piece.size);
                let uncapped = state.scheduler.next_timeout(now, views);
                state.wake = [free, uncapped].into_iter().flatten().min();
                return None;
            };
            (choice, candidate) = urgent;
            self.uplinks[place].overtaken += candidate.piece.size;
        } else {
            self.uplinks[place].overtaken = Size::ZERO;
        }
        self.uplinks[place].scheduler.sent(now, choice, candidate.piece.size, views);
        Some(self.transmit(now, uplink, choice, candidate))
    }

    /// Whether the uplink takes the choice now. Live records of the most urgent class may overdraw it,
    /// unless all is one FIFO.
    fn is_free(&self, now: Time, place: usize, choice: Choice, candidate: Candidate) -> bool {
        let is_urgent = choice == URGENT
            && self.options.classes.len() > 1
            && self.options.scheduler.favours_alarms();
        let output = &self.outputs[usize::from(candidate.output.0)];
        let path = || output.first_path + usize::from(self.options.scheduler.lane_of(choice.class));
        let urgent = is_urgent.then(path);
        self.uplinks[place].uplink.is_free(now, candidate.piece.size, urgent)
    }

    /// The urgent record that goes although the scheduler chose another one, for which the uplink has no
    /// room: while that one waits, one cut of urgent records may pass it.
    fn overtaker(
        &self,
        now: Time,
        place: usize,
        candidates: &Candidates,
    ) -> Option<(Choice, Candidate)> {
        if !self.options.scheduler.favours_alarms() {
            // In one FIFO nothing passes, however small, and granted rates are kept.
            return None;
        }
        let urgent = candidates.of(URGENT)?;
        let state = &self.uplinks[place];
        let is_little = state.overtaken + urgent.piece.size <= state.uplink.cut();
        (is_little && self.is_free(now, place, URGENT, urgent)).then_some((URGENT, urgent))
    }

    /// Adds, for each class and list, the most urgent record over the uplink's outputs.
    fn add_all(&mut self, now: Time, uplink: UplinkId, all: &mut Candidates) {
        let cut = self.uplinks[usize::from(uplink.0)].uplink.cut();
        for output in 0..self.outputs.len() {
            if self.options.outputs[output].uplink != uplink || self.outputs[output].is_down {
                continue;
            }
            for class in 0..self.options.classes.len() {
                let (class, output) = (ClassId(class as u8), OutputId(output as u16));
                self.add_candidates(now, class, output, cut, all);
            }
        }
    }

    /// Adds what a class could send to an output.
    fn add_candidates(
        &mut self,
        now: Time,
        class: ClassId,
        output: OutputId,
        cut: Size,
        all: &mut Candidates,
    ) {
        let lane_place = usize::from(self.options.scheduler.lane_of(class));
        let state = &self.outputs[usize::from(output.0)];
        let lane = &state.lanes[lane_place];
        // Asked for in any case, so that records turn late one by one and not all at once when the
        // lane comes up.
        let heads = self.queues.heads(class, output, now);
        if !lane.is_up {
            return;
        }
        let view = &mut all.views[class.index()];
        view.has_live |= heads[Timing::Live as usize].is_some();
        view.has_late |= heads[Timing::Late as usize].is_some();
        let mut next = [None; 2];
        if let Some((current, timing)) = lane.current {
            // What is begun is finished first: nothing else can use its connection. A late record on the
            // way of a live one is as urgent as that.
            if self.queues.get(current).is_some_and(|delivery| delivery.spec.class == class) {
                let is_urged = heads[Timing::Live as usize].is_some();
                let timing = if is_urged { Timing::Live } else { timing };
                next[timing as usize] = Some(current);
            }
        } else if state.unconfirmed() < self.options.window_for(class, output) {
            next = heads;
        }
        view.has_live |= next[Timing::Live as usize].is_some();
        view.has_late |= next[Timing::Late as usize].is_some();
        let uplink =
            &self.uplinks[usize::from(self.options.outputs[usize::from(output.0)].uplink.0)];
        // A lane takes a cut's worth ahead, so that small records do not cost a wake-up each.
        if uplink.uplink.picked(state.first_path + lane_place) >= cut {
            all.is_any_busy = true;
            return;
        }
        for (timing, key) in [Timing::Live, Timing::Late].into_iter().zip(next) {
            let Some(key) = key else { continue };
            let delivery = self.queues.get(key).expect("heads and currents are known");
            let size = (delivery.size - delivery.progress.picked).min(cut);
            let piece = Piece { size, order: delivery.order };
            let rank = self.queues.rank_of(delivery);
            all.add(Choice { class, timing }, Candidate { key, output, piece, rank });
        }
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
        let is_backlog = self.is_backlog(key);
        let lane_place = self.options.scheduler.lane_of(choice.class);
        let state = &mut self.outputs[usize::from(output.0)];
        let path = state.first_path + usize::from(lane_place);
        let lane = &mut state.lanes[usize::from(lane_place)];
        let is_first = self.queues.take(key);
        if is_first {
            self.queues.charge(now, key);
        }
        let delivery = self.queues.get_mut(key).expect("a candidate is known");
        let progress = &mut delivery.progress;
        if is_first {
            lane.last_number += 1;
            progress.picked_at = now;
            progress.number = lane.last_number;
        }
        let start = progress.picked;
        let end = start + piece.size;
        progress.picked = end;
        let (number, again, is_last) = (progress.number, progress.again, end == delivery.size);
        if is_last {
            lane.current = None;
            self.queues.await_fate(&mut lane.unconfirmed, key);
        } else {
            lane.current.get_or_insert((key, choice.timing));
        }
        let class = choice.class;
        lane.picked.push_back(Picked { key, class, piece: piece.size, number, is_last });
        let below = &mut self.uplinks[usize::from(uplink.0)].uplink;
        below.picked_for(now, path, piece.size);
        below.picked_of(is_backlog, piece.size);
        Output::Transmit {
            destinations: Targets::One(Destination::Output(output)),
            path: PathId { output, lane: lane_place },
            id: key.into(),
            range: start.0..end.0,
            again,
        }
    }
}

impl Node {
    /// Whether a delivery's record was read back from the log.
    fn is_backlog(&self, key: DeliveryKey) -> bool {
        let record = self.queues.get(key).and_then(|delivery| self.held.get(delivery.record));
        let owed = record.and_then(|held| held.owed.as_ref());
        owed.is_some_and(|owed| owed.ahead.is_some())
    }
}

impl Candidates {
    fn of(&self, choice: Choice) -> Option<Candidate> {
        self.of_class[choice.class.index()][choice.timing as usize]
    }

    /// Keeps the more urgent one of two of the same class and list.
    fn add(&mut self, choice: Choice, candidate: Candidate) {
        let best = &mut self.of_class[choice.class.index()][choice.timing as usize];
        if best.is_none_or(|best| candidate.rank < best.rank) {
            *best = Some(candidate);
            let view = &mut self.views[choice.class.index()];
            match choice.timing {
                Timing::Live => view.live = Some(candidate.piece),
                Timing::Late => view.late = Some(candidate.piece),
            }
        }
    }
}
