//! What is known of the topics that operators work on: what their records cost, how long they wait, and how long
//! it takes until subscribers have the results.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use tidegate_cluster::handover::UnitId;
use tidegate_cluster::handover::histogram::TimeHistogram;
use tidegate_cluster::handover::loads::UnitCounts;
use tidegate_node::status::StageTimes;
use tidegate_stream::StepError;
use tidegate_types::account::{Account, Kind, Reservation};

/// Topics of one operator with figures of their own, the regions of a large city; all others have theirs together.
const TOPICS_MAX: usize = 2048;
/// Topics of all operators with figures of their own; each has four histograms, about 40 kB where it is busy.
const METERS_MAX: usize = 4096;
/// What one is reserved: about what a busy one has; one that rests has a tenth, and shares it with who looked.
const METER_BYTES: usize = 40_000;
/// The topic of those that have no figures of their own.
const OTHERS: &str = "(others)";

tidegate_types::named! {
    /// Why a record, or a result, was dropped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DropWhy {
        /// The operator's queue was full.
        Full = "full",
        /// There was no thread for its topic.
        Threads = "threads",
        /// The node did not take results as fast as they came.
        Outputs = "outputs",
    }
}

/// Figures of one topic, since it was first seen.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Latency bound of its records, the last one's.
    pub bound: Duration,
    /// Records that came.
    pub records: u64,
    /// Of these, records that were worked on.
    pub worked: u64,
    /// Results that were published.
    pub results: u64,
    /// Results or records that were dropped, in the order of `DropWhy::ALL`.
    pub dropped: [u64; DropWhy::ALL.len()],
    /// Records that ended in a step, in the order of `StepError::ALL`.
    pub failed: [u64; StepError::ALL.len()],
    /// From arrival at the operator to its beginning.
    pub wait: StageTimes,
    /// Time on a processor.
    pub cpu: StageTimes,
    /// Sum of that, in seconds.
    pub cpu_sum: f64,
    /// Sum of its squares, in seconds squared.
    pub cpu_squares: f64,
    /// From the publish's arrival at the node to the end of the work.
    pub done: StageTimes,
    /// Of these, those that took longer than the bound.
    pub done_late: u64,
    /// From the publish's arrival at the node until a result was handed to a subscriber's connection, once for each.
    pub delivery: StageTimes,
    /// Of these, those that took longer than the bound.
    pub violated: u64,
}

impl Figures {
    /// Adds all that `other` counted; the larger bound holds.
    pub fn add(&mut self, other: &Figures) {
        self.bound = self.bound.max(other.bound);
        self.records += other.records;
        self.worked += other.worked;
        self.results += other.results;
        self.dropped.iter_mut().zip(other.dropped).for_each(|(sum, count)| *sum += count);
        self.failed.iter_mut().zip(other.failed).for_each(|(sum, count)| *sum += count);
        self.wait.add(&other.wait);
        self.cpu.add(&other.cpu);
        self.cpu_sum += other.cpu_sum;
        self.cpu_squares += other.cpu_squares;
        self.done.add(&other.done);
        self.done_late += other.done_late;
        self.delivery.add(&other.delivery);
        self.violated += other.violated;
    }

    /// Mean time on a processor, in seconds, and its coefficient of variation.
    pub fn cpu_mean_and_cv(&self) -> (f64, f64) {
        let count = self.worked.max(1) as f64;
        let mean = self.cpu_sum / count;
        let variance = (self.cpu_squares / count - mean * mean).max(0.0);
        (mean, if mean > 0.0 { variance.sqrt() / mean } else { 0.0 })
    }
}

/// That a topic is of a unit which moves between nodes.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The unit.
    pub unit: UnitId,
    /// Its name.
    pub name: Arc<str>,
    /// Whether the operator works on one record at a time, whatever their topics.
    pub is_serial: bool,
}

