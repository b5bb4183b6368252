//! Which of many waiting records is worked on next, by workers that know nothing of topics.
//! Source: C. Liu and J. Layland, Scheduling algorithms for multiprogramming in a hard real-time environment, 1973, §7 (earliest deadline
//! first); papers/topic-placement.txt, §IV-A for what it replaces, a thread for each topic.
//! Inputs: records with operator, key and deadline. Outputs: the next one, of a key that nobody works on. O(log keys).
//! Deviations: what is late comes behind; a key inherits the earliest deadline that waits in it and can be met (docs/ALGORITHMS.md).
//! Limits: records that wait for each operator; keys that each remembers while nothing of theirs waits.

mod lane;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::units::Time;

use self::lane::{Job, Lane};
pub use self::lane::{LaneId, OperatorId};

/// Weight of a record in the time that an operator's records take.
const GAIN: f64 = 0.1;

/// Who goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolOrder {
    /// Who must be ready first.
    #[default]
    EarliestDeadline,
    /// Who came first.
    Fifo,
}

/// What an operator may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorLimits {
    /// Records that wait.
    pub waiting: usize,
    /// Keys of which nothing waits and whose state is kept; the one that was idle for longest is forgotten.
    pub idle: usize,
}

#[derive(Debug)]
struct Operator {
    limits: OperatorLimits,
    waiting: usize,
    idle: BTreeSet<(u64, LaneId)>,
    is_over: bool,
    /// How long a record takes, from when a worker takes it until the lane is given back.
    takes: Option<Duration>,
}

impl Operator {
    fn took(&mut self, time: Duration) {
        let before = self.takes.unwrap_or(time);
        self.takes = Some(before.mul_f64(1.0 - GAIN) + time.mul_f64(GAIN));
    }
}

/// A record for a worker, who gives the lane back.
#[derive(Debug)]
pub struct Task<T, S> {
    /// Whose it is.
    pub lane: LaneId,
    /// By which operator.
    pub operator: OperatorId,
    /// What the lane remembers; `None` the first time.
    pub state: Option<S>,
    /// The record.
    pub value: T,
}

/// What waits: records `T`, and what each key remembers, `S`.
#[derive(Debug)]
pub struct Pool<T, S> {
    discipline: PoolOrder,
    operators: BTreeMap<OperatorId, Operator>,
    lanes: BTreeMap<LaneId, Lane<T, S>>,
    names: BTreeMap<(OperatorId, Bytes), LaneId>,
    hurried: BTreeSet<(Time, u64, LaneId)>,
    live: BTreeSet<(Time, u64, LaneId)>,
    late: BTreeSet<(Time, u64, LaneId)>,
    given: u64,
}

impl<T, S> Pool<T, S> {
    /// Nothing waits.
    pub fn new(discipline: PoolOrder) -> Self {
        Pool {
            discipline,
            operators: BTreeMap::new(),
            lanes: BTreeMap::new(),
            names: BTreeMap::new(),
            hurried: BTreeSet::new(),
            live: BTreeSet::new(),
            late: BTreeSet::new(),
            given: 0,
        }
    }

    /// From now on there is this operator, or it has other limits.
    pub fn begin(&mut self, id: OperatorId, limits: OperatorLimits) {
        let new =
            Operator { limits, waiting: 0, idle: BTreeSet::new(), is_over: false, takes: None };
        self.operators.entry(id).or_insert(new).limits = limits;
    }

    /// An operator gets no more records; those that wait are worked on, and what it remembers goes with them.
    pub fn end(&mut self, id: OperatorId) {
        let Some(operator) = self.operators.get_mut(&id) else { return };
        operator.is_over = true;
        for (_, lane) in std::mem::take(&mut operator.idle) {
            self.forget(lane);
        }
        self.sweep(id);
    }

