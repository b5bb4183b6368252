//! The late choice: when the uplink is free, and never earlier, the most urgent ready record goes.

use std::time::Duration;

use tidegate_schedule::queue::{DeliveryKey, Timing};
use tidegate_schedule::{Choice, ClassView, NextCut};
use tidegate_types::class::ClassId;
use tidegate_types::limits::CLASSES_MAX;
use tidegate_types::units::{Size, Time};

use super::{Egress, Handing, uplink_of};
use crate::io::{Output, OutputId};
use crate::node::holdings::Holdings;
use crate::options::NodeOptions;

/// The choice that may overdraw the uplink.
const URGENT: Choice = Choice { class: ClassId(0), timing: Timing::Live };

/// The most urgent record of a list that could go now, and where.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    key: DeliveryKey,
    output: OutputId,
    piece: NextCut,
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

impl Egress {
    /// Picks for the first uplink that is free and has anything ready.
    pub(crate) fn forward(
        &mut self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
        processing: Duration,
    ) -> Option<Output> {
        let mut uplinks = 0..self.uplinks.len();
        uplinks.find_map(|uplink| {
            self.uplinks[uplink].uplink.tick(now);
            self.reallocate(now, holdings, options, processing, uplink);
            self.forward_by(now, holdings, options, uplink)
        })
    }

    fn forward_by(
        &mut self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
        uplink: usize,
    ) -> Option<Output> {
        let mut candidates = Candidates::default();
        self.add_all(now, holdings, options, uplink, &mut candidates);
        let views = &candidates.views[..options.classes.len()];
        let state = &mut self.uplinks[uplink];
        let Some(mut choice) = state.scheduler.next(now, views) else {
            state.wake = state.scheduler.next_timeout(now, views);
            if !candidates.is_any_busy {
                state.uplink.idle();
            }
            return None;
        };
        let mut candidate = candidates.of(choice)?;
        if self.is_free(now, options, uplink, choice, candidate) {
            self.uplinks[uplink].overtaken = Size::ZERO;
        } else {
            let Some(urgent) = self.overtaker(now, options, uplink, &candidates) else {
                let state = &mut self.uplinks[uplink];
                let free = state.uplink.next_free(now, candidate.piece.size);
                let uncapped = state.scheduler.next_timeout(now, views);
                state.wake = [free, uncapped].into_iter().flatten().min();
                return None;
            };
            (choice, candidate) = urgent;
            self.uplinks[uplink].overtaken += candidate.piece.size;
        }
        let Candidate { key, output, piece, .. } = candidate;
        let is_backlog = is_backlog(holdings, key);
        let state = &mut self.uplinks[uplink];
        state.scheduler.sent(now, choice, piece.size, views);
        let handing = Handing { key, output, choice, piece: piece.size };
        let transmit = self.hand_over(now, holdings, options, handing);
        self.uplinks[uplink].uplink.picked_of(is_backlog, piece.size);
        Some(transmit)
    }

    /// Whether the uplink takes the choice now. Live records of the most urgent class may overdraw it,
    /// unless all is one FIFO.
    fn is_free(
        &self,
        now: Time,
        options: &NodeOptions,
        uplink: usize,
        choice: Choice,
        candidate: Candidate,
    ) -> bool {
        let is_urgent =
            choice == URGENT && options.classes.len() > 1 && options.scheduler.favours_alarms();
        let output = &self.outputs[usize::from(candidate.output.0)];
        let path = || output.first_path + usize::from(options.scheduler.lane_of(choice.class));
        let urgent = is_urgent.then(path);
        self.uplinks[uplink].uplink.is_free(now, candidate.piece.size, urgent)
    }

    /// The urgent record that goes although the scheduler chose another one, for which the uplink has no
    /// room: while that one waits, one cut of urgent records may pass it.
    fn overtaker(
        &self,
        now: Time,
        options: &NodeOptions,
        uplink: usize,
        candidates: &Candidates,
    ) -> Option<(Choice, Candidate)> {
        if !options.scheduler.favours_alarms() {
            // In one FIFO nothing passes, however small, and granted rates are kept.
            return None;
        }
        let urgent = candidates.of(URGENT)?;
        let state = &self.uplinks[uplink];
        let is_little = state.overtaken + urgent.piece.size <= state.uplink.cut();
        (is_little && self.is_free(now, options, uplink, URGENT, urgent))
            .then_some((URGENT, urgent))
    }

    /// Adds, for each class and list, the most urgent record over the uplink's outputs.
    fn add_all(
        &self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
        uplink: usize,
        all: &mut Candidates,
    ) {
        let cut = self.uplinks[uplink].uplink.cut();
        for output in 0..self.outputs.len() {
            if usize::from(options.outputs[output].uplink.0) != uplink
                || self.outputs[output].is_down
            {
                continue;
            }
            let output = OutputId(output as u16);
            let leave = self.leaving(now, options, output);
            for class in (0..options.classes.len()).map(|class| ClassId(class as u8)) {
                if leave.is_none_or(|least| class > least) {
                    self.add_candidates(now, holdings, options, (class, output), cut, all);
                }
            }
        }
    }

    /// Adds what a class could send to an output.
    fn add_candidates(
        &self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
        (class, output): (ClassId, OutputId),
        cut: Size,
        all: &mut Candidates,
    ) {
        let lane_index = usize::from(options.scheduler.lane_of(class));
        let state = &self.outputs[usize::from(output.0)];
        let lane = &state.lanes[lane_index];
        // Asked for in any case, so that records turn late one by one and not all at once when the
        // lane comes up.
        let heads = holdings.heads(class, output, now);
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
            if holdings.delivery(current).is_some_and(|delivery| delivery.spec.class == class) {
                let is_urged = heads[Timing::Live as usize].is_some();
                let timing = if is_urged { Timing::Live } else { timing };
                next[timing as usize] = Some(current);
            }
        } else if state.unconfirmed() < options.window_for(class, output) {
            next = heads;
        }
        view.has_live |= next[Timing::Live as usize].is_some();
        view.has_late |= next[Timing::Late as usize].is_some();
        let uplink = &self.uplinks[uplink_of(options, output)];
        // A lane takes a cut's worth ahead, so that small records do not cost a wake-up each.
        if uplink.uplink.picked(state.first_path + lane_index) >= cut {
            all.is_any_busy = true;
            return;
        }
        for (timing, key) in [Timing::Live, Timing::Late].into_iter().zip(next) {
            let Some(key) = key else { continue };
            let delivery = holdings.delivery(key).expect("heads and currents are known");
            let size = (delivery.size - delivery.progress.picked).min(cut);
            let piece = NextCut { size, order: delivery.order };
            let rank = holdings.queues().rank_of(delivery);
            all.add(Choice { class, timing }, Candidate { key, output, piece, rank });
        }
    }
}

/// Whether a delivery's record was read back from the log.
fn is_backlog(holdings: &Holdings, key: DeliveryKey) -> bool {
    let record = holdings.delivery(key).and_then(|delivery| holdings.record(delivery.record));
    let owed = record.and_then(|held| held.owed.as_ref());
    owed.is_some_and(|owed| owed.ahead.is_some())
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