/// Counts one topic of one operator.
#[derive(Debug)]
pub struct Meter {
    number: u32,
    operator: Arc<str>,
    topic: Bytes,
    placed: Option<Placed>,
    /// Records that came and are neither worked on nor dropped.
    waiting: AtomicU64,
    /// Who looks shares them: they are copied when something is counted while somebody does.
    figures: Mutex<Arc<Figures>>,
    /// None for those of all others: there are few.
    _room: Option<Reservation>,
}

impl Meter {
    /// By which deliveries name it.
    pub fn number(&self) -> u32 {
        self.number
    }

    fn figures(&self) -> MutexGuard<'_, Arc<Figures>> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, change: impl FnOnce(&mut Figures)) {
        change(Arc::make_mut(&mut self.figures()));
    }

    pub(crate) fn came(&self, bound: Duration) {
        self.count(|figures| {
            figures.records += 1;
            figures.bound = bound;
        });
    }

    pub(crate) fn waits(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self, why: DropWhy) {
        if why != DropWhy::Outputs {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        self.count(|figures| figures.dropped[why as usize] += 1);
    }

    /// A record was worked on: how long it waited, when it was done after its arrival, and what that cost.
    pub(crate) fn ran(
        &self,
        [wait, done, cpu]: [Duration; 3],
        results: usize,
        faults: &[StepError],
    ) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let seconds = cpu.as_secs_f64();
        let mut shared = self.figures();
        let figures = Arc::make_mut(&mut shared);
        figures.worked += 1;
        figures.results += results as u64;
        figures.wait.record(wait);
        figures.done.record(done);
        figures.done_late += u64::from(done > figures.bound);
        figures.cpu.record(cpu);
        figures.cpu_sum += seconds;
        figures.cpu_squares += seconds * seconds;
        for fault in faults {
            let place = StepError::ALL.iter().position(|known| known == fault).unwrap_or_default();
            figures.failed[place] += 1;
        }
    }

    fn delivered(&self, took: Duration) {
        self.count(|figures| {
            figures.delivery.record(took);
            figures.violated += u64::from(took > figures.bound);
        });
    }
}

/// One topic of one operator, as others see it.
#[derive(Clone, Debug)]
pub struct MeterStatus {
    /// The operator's name.
    pub operator: Arc<str>,
    /// The topic of the records that it takes; `(others)` for those beyond the bound.
    pub topic: String,
    /// Records that wait or are worked on.
    pub waiting: u64,
    /// What was counted.
    pub figures: Arc<Figures>,
}

#[derive(Debug, Default)]
struct Table {
    all: BTreeMap<u32, Arc<Meter>>,
    names: BTreeMap<(Arc<str>, Bytes), u32>,
    /// How many names each operator has.
    of_each: BTreeMap<Arc<str>, usize>,
    given: u32,
}

/// The meters of a node. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Meters {
    table: Arc<RwLock<Table>>,
    account: Account,
}

impl Meters {
    /// None yet; those that clients' topics make are on this account.
    pub fn new(account: Account) -> Self {
        Meters { table: Arc::default(), account }
    }

    /// The meter of an operator's topic.
    pub fn of(&self, operator: &str, topic: &Bytes) -> Arc<Meter> {
        self.of_placed(operator, topic, None)
    }

