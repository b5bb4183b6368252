//! What other members say, and what we say to ourselves.

use tidegate_types::units::Time;

use super::{Group, Role};
use crate::handover::{GroupMessage, GroupOutput, HandoverError, Member, UnitId, UnitOwner};

impl<T: Clone> Group<T> {
    /// A record for the owner: is that us?
    pub(super) fn forwarded(
        &mut self,
        now: Time,
        from: Member,
        unit: UnitId,
        (round, seq, content): (u64, u64, T),
    ) {
        let Some(it) = self.unit(unit) else { return };
        let is_open = it.role.is_open();
        if is_open && let Some(take) = it.taken.take(from, round, seq) {
            return self.outputs.push_back(GroupOutput::Work { unit, take, content });
        }
        it.taken.refuse(from, round);
        let owner = it.owner;
        if from == self.me {
            // At once: what is said to ourselves later must find it refused.
            return self.heard(now, from, unit, GroupMessage::Refused { seq, owner, is_open });
        }
        self.say(from, unit, GroupMessage::Refused { seq, owner, is_open });
    }

    pub(super) fn heard(
        &mut self,
        now: Time,
        from: Member,
        unit: UnitId,
        message: GroupMessage<T>,
    ) {
        let handing = self.options.handing;
        let Some(it) = self.unit(unit) else { return };
        match message {
            GroupMessage::Forward { round, seq, content } => {
                self.forwarded(now, from, unit, (round, seq, content));
            }
            GroupMessage::Answered(seq, verdict) => {
                if let Some(ticket) = it.forward.answered(from, seq) {
                    self.outputs.push_back(GroupOutput::Answer { ticket, verdict });
                }
            }
            GroupMessage::Refused { seq, owner, is_open } => {
                it.forward.refused(from, seq);
                let is_news = owner > it.owner;
                if !is_news && from == it.owner.member {
                    it.forward.is_waiting = !is_open;
                }
                if is_news {
                    self.learn(now, from, unit, owner, false);
                }
            }
            GroupMessage::Result(epoch, content) => {
                let shown = it.merge.came(now, handing, epoch, content);
                self.show(unit, shown);
            }
            GroupMessage::Ended(epoch) => {
                let shown = it.merge.ended(epoch);
                self.show(unit, shown);
            }
            GroupMessage::Take(epoch, state) => {
                let owner = UnitOwner { epoch, member: self.me };
                let it = &mut self.units[unit.0 as usize];
                let is_named = it.owner == owner && matches!(it.role, Role::Named(_));
                if is_named || owner > it.owner {
                    it.owner = owner;
                    self.begin(now, unit, state);
                } else {
                    let (owner, is_open) = (it.owner, it.role.is_open());
                    self.say(from, unit, GroupMessage::Table { owner, is_open });
                }
            }
            GroupMessage::Table { owner, is_open } => self.learn(now, from, unit, owner, is_open),
        }
        self.pump(now, unit);
    }

    /// Someone says who the owner is; `is_open` where it is the owner itself, who takes records.
    fn learn(&mut self, now: Time, from: Member, unit: UnitId, owner: UnitOwner, is_open: bool) {
        let (me, handing) = (self.me, self.options.handing);
        let is_open = is_open && from == owner.member;
        let Some(it) = self.units.get_mut(unit.0 as usize) else { return };
        if owner < it.owner {
            if from == owner.member {
                // It does not know yet that it is the owner no more.
                let (owner, is_open) = (it.owner, it.role.is_open());
                self.say(from, unit, GroupMessage::Table { owner, is_open });
            }
            return;
        }
        if is_open {
            it.merge.known(owner.epoch);
            it.forward.is_waiting = false;
            if matches!(it.role, Role::Given { .. }) {
                it.role = Role::None;
                self.outputs.push_back(GroupOutput::Moved { unit, result: Ok(()) });
            }
        }
        if owner == it.owner {
            return;
        }
        let was_mine = it.owner.member == me && !matches!(it.role, Role::None);
        it.owner = owner;
        it.forward.is_waiting = false;
        if let Role::Ending { .. } = it.role {
            let result = Err(HandoverError::NotOwner);
            self.outputs.push_back(GroupOutput::Moved { unit, result });
        }
        it.role = if owner.member == me { Role::Named(now + handing) } else { Role::None };
        self.outputs.push_back(GroupOutput::Owned { unit, owner });
        if was_mine && owner.member != me && !is_open {
            // An earlier life of ours gave it away, and perhaps did not come to say so.
            self.say(owner.member, unit, GroupMessage::Take(owner.epoch, None));
        }
    }
}
