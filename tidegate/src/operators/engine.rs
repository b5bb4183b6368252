//! The threads that work: as many as there are processors, or one for each topic as the paper's broker has them.
//! They are never those of connections or of the node.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::Bytes;
use tidegate_broker::Message;
use tidegate_cluster::handover::UnitId;
use tidegate_stream::pool::OperatorLimits;
use tidegate_stream::{Item, ItemContent, LaneId, OperatorId, Pool, PoolOrder, StepError};
use tidegate_types::record::{Offered, Properties};
use tidegate_types::units::Time;
use tokio::sync::Notify;

use super::Operator;
use super::memory::Memory;
use super::meter::{DropWhy, Meter};
use super::threads::Threads;
use crate::broker::{Hub, Publisher};
use crate::group::Busy;
use crate::port::Clock;
use crate::script::vm::thread_time;

/// How records find a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Any thread takes the record whose deadline is the earliest.
    #[default]
    Edf,
    /// Any thread takes the record that came first.
    Fifo,
    /// Each topic has its own thread: the paper's broker (§IV-A), for comparison.
    ThreadPerTopic,
}

/// A record that waits for an operator.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) operator: Arc<Operator>,
    pub(super) message: Arc<Message>,
    pub(super) meter: Arc<Meter>,
    /// When it came here.
    pub(super) came: Time,
    /// Until it is worked on.
    pub(super) busy: Option<Busy>,
}

#[derive(Debug)]
struct State {
    pool: Pool<Job, Memory>,
    workers: usize,
    is_stopping: bool,
}

struct Inner {
    mode: Mode,
    threads: usize,
    clock: Clock,
    hub: Hub,
    state: Mutex<State>,
    bell: Condvar,
    own: Threads,
    /// Records that wait or are worked on.
    open: AtomicUsize,
    is_idle: Notify,
}

/// The threads. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

impl fmt::Debug for Engine {
    /// Without the broker, which knows operators, which know this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({:?}, {} threads)", self.0.mode, self.0.threads)
    }
}

impl Engine {
    /// An engine without a thread yet.
    pub fn new(mode: Mode, threads: usize, hub: Hub, clock: Clock) -> Engine {
        let discipline = match mode {
            Mode::Edf => PoolOrder::EarliestDeadline,
            Mode::Fifo | Mode::ThreadPerTopic => PoolOrder::Fifo,
        };
        let state = State { pool: Pool::new(discipline), workers: 0, is_stopping: false };
        Engine(Arc::new(Inner {
            mode,
            threads: threads.max(1),
            clock,
            hub,
            state: Mutex::new(state),
            bell: Condvar::new(),
            own: Threads::default(),
            open: AtomicUsize::new(0),
            is_idle: Notify::new(),
        }))
    }

    pub(super) fn now(&self) -> Time {
        self.0.clock.now()
    }

    pub(super) fn hub(&self) -> &Hub {
        &self.0.hub
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A pool changes by whole steps; no step of an operator runs while it is locked.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the threads of the pool, where they do not run yet.
    pub(super) fn start_workers(&self) -> std::io::Result<()> {
        let mut state = self.state();
        while self.0.mode != Mode::ThreadPerTopic && state.workers < self.0.threads {
            let engine = self.clone();
            let name = format!("operator-{}", state.workers);
            thread::Builder::new().name(name).spawn(move || engine.work())?;
            state.workers += 1;
        }
        Ok(())
    }

    pub(super) fn begin(&self, id: OperatorId, limits: OperatorLimits) {
        self.state().pool.begin(id, limits);
    }

    pub(super) fn end(&self, id: OperatorId) {
        self.0.own.end(id);
        self.state().pool.end(id);
    }

    /// Takes a record, or drops it or another one where there is no room.
    pub(super) fn offer(&self, key: Bytes, deadline: Time, job: Job) {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        job.meter.waits();
        let dropped = match self.0.mode {
            Mode::ThreadPerTopic => self.0.own.offer(self, job),
            Mode::Edf | Mode::Fifo => {
                let id = job.operator.id;
                let displaced = self.state().pool.offer(id, key, deadline, job);
                self.0.bell.notify_one();
                displaced.map(|job| (job, DropWhy::Full))
            }
        };
        if let Some((job, why)) = dropped {
            job.meter.dropped(why);
            self.close_one();
        }
    }

    /// Works on what waits of a unit before anything else.
    pub(super) fn hurry(&self, unit: UnitId) {
        self.state().pool.hurry(|job| job.busy.as_ref().is_some_and(|busy| busy.unit() == unit));
    }

    pub(super) fn close_one(&self) {
        if self.0.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.is_idle.notify_waiters();
        }
    }

