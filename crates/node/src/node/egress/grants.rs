//! What may go to a provider now: as fast as it granted, and no more than it answers for in time.
//!
//! The provider's own records go first, so what it lends may stop at any time. What is under way there is
//! bounded by a time of the grant: it is a queue that nobody else could serve meanwhile. Its answers are
//! the credits (`Lender` of the fleet, with the far end's confirmations as its words).

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use slotmap::SparseSecondaryMap;
use tidegate_schedule::queue::{Delivery, DeliveryKey, Progress, QueueSpec};
use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;
use tidegate_types::limits::RELAY_CREDIT;
use tidegate_types::units::{Size, Time};

use crate::io::{OutputId, PathId};
use crate::options::NodeOptions;

/// What may go at once after a pause: a node is not asked more often.
const BURST: Duration = Duration::from_millis(20);
/// How long after our own uplink was late for an alarm each goes by a second way as well.
pub(super) const RESTLESS: Duration = Duration::from_secs(10);
/// What may be without an answer of alarms however small a grant is, a packet: a neighbour that is idle has shown little of
/// what it carries.
const ALARMS_MIN: Size = Size(1460);
/// How long a provider that gives a record back is sent nothing: another one may take it.
const GIVEN_BACK: Duration = Duration::from_millis(20);
/// An answer that is older says nothing: the next alarm tries.
const ANSWER_AGE: Duration = Duration::from_secs(2);
/// Beyond this an answer tells of a queue, not of a distance.
const FAR_MAX: Duration = Duration::from_secs(1);

/// The grants of one class by one provider, as their receiver uses them.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantPacer {
    amount: Amount,
    until: Time,
    paid_at: Time,
    /// Until when the provider is sent nothing, for it gave a record back.
    shut_until: Time,
    under_way: Size,
    /// The shortest time to an answer so far: what it takes without any queue.
    fastest: Option<Duration>,
    /// The newest one, and when it came.
    newest: Option<(Time, Duration)>,
}

impl GrantPacer {
    /// Nothing is granted yet.
    pub(super) fn new(now: Time) -> Self {
        GrantPacer {
            amount: Amount::ZERO,
            until: now,
            paid_at: now,
            shut_until: now,
            under_way: Size::ZERO,
            fastest: None,
            newest: None,
        }
    }

    /// So much is granted until then, in place of what was.
    pub(super) fn grant(&mut self, amount: Amount, until: Time) {
        (self.amount, self.until) = (amount, until);
    }

    /// What is granted now.
    pub(super) fn amount(&self, now: Time) -> Amount {
        if self.until > now { self.amount } else { Amount::ZERO }
    }

    /// Whether nothing is granted and every record has its answer.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.amount(now).is_zero() && self.under_way == Size::ZERO
    }

    /// What may be without an answer: a time of the grant.
    fn credit(&self, now: Time) -> Size {
        let far = self.fastest.unwrap_or_default().min(FAR_MAX);
        self.amount(now).rate().in_span(RELAY_CREDIT + far)
    }

    /// When the next record may go; `None` where only an answer or a grant helps. A record may overdraw
    /// what may be under way, or a small grant would never carry a large one.
    pub(super) fn next(&self, now: Time) -> Option<Time> {
        let at = self.paid_at.max(self.shut_until);
        (self.under_way < self.credit(now)).then_some(at)
    }

    /// The same for an alarm. No pace holds it up: a provider that has no room for it gives it back at once.
    pub(super) fn next_alarm(&self, now: Time) -> Option<Time> {
        let credit = Some(self.credit(now)).filter(|credit| *credit > Size::ZERO)?;
        (self.under_way < credit.max(ALARMS_MIN)).then_some(self.shut_until)
    }

    /// Up to when it is used by what was sent.
    pub(super) fn used_until(&self) -> Time {
        self.paid_at
    }

    /// A record goes. An alarm that goes before its time is not paid for: only what is under way bounds it, and others must
    /// not wait for it to be paid.
    pub(super) fn send(&mut self, now: Time, size: Size) {
        self.under_way += size;
        if self.paid_at <= now {
            let cost = self.amount.rate().time_for(size);
            self.paid_at = self.paid_at.max(now - BURST) + cost;
        }
    }

    /// A record that went `took` ago has its answer.
    pub(super) fn answered(&mut self, now: Time, size: Size, took: Duration) {
        self.newest = Some((now, took));
        self.forgive(size);
        self.fastest = Some(self.fastest.map_or(took, |fastest| fastest.min(took)));
    }

    /// How long the newest answer took, while that says something.
    pub(super) fn takes(&self, now: Time) -> Option<Duration> {
        let young = self.newest.filter(|(at, _)| now.since(*at) < ANSWER_AGE);
        young.map(|(_, took)| took)
    }

    /// The provider gave a record back.
    fn given_back(&mut self, now: Time) {
        self.shut_until = now + GIVEN_BACK;
    }

    /// So much of what is under way gets no answer any more.
    fn forgive(&mut self, size: Size) {
        self.under_way = self.under_way.saturating_sub(size);
    }

    /// The same for all of it.
    pub(super) fn lost(&mut self) {
        (self.under_way, self.fastest) = (Size::ZERO, None);
    }
}

