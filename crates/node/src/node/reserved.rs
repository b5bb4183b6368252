//! What of our uplink is reserved for neighbours' records, and what becomes of these.
//! Source: papers/janus.txt, §V-B.2, Fig. 4, `BWReserve` of Alg. 3.
//! Inputs: amounts in bytes/s by class, records with what is left of their bounds. Outputs: the rule that serves a
//! record, and how much later than its deadline its turn is. O(classes) a record.
//! Deviations: nothing is moved between classes ahead; a reservation gives a record its class and its deadline here
//! (docs/algorithms-fleet.md#reservation).
//! Limits: one reservation a class, for all neighbours together.
//!
//! Within a reservation a neighbour's record is served as our own ones are: in its class, by what is left of its bound.
//! What comes faster than is reserved has its deadline later by as much, so a burst delays our own records of the class
//! by one of its records at most. Beyond the credit, and without a reservation, our own records of every class go first;
//! so they do before what neighbours send of the least urgent class.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;
use tidegate_types::limits::RELAY_CREDIT;
use tidegate_types::units::{Size, Time};

/// What is reserved of our uplink, and whether that carries anything.
#[derive(Debug, Default)]
pub(super) struct Lending {
    reserved: BTreeMap<ClassId, ReservedShare>,
    /// Whether the uplink carried nothing when it was last looked at.
    pub(super) is_dead: bool,
}

/// What is reserved for the records of a class.
#[derive(Clone, Copy, Debug)]
struct ReservedShare {
    amount: Amount,
    until: Time,
    /// Up to when it is used by what came.
    used_until: Time,
}

/// Which reservation a record may use, and how long after it came its turn is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    of: ClassId,
    pub(super) later: Duration,
}

impl Lending {
    /// So much is reserved for a class from now on, in place of what was.
    pub(super) fn reserve(&mut self, now: Time, class: ClassId, amount: Amount, lease: Duration) {
        let until = now + lease;
        if amount.is_zero() {
            self.reserved.remove(&class);
        } else {
            let new = ReservedShare { amount, until, used_until: now };
            let known = self.reserved.entry(class).or_insert(new);
            // What is owed are bytes: a larger amount serves them sooner.
            let owed = known.amount.rate().in_span(known.used_until.since(now));
            known.used_until = known.used_until.min(now + amount.rate().time_for(owed));
            (known.amount, known.until) = (amount, until);
        }
    }

    /// The turn of a record that comes now in what is reserved for its class or for a less urgent one. `None` where no
    /// reservation has room for it.
    pub(super) fn turn(&self, now: Time, class: ClassId) -> Option<Turn> {
        let has_room =
            |one: &ReservedShare| one.until > now && one.used_until.since(now) < RELAY_CREDIT;
        let mut usable = self.reserved.range(class..);
        let (&of, one) = usable.find(|(_, one)| has_room(one))?;
        Some(Turn { of, later: one.used_until.since(now) })
    }

    /// A record of this size takes its turn.
    pub(super) fn take(&mut self, now: Time, turn: Turn, size: Size) {
        if let Some(one) = self.reserved.get_mut(&turn.of) {
            one.used_until = one.used_until.max(now) + one.amount.rate().time_for(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(10_000);
    const LS: ClassId = ClassId(0);
    const NM: ClassId = ClassId(1);
    const LT: ClassId = ClassId(2);

    fn lending(class: ClassId, amount: u64) -> Lending {
        let mut lending = Lending::default();
        lending.reserve(NOW, class, Amount(amount), Duration::from_secs(5));
        lending
    }

    fn place(lending: &mut Lending, now: Time, class: ClassId, size: u64) -> Option<u64> {
        let turn = lending.turn(now, class)?;
        lending.take(now, turn, Size(size));
        Some(turn.later.as_millis() as u64)
    }

    fn places(lending: &mut Lending, now: Time, class: ClassId, count: usize) -> Vec<Option<u64>> {
        (0..count).map(|_| place(lending, now, class, 1000)).collect()
    }

    #[test]
    fn a_burst_has_its_turns_at_the_pace_of_the_reservation() {
        let mut lending = lending(LS, 10_000);
        let expected = [Some(0), Some(100), Some(200), None];
        assert_eq!(places(&mut lending, NOW, LS, 4), expected, "a quarter of a second of it");
        let later = NOW + Duration::from_secs(1);
        assert_eq!(places(&mut lending, later, LS, 2), [Some(0), Some(100)], "nothing is saved up");
    }

    #[test]
    fn what_is_owed_is_served_at_the_new_pace_when_more_is_reserved() {
        let mut lending = lending(LS, 200);
        assert_eq!(place(&mut lending, NOW, LS, 10_000), Some(0));
        lending.reserve(NOW, LS, Amount(25_000), Duration::from_secs(5));
        assert_eq!(places(&mut lending, NOW, LS, 1), [None], "10,000 bytes are 0.4 s of it");
        assert_eq!(places(&mut lending, NOW + Duration::from_millis(400), LS, 1), [Some(0)]);
    }

    #[test]
    fn what_is_reserved_for_a_class_serves_a_more_urgent_one_and_no_other() {
        let mut lending = lending(NM, 10_000);
        assert_eq!(places(&mut lending, NOW, LT, 1), [None]);
        assert_eq!(places(&mut lending, NOW, LS, 1), [Some(0)]);
        assert_eq!(places(&mut lending, NOW, NM, 1), [Some(100)]);
        lending.reserve(NOW, LS, Amount(10_000), Duration::from_secs(5));
        assert_eq!(places(&mut lending, NOW, LS, 1), [Some(0)], "its own first");
    }

    #[test]
    fn a_reservation_ends_by_itself_and_by_nothing() {
        let mut lending = lending(LS, 10_000);
        assert_eq!(places(&mut lending, NOW + Duration::from_secs(5), LS, 1), [None]);
        lending.reserve(NOW, LS, Amount::ZERO, Duration::from_secs(5));
        assert_eq!(places(&mut lending, NOW, LS, 1), [None]);
    }
}
