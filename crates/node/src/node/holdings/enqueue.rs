//! A record comes into its queues: new, or read back from the log.

use std::sync::Arc;

use tidegate_log::Destinations;
use tidegate_schedule::queue::{Delivery, DeliveryKey, QueueSpec, RecordKey};
use tidegate_types::class::ClassId;
use tidegate_types::record::{DropReason, Properties, Record};
use tidegate_types::units::{Size, Time};

use super::coflows::CoflowKey;
use super::record::{Held, Leg, Owed, bit_of, end_of};
use super::streams::StreamKey;
use super::{Holdings, queue_spec};
use crate::io::OutputId;
use crate::rules::{Discipline, Rule};
use crate::status::CoflowStatus;

/// A record that was accepted just now.
pub(crate) struct Fresh {
    pub(crate) stream: StreamKey,
    pub(crate) record: Arc<Record>,
    pub(crate) size: Size,
    /// Its number in its stream, where the log will have it.
    pub(crate) logged_as: Option<u64>,
    /// Whether it is sent only when the log has it.
    pub(crate) after_log: bool,
    /// The one destination that it is for, if not for all of its rule.
    pub(crate) only: Option<OutputId>,
    /// Whether an earlier attempt of the node that it came from may have arrived.
    pub(crate) again: bool,
    /// The set that it belongs to.
    pub(crate) coflow: Option<CoflowKey>,
}

/// A record that came back from the log.
pub(crate) struct ReadBack {
    pub(crate) stream: StreamKey,
    pub(crate) record: Record,
    pub(crate) size: Size,
    pub(crate) owed: Owed,
    /// Its stored deliveries, those of them that have an output, and of the others how many have none.
    pub(crate) stored: u64,
    pub(crate) legs: Vec<(OutputId, Destinations)>,
    pub(crate) unroutable: u64,
    /// Destinations where an earlier attempt may have arrived.
    pub(crate) again: Destinations,
    /// Whether it is the newest record of its key, and the stream keeps no others.
    pub(crate) is_newest: bool,
}

/// Which deliveries a record gets.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// One for each output of its rule.
    All,
    /// One for this output.
    Only(OutputId),
    /// Those of a record that was read back.
    Legs(&'a [(OutputId, Destinations)]),
}

impl Wanted<'_> {
    /// The destinations that a delivery to an output serves; `None` where there is to be none.
    fn leg(&self, output: OutputId) -> Option<Destinations> {
        match self {
            Wanted::All => Some(bit_of(output)),
            Wanted::Only(only) => (*only == output).then(|| bit_of(output)),
            Wanted::Legs(legs) => {
                let leg = legs.iter().find(|(wanted, _)| *wanted == output);
                leg.map(|&(_, destinations)| destinations)
            }
        }
    }
}

/// How a record comes into its queues.
struct Entrance<'a> {
    wanted: Wanted<'a>,
    /// Destinations where an earlier attempt may have arrived.
    again: Destinations,
    /// Among the late records, for it was read back.
    is_late: bool,
    /// Whether its script is to look at it first.
    is_scripted: bool,
    /// Whether it is the newest record of its key.
    is_newest: bool,
    /// The set that it belongs to.
    coflow: Option<CoflowKey>,
}

/// What came into queues.
#[derive(Default)]
struct Queued {
    deliveries: u64,
    bytes: Size,
    last: Option<DeliveryKey>,
}

impl Holdings {
    /// The set of a record of ours that comes and is due then, if it names one, and the deadline that it has there.
    #[inline]
    pub(crate) fn join(
        &mut self,
        stream: StreamKey,
        properties: &Properties,
        times: (Time, Time),
    ) -> Option<(CoflowKey, Time)> {
        let rule = self.options.rules.get(self.streams.get(stream).rule);
        // A neighbour's record has the deadline of its set, which is open there.
        let is_ours = rule.relays.is_none();
        if is_ours { self.coflows.join(rule.class, properties, times) } else { None }
    }

    /// When time alone changes a set.
    pub(crate) fn next_coflow(&self) -> Option<Time> {
        self.coflows.next_due()
    }

