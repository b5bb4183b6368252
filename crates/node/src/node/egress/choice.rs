//! The late choice: when the uplink is free, and never earlier, the most urgent ready record goes.

use tidegate_capacity::uplink::PickedOf;
use tidegate_schedule::estimate::ProcessingDelay;
use tidegate_schedule::queue::Timing;
use tidegate_schedule::{Choice, NextCut};
use tidegate_types::class::ClassId;
use tidegate_types::units::Size;

use super::candidates::{Candidate, UplinkCandidates};
use super::{Egress, Handing};
use crate::io::{Output, OutputId};
use crate::node::base::Base;

/// The choice that may overdraw the uplink.
const URGENT: Choice = Choice { class: ClassId(0), timing: Timing::Live };

impl Egress {
    /// Picks for the first uplink that is free and has anything ready.
    pub(crate) fn forward(
        &mut self,
        base: &mut Base,
        processing: ProcessingDelay,
    ) -> Option<Output> {
        let mut candidates = std::mem::take(&mut self.candidates);
        let transmit = (0..self.uplinks.len()).find_map(|uplink| {
            self.uplinks[uplink].uplink.tick(base.now);
            self.reallocate(base, processing, uplink);
            self.forward_by(base, uplink, &mut candidates)
        });
        self.candidates = candidates;
        transmit
    }

    fn forward_by(
        &mut self,
        base: &mut Base,
        uplink: usize,
        candidates: &mut UplinkCandidates,
    ) -> Option<Output> {
        candidates.clear(base.options.classes.len());
        self.add_all(base, uplink, candidates);
        let views = &candidates.views[..];
        let state = &mut self.uplinks[uplink];
        let Some(mut choice) = state.scheduler.next(base.now, views) else {
            state.wake = state.scheduler.next_timeout(base.now, views);
            if !candidates.is_any_busy {
                state.uplink.idle();
            }
            return None;
        };
        let mut candidate = candidates.of(choice)?;
        if self.is_free(base, uplink, choice, candidate) {
            self.uplinks[uplink].overtaken = Size::ZERO;
        } else {
            let Some(urgent) = self.overtaker(base, uplink, candidates) else {
                let state = &mut self.uplinks[uplink];
                let free = state.uplink.next_free(base.now, candidate.piece.size);
                let uncapped = state.scheduler.next_timeout(base.now, views);
                state.wake = [free, uncapped].into_iter().flatten().min();
                return None;
            };
            (choice, candidate) = urgent;
            self.uplinks[uplink].overtaken += candidate.piece.size;
        }
        let Candidate { key, output, piece, .. } = candidate;
        let is_backlog = base.holdings.is_backlog(key);
        let state = &mut self.uplinks[uplink];
        state.scheduler.sent(base.now, choice, piece.size, views);
        let handing = Handing { key, output, choice, piece: piece.size };
        let transmit = self.hand_over(base, handing);
        let is_live = choice.timing == Timing::Live && !is_backlog;
        let bound = is_live.then(|| base.options.classes.spec(choice.class).latency);
        let of = PickedOf { is_backlog, bound };
        self.uplinks[uplink].uplink.picked_of(base.now, of, piece.size);
        Some(transmit)
    }

    /// Whether the uplink takes the choice now. Live records of the most urgent class may overdraw it, unless all is one
    /// FIFO, or they alone are more than it carries and neighbours lend: they would wait below for each other.
    fn is_free(&self, base: &Base, uplink: usize, choice: Choice, candidate: Candidate) -> bool {
        let is_urgent = choice == URGENT
            && base.options.classes.len() > 1
            && base.options.scheduler.favours_alarms()
            && !self.uplinks[uplink].is_flooded;
        let output = &self.outputs[usize::from(candidate.output.0)];
        let lane = || base.options.lane_of(candidate.output, choice.class);
        let path = || output.first_path + usize::from(lane());
        let urgent = is_urgent.then(path);
        self.uplinks[uplink].uplink.is_free(base.now, candidate.piece.size, urgent)
    }