    /// A record comes. What finds no room is given back: the oldest that waits with the same key, or this one
    /// where none does, or where there is no such operator.
    pub fn offer(&mut self, id: OperatorId, key: Bytes, deadline: Time, value: T) -> Option<T> {
        let Some(operator) = self.operators.get_mut(&id).filter(|operator| !operator.is_over)
        else {
            return Some(value);
        };
        let is_full = operator.waiting >= operator.limits.waiting;
        let known = self.names.get(&(id, key.clone())).copied();
        let mut displaced = None;
        if is_full {
            let lane = known.and_then(|lane| self.lanes.get_mut(&lane));
            let Some(job) = lane.and_then(Lane::pop) else { return Some(value) };
            operator.waiting -= 1;
            displaced = Some(job.value);
        }
        operator.waiting += 1;
        self.given += 1;
        let seq = self.given;
        let id = known.unwrap_or_else(|| self.open(id, key));
        let lane = self.lanes.get_mut(&id).expect("a lane with a name is there");
        lane.push(Job { seq, deadline, value });
        self.stand(id);
        displaced
    }

    fn open(&mut self, operator: OperatorId, key: Bytes) -> LaneId {
        let id = LaneId(self.given);
        self.names.insert((operator, key.clone()), id);
        self.lanes.insert(id, Lane::new(operator, key));
        id
    }

    /// The next record to work on; its key is nobody else's until [`Pool::done`]. `None` while every key that has
    /// something is worked on.
    pub fn take(&mut self, now: Time) -> Option<Task<T, S>> {
        if self.discipline == PoolOrder::EarliestDeadline {
            // What is late already must not make late what can still be in time.
            while let Some(first) = self.live.first().copied().filter(|(at, ..)| *at <= now) {
                self.live.remove(&first);
                self.expired(first, now);
            }
        }
        let next = self.hurried.pop_first().or_else(|| self.live.pop_first());
        let (_, _, id) = next.or_else(|| self.late.pop_first())?;
        let lane = self.lanes.get_mut(&id).expect("what stands in a set is there");
        lane.rank = None;
        lane.is_running = true;
        lane.began_at = Some(now);
        let job = lane.pop().expect("who is ready has something");
        let operator = lane.operator;
        let state = lane.state.take();
        if let Some(operator) = self.operators.get_mut(&operator) {
            operator.waiting -= 1;
        }
        Some(Task { lane: id, operator, state, value: job.value })
    }

    /// A lane's record cannot be in time any more: others of it may, if their turn comes soon enough.
    fn expired(&mut self, (at, seq, id): (Time, u64, LaneId), now: Time) {
        let lane = self.lanes.get_mut(&id).expect("what stands in a set is there");
        let operator = self.operators.get(&lane.operator);
        let takes = operator.and_then(|operator| operator.takes).unwrap_or_default();
        match lane.begins_by(now, takes) {
            Some(begins_by) => {
                lane.rank = Some((begins_by, seq));
                self.live.insert((begins_by, seq, id));
            }
            None => {
                self.late.insert((at, seq, id));
            }
        }
    }

