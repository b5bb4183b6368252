//! Which of many waiting records is worked on next, by workers that know nothing of topics.
//! Source: C. Liu and J. Layland, Scheduling algorithms for multiprogramming in a hard real-time environment, 1973, §7 (earliest deadline
//! first); papers/topic-placement.txt, §IV-A for what it replaces, a thread for each topic.
//! Inputs: records with operator, key and deadline. Outputs: the next one, of a key that nobody works on. O(log keys).
//! Deviations: what is late comes behind; a key inherits the earliest deadline that waits in it (docs/ALGORITHMS.md).
//! Limits: records that wait for each operator; keys that each remembers while nothing of theirs waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::units::Time;

/// Number of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorId(pub u32);

/// Number of a lane: the records of one operator and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

/// Who goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// Who must be ready first.
    #[default]
    EarliestDeadline,
    /// Who came first.
    Fifo,
}

/// What an operator may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records that wait.
    pub waiting: usize,
    /// Keys of which nothing waits and whose state is kept; the one that was idle for longest is forgotten.
    pub idle: usize,
}

#[derive(Debug)]
struct Job<T> {
    seq: u64,
    deadline: Time,
    value: T,
}

#[derive(Debug)]
struct Lane<T, S> {
    operator: OperatorId,
    key: Bytes,
    queue: VecDeque<Job<T>>,
    /// Of `queue`, each that is earlier than all behind it: the first is the earliest of all.
    earliest: VecDeque<(Time, u64)>,
    state: Option<S>,
    is_running: bool,
    /// Where it stands among the ready, or the idle.
    rank: Option<(Time, u64)>,
    /// When it fell idle.
    idle: u64,
}

#[derive(Debug)]
struct Operator {
    limits: Limits,
    waiting: usize,
    idle: BTreeSet<(u64, LaneId)>,
    is_over: bool,
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
    discipline: Discipline,
    operators: BTreeMap<OperatorId, Operator>,
    lanes: BTreeMap<LaneId, Lane<T, S>>,
    names: BTreeMap<(OperatorId, Bytes), LaneId>,
    live: BTreeSet<(Time, u64, LaneId)>,
    late: BTreeSet<(Time, u64, LaneId)>,
    given: u64,
}

impl<T, S> Pool<T, S> {
    /// Nothing waits.
    pub fn new(discipline: Discipline) -> Self {
        Pool {
            discipline,
            operators: BTreeMap::new(),
            lanes: BTreeMap::new(),
            names: BTreeMap::new(),
            live: BTreeSet::new(),
            late: BTreeSet::new(),
            given: 0,
        }
    }

    /// From now on there is this operator, or it has other limits.
    pub fn begin(&mut self, id: OperatorId, limits: Limits) {
        let new = Operator { limits, waiting: 0, idle: BTreeSet::new(), is_over: false };
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
        while lane.earliest.back().is_some_and(|(last, _)| *last > deadline) {
            lane.earliest.pop_back();
        }
        lane.earliest.push_back((deadline, seq));
        lane.queue.push_back(Job { seq, deadline, value });
        self.stand(id);
        displaced
    }

    fn open(&mut self, operator: OperatorId, key: Bytes) -> LaneId {
        let id = LaneId(self.given);
        self.names.insert((operator, key.clone()), id);
        self.lanes.insert(
            id,
            Lane {
                operator,
                key,
                queue: VecDeque::new(),
                earliest: VecDeque::new(),
                state: None,
                is_running: false,
                rank: None,
                idle: 0,
            },
        );
        id
    }

    /// The next record to work on; its key is nobody else's until [`Pool::done`]. `None` while every key that has
    /// something is worked on.
    pub fn take(&mut self, now: Time) -> Option<Task<T, S>> {
        if self.discipline == Discipline::EarliestDeadline {
            // What is late already must not make late what can still be in time.
            while let Some(first) = self.live.first().copied().filter(|(at, ..)| *at <= now) {
                self.live.remove(&first);
                self.late.insert(first);
            }
        }
        let (_, _, id) = self.live.pop_first().or_else(|| self.late.pop_first())?;
        let lane = self.lanes.get_mut(&id).expect("what stands in a set is there");
        lane.rank = None;
        lane.is_running = true;
        let job = lane.pop().expect("who is ready has something");
        let operator = lane.operator;
        let state = lane.state.take();
        if let Some(operator) = self.operators.get_mut(&operator) {
            operator.waiting -= 1;
        }
        Some(Task { lane: id, operator, state, value: job.value })
    }

    /// A worker has finished with a lane, which remembers `state`.
    pub fn done(&mut self, id: LaneId, state: Option<S>) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.is_running = false;
        lane.state = state;
        self.stand(id);
    }

    /// Records that wait for an operator.
    pub fn waiting(&self, id: OperatorId) -> usize {
        self.operators.get(&id).map_or(0, |operator| operator.waiting)
    }

    /// Whether nothing waits and nothing is worked on.
    pub fn is_idle(&self) -> bool {
        self.live.is_empty()
            && self.late.is_empty()
            && self.lanes.values().all(|lane| !lane.is_running)
    }

    /// Whether a worker would find something.
    pub fn is_ready(&self) -> bool {
        !self.live.is_empty() || !self.late.is_empty()
    }

    /// Puts a lane where it belongs now.
    fn stand(&mut self, id: LaneId) {
        let lane = self.lanes.get_mut(&id).expect("only lanes that are there stand");
        let operator = self.operators.get_mut(&lane.operator);
        if let Some((at, seq)) = lane.rank.take() {
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
                Discipline::Fifo => (Time::ZERO, head.seq),
                Discipline::EarliestDeadline => {
                    (lane.earliest.front().map_or(head.deadline, |(at, _)| *at), head.seq)
                }
            };
            lane.rank = Some(rank);
            self.live.insert((rank.0, rank.1, id));
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

impl<T, S> Lane<T, S> {
    fn pop(&mut self) -> Option<Job<T>> {
        let job = self.queue.pop_front()?;
        if self.earliest.front().is_some_and(|(_, seq)| *seq == job.seq) {
            self.earliest.pop_front();
        }
        Some(job)
    }
}

#[cfg(test)]
mod tests;
