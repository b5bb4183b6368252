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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_has_a_sum() {
        let amounts = [8.0, 0.0, 5.0].map(Rate::new).to_vec();
        assert_eq!(Spare { amounts: amounts.clone() }.total(), Rate::new(13.0));
        assert_eq!(Shortage { amounts }.total(), Rate::new(13.0));
        assert_eq!(Shortage::default().total(), Rate::ZERO);
    }
}
