//! One FIFO for everything.
//! Source: papers/janus.txt, §VII-A, the baseline "Native".
//! Inputs: the oldest record of each class. Outputs: the class of the oldest. O(classes) a pick.
//! Deviations: none.
//! Limits: none.

use tidegate_types::class::ClassId;
use tidegate_types::units::{Size, Time};

use crate::queue::{Ranking, Timing};
use crate::scheduler::{Choice, ClassView, Scheduler, SchedulerEntry};

/// How the node uses it.
pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    build: |_| Box::new(Native),
    ranking: Ranking::Arrival,
    has_classes: false,
    favours_alarms: false,
};

/// The oldest record goes, whatever it is.
#[derive(Debug)]
struct Native;

impl Scheduler for Native {
    fn next(&mut self, _now: Time, views: &[ClassView]) -> Option<Choice> {
        let oldest = |(place, view): (usize, &ClassView)| Some((view.live?.order, place));
        let (_, place) = views.iter().enumerate().filter_map(oldest).min()?;
        Some(Choice { class: ClassId(place as u8), timing: Timing::Live })
    }

    fn sent(&mut self, _now: Time, _choice: Choice, _bytes: Size, _views: &[ClassView]) {}

    fn next_timeout(&self, _now: Time, _views: &[ClassView]) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NextCut;

    #[test]
    fn the_oldest_goes_whatever_its_class() {
        let view = |order| ClassView::new(Some(NextCut { size: Size(1), order }), None);
        let choice = Native.next(Time::ZERO, &[view(7), view(3), view(9)]).unwrap();
        assert_eq!(choice.class, ClassId(1));
        assert_eq!(Native.next(Time::ZERO, &[ClassView::default(); 3]), None);
    }
}
