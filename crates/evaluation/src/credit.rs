//! What a receiver may have in a provider's queue: a provider lends places, not promises. The product's own is
//! `crates/node/src/node/egress/grant_pacer.rs`.
//!
//! The provider's own records go first, so what it lends may stop at any time. Without a limit the
//! receiver would go on for a control delay, and all of that would wait. A limit is a count of bytes since
//! the grant began: a credit that is lost or comes twice does no harm. It may be overdrawn by a record, or
//! a small grant would never carry a large one.

use std::time::Duration;

use tidegate_types::amount::Amount;
use tidegate_types::units::Size;

/// The provider's side of a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lender {
    taken: Size,
    left: Size,
    limit: Size,
}

impl Lender {
    /// A record of the receiver came. Whether there was credit left; without, it is not to be taken.
    pub fn take(&mut self, size: Size) -> bool {
        let is_within = self.taken < self.limit;
        if is_within {
            self.taken += size;
        }
        is_within
    }

    /// A record of the receiver is handed to the uplink.
    pub fn sent(&mut self, size: Size) {
        self.left += size;
    }

    /// What the receiver may send in all: what has left, and `window` of the amount. It never falls.
    pub fn limit(&mut self, amount: Amount, window: Duration) -> Size {
        self.limit = self.limit.max(self.left + amount.rate().in_span(window));
        self.limit
    }

    /// What waits here.
    pub fn waiting(&self) -> Size {
        self.taken.saturating_sub(self.left)
    }
}

/// The receiver's side of a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Borrower {
    sent: Size,
    limit: Size,
}

impl Borrower {
    /// The provider told a limit; an older one changes nothing.
    pub fn allow(&mut self, limit: Size) {
        self.limit = self.limit.max(limit);
    }

    /// What may go now: where it is not zero, one record of any size.
    pub fn room(&self) -> Size {
        self.limit.saturating_sub(self.sent)
    }

    /// A record goes. Panics without room: whoever asks knows it.
    pub fn send(&mut self, size: Size) {
        assert!(self.room() > Size::ZERO, "a receiver keeps to its credit");
        self.sent += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(250);

    #[test]
    fn no_more_waits_than_a_window_of_the_grant() {
        let (mut lender, mut borrower) = (Lender::default(), Borrower::default());
        let amount = Amount(4000);
        borrower.allow(lender.limit(amount, WINDOW));
        assert_eq!(borrower.room(), Size(1000));
        borrower.send(Size(900));
        borrower.send(Size(300));
        assert_eq!(borrower.room(), Size::ZERO, "overdrawn by 200");
        assert!(lender.take(Size(900)) && lender.take(Size(300)) && !lender.take(Size(1)));
        assert_eq!(lender.waiting(), Size(1200));
        lender.sent(Size(900));
        let limit = lender.limit(amount, WINDOW);
        // It comes late and twice, after a newer one.
        borrower.allow(limit);
        borrower.allow(Size(1000));
        assert_eq!((borrower.room(), limit), (Size(700), Size(1900)));
    }

    #[test]
    fn a_grant_that_shrinks_takes_no_credit_back() {
        let mut lender = Lender::default();
        assert_eq!(lender.limit(Amount(4000), WINDOW), Size(1000));
        assert_eq!(lender.limit(Amount::ZERO, WINDOW), Size(1000));
        assert!(lender.take(Size(1000)));
        lender.sent(Size(1000));
        assert_eq!(lender.limit(Amount::ZERO, WINDOW), Size(1000));
    }

    #[test]
    #[should_panic(expected = "keeps to its credit")]
    fn a_receiver_without_credit_sends_nothing() {
        Borrower::default().send(Size(1));
    }
}
