//! Neighbours' records on our uplink: by which rule each is served, and when all of them go back.

use std::time::Duration;

use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;
use tidegate_types::record::{DropReason, Fate, Offered};
use tidegate_types::units::{Size, Time};

use super::Node;
use super::egress::ALARM;
use super::reserved::Turn;
use crate::options::FleetSeat;
use crate::rules::RuleId;

impl Node {
    /// Something is reserved of our uplink.
    pub(super) fn reserve(&mut self, class: ClassId, amount: Amount, lease: Duration) {
        let Some(seat) = self.base.options.fleet else {
            return self.base.unsupported("a reservation of a node without a fleet");
        };
        // Neighbours' bulk goes after all of our own: when our load rises, ours would pay for it until the fleet knows.
        let is_bulk = class.0 + 1 >= seat.relayed.0;
        let amount = if is_bulk { Amount::ZERO } else { amount };
        self.lending.reserve(self.base.now, class, amount, lease);
    }

    /// The rule of a neighbour's record, and its turn if that is by a reservation.
    pub(super) fn rule_of_lent(&self, of: ClassId) -> (Option<RuleId>, Option<Turn>) {
        let rules = &self.base.options.rules;
        let turn = self.lending.turn(self.base.now, of);
        match turn.and_then(|turn| Some((rules.relaying(of, true)?, turn))) {
            Some((rule, turn)) => (Some(rule), Some(turn)),
            None => (rules.relaying(of, false), None),
        }
    }

    /// A neighbour's record that has room takes its turn: its deadline is later by what comes before it of what is
    /// reserved. One that comes late has the bound of its rule anew: what is reserved is served, however late it is.
    pub(super) fn take_turn(
        &mut self,
        (rule, turn): (Option<RuleId>, Turn),
        offered: &mut Offered,
        size: Size,
    ) {
        let options = &self.base.options;
        let overhead = options
            .fleet
            .map_or(Size::ZERO, |seat| options.outputs[usize::from(seat.output.0)].overhead);
        let anew = rule.map(|rule| options.rules.get(rule).latency);
        self.lending.take(self.base.now, turn, size + overhead);
        if let Some(left) = offered.foreign.as_mut().and_then(|foreign| foreign.left.as_mut()) {
            *left = anew.filter(|_| left.is_zero()).unwrap_or(*left) + turn.later;
        }
    }

    /// Whether a neighbour's record goes back at once: our uplink carries nothing, or it is an alarm that has no part of a
    /// reservation and would wait behind what is ours. A less urgent one may wait for it.
    pub(super) fn gives_back(&self, of: ClassId, turn: Option<Turn>) -> bool {
        let is_alarm = |seat: &FleetSeat| of == ALARM && of.0 + 1 < seat.relayed.0;
        let seat = self.base.options.fleet.filter(is_alarm).filter(|_| turn.is_none());
        self.lending.is_dead || seat.is_some_and(|seat| self.egress.is_busy(&self.base, seat))
    }

    /// Looks at the uplink that is lent: when it fails, what neighbours have sent goes back, for their other neighbours
    /// or for a later time. What is on the wire may have arrived.
    pub(super) fn watch_lent(&mut self) {
        let Some(seat) = self.base.options.fleet else { return };
        let is_dead = self.egress.is_dead(self.base.now, seat.output);
        if std::mem::replace(&mut self.lending.is_dead, is_dead) || !is_dead {
            return;
        }
        for key in self.base.holdings.lent() {
            if self.base.holdings.take(key) || self.egress.recall(&mut self.base, key) {
                self.finish(key, Fate::Dropped(DropReason::GivenBack));
            }
        }
    }

    /// When the uplink is to be looked at, if nothing happens before.
    pub(super) fn next_look_at_lent(&self) -> Option<Time> {
        let seat = self.base.options.fleet.filter(|_| !self.lending.is_dead)?;
        self.egress.dead_from(seat.output)
    }
}
