//! The interval of schedulers that grant rates ahead: what they are told, and when.

use tidegate_schedule::{ClassLoad, UplinkLoad};
use tidegate_types::class::ClassId;
use tidegate_types::units::{Size, Time};

use super::Node;

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
        let backlog = self.backlog_on(uplink, class) + self.begun_on(uplink, class);
        let (input, _) = &mut self.uplinks[uplink].meters[class.index()];
        ClassLoad { arrived: input.total(), input: input.rate(now), backlog }
    }

    /// Bytes of records that are begun and not wholly picked. They wait as the others do: a class that has
    /// nothing else must be given a rate to end them.
    fn begun_on(&self, uplink: usize, class: ClassId) -> Size {
        let mut bytes = Size::ZERO;
        for (output, options) in self.outputs.iter().zip(&self.options.outputs) {
            if usize::from(options.uplink.0) != uplink {
                continue;
            }
            for (begun, _) in output.lanes.iter().filter_map(|lane| lane.current) {
                let Some(delivery) = self.queues.get(begun) else { continue };
                if delivery.spec.class == class {
                    bytes += delivery.size - delivery.progress.picked;
                }
            }
        }
        bytes
    }
}
