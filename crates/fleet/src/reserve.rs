//! How a provider makes room for what it lends: the internal shift of Fig. 4.
//! Source: papers/janus.txt, §V-B.2, Fig. 4, `BWReserve` of Alg. 3.

use std::collections::BTreeMap;

use thiserror::Error;
use tidegate_types::class::ClassId;
use tidegate_types::limits::CLASSES_MAX;

use super::{Amount, FencingToken};

/// What a reservation moved between the classes of the provider, `[5 down, 0, 5 up]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassShift {
    /// What each class gives.
    pub down: Vec<Amount>,
    /// Which class gets it: the records of the receiver are of that class.
    pub class: ClassId,
}

impl ClassShift {
    /// How much moved.
    pub fn amount(&self) -> Amount {
        self.down.iter().copied().sum()
    }
}

/// Why nothing is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// It would take from what the provider's own classes want.
    #[error("{wanted} are asked for and {available} are to be had")]
    TooMuch {
        /// What was asked for.
        wanted: Amount,
        /// What no class of the provider wants.
        available: Amount,
    },
    /// The class does not exist here.
    #[error("there is no class {0}")]
    NoClass(u8),
}

/// The allocation of a provider and what of it is reserved for others.
#[derive(Clone, Debug)]
pub struct Reserve {
    allocated: Vec<Amount>,
    available: Vec<Amount>,
    lent: BTreeMap<FencingToken, ClassShift>,
}

impl Reserve {
    /// allocated: what each class may use; wanted: what it does use. What is left is available.
    ///
    /// # Panics
    /// Where the two have not one entry a class.
    pub fn new(allocated: Vec<Amount>, wanted: &[Amount]) -> Self {
        assert!(allocated.len() == wanted.len() && wanted.len() <= CLASSES_MAX, "one a class");
        let left = |(allocated, wanted): (&Amount, &Amount)| allocated.saturating_sub(*wanted);
        let available = allocated.iter().zip(wanted).map(left).collect();
        Reserve { allocated, available, lent: BTreeMap::new() }
    }

    /// What each class may use, what it carries for others included.
    pub fn allocated(&self) -> &[Amount] {
        &self.allocated
    }

    /// What could be lent: the positive tuple of the paper.
    pub fn available(&self) -> &[Amount] {
        &self.available
    }

    /// What is lent.
    pub fn lent(&self) -> Amount {
        self.lent.values().map(ClassShift::amount).sum()
    }

    /// Moves what no class wants to the class that carries the receiver's records, from the most urgent
    /// class down (Alg. 2, line 11 leaves it there). A token that is known replaces its reservation.
    ///
    /// # Errors
    /// More than is available, or no such class: then nothing has changed.
    pub fn reserve(
        &mut self,
        token: FencingToken,
        class: ClassId,
        amount: Amount,
    ) -> Result<&ClassShift, ReserveError> {
        if class.index() >= self.allocated.len() {
            return Err(ReserveError::NoClass(class.0));
        }
        let before = self.lent.get(&token).map_or(Amount::ZERO, ClassShift::amount);
        let available = self.available.iter().copied().sum::<Amount>() + before;
        if amount > available {
            return Err(ReserveError::TooMuch { wanted: amount, available });
        }
        self.release(token);
        let mut left = amount;
        let take = |available: &mut Amount| {
            let taken = left.min(*available);
            *available -= taken;
            left -= taken;
            taken
        };
        let down: Vec<Amount> = self.available.iter_mut().map(take).collect();
        for (allocated, taken) in self.allocated.iter_mut().zip(&down) {
            *allocated -= *taken;
        }
        self.allocated[class.index()] += amount;
        Ok(self.lent.entry(token).or_insert(ClassShift { down, class }))
    }

    /// Gives a reservation back to where it came from; `None` where there is none.
    pub fn release(&mut self, token: FencingToken) -> Option<ClassShift> {
        let shift = self.lent.remove(&token)?;
        self.allocated[shift.class.index()] -= shift.amount();
        for (place, taken) in shift.down.iter().enumerate() {
            self.allocated[place] += *taken;
            self.available[place] += *taken;
        }
        Some(shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: FencingToken = FencingToken { revision: 1, id: 1 };

    fn amounts(amounts: [u64; 3]) -> Vec<Amount> {
        amounts.map(Amount).to_vec()
    }

    /// E_2 of Fig. 4: it has [18, 10, 2] and uses [10, 10, 2].
    fn idle() -> Reserve {
        Reserve::new(amounts([18, 10, 2]), &amounts([10, 10, 2]))
    }

    #[test]
    fn what_is_lent_moves_to_the_class_of_the_records() {
        let mut reserve = idle();
        assert_eq!(reserve.available(), amounts([8, 0, 0]));
        let shift = reserve.reserve(TOKEN, ClassId(2), Amount(5)).unwrap();
        assert_eq!((&shift.down, shift.class), (&amounts([5, 0, 0]), ClassId(2)));
        assert_eq!(reserve.allocated(), amounts([13, 10, 7]));
        assert_eq!((reserve.available(), reserve.lent()), (&*amounts([3, 0, 0]), Amount(5)));
        reserve.release(TOKEN);
        assert_eq!(reserve.allocated(), amounts([18, 10, 2]));
        assert_eq!(reserve.release(TOKEN), None);
    }

    #[test]
    fn no_more_is_lent_than_nobody_wants() {
        let mut reserve = idle();
        let too_much = ReserveError::TooMuch { wanted: Amount(9), available: Amount(8) };
        assert_eq!(reserve.reserve(TOKEN, ClassId(2), Amount(9)), Err(too_much));
        assert_eq!(reserve.reserve(TOKEN, ClassId(3), Amount(1)), Err(ReserveError::NoClass(3)));
        assert_eq!(reserve.allocated(), amounts([18, 10, 2]));
    }

    #[test]
    fn a_grant_that_changes_is_reserved_once() {
        let mut reserve = idle();
        reserve.reserve(TOKEN, ClassId(2), Amount(5)).unwrap();
        reserve.reserve(TOKEN, ClassId(2), Amount(8)).unwrap();
        assert_eq!((reserve.lent(), reserve.allocated()), (Amount(8), &*amounts([10, 10, 10])));
        reserve.reserve(TOKEN, ClassId(1), Amount(1)).unwrap();
        assert_eq!(reserve.allocated(), amounts([17, 11, 2]));
    }
}