/// Which grant: the class that it is for, and by which output.
pub(super) type Permit = (Reverse<ClassId>, OutputId);

/// An alarm's second way, by a neighbour, beside the one that its delivery stands on; or what is left of two when the other one
/// confirmed it. Its credit stays taken until that neighbour answers, or its connection is lost.
#[derive(Clone, Copy, Debug)]
struct SecondWay {
    class: ClassId,
    permit: Permit,
    size: Size,
    picked_at: Time,
}

/// What is granted, the least urgent class first: what is urgent leaves the node last, while its uplink carries.
#[derive(Debug, Default)]
pub(super) struct Grants {
    pub(super) all: BTreeMap<Permit, GrantPacer>,
    /// Records that went by the grant of a less urgent class.
    pub(super) lifted: SparseSecondaryMap<DeliveryKey, ClassId>,
    /// Who is reached by which output.
    pub(super) names: BTreeMap<OutputId, Arc<str>>,
    /// When a pace lets the next record go.
    pub(super) wake: Option<Time>,
    /// Until when each alarm goes by a second way as well, while they are few; and those that went so far only by one.
    pub(super) restless_until: Time,
    pub(super) are_few: bool,
    pub(super) once: VecDeque<DeliveryKey>,
    /// At most one for a delivery; the credit of each bounds them.
    second_ways: BTreeMap<DeliveryKey, SecondWay>,
}

impl Grants {
    /// A neighbour's connection of some classes is gone, with what was under way there.
    pub(super) fn lost(&mut self, path: PathId, options: &NodeOptions) {
        let is_lost = |way: &SecondWay| {
            way.permit.1 == path.output && options.lane_of(path.output, way.class) == path.lane
        };
        for (_, way) in self.second_ways.extract_if(.., |_, way| is_lost(way)) {
            let grant = self.all.get_mut(&way.permit);
            grant.into_iter().for_each(|grant| grant.forgive(way.size));
        }
        for (&(Reverse(class), peer), grant) in &mut self.all {
            if peer == path.output && options.lane_of(peer, class) == path.lane {
                grant.lost();
            }
        }
    }

    /// An alarm goes by a second way.
    pub(super) fn send_second(
        &mut self,
        now: Time,
        key: DeliveryKey,
        permit: Permit,
        delivery: &Delivery,
    ) {
        let Delivery { spec: QueueSpec { class, .. }, size, .. } = *delivery;
        if let Some(grant) = self.all.get_mut(&permit) {
            grant.send(now, size);
            self.second_ways.insert(key, SecondWay { class, permit, size, picked_at: now });
        }
    }

    /// Whether a delivery has a second way.
    pub(super) fn has_second(&self, key: DeliveryKey) -> bool {
        self.second_ways.contains_key(&key)
    }

    /// Since when a second way by a neighbour has been waiting for its answer.
    pub(super) fn second_since(&self, peer: OutputId) -> Option<Time> {
        let here = self.second_ways.values().filter(|way| way.permit.1 == peer);
        here.map(|way| way.picked_at).min()
    }

    /// A neighbour answered for a second way: answers with when that was taken.
    pub(super) fn answered_second(
        &mut self,
        now: Time,
        key: DeliveryKey,
        by: OutputId,
    ) -> Option<Time> {
        self.second_ways.get(&key).filter(|way| way.permit.1 == by)?;
        let SecondWay { permit, size, picked_at, .. } = self.second_ways.remove(&key)?;
        if let Some(grant) = self.all.get_mut(&permit) {
            grant.answered(now, size, now.since(picked_at));
        }
        Some(picked_at)
    }

    /// A delivery goes on by its second way: by whom, and since when.
    pub(super) fn take_second(&mut self, key: DeliveryKey) -> Option<(OutputId, Time)> {
        let SecondWay { permit: (Reverse(of), peer), picked_at, .. } =
            self.second_ways.remove(&key)?;
        self.lifted.insert(key, of);
        Some((peer, picked_at))
    }