    /// The same of a topic that may be of a unit; the others of each unit are counted apart.
    pub fn of_placed(&self, operator: &str, topic: &Bytes, placed: Option<Placed>) -> Arc<Meter> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let name: Arc<str> = operator.into();
        let own = table.of_each.get(operator).copied().unwrap_or(0);
        let is_known = table.names.contains_key(&(name.clone(), topic.clone()));
        let may_have = !is_known && own < TOPICS_MAX && table.all.len() < METERS_MAX;
        let room = may_have.then(|| self.account.reserve(Kind::Subscriptions, METER_BYTES).ok());
        let room = room.flatten();
        let topic = match &placed {
            _ if is_known || room.is_some() => topic.clone(),
            Some(placed) => Bytes::from(format!("(others of {})", placed.name)),
            None => Bytes::from_static(OTHERS.as_bytes()),
        };
        let key = (name.clone(), topic.clone());
        if let Some(known) = table.names.get(&key).and_then(|number| table.all.get(number)) {
            return known.clone();
        }
        table.given += 1;
        let number = table.given;
        let (waiting, figures) = (AtomicU64::new(0), Mutex::default());
        *table.of_each.entry(name.clone()).or_default() += 1;
        let (operator, _room) = (name, room);
        let meter = Meter { number, operator, topic, placed, waiting, figures, _room };
        let meter = Arc::new(meter);
        table.names.insert(key, number);
        table.all.insert(number, meter.clone());
        meter
    }

    /// Counts results that were handed to a subscriber: by which meter, and how long it took.
    pub fn delivered(&self, all: &[(u32, Duration)]) {
        if all.is_empty() {
            return;
        }
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        for (number, took) in all {
            // One of an operator that is gone is nobody's.
            if let Some(meter) = table.all.get(number) {
                meter.delivered(*took);
            }
        }
    }

    /// Forgets operators that are gone.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.names.retain(|(operator, _), _| is_there(operator));
        table.of_each.retain(|operator, _| is_there(operator));
        table.all.retain(|_, meter| is_there(&meter.operator));
    }

    /// What was counted of each unit.
    pub fn of_units(&self) -> BTreeMap<UnitId, UnitCounts> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: BTreeMap<UnitId, Vec<&Arc<Meter>>> = BTreeMap::new();
        for meter in table.all.values() {
            if let Some(placed) = &meter.placed {
                all.entry(placed.unit).or_default().push(meter);
            }
        }
        all.into_iter().map(|(unit, meters)| (unit, counts(&meters))).collect()
    }

    /// All of them, by operator and topic.
    pub fn read(&self) -> Vec<MeterStatus> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let meters = table.names.values().filter_map(|number| table.all.get(number));
        let read = |meter: &Arc<Meter>| MeterStatus {
            operator: meter.operator.clone(),
            topic: String::from_utf8_lossy(&meter.topic).into_owned(),
            waiting: meter.waiting.load(Ordering::Relaxed),
            figures: meter.figures().clone(),
        };
        meters.map(read).collect()
    }
}

