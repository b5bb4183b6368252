//! What an interval's reallocation gives out, and what a node says of it to others.
//! Source: papers/janus.txt, §V-B.1, the tuple (b_ls, b_nm, b_lt); Alg. 2, `BWRequest`.
//! Inputs: none. Outputs: bytes/s of each class, most urgent first. O(classes).
//! Deviations: the paper tells what is offered from what is requested by its sign, and compares both as
//! positive numbers in Alg. 3; here amounts are unsigned and the type tells the direction
//! (docs/ALGORITHMS.md#shares).
//! Limits: CLASSES_MAX entries.

use tidegate_types::units::Rate;

/// What a node needs of others: the negative tuple of the paper, as `[0, 0, -5]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shortage {
    /// Bytes/s that each class is short of.
    pub amounts: Vec<Rate>,
}

/// What a node could lend to others: the positive tuple of the paper, as `[8, 0, 0]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spare {
    /// Bytes/s that each class has and does not want.
    pub amounts: Vec<Rate>,
}

impl Shortage {
    /// Over all classes.
    pub fn total(&self) -> Rate {
        self.amounts.iter().copied().sum()
    }
}

impl Spare {
    /// Over all classes.
    pub fn total(&self) -> Rate {
        self.amounts.iter().copied().sum()
    }
}

/// An uplink, divided for an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UplinkShares {
    /// Bytes/s that each class may send (V), most urgent first.
    pub rates: Vec<Rate>,
    /// Bytes/s that any class may send beyond that, the most urgent one first.
    pub lent: Rate,
    /// What the node would ask of others.
    pub shortage: Shortage,
    /// What it would offer them.
    pub spare: Spare,
}

impl UplinkShares {
    /// Bytes/s that each class wants, whoever carries them: what it has less what it does not want, and what it is short of.
    pub fn wanted(&self) -> impl Iterator<Item = Rate> + '_ {
        let lent = std::iter::once(self.lent).chain(std::iter::repeat(Rate::ZERO));
        let own = self.rates.iter().zip(lent).map(|(&rate, lent)| rate + lent);
        let others = self.spare.amounts.iter().zip(&self.shortage.amounts);
        own.zip(others).map(|(own, (&spare, &short))| own - spare + short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_class_wants_is_what_it_has_and_lacks() {
        let rates = |amounts: [f64; 3]| amounts.map(Rate::new).to_vec();
        let shares = |lent, spare| UplinkShares {
            rates: rates([18.0, 10.0, 2.0]),
            lent: Rate::new(lent),
            shortage: Shortage { amounts: rates([0.0, 0.0, 5.0]) },
            spare: Spare { amounts: rates(spare) },
        };
        // Fig. 4's E_2 offers 8 of 18; what any class may use is offered as well.
        let wanted = |shares: UplinkShares| shares.wanted().collect::<Vec<Rate>>();
        assert_eq!(wanted(shares(0.0, [8.0, 0.0, 0.0])), rates([10.0, 10.0, 7.0]));
        assert_eq!(wanted(shares(6.0, [6.0, 0.0, 0.0])), rates([18.0, 10.0, 7.0]));
    }

    #[test]
    fn a_tuple_has_a_sum() {
        let amounts = [8.0, 0.0, 5.0].map(Rate::new).to_vec();
        assert_eq!(Spare { amounts: amounts.clone() }.total(), Rate::new(13.0));
        assert_eq!(Shortage { amounts }.total(), Rate::new(13.0));
        assert_eq!(Shortage::default().total(), Rate::ZERO);
    }
}
