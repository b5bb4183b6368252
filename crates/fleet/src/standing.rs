//! Standing permits: what neighbours may always send by each other, before anything fails.
//!
//! A part of each provider's capacity is divided evenly among those that reach it, for all classes but the least urgent.
//! So the first alarm of a node whose uplink fails goes to a neighbour at once, with or without a leader. They take no
//! part in the matching: a permit that is not used costs its provider nothing, and pairs that do not help each other when
//! they are short keep theirs.

use tidegate_types::class::ClassId;
use tidegate_types::units::Ratio;

use super::members::{FleetMember, Members};
use super::{Amount, FencingToken, FleetOptions, Grant};

/// A share that differs by less is not told: capacities are measured and never rest.
const DRIFT: f64 = 0.2;

/// What each provider permits.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// By the provider's place: who reaches it, and what each of them may send.
    receivers: Vec<Vec<u32>>,
    shares: Vec<Amount>,
    /// Whether others reach it than when its share was told.
    is_new: Vec<bool>,
    /// Who reached it before, for its memory.
    former: Vec<Vec<u32>>,
}

/// The class of standing permits: it and all that are more urgent go by them.
pub(super) fn class(classes: usize) -> ClassId {
    ClassId(classes.saturating_sub(2) as u8)
}

/// What a provider permits all receivers together.
pub(super) fn most(capacity: Amount, part: Ratio) -> Amount {
    capacity.times(part.as_f64())
}

impl Standing {
    /// Looks who reaches whom, where that has changed.
    pub(super) fn reshape(&mut self, members: &Members) {
        let places = members.rows().len();
        self.shares.resize(places, Amount::ZERO);
        self.is_new.resize(places, false);
        std::mem::swap(&mut self.receivers, &mut self.former);
        self.former.resize(places, Vec::new());
        self.receivers.iter_mut().for_each(Vec::clear);
        self.receivers.resize(places, Vec::new());
        for receiver in 0..places {
            for peer in members.reached_by(receiver) {
                self.receivers[peer].push(receiver as u32);
            }
        }
        let lists = self.receivers.iter().zip(&self.former);
        for (is_new, (now, before)) in self.is_new.iter_mut().zip(lists) {
            *is_new |= now != before;
        }
    }

    /// Divides what providers have now; `told` hears of the place of each member for which something is new.
    pub(super) fn divide(
        &mut self,
        rows: &[Option<FleetMember>],
        part: Ratio,
        mut told: impl FnMut(usize),
    ) {
        let shares = self.shares.iter_mut().zip(&mut self.is_new);
        for (place, ((share, is_new), receivers)) in shares.zip(&self.receivers).enumerate() {
            let member = rows[place].as_ref().filter(|member| !member.is_drained);
            let all = member.map_or(Amount::ZERO, |member| most(member.tuple.capacity, part));
            let new = all.times(1.0 / receivers.len().max(1) as f64);
            let differs = new.0.abs_diff(share.0) as f64 > share.0 as f64 * DRIFT;
            let is_new = std::mem::take(is_new) && !new.is_zero();
            if differs || is_new || new.is_zero() != share.is_zero() {
                *share = new;
                told(place);
                receivers.iter().for_each(|receiver| told(*receiver as usize));
            }
        }
    }

    /// The permits of the member at a place, as provider and as receiver.
    pub(super) fn of(
        &self,
        place: usize,
        members: &Members,
        revision: u64,
        options: &FleetOptions,
    ) -> Vec<Grant> {
        let node = |place: usize| members.rows().get(place)?.as_ref().map(|member| member.node);
        let grant = |provider: usize, receiver: usize| {
            let amount = self.shares.get(provider).copied().filter(|share| !share.is_zero())?;
            let (provider, receiver) = (node(provider)?, node(receiver)?);
            let token = FencingToken { revision, id: 0 };
            Some(Grant { token, provider, receiver, class: class(options.classes), amount })
        };
        let lent = self.receivers.get(place).into_iter().flatten();
        let lent = lent.filter_map(|&receiver| grant(place, receiver as usize));
        let peers = members.reached_by(place);
        lent.chain(peers.filter_map(|peer| grant(peer, place))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_for_all_classes_but_the_least_urgent() {
        assert_eq!([1, 2, 3, 5].map(class), [0, 0, 1, 3].map(ClassId));
    }

    #[test]
    fn a_tenth_is_permitted() {
        assert_eq!(most(Amount(250_000), Ratio::new(0.1)), Amount(25_000));
    }
}