    /// A worker has finished with a lane, which remembers `state`.
    pub fn done(&mut self, now: Time, id: LaneId, state: Option<S>) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if let Some(began_at) = lane.began_at.take()
            && let Some(operator) = self.operators.get_mut(&lane.operator)
        {
            operator.took(now.since(began_at));
        }
        lane.is_running = false;
        lane.state = state;
        if lane.state.is_none() && lane.queue.is_empty() {
            let operator = lane.operator;
            self.forget(id);
            return self.sweep(operator);
        }
        self.stand(id);
    }

    /// What keys remember of which nothing waits and nothing is worked on: the one that was idle for longest first.
    pub fn idle(&self) -> impl Iterator<Item = (LaneId, OperatorId, &Bytes, &S)> {
        let all = self.operators.values().flat_map(|operator| operator.idle.iter().copied());
        let mut all: Vec<(u64, LaneId)> = all.collect();
        all.sort_unstable();
        all.into_iter().filter_map(|(_, id)| {
            let lane = self.lanes.get(&id)?;
            Some((id, lane.operator, &lane.key, lane.state.as_ref()?))
        })
    }

    /// Takes what an idle key remembers, which is nobody else's until [`Pool::done`] gives it back, or `None` where it
    /// is to be forgotten.
    pub fn borrow(&mut self, id: LaneId) -> Option<S> {
        let lane = self.lanes.get_mut(&id)?;
        if lane.is_running || !lane.queue.is_empty() {
            return None;
        }
        let state = lane.state.take()?;
        lane.is_running = true;
        self.stand(id);
        Some(state)
    }

    /// A key goes on with this, which came from elsewhere; given back where it remembers something already, where it is
    /// worked on, and where there is no such operator.
    pub fn restore(&mut self, id: OperatorId, key: Bytes, state: S) -> Option<S> {
        if self.operators.get(&id).is_none_or(|operator| operator.is_over) {
            return Some(state);
        }
        let known = self.names.get(&(id, key.clone())).copied();
        let id = known.unwrap_or_else(|| {
            self.given += 1;
            self.open(id, key)
        });
        let lane = self.lanes.get_mut(&id).expect("a lane with a name is there");
        if lane.is_running || lane.state.is_some() {
            return Some(state);
        }
        lane.state = Some(state);
        self.stand(id);
        None
    }

    /// Records that wait and are meant go before all others from now on, and with them what stands before them in their rows: somebody
    /// waits for the end of them.
    pub fn hurry(&mut self, is_meant: impl Fn(&T) -> bool) {
        let last = |lane: &Lane<T, S>| {
            let meant = lane.queue.iter().rev().find(|job| is_meant(&job.value));
            meant.map(|job| job.seq)
        };
        let found = self.lanes.iter().filter_map(|(id, lane)| Some((*id, last(lane)?)));
        for (id, upto) in found.collect::<Vec<_>>() {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.hurried = lane.hurried.max(Some(upto));
                self.stand(id);
            }
        }
    }

    /// Records that wait for an operator.
    pub fn waiting(&self, id: OperatorId) -> usize {
        self.operators.get(&id).map_or(0, |operator| operator.waiting)
    }

    /// Whether nothing waits and nothing is worked on.
    pub fn is_idle(&self) -> bool {
        !self.is_ready() && self.lanes.values().all(|lane| !lane.is_running)
    }

    /// Whether a worker would find something.
    pub fn is_ready(&self) -> bool {
        !(self.hurried.is_empty() && self.live.is_empty() && self.late.is_empty())
    }

    /// Puts a lane where it belongs now.
    fn stand(&mut self, id: LaneId) {
        let lane = self.lanes.get_mut(&id).expect("only lanes that are there stand");
        let operator = self.operators.get_mut(&lane.operator);
        if let Some((at, seq)) = lane.rank.take() {
            self.hurried.remove(&(at, seq, id));
            self.live.remove(&(at, seq, id));
            self.late.remove(&(at, seq, id));
        }
        if let Some(operator) = operator {
            operator.idle.remove(&(lane.idle, id));
            if !lane.is_running && lane.queue.is_empty() {
                self.given += 1;
                lane.idle = self.given;
                operator.idle.insert((lane.idle, id));
                let is_over = operator.is_over;
                let too_many = operator.idle.len() > operator.limits.idle || is_over;
                let of = lane.operator;
                if let Some((_, oldest)) = too_many.then(|| operator.idle.pop_first()).flatten() {
                    self.forget(oldest);
                }
                return self.sweep(of);
            }
        }
        if !lane.is_running
            && let Some(head) = lane.queue.front()
        {
            let rank = match self.discipline {
                PoolOrder::Fifo => (Time::ZERO, head.seq),
                PoolOrder::EarliestDeadline => {
                    (lane.earliest.front().map_or(head.deadline, |(at, _)| *at), head.seq)
                }
            };
            lane.rank = Some(rank);
            let is_hurried = lane.hurried.is_some_and(|upto| head.seq <= upto);
            let set = if is_hurried { &mut self.hurried } else { &mut self.live };
            set.insert((rank.0, rank.1, id));
        }
    }

    fn forget(&mut self, id: LaneId) {
        if let Some(lane) = self.lanes.remove(&id) {
            self.names.remove(&(lane.operator, lane.key));
        }
    }

    /// Takes out an operator that is over and has nothing any more.
    fn sweep(&mut self, id: OperatorId) {
        let is_over = self.operators.get(&id).is_some_and(|it| it.is_over && it.waiting == 0);
        let first = self.names.range((id, Bytes::new())..).next();
        if is_over && first.is_none_or(|((of, _), _)| *of != id) {
            self.operators.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests;
