//! What an uplink could send now: of each class and list the most urgent record.

use tidegate_schedule::queue::{DeliveryKey, Timing};
use tidegate_schedule::{Choice, ClassView, NextCut};

use crate::io::OutputId;

/// The most urgent record of a list that could go now, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) key: DeliveryKey,
    pub(super) output: OutputId,
    pub(super) piece: NextCut,
    /// For the comparison between outputs: as records rank inside a class.
    pub(super) rank: (u64, u64),
}

/// What an uplink could send now.
#[derive(Debug, Default)]
pub(super) struct UplinkCandidates {
    of_class: Vec<[Option<Candidate>; 2]>,
    /// What the scheduler sees of each class.
    pub(super) views: Vec<ClassView>,
    /// A lane has all that it may take ahead: what holds us up is below.
    pub(super) is_any_busy: bool,
}

impl UplinkCandidates {
    /// None yet, of so many classes.
    pub(super) fn clear(&mut self, classes: usize) {
        self.of_class.resize(classes, [None; 2]);
        self.of_class.fill([None; 2]);
        self.views.resize(classes, ClassView::default());
        self.views.fill(ClassView::default());
        self.is_any_busy = false;
    }

    pub(super) fn of(&self, choice: Choice) -> Option<Candidate> {
        self.of_class[choice.class.index()][choice.timing as usize]
    }

    /// Keeps the more urgent one of two of the same class and list.
    pub(super) fn add(&mut self, choice: Choice, candidate: Candidate) {
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
