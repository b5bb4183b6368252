//! What a node tells about itself: a snapshot for metrics, the status page and `tidegate top`.

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use tidegate_types::ids::OutputId;
use tidegate_types::record::DropReason;
use tidegate_types::units::{Rate, Size, Time};

/// Longest latency that a stage histogram tells apart: an hour.
const STAGE_MAX_US: u64 = 3_600_000_000;

/// How long deliveries stayed in one stage, in microseconds with two significant digits. It grows with
/// the longest time it has seen, so that the stages of an idle rule cost next to nothing.
#[derive(Clone, Debug)]
pub struct StageTimes(Histogram<u64>);

impl Default for StageTimes {
    fn default() -> Self {
        StageTimes(Histogram::new(2).expect("two digits are possible"))
    }
}

impl StageTimes {
    /// Counts one delivery.
    pub fn record(&mut self, span: Duration) {
        self.0.record(in_micros(span)).expect("it grows as far as an hour");
    }

    /// The `share` quantile (0.99 = p99), upper edge of its bucket; zero while nothing is counted.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_micros(if self.0.is_empty() { 0 } else { self.0.value_at_quantile(share) })
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// How many took at most `span`.
    pub fn count_within(&self, span: Duration) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.count_between(0, in_micros(span)) }
    }

    /// Adds all that `other` counted.
    pub fn add(&mut self, other: &StageTimes) {
        self.0.add(&other.0).expect("it grows as far as the other");
    }

    /// Buckets where anything was counted: their upper edges in microseconds, and how many.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|it| (it.value_iterated_to(), it.count_since_last_iteration()))
    }

    /// Their sum.
    pub fn sum(&self) -> Duration {
        Duration::from_secs_f64(self.0.mean() * self.0.len() as f64 / 1e6)
    }
}

fn in_micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).map_or(STAGE_MAX_US, |micros| micros.min(STAGE_MAX_US))
}

/// The stages of a delivery's life.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    /// Arrival to the first cut picked: the queueing delay.
    pub wait: StageTimes,
    /// First cut picked to the last byte handed to the wire.
    pub transmit: StageTimes,
    /// Arrival to the last byte handed to the wire: what the latency bound bounds.
    pub residence: StageTimes,
    /// Last byte handed to the wire to the far end's confirmation.
    pub confirm: StageTimes,
}

impl Stages {
    /// Adds all that `other` counted.
    pub fn add(&mut self, other: &Stages) {
        self.wait.add(&other.wait);
        self.transmit.add(&other.transmit);
        self.residence.add(&other.residence);
        self.confirm.add(&other.confirm);
    }
}

/// Counts of deliveries, since start. A delivery is one (record, destination) pair; a record with one
/// destination is one delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records accepted.
    pub records: u64,
    /// Deliveries accepted.
    pub accepted: u64,
    /// Bytes of them, as the node counts sizes.
    pub accepted_bytes: u64,
    /// Deliveries confirmed.
    pub confirmed: u64,
    /// Bytes of them.
    pub confirmed_bytes: u64,
    /// Deliveries dropped, by `DropReason::index`.
    pub dropped: [u64; DropReason::ALL.len()],
    /// Offers refused.
    pub refused: u64,
    /// Deliveries that their deadline found waiting, or that were handed over later than it: each once.
    pub violated: u64,
    /// Deliveries sent again after a connection was lost.
    pub again: u64,
}

impl Counts {
    /// All drops together.
    pub fn dropped_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Adds all that `other` counted.
    pub fn add(&mut self, other: &Counts) {
        self.records += other.records;
        self.accepted += other.accepted;
        self.accepted_bytes += other.accepted_bytes;
        self.confirmed += other.confirmed;
        self.confirmed_bytes += other.confirmed_bytes;
        self.refused += other.refused;
        self.violated += other.violated;
        self.again += other.again;
        for (own, other) in self.dropped.iter_mut().zip(&other.dropped) {
            *own += other;
        }
    }

    /// The audit equation: accepted - confirmed - dropped - held, which must be 0.
    pub fn lost(&self, held: u64) -> i128 {
        i128::from(self.accepted)
            - i128::from(self.confirmed)
            - i128::from(self.dropped_all())
            - i128::from(held)
    }
}

/// One class.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its bound on residence.
    pub bound: Duration,
    /// Records that wait (s of JANUS Eq. 1).
    pub backlog_records: u64,
    /// Bytes that wait.
    pub backlog: Size,
    /// Of these, records in the late lists.
    pub late_records: u64,
    /// Records past their deadline, in the late lists or where a scheduler keeps them in their order.
    pub overdue_records: u64,
    /// Arrivals (Λ).
    pub input_rate: Rate,
    /// Arrivals in records/s.
    pub input_records_per_second: f64,
    /// Departures, measured.
    pub output_rate: Rate,
    /// What would clear backlog and arrivals within the bound (JANUS Eq. 22, our reading).
    pub wanted_rate: Rate,
    /// Its part of the uplinks (V).
    pub allocated_rate: Rate,
    /// Estimated queueing delay (d of Eq. 1).
    pub queue_delay: Duration,
    /// Counts since start.
    pub counts: Counts,
    /// Times since start.
    pub stages: Stages,
    /// Sets of records with one bound.
    pub coflows: CoflowStatus,
}