    /// A delivery ends by its second way: the neighbour by whom the first one went has no answer yet.
    pub(super) fn leave_first(&mut self, key: DeliveryKey, delivery: &Delivery) {
        let Delivery { spec, size, progress: Progress { picked_at, .. }, .. } = *delivery;
        let permit = (Reverse(self.lifted.remove(key).unwrap_or(spec.class)), spec.output);
        if self.all.contains_key(&permit) {
            let class = spec.class;
            self.second_ways.insert(key, SecondWay { class, permit, size, picked_at });
        }
    }

    /// A neighbour gave a record back: others are asked first.
    pub(super) fn given_back(&mut self, now: Time, by: OutputId) {
        let own = self.all.iter_mut().filter(|((_, peer), _)| *peer == by);
        own.for_each(|(_, grant)| grant.given_back(now));
    }

    /// Those by which an alarm may go: nothing is reserved for the least urgent class.
    pub(super) fn reserved(
        &self,
        relayed: ClassId,
    ) -> impl Iterator<Item = (&Permit, &GrantPacer)> {
        self.all.iter().filter(move |((Reverse(of), _), _)| of.0 + 1 < relayed.0)
    }

    /// Something can go at this time.
    pub(super) fn wake_at(&mut self, at: Time) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// A neighbour answered for a delivery, one way or another.
    pub(super) fn answered(&mut self, now: Time, key: DeliveryKey, delivery: &Delivery) {
        // For most nodes there is nothing, and this is asked for every record.
        if self.all.is_empty() && self.lifted.is_empty() {
            return;
        }
        let Delivery { spec, size, progress, .. } = delivery;
        let class = self.lifted.remove(key).unwrap_or(spec.class);
        if let Some(grant) = self.all.get_mut(&(Reverse(class), spec.output)) {
            grant.answered(now, *size, now.since(progress.picked_at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(10_000);

    fn granted(amount: u64) -> GrantPacer {
        let mut way = GrantPacer::new(NOW);
        way.grant(Amount(amount), NOW + Duration::from_secs(5));
        way
    }

    #[test]
    fn records_go_at_the_pace_of_the_grant() {
        let mut way = granted(100_000);
        let (mut now, mut sent) = (NOW, 0);
        while now < NOW + Duration::from_secs(1) {
            now = now.max(way.next(now).unwrap());
            way.send(now, Size(1000));
            way.answered(now, Size(1000), Duration::ZERO);
            sent += 1;
        }
        assert!((100..=103).contains(&sent), "{sent}");
    }

    #[test]
    fn no_pace_holds_an_alarm_up_but_a_provider_that_gave_one_back_does() {
        let mut way = granted(10_000);
        way.send(NOW, Size(1000));
        let paid = NOW + Duration::from_millis(100);
        assert_eq!((way.next(NOW), way.next_alarm(NOW)), (Some(paid), Some(NOW)));
        way.send(NOW, Size(1400));
        assert_eq!(way.next(NOW), Some(paid), "what goes before its time is not paid for");
        way.given_back(NOW);
        assert_eq!(way.next_alarm(NOW), Some(NOW + Duration::from_millis(20)));
        way.send(NOW, Size(1000));
        assert_eq!(way.next_alarm(NOW), None, "2,500 bytes are a quarter of a second");
    }

    #[test]
    fn no_more_is_under_way_than_a_credit_and_the_distance() {
        let mut way = granted(4000);
        way.send(NOW, Size(900));
        assert!(way.next(NOW).is_some());
        way.send(NOW, Size(900));
        assert_eq!(way.next(NOW), None, "1,000 bytes are a quarter of a second; it is overdrawn");
        way.answered(NOW, Size(900), Duration::from_millis(250));
        assert!(way.next(NOW).is_some());
        way.send(NOW, Size(1000));
        assert!(way.next(NOW).is_some(), "1,900 of 2,000: the distance is another quarter");
        way.lost();
        assert!(way.next(NOW).is_some() && !way.is_over(NOW));
    }

    #[test]
    fn a_lease_that_is_over_carries_nothing() {
        let mut way = granted(4000);
        way.send(NOW, Size(10));
        let later = NOW + Duration::from_secs(5);
        assert_eq!((way.amount(later), way.next(later)), (Amount::ZERO, None));
        assert!(!way.is_over(later), "an answer is to come");
        way.answered(later, Size(10), Duration::ZERO);
        assert!(way.is_over(later));
    }
}
