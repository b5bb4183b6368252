//! What a member tells of its loads, and that it drains.

use tidegate_cluster::handover::loads::{MemberLoads, UnitLoad};
use tidegate_cluster::handover::wire::MemberFrame;
use tidegate_cluster::handover::{UnitId, UnitOwner};
use tidegate_types::units::Time;

use super::Task;
use crate::group::state;

impl Task {
    /// What is known of loads; before that this node drains from now on, or no more.
    pub(super) fn tell(&mut self, drain: Option<bool>) -> MemberFrame {
        if let Some(is_draining) = drain.filter(|wanted| *wanted != self.is_draining) {
            self.is_draining = is_draining;
            tracing::info!(is_draining, "whether this node is to own placed topics was said");
            if !self.remember() {
                self.is_draining = !is_draining;
                let why = "it cannot write its [group] state: its log says why";
                return MemberFrame::Done(Err(why.into()));
            }
        }
        MemberFrame::Loads(Box::new(self.loads()))
    }

    fn loads(&self) -> MemberLoads {
        let mut counted = self.intake.hub().meters().of_units();
        let unit = |(place, name): (usize, &String)| {
            let unit = UnitId(place as u32);
            let owner = self.group.owner(unit)?;
            // Who owns it counts from its begin on: what was counted before is taken away by who asks.
            let counts = (owner.member == self.me).then(|| counted.remove(&unit));
            let counts = counts.map(Option::unwrap_or_default);
            let (name, is_open) = (name.as_str().into(), self.group.is_open(unit));
            Some(UnitLoad { name, owner, is_open, counts })
        };
        let units = self.units.iter().enumerate().filter_map(unit).collect();
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        MemberLoads {
            node: self.origin.node.clone(),
            life: self.origin.incarnation,
            age: self.intake.now().since(Time::ZERO),
            threads: u32::try_from(self.threads).unwrap_or(u32::MAX),
            processors: u32::try_from(processors).unwrap_or(u32::MAX),
            is_draining: self.is_draining,
            remembers: self.state.is_some(),
            members: self.members.iter().map(|name| name.as_str().into()).collect(),
            units,
        }
    }

    /// Writes down who owns what, and whether this node drains; false where the disk says no.
    pub(super) fn remember(&self) -> bool {
        let Some(path) = &self.state else { return true };
        let owners: Vec<UnitOwner> = self.handle.owners().iter().map(|(owner, _)| *owner).collect();
        let written = state::write(path, &self.units, &self.members, &owners, self.is_draining);
        if let Err(error) = &written {
            tracing::error!("{}: who owns what is not remembered: {error}", path.display());
        }
        written.is_ok()
    }
}