/// Sets of records with one bound (co-flows) of a class; all but the open ones since start.
#[derive(Clone, Debug, Default)]
pub struct CoflowStatus {
    /// Sets of which records waited, or were to come.
    pub open: u64,
    /// Sets that began.
    pub begun: u64,
    /// Sets that were not whole on the wire at their deadline: each once, at that moment.
    pub late: u64,
    /// Late ones of which something was dropped or never came.
    pub given_up: u64,
    /// Records whose set had no place among those that may be open.
    pub refused: u64,
    /// From the first record's arrival to the last one's last byte on the wire, of sets that ended whole.
    pub times: StageTimes,
}

/// One rule (`[[stream]]`), over all its streams.
#[derive(Clone, Debug)]
pub struct RuleStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its class's name.
    pub class: Arc<str>,
    /// Its own bound on residence.
    pub bound: Duration,
    /// Streams that are open or hold records.
    pub streams: u64,
    /// Deliveries held: waiting or unconfirmed.
    pub held: u64,
    /// Bytes held.
    pub held_bytes: Size,
    /// Counts since start.
    pub counts: Counts,
    /// Times since start.
    pub stages: Stages,
}

/// One uplink.
#[derive(Clone, Debug)]
pub struct UplinkStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Estimated capacity; zero while unknown.
    pub capacity: Rate,
    /// Bytes that may be below the scheduler.
    pub window: Size,
    /// Bytes that are.
    pub in_flight: Size,
    /// Smallest round trip seen.
    pub min_rtt: Option<Duration>,
    /// Newest round trip seen.
    pub rtt: Option<Duration>,
    /// Whether what leaves is mostly a backlog, for which the rate controller looks about less often.
    pub is_patient: bool,
}

/// One output.
#[derive(Clone, Debug)]
pub struct OutputStatus {
    /// Its place.
    pub id: OutputId,
    /// Its name.
    pub name: Arc<str>,
    /// Its lanes that are up.
    pub lanes_up: usize,
    /// Its lanes.
    pub lanes: usize,
    /// Whether the far end has been refusing what it is sent for a second or more, though not for good, and
    /// records wait for it.
    pub is_refusing: bool,
    /// Records sent and not confirmed.
    pub unconfirmed: u64,
    /// Records of other outputs' queues that went by it, ever.
    pub redirected_records: u64,
    /// Bytes of them.
    pub redirected: Size,
}

/// The log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// Whether it takes what it is given; where not, durable records are refused.
    pub is_working: bool,
    /// Its segments.
    pub segments: u64,
    /// Bytes of them.
    pub bytes: Size,
    /// Bound on these.
    pub bound: Size,
    /// Records in it without a fate.
    pub held_records: u64,
    /// Deliveries that are in it and not in memory.
    pub left_deliveries: u64,
}

/// The whole node.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its incarnation.
    pub incarnation: u64,
    /// When the snapshot was taken.
    pub now: Time,
    /// Most urgent first.
    pub classes: Vec<ClassStatus>,
    /// In the order of the configuration.
    pub rules: Vec<RuleStatus>,
    /// In the order of the configuration.
    pub uplinks: Vec<UplinkStatus>,
    /// In the order of the configuration.
    pub outputs: Vec<OutputStatus>,
    /// Bytes held.
    pub held_bytes: Size,
    /// Bound on them.
    pub memory: Size,
    /// Deliveries held.
    pub held: u64,
    /// Sum of all counts.
    pub counts: Counts,
    /// The log, if there is one.
    pub log: Option<LogStatus>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_known_to_two_digits() {
        let mut times = StageTimes::default();
        (1..=100).for_each(|millis| times.record(Duration::from_millis(millis)));
        let p99 = times.quantile(0.99).as_secs_f64();
        assert!((0.099..0.1).contains(&p99), "{p99}");
        assert_eq!(times.count(), 100);
        assert_eq!(StageTimes::default().quantile(0.99), Duration::ZERO);
    }

    #[test]
    fn the_audit_equation_finds_a_loss() {
        let mut counts = Counts { accepted: 10, confirmed: 6, ..Counts::default() };
        counts.dropped[DropReason::Expired.index()] = 1;
        assert_eq!(counts.lost(3), 0);
        assert_eq!(counts.lost(2), 1);
    }
}