/// What some meters counted together; latencies are of those with the smallest bound.
fn counts(meters: &[&Arc<Meter>]) -> UnitCounts {
    let bounds = meters.iter().map(|meter| meter.figures());
    let bounds = bounds.filter(|figures| figures.records > 0).map(|figures| figures.bound);
    let mut sum = UnitCounts { bound: bounds.min().unwrap_or_default(), ..UnitCounts::default() };
    let mut serial: BTreeMap<&str, ()> = BTreeMap::new();
    for meter in meters {
        let is_serial = meter.placed.as_ref().is_some_and(|placed| placed.is_serial);
        // All topics of a serial operator are one row.
        if !is_serial || serial.insert(&meter.operator, ()).is_none() {
            sum.lanes += 1;
        }
        let figures = meter.figures();
        sum.records += figures.records;
        sum.worked += figures.worked;
        sum.dropped += figures.dropped.iter().sum::<u64>();
        sum.results += figures.results;
        sum.cpu += Duration::from_secs_f64(figures.cpu_sum);
        sum.cpu_squares += figures.cpu_squares;
        sum.done_late += figures.done_late;
        sum.deliveries += figures.delivery.count();
        sum.delivered_late += figures.violated;
        if figures.records > 0 && figures.bound == sum.bound {
            let add = |times: &mut TimeHistogram, of: &StageTimes| {
                of.recorded().for_each(|(micros, count)| times.add(micros, count));
            };
            add(&mut sum.done, &figures.done);
            add(&mut sum.delivered, &figures.delivery);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_beyond_the_bound_are_counted_together() {
        let meters = Meters::new(Account::new(1 << 30));
        for topic in 0..TOPICS_MAX + 10 {
            meters.of("a", &Bytes::from(topic.to_string())).came(Duration::from_secs(1));
        }
        meters.of("b", &Bytes::from_static(b"0")).came(Duration::from_secs(1));
        let all = meters.read();
        assert_eq!(all.len(), TOPICS_MAX + 2);
        let others = all.iter().find(|meter| meter.topic == OTHERS).unwrap();
        assert_eq!((&*others.operator, others.figures.records), ("a", 10));
        meters.keep(|name| name == "b");
        assert_eq!(meters.read().len(), 1);
    }

    #[test]
    fn a_topic_for_which_there_is_no_room_has_no_figures_of_its_own() {
        let account = Account::new(2 * METER_BYTES);
        let meters = Meters::new(account.clone());
        for topic in 0..5 {
            meters.of("a", &Bytes::from(topic.to_string())).came(Duration::from_secs(1));
        }
        let all = meters.read();
        let records = |of: &MeterStatus| (of.topic.clone(), of.figures.records);
        let records: Vec<_> = all.iter().map(records).collect();
        assert_eq!(records, [(OTHERS.into(), 3), ("0".into(), 1), ("1".into(), 1)]);
        meters.of("a", &Bytes::from_static(b"0")).came(Duration::from_secs(1));
        assert_eq!(all[1].figures.records, 1, "who has looked sees what was then");
        meters.keep(|_| false);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn costs_and_deliveries() {
        let meters = Meters::new(Account::new(1 << 30));
        let meter = meters.of("a", &Bytes::from_static(b"t"));
        meter.came(Duration::from_millis(50));
        for millis in [1, 3] {
            meter.waits();
            let spans = [9, 20 * millis, millis].map(Duration::from_millis);
            meter.ran(spans, 2, &[StepError::Field]);
        }
        let times = [
            (meter.number(), Duration::from_millis(40)),
            (meter.number(), Duration::from_millis(60)),
            (99, Duration::ZERO),
        ];
        meters.delivered(&times);
        let MeterStatus { figures, waiting, .. } = meters.read().remove(0);
        let (mean, cv) = figures.cpu_mean_and_cv();
        assert!((mean - 0.002).abs() < 1e-9 && (cv - 0.5).abs() < 1e-9, "{mean} {cv}");
        assert_eq!(
            (figures.results, figures.violated, figures.delivery.count(), waiting),
            (4, 1, 2, 0)
        );
        assert_eq!(figures.failed[1], 2);
        assert_eq!((figures.done.count(), figures.done_late), (2, 1));
    }

    #[test]
    fn a_unit_is_all_its_topics_and_the_shortest_bound_tells_its_latency() {
        let meters = Meters::new(Account::new(1 << 30));
        let placed =
            |unit, is_serial| Some(Placed { unit: UnitId(unit), name: "taxi".into(), is_serial });
        let run = |operator: &str, topic: &str, placed, bound, done| {
            let meter = meters.of_placed(operator, &Bytes::from(topic.to_owned()), placed);
            meter.came(Duration::from_millis(bound));
            meter.waits();
            meter.ran([1, done, 2].map(Duration::from_millis), 1, &[]);
            meters.delivered(&[(meter.number(), Duration::from_millis(done + 1))]);
        };
        run("a", "t/1", placed(3, false), 50, 40);
        run("b", "t/1", placed(3, true), 500, 900);
        run("b", "t/2", placed(3, true), 500, 400);
        run("b", "u", placed(4, true), 500, 100);
        run("a", "elsewhere", None, 5, 100);
        let all = meters.of_units();
        let unit = &all[&UnitId(3)];
        assert_eq!((all.len(), unit.bound, unit.lanes), (2, Duration::from_millis(50), 2));
        assert_eq!((unit.records, unit.worked, unit.results, unit.deliveries), (3, 3, 3, 3));
        assert_eq!((unit.done_late, unit.delivered_late), (1, 1));
        assert_eq!((unit.done.count(), unit.delivered.count()), (1, 1), "of the urgent one");
        assert!((unit.cpu.as_secs_f64() - 0.006).abs() < 1e-9);
        assert_eq!(all[&UnitId(4)].lanes, 1);
    }
}