    /// The urgent record that goes although the scheduler chose another one, for which the uplink has no
    /// room: while that one waits, one cut of urgent records may pass it.
    fn overtaker(
        &self,
        base: &Base,
        uplink: usize,
        candidates: &UplinkCandidates,
    ) -> Option<(Choice, Candidate)> {
        if !base.options.scheduler.favours_alarms() {
            // In one FIFO nothing passes, however small, and granted rates are kept.
            return None;
        }
        let urgent = candidates.of(URGENT)?;
        let state = &self.uplinks[uplink];
        let is_little = state.overtaken + urgent.piece.size <= state.uplink.cut();
        (is_little && self.is_free(base, uplink, URGENT, urgent)).then_some((URGENT, urgent))
    }

    /// Adds, for each class and list, the most urgent record over the uplink's outputs.
    fn add_all(&self, base: &mut Base, uplink: usize, all: &mut UplinkCandidates) {
        let cut = self.uplinks[uplink].uplink.cut();
        for output in 0..self.outputs.len() {
            if self.outputs[output].uplink != uplink || self.outputs[output].is_down {
                continue;
            }
            let output = OutputId(output as u16);
            let leave = self.leaving(base, output);
            for class in (0..base.options.classes.len()).map(|class| ClassId(class as u8)) {
                if leave.is_none_or(|least| class > least) {
                    self.add_candidates(base, (class, output), cut, all);
                }
            }
        }
    }

    /// Adds what a class could send to an output.
    fn add_candidates(
        &self,
        base: &mut Base,
        (class, output): (ClassId, OutputId),
        cut: Size,
        all: &mut UplinkCandidates,
    ) {
        let lane_index = usize::from(base.options.lane_of(output, class));
        let state = &self.outputs[usize::from(output.0)];
        let lane = &state.lanes[lane_index];
        // Asked for in any case, so that records turn late one by one and not all at once when the
        // lane comes up.
        let heads = base.holdings.heads(class, output, base.now);
        if !lane.is_up {
            return;
        }
        let view = &mut all.views[class.index()];
        view.has_live |= heads[Timing::Live as usize].is_some();
        view.has_late |= heads[Timing::Late as usize].is_some();
        let mut next = [None; 2];
        if let Some((current, timing)) = lane.current {
            // What is begun is finished first: nothing else can use its connection. In the way of what is more urgent it
            // is as urgent as that.
            let of = base.holdings.delivery(current).map(|delivery| delivery.spec.class);
            let is_urged = heads[Timing::Live as usize].is_some();
            let is_waited_for = is_urged || heads[Timing::Late as usize].is_some();
            if of.is_some_and(|of| of == class || class < of && is_waited_for) {
                let own = if of == Some(class) { timing } else { Timing::Late };
                let timing = if is_urged { Timing::Live } else { own };
                next[timing as usize] = Some(current);
            }
        } else if state.unconfirmed() < base.options.window_for(class, state.window) {
            next = heads;
        }
        view.has_live |= next[Timing::Live as usize].is_some();
        view.has_late |= next[Timing::Late as usize].is_some();
        let uplink = &self.uplinks[state.uplink];
        // A lane takes a cut's worth ahead, so that small records do not cost a wake-up each.
        if uplink.uplink.picked(state.first_path + lane_index) >= cut {
            all.is_any_busy = true;
            return;
        }
        for (timing, key) in [Timing::Live, Timing::Late].into_iter().zip(next) {
            let Some(key) = key else { continue };
            let delivery = base.holdings.delivery(key).expect("heads and currents are known");
            let size = (delivery.size - delivery.progress.picked).min(cut);
            let piece = NextCut { size, order: delivery.order };
            let rank = base.holdings.queues().rank_of(delivery);
            all.add(Choice { class, timing }, Candidate { key, output, piece, rank });
        }
    }
}
