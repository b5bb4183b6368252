//! What a node says of itself: its uplink's capacity and what each class wants of it, never net of what
//! is redirected already. JANUS §V-B.1; Alg. 2, `BWRequest`.

use tidegate_types::units::Ratio;

use super::Amount;

/// The tuple of a heartbeat.
///
/// Amounts are gross. A net tuple would flip: 1,800 wanted and 1,000 of its own asks for 800; granted, it
/// would ask for nothing, and lose the grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuple {
    /// What the uplink carries (C).
    pub capacity: Amount,
    /// What each class wants, most urgent first, whoever carries it.
    pub demand: Vec<Amount>,
}

impl Tuple {
    /// What all classes want.
    pub fn total(&self) -> Amount {
        self.demand.iter().copied().sum()
    }

    /// What each class is short of, the most urgent served first: the negative tuple of the paper.
    pub fn shortage(&self) -> impl Iterator<Item = Amount> + '_ {
        let mut left = self.capacity;
        self.demand.iter().map(move |&demand| {
            let own = demand.min(left);
            left -= own;
            demand - own
        })
    }

    /// What the node can lend when it keeps a part of its capacity free for its own surprises.
    pub fn spare(&self, headroom: Ratio) -> Amount {
        self.capacity.times(1.0 - headroom.as_f64()).saturating_sub(self.total())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(capacity: u64, demand: [u64; 3]) -> Tuple {
        Tuple { capacity: Amount(capacity), demand: demand.map(Amount).to_vec() }
    }

    fn shortage(tuple: &Tuple) -> Vec<u64> {
        tuple.shortage().map(|amount| amount.0).collect()
    }

    #[test]
    fn a_burst_of_the_least_urgent_asks_for_that_class() {
        // Fig. 4: E_1 has 30 and its classes want 10, 10 and 15; E_2 has 30 and wants 10, 10 and 2.
        let (busy, idle) = (tuple(30, [10, 10, 15]), tuple(30, [10, 10, 2]));
        assert_eq!((shortage(&busy), shortage(&idle)), (vec![0, 0, 5], vec![0, 0, 0]));
        assert_eq!((busy.spare(Ratio::ZERO), idle.spare(Ratio::ZERO)), (Amount(0), Amount(8)));
        assert_eq!(idle.spare(Ratio::new(0.1)), Amount(5));
    }

    #[test]
    fn the_most_urgent_asks_only_when_it_alone_is_too_much() {
        assert_eq!(shortage(&tuple(30, [40, 10, 5])), [10, 10, 5]);
        assert_eq!(shortage(&tuple(30, [25, 10, 5])), [0, 5, 5]);
    }
}
