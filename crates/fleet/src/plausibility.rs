//! What a node may say of itself at most: a lender that claims more than any uplink has would be given everybody's
//! records, and sums of such claims would have no number.

use super::message::{CarriedGrant, Heartbeat};
use super::{Amount, NodeId};

/// Why a beat is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FalseClaim {
    /// The uplink.
    #[error("an uplink of {0}")]
    Capacity(Amount),
    /// What its own records use of it.
    #[error("{0} of its own records on its uplink")]
    Output(Amount),
    /// What it lends by all grants together.
    #[error("grants of {0} in all as a lender")]
    Lent(Amount),
}

impl Heartbeat {
    /// Whether all that it says can be true where an uplink has at most `most`, the sums of what it lends included.
    ///
    /// # Errors
    /// What cannot.
    pub fn check(&self, most: Amount) -> Result<(), FalseClaim> {
        check(self, most)
    }
}

fn check(beat: &Heartbeat, most: Amount) -> Result<(), FalseClaim> {
    if beat.tuple.capacity > most {
        return Err(FalseClaim::Capacity(beat.tuple.capacity));
    }
    if beat.output > most {
        return Err(FalseClaim::Output(beat.output));
    }
    let lent = |node: NodeId, amount: fn(&CarriedGrant) -> Amount| {
        let its = beat.held.iter().filter(|held| held.grant.provider == node);
        Amount(its.fold(0, |sum: u64, held| sum.saturating_add(amount(held).0)))
    };
    let granted = lent(beat.node, |held| held.grant.amount);
    let carried = lent(beat.node, |held| held.carried);
    match granted.max(carried) {
        lent if lent > most => Err(FalseClaim::Lent(lent)),
        _ => Ok(()),
    }
}

/// Demands that add up to `most` at the most, the most urgent class first. A backlog on disk may well ask for more
/// than any uplink carries: that is no lie, and nobody could be given more.
pub(super) fn within(demand: &mut [Amount], most: Amount) {
    let mut left = most;
    for one in demand {
        *one = (*one).min(left);
        left -= *one;
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::class::ClassId;

    use super::super::{Fence, FencingToken, Grant, Tuple};
    use super::*;

    const MOST: Amount = Amount(1000);

    fn beat(capacity: u64, output: u64, lent: &[(u64, u64)]) -> Heartbeat {
        let node = NodeId(1);
        let held = |&(provider, amount): &(u64, u64)| CarriedGrant {
            grant: Grant {
                token: FencingToken { revision: 1, id: amount },
                class: ClassId(0),
                provider: NodeId(provider),
                receiver: NodeId(9),
                amount: Amount(amount),
            },
            carried: Amount::ZERO,
        };
        Heartbeat {
            node,
            incarnation: 1,
            number: 1,
            heard: Fence::default(),
            tuple: Tuple { capacity: Amount(capacity), demand: Vec::new() },
            output: Amount(output),
            peers: None,
            held: lent.iter().map(held).collect(),
        }
    }

    #[test]
    fn what_no_uplink_has_is_not_believed_and_sums_do_not_overflow() {
        assert_eq!(check(&beat(1000, 1000, &[(1, 600), (1, 400), (2, 5000)]), MOST), Ok(()));
        let huge = 1 << 62;
        assert_eq!(check(&beat(huge, 0, &[]), MOST), Err(FalseClaim::Capacity(Amount(huge))));
        assert_eq!(check(&beat(1, huge, &[]), MOST), Err(FalseClaim::Output(Amount(huge))));
        let lent = check(&beat(1, 1, &[(1, u64::MAX), (1, u64::MAX)]), MOST);
        assert_eq!(lent, Err(FalseClaim::Lent(Amount(u64::MAX))));
    }

    #[test]
    fn demand_beyond_any_uplink_is_cut_the_least_urgent_first() {
        let mut demand = [600, u64::MAX, 7].map(Amount);
        within(&mut demand, MOST);
        assert_eq!(demand, [600, 400, 0].map(Amount));
    }
}
