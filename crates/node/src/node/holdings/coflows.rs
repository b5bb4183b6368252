//! Co-flows: sets of records with one bound, which is on the last of them.
//! Source: papers/janus.txt, §I: the latency of a co-flow is that of its last flow.
//! Inputs: the property `coflow` of records, and when their deliveries leave. Outputs: the deadline that all records of a
//! set have, counts and times of sets by class. O(log n) a record that is in a set, n open sets.
//! Deviations: the paper names co-flows and no means; here a set is due when its first record would be
//! (docs/algorithms-janus.md#coflows).
//! Limits: `OPEN_MAX` sets at once, names of `NAME_MAX` bytes.
//!
//! A set begins with the first record of its name in a class. Of known size, it ends when so many records have left;
//! else at its deadline, or when its last record leaves after that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use slotmap::{SlotMap, SparseSecondaryMap, new_key_type};
use tidegate_schedule::queue::DeliveryKey;
use tidegate_types::class::ClassId;
use tidegate_types::record::Properties;
use tidegate_types::units::Time;

use crate::status::CoflowStatus;

/// The property that names a record's set: a name, or a name, `/` and how many records the set has.
const PROPERTY: &str = "coflow";
/// Sets that are open at once: 1 MiB with the longest names. A record of one more is a record like any other.
const OPEN_MAX: usize = 4096;
/// Bytes of a name; a longer one names no set.
const NAME_MAX: usize = 64;
/// How long a late set is waited for at least, from its deadline on.
const PATIENCE: Duration = Duration::from_secs(1);

new_key_type! {
    /// A set that is open.
    pub(crate) struct CoflowKey;
}

/// A set that is open.
#[derive(Debug)]
struct Coflow {
    class: ClassId,
    name: Bytes,
    began: Time,
    deadline: Time,
    /// Its records, where one of them has said.
    size: Option<u32>,
    /// Records that came.
    records: u32,
    /// Deliveries whose last byte is not on the wire.
    left: u32,
    /// When the last one that is went.
    last: Time,
    is_late: bool,
}

impl Coflow {
    /// When time alone changes it: it becomes late, and later it is given up.
    fn due(&self) -> Time {
        let patience = self.deadline.since(self.began).max(PATIENCE);
        if self.is_late { self.deadline + patience } else { self.deadline }
    }

    /// Whether everything that is known to belong to it has left, and at its deadline whether more is to come.
    fn is_whole(&self, is_over: bool) -> bool {
        self.left == 0 && self.size.map_or(is_over, |size| self.records >= size)
    }
}

/// The open sets of a node.
#[derive(Debug, Default)]
pub(crate) struct Coflows {
    open: SlotMap<CoflowKey, Coflow>,
    names: BTreeMap<(ClassId, Bytes), CoflowKey>,
    /// Deliveries of records of sets, and whether their last byte is on the wire.
    members: SparseSecondaryMap<DeliveryKey, (CoflowKey, bool)>,
    due: BTreeSet<(Time, CoflowKey)>,
    classes: BTreeMap<ClassId, CoflowStatus>,
}

/// What a property says: the name, and how many records there are.
fn parse(value: &Bytes) -> Option<(Bytes, Option<u32>)> {
    let slash = value.iter().rposition(|byte| *byte == b'/');
    let size = |slash: usize| -> Option<u32> {
        std::str::from_utf8(&value[slash + 1..]).ok()?.parse().ok()
    };
    let sized = slash.and_then(|slash| Some((slash, size(slash)?)));
    let (end, size) = sized.map_or((value.len(), None), |(end, size)| (end, Some(size)));
    // A copy: the property is a part of a packet, which would be held for it.
    let name = Bytes::copy_from_slice(&value[..end.min(NAME_MAX + 1)]);
    (1..=NAME_MAX).contains(&name.len()).then_some((name, size.filter(|size| *size > 0)))
}

impl Coflows {
    /// A record comes, which is due then. Answers with its set, if it has one, and with the set's deadline where that is
    /// still to come and sooner.
    pub(crate) fn join(
        &mut self,
        class: ClassId,
        properties: &Properties,
        (arrived, deadline): (Time, Time),
    ) -> Option<(CoflowKey, Time)> {
        let (name, size) = parse(properties.find(PROPERTY)?)?;
        self.pass(arrived);
        let status = self.classes.entry(class).or_default();
        let known = self.names.get(&(class, name.clone())).copied();
        if known.is_none() && self.open.len() >= OPEN_MAX {
            status.refused += 1;
            return None;
        }
        let key = known.unwrap_or_else(|| {
            status.begun += 1;
            let new = Coflow {
                class,
                name: name.clone(),
                began: arrived,
                deadline,
                size: None,
                records: 0,
                left: 0,
                last: arrived,
                is_late: false,
            };
            let key = self.open.insert(new);
            self.names.insert((class, name), key);
            self.due.insert((deadline, key));
            key
        });
        let coflow = &mut self.open[key];
        coflow.records += 1;
        coflow.size = coflow.size.max(size);
        let is_due = coflow.deadline <= arrived;
        Some((key, if is_due { deadline } else { coflow.deadline.min(deadline) }))
    }

    /// A delivery of a record of a set comes into a queue.
    pub(crate) fn enter(&mut self, key: CoflowKey, delivery: DeliveryKey) {
        self.stored(key, 1);
        self.members.insert(delivery, (key, false));
    }