    /// Counts and times of a class's sets.
    pub(crate) fn coflow_status(&self, class: ClassId) -> CoflowStatus {
        self.coflows.status(class)
    }

    /// The next number of a stream.
    pub(crate) fn next_seq(&mut self, stream: StreamKey) -> u64 {
        let stream = self.streams.get_mut(stream);
        stream.seq += 1;
        stream.seq
    }

    /// Holds a record that was accepted, and puts it in the queue of each of its destinations; `queued` hears
    /// of each delivery. Answers with the record and its last delivery.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        fresh: Fresh,
        queued: impl FnMut(DeliveryKey, QueueSpec, Size),
    ) -> (RecordKey, Option<DeliveryKey>) {
        let Fresh { stream, record, size, logged_as, after_log, only, again, coflow } = fresh;
        let rule = self.options.rules.get(self.streams.get(stream).rule);
        let owed = logged_as.map(|seq| Box::new(Owed { seq, after_log, ..Owed::default() }));
        let left = only.map_or(rule.to.len(), |_| 1) as u32;
        let key = self.records.insert(Held { left, stream, size, dropped: None, owed, record });
        let all = || rule.to.iter().fold(Destinations::NONE, |all, &output| all | bit_of(output));
        let entrance = Entrance {
            wanted: only.map_or(Wanted::All, Wanted::Only),
            again: if again { all() } else { Destinations::NONE },
            is_late: false,
            // What a script made it does not meet again, or it would make more of it without end.
            is_scripted: rule.script.is_some() && only.is_none(),
            is_newest: rule.discipline == Discipline::NewestOnly,
            coflow,
        };
        let Queued { deliveries, bytes, last } = self.enqueue(key, &entrance, queued);
        let stream = self.streams.get_mut(stream);
        self.account.hold(&mut stream.account, deliveries, size);
        self.tally.accepted(stream.rule, 1, deliveries, bytes);
        self.newest = last;
        (key, last)
    }

    /// Counts a record that was accepted and that only the log is to hold.
    pub(crate) fn accept_stored(
        &mut self,
        stream: StreamKey,
        deliveries: u64,
        size: Size,
        coflow: Option<CoflowKey>,
    ) {
        coflow.into_iter().for_each(|key| self.coflows.stored(key, deliveries as u32));
        let stream = self.streams.get_mut(stream);
        self.account.store(&mut stream.account, deliveries, size);
        self.tally.accepted(stream.rule, 1, deliveries, size);
    }

    /// Counts the newest record of a full stream, accepted and dropped in the same breath.
    pub(crate) fn accept_and_drop(&mut self, stream: StreamKey, deliveries: u64) {
        self.next_seq(stream);
        let rule = self.streams.get(stream).rule;
        self.tally.accepted(rule, 1, deliveries, Size::ZERO);
        self.tally.dropped(rule, deliveries, DropReason::Full);
    }

    /// Holds a record that was read back and counted for a stream so far, and puts it in its queues, late; `queued`
    /// hears of each delivery.
    pub(crate) fn read_back(
        &mut self,
        from: StreamKey,
        back: ReadBack,
        queued: impl FnMut(DeliveryKey, QueueSpec, Size),
    ) -> RecordKey {
        let ReadBack { stream, record, size, owed, stored, legs, unroutable, .. } = back;
        let from_rule = self.streams.get(from).rule;
        let to = self.streams.get_mut(stream);
        self.account.hold(&mut to.account, legs.len() as u64, size);
        self.tally.moved(from_rule, to.rule, stored);
        self.tally.dropped(to.rule, unroutable, DropReason::Unroutable);
        let is_scripted = self.options.rules.get(to.rule).script.is_some();
        let (left, owed, record) = (legs.len() as u32, Some(owed.into()), Arc::new(record));
        let key = self.records.insert(Held { left, stream, size, dropped: None, owed, record });
        self.streams.note_idle(from);
        let (again, is_newest) = (back.again, back.is_newest);
        let wanted = Wanted::Legs(&legs);
        let coflow = None;
        let entrance = Entrance { wanted, again, is_late: true, is_scripted, is_newest, coflow };
        self.enqueue(key, &entrance, queued);
        key
    }

    /// Puts a record in the queues of its destinations.
    fn enqueue(
        &mut self,
        record_key: RecordKey,
        entrance: &Entrance<'_>,
        mut queued: impl FnMut(DeliveryKey, QueueSpec, Size),
    ) -> Queued {
        self.last_order += 1;
        let Held { record, size, owed, stream, .. } = &mut self.records[record_key];
        let stream = self.streams.get_mut(*stream);
        let rule = self.options.rules.get(stream.rule);
        let after_log = owed.as_ref().is_some_and(|owed| owed.after_log);
        let ends = end_of(record, rule);
        let mut all = Queued::default();
        let mut keys = Vec::new();
        for (queue, &output) in stream.queues().zip(&rule.to) {
            let Some(destinations) = entrance.wanted.leg(output) else { continue };
            let size = *size + self.options.outputs[usize::from(output.0)].overhead;
            let spec = queue_spec(stream.rule, rule, output);
            let mut delivery = Delivery::new(record_key, (queue, spec), size, self.last_order);
            (delivery.arrived, delivery.deadline) = (record.arrived, record.deadline);
            delivery.can_expire = ends.is_some();
            delivery.progress.again = destinations - entrance.again != destinations;
            delivery.ready = !after_log && !entrance.is_scripted;
            let key = match entrance.is_late {
                true => self.queues.insert_late(delivery),
                false => self.queues.insert(delivery),
            };
            all.deliveries += 1;
            all.bytes += size;
            all.last = Some(key);
            queued(key, spec, size);
            if let Some(at) = ends {
                self.expiry.insert((at, key));
            }
            if let Some(coflow) = entrance.coflow {
                self.coflows.enter(coflow, key);
            }
            if let Some(owed) = owed {
                owed.legs.push(Leg { delivery: key, destinations });
            }
            if entrance.is_newest {
                keys.push(key);
            }
        }
        if entrance.is_newest {
            let newest = stream.newest.get_or_insert_default();
            newest.insert(record.key.clone(), (record_key, keys));
        }
        all
    }

    /// Takes out the deliveries of a key whose newer record comes now (`newest-only`), if there are any.
    #[inline]
    pub(crate) fn take_superseded(&mut self, stream: StreamKey, key: &[u8]) -> Vec<DeliveryKey> {
        let newest = self.streams.get_mut(stream).newest.as_mut();
        let Some((_, deliveries)) = newest.and_then(|newest| newest.remove(key)) else {
            return Vec::new();
        };
        // What is under way already is finished: its bytes are spent.
        deliveries.into_iter().filter(|&delivery| self.queues.take(delivery)).collect()
    }

    /// Whether a stream holds a newer record of a key than the one of this number, which is read back.
    pub(crate) fn is_superseded(&self, stream: StreamKey, key: &[u8], seq: u64) -> bool {
        let newest = self.streams.get(stream).newest_of(key);
        let other = newest.and_then(|(other, _)| self.records.get(*other));
        // One that was not read back was accepted by this process, after all that was.
        other.is_some_and(|other| {
            let owed = other.owed.as_ref().filter(|owed| owed.ahead.is_some());
            owed.is_none_or(|owed| owed.seq > seq)
        })
    }

    /// The outputs of a rule that are to have a record of the log now, each with the destination that it
    /// serves. Where none of the record's destinations is left, one goes where the rule sends now.
    pub(crate) fn legs_under(rule: &Rule, all: Destinations) -> Vec<(OutputId, Destinations)> {
        let is_wanted = |output: &&OutputId| all - bit_of(**output) != all;
        let kept = rule.to.iter().filter(is_wanted).map(|&output| (output, bit_of(output)));
        let kept: Vec<_> = kept.collect();
        if kept.is_empty() {
            let first = all.places().next().map(|place| (rule.to[0], Destinations::one(place)));
            return first.into_iter().collect();
        }
        kept
    }
}
