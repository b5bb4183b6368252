//! The interval of schedulers that grant rates ahead: what they are told, and when.

use super::Node;
use crate::class::ClassId;
use crate::schedule::{ClassLoad, UplinkLoad};
use crate::units::Time;

impl Node {
    /// Lets the uplink's scheduler divide it anew, if it is time.
    pub(super) fn reallocate(&mut self, now: Time, uplink: usize) {
        let is_time = |at: Time| at <= now;
        if !self.uplinks[uplink].scheduler.next_reallocation().is_some_and(is_time) {
            return;
        }
        let classes: Vec<ClassLoad> = (0..self.options.classes.len())
            .map(|class| self.load_of(now, uplink, ClassId(class as u8)))
            .collect();
        let state = &mut self.uplinks[uplink];
        let load = UplinkLoad {
            capacity: state.uplink.capacity(),
            pace: state.uplink.pace(),
            processing: self.processing.get(),
            classes: &classes,
        };
        state.scheduler.reallocate(now, &load);
    }

    fn load_of(&mut self, now: Time, uplink: usize, class: ClassId) -> ClassLoad {
        let backlog = self.backlog_on(uplink, class);
        let (input, _) = &mut self.uplinks[uplink].meters[class.index()];
        ClassLoad { arrived: input.total(), input: input.rate(now), backlog }
    }
}