    /// Deliveries of a record of a set are in the log alone, and come back late.
    pub(crate) fn stored(&mut self, key: CoflowKey, deliveries: u32) {
        if let Some(coflow) = self.open.get_mut(key) {
            coflow.left += deliveries;
        }
    }

    /// The last byte of a delivery is on the wire.
    #[inline]
    pub(crate) fn handed(&mut self, now: Time, delivery: DeliveryKey) {
        if self.members.is_empty() {
            return;
        }
        let Some((key, is_handed)) = self.members.get_mut(delivery) else { return };
        if std::mem::replace(is_handed, true) {
            return;
        }
        let key = *key;
        let Some(coflow) = self.open.get_mut(key) else { return };
        coflow.left -= 1;
        coflow.last = now;
        self.pass(now);
        if self.open.get(key).is_some_and(|coflow| coflow.is_whole(coflow.is_late)) {
            self.end(key, true);
        }
    }

    /// A delivery is to be sent again.
    pub(crate) fn begin_again(&mut self, delivery: DeliveryKey) {
        if let Some((key, is_handed)) = self.members.get_mut(delivery)
            && std::mem::take(is_handed)
            && let Some(coflow) = self.open.get_mut(*key)
        {
            coflow.left += 1;
        }
    }

    /// When the set of a delivery is due, while that is to come.
    pub(crate) fn deadline(&self, delivery: DeliveryKey) -> Option<Time> {
        let (key, _) = self.members.get(delivery)?;
        self.open.get(*key).filter(|coflow| !coflow.is_late).map(|coflow| coflow.deadline)
    }

    /// A delivery is no more in memory. A set whose record was not sent is not whole any more, and so late.
    #[inline]
    pub(crate) fn forget(&mut self, delivery: DeliveryKey) {
        if !self.members.is_empty() {
            self.members.remove(delivery);
        }
    }

    /// When [`Coflows::pass`] has something to do.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Sets whose time is over end, or are late.
    pub(crate) fn pass(&mut self, now: Time) {
        while let Some(&(_, key)) = self.due.first().filter(|(at, _)| *at <= now) {
            let coflow = &mut self.open[key];
            let was_late = coflow.is_late;
            // What left at the very deadline was in time.
            if was_late || coflow.is_whole(true) && coflow.last <= coflow.deadline {
                self.end(key, !was_late);
                continue;
            }
            self.due.remove(&(coflow.due(), key));
            coflow.is_late = true;
            self.due.insert((coflow.due(), key));
            self.classes.entry(coflow.class).or_default().late += 1;
        }
    }

    /// A set is over, whole or given up.
    fn end(&mut self, key: CoflowKey, is_whole: bool) {
        let Some(coflow) = self.open.remove(key) else { return };
        self.due.remove(&(coflow.due(), key));
        let Coflow { class, name, began, last, .. } = coflow;
        self.names.remove(&(class, name));
        let status = self.classes.entry(class).or_default();
        if is_whole {
            status.times.record(last.since(began));
        } else {
            status.given_up += 1;
        }
    }

    /// Counts and times of a class's sets.
    pub(crate) fn status(&self, class: ClassId) -> CoflowStatus {
        let status = self.classes.get(&class).cloned().unwrap_or_default();
        let open = self.open.values().filter(|coflow| coflow.class == class).count() as u64;
        CoflowStatus { open, ..status }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(value: &'static str) -> Option<(&'static str, Option<u32>)> {
        let (name, size) = parse(&Bytes::from_static(value.as_bytes()))?;
        Some((&value[..name.len()], size))
    }

    #[test]
    fn a_property_names_a_set_and_may_say_how_large_it_is() {
        assert_eq!(set_of("run-17"), Some(("run-17", None)));
        assert_eq!(set_of("run-17/12"), Some(("run-17", Some(12))));
        assert_eq!(set_of("press/4/12"), Some(("press/4", Some(12))));
        assert_eq!(set_of("press/a"), Some(("press/a", None)));
        assert_eq!(set_of("run-17/0"), Some(("run-17", None)));
        assert_eq!([set_of(""), set_of("/12")], [None, None]);
        let long = |length| parse(&Bytes::from(vec![b'a'; length])).is_some();
        assert_eq!([long(NAME_MAX), long(NAME_MAX + 1)], [true, false]);
    }

    #[test]
    fn open_sets_are_bounded_and_one_more_is_counted() {
        let mut coflows = Coflows::default();
        let mut join = |name: String| {
            let pair = (Bytes::from_static(b"coflow"), Bytes::from(name));
            let times = (Time::ZERO, Time::from_millis(500));
            coflows.join(ClassId(1), &Properties::new(vec![pair]), times)
        };
        assert!((0..OPEN_MAX).all(|at| join(format!("{at}")).is_some()));
        assert_eq!((join("more".into()), join("0".into()).is_some()), (None, true));
        let status = coflows.status(ClassId(1));
        assert_eq!((status.open, status.begun, status.refused), (4096, 4096, 1));
        coflows.pass(Time::from_millis(500));
        let status = coflows.status(ClassId(1));
        assert_eq!((status.open, status.late, coflows.next_due()), (0, 0, None));
    }
}
