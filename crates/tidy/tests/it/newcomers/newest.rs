//! The newest record first, whatever its class.
//! Source: own; a scheduler as a newcomer writes it.
//! Inputs: the next record of each class. Outputs: the class of the newest. O(classes) a pick.
//! Deviations: none.
//! Limits: none.

use tidegate_types::class::ClassId;
use tidegate_types::units::{Size, Time};

use crate::queue::{Ranking, Timing};
use crate::scheduler::{Choice, ClassView, Scheduler, SchedulerEntry};

/// How the node uses it.
pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    build: |_| Box::new(Newest),
    ranking: Ranking::Arrival,
    has_classes: true,
    favours_alarms: false,
};

#[derive(Debug)]
struct Newest;

impl Scheduler for Newest {
    fn next(&mut self, _now: Time, views: &[ClassView]) -> Option<Choice> {
        let newest = |(place, view): (usize, &ClassView)| Some((view.live?.order, place));
        let (_, place) = views.iter().enumerate().filter_map(newest).max()?;
        Some(Choice { class: ClassId(place as u8), timing: Timing::Live })
    }

    fn sent(&mut self, _now: Time, _choice: Choice, _bytes: Size, _views: &[ClassView]) {}

    fn next_timeout(&self, _now: Time, _views: &[ClassView]) -> Option<Time> {
        None
    }
}