    /// Waits until nothing waits and nothing is worked on.
    pub(super) async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.0.is_idle.notified());
            idle.as_mut().enable();
            if self.0.open.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// The threads end when they have finished what they work on. Returns how many records nobody will work on.
    pub(super) fn stop(&self) -> usize {
        self.state().is_stopping = true;
        self.0.bell.notify_all();
        self.0.own.stop();
        self.0.open.load(Ordering::SeqCst)
    }

    /// What a thread of the pool does.
    fn work(&self) {
        let mut publisher = self.hub().publisher().of_owner();
        let mut state = self.state();
        loop {
            if state.is_stopping {
                return;
            }
            let Some(task) = state.pool.take(self.now()) else {
                state = self.0.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let lane = task.lane;
            let (memory, busy) = self.run(task.value, task.state, &mut publisher);
            state = self.state();
            state.pool.done(self.now(), lane, memory);
            // Who hears that nothing is worked on any more finds what the key remembers.
            drop(busy);
            self.close_one();
        }
    }

    /// Keys that saw records of a unit and of which nothing waits: the one that was idle for longest first.
    pub(super) fn lanes_of(&self, unit: UnitId) -> Vec<(LaneId, OperatorId, Bytes)> {
        let state = self.state();
        let all = state.pool.idle().filter(|(.., memory)| memory.saw(unit));
        all.map(|(lane, operator, key, _)| (lane, operator, key.clone())).collect()
    }

    /// Does something with what a key remembers, of which nothing is worked on meanwhile; `None` left there is forgotten.
    pub(super) fn with_memory<R>(
        &self,
        lane: LaneId,
        task: impl FnOnce(&mut Option<Memory>) -> Option<R>,
    ) -> Option<R> {
        let mut memory = Some(self.state().pool.borrow(lane)?);
        let done = task(&mut memory);
        self.state().pool.done(self.now(), lane, memory);
        // A record may have come.
        self.0.bell.notify_one();
        done
    }

    /// A key goes on with what came from another node; false where it does not.
    pub(super) fn restore(&self, id: OperatorId, key: Bytes, memory: Memory) -> bool {
        self.0.mode != Mode::ThreadPerTopic && self.state().pool.restore(id, key, memory).is_none()
    }

    /// Works on one record; returns what its key remembers, and what is busy until that is where it belongs.
    pub(super) fn run(
        &self,
        job: Job,
        memory: Option<Memory>,
        publisher: &mut Publisher,
    ) -> (Option<Memory>, Option<Busy>) {
        let Job { operator, message, meter, came, busy } = job;
        let cpu = thread_time();
        let waited = self.now().since(came);
        let content = ItemContent::Payload(message.payload.clone());
        let item = Item { at: message.arrived, content };
        let mut faults = Vec::new();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let mut memory = memory.unwrap_or_default();
            memory.sees(busy.as_ref().map(Busy::unit));
            let items = memory.work(&operator).run(item, |fault| faults.push(fault));
            (memory, items)
        }));
        let (memory, items) = match ran {
            Ok((memory, items)) => (Some(memory), items),
            // What it remembers may be half of something.
            Err(_) => {
                faults.push(StepError::Panic);
                (None, Vec::new())
            }
        };
        let count = items.len();
        let topic = operator.fill(&message.topic);
        for item in items {
            let lost = publish(&operator, &message, &meter, topic.clone(), item, publisher);
            if lost {
                meter.dropped(DropWhy::Outputs);
            }
        }
        let cpu = std::time::Duration::from_nanos(thread_time().saturating_sub(cpu));
        let done = self.now().since(message.arrived);
        meter.ran([waited, done, cpu], count, &faults);
        (memory, busy)
    }
}

/// Hands one result to subscribers, and to the node where it has outputs for it; true where the node had no room.
fn publish(
    operator: &Operator,
    message: &Message,
    meter: &Meter,
    topic: Bytes,
    item: Item,
    publisher: &mut Publisher,
) -> bool {
    let record = Offered {
        source: operator.source(),
        token: None,
        key: topic,
        properties: Properties::default(),
        payload: item.into_payload(),
        read_at: message.arrived,
        source_unix_ns: message.source_unix_ns,
        ttl: message.expires.map(|at| at.since(message.arrived)),
        foreign: None,
        packet: None,
    };
    let record = match publisher.hub().group() {
        Some(group) => match group.send_on(record, message.qos.min(1)) {
            Some(record) => record,
            None => return false,
        },
        None => record,
    };
    publisher.publish_result(&record, message.qos, meter.number());
    !publisher.is_local(&record.key) && !operator.outlet.offer(record)
}
