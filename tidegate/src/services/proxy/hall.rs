//! Where messages wait: the node, its scripts, and who waits for what they decide.
//!
//! [`Hall::enter`] offers a record and does everything that follows from it at once; [`Ticket::pass`] is
//! then ready at its first look, unless something holds the message up. A ticket that is dropped takes its
//! message back.

mod ticket;
mod waiters;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_node::adapt::QueueState;
use tidegate_node::io::{Control, Input, OutputId, PathId, PathSample, PathState};
use tidegate_node::rules::RuleId;
use tidegate_node::status::NodeStatus;
use tidegate_types::record::{
    DeliveryId, DropReason, Offered, Properties, Record, SourceId, Token,
};
use tidegate_types::units::{Rate, Time};
use tokio::sync::Notify;

pub(super) use self::ticket::Ticket;
use self::waiters::{Inner, State, Waiter, ended};
use super::sources::Name;
use crate::node::event_loop::adapting::Adapting;
use crate::script::{LoadError, Script, Seat};
use crate::support::time::Clock;

/// A message that may go.
#[derive(Clone, Debug)]
pub(super) struct Passed {
    /// Where to.
    pub(super) output: OutputId,
    /// As it goes.
    pub(super) record: Arc<Record>,
}

/// A message as it comes to the hall.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) source: SourceId,
    /// Its path.
    pub(super) key: Bytes,
    pub(super) properties: Properties,
    pub(super) payload: Bytes,
}

/// How an exchange ended, for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was answered, or the answer was handed over.
    Answered,
    /// It was not.
    Failed(DropReason),
}

/// See the file's header. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Hall {
    inner: Rc<RefCell<Inner>>,
    clock: Clock,
    wake: Rc<Notify>,
}

impl Hall {
    pub(super) fn new(seat: Seat, adapting: Adapting, clock: Clock) -> Hall {
        let inner = Rc::new(RefCell::new(Inner::new(seat, adapting)));
        Hall { inner, clock, wake: Rc::default() }
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Told when the housekeeper must look: earlier than it meant to, or at once.
    pub(super) fn wake(&self) -> &Notify {
        &self.wake
    }

    /// The source of a client under a rule.
    pub(super) fn source(&self, name: Name, rule: RuleId) -> SourceId {
        let inner = &mut *self.inner.borrow_mut();
        let now = self.clock.now();
        let seat = &mut inner.seat;
        inner.sources.find(name, rule, |control| seat.handle(now, Input::Control(control)))
    }

    /// A message comes.
    pub(super) fn enter(&self, entry: Entry) -> Ticket {
        let mut inner = self.inner.borrow_mut();
        let now = self.clock.now();
        inner.last_token += 1;
        let token = Token(inner.last_token);
        let offered = Offered {
            source: entry.source,
            token: Some(token),
            key: entry.key,
            properties: entry.properties,
            payload: entry.payload,
            read_at: now,
            source_unix_ns: None,
            ttl: None,
            foreign: None,
            packet: None,
        };
        let before = inner.seat.newest();
        inner.seat.handle(now, Input::Arrived(vec![offered]));
        let delivery = inner.seat.newest().filter(|newest| Some(*newest) != before);
        let state = State::Waiting(None);
        let output = OutputId(0);
        let waiter = Waiter { delivery, state, output, is_whole: false, ending: None };
        inner.waiters.insert(token, waiter);
        if let Some(delivery) = delivery {
            inner.by_delivery.insert(delivery, token);
        }
        self.pump(&mut inner, now);
        Ticket { hall: self.clone(), token }
    }

    /// Tells the node something and does what follows.
    pub(super) fn handle(&self, input: Input) {
        let mut inner = self.inner.borrow_mut();
        let now = self.clock.now();
        inner.seat.handle(now, input);
        self.pump(&mut inner, now);
    }

    /// What is due; answers with when to come again.
    pub(super) fn keep(&self) -> Option<Time> {
        let mut inner = self.inner.borrow_mut();
        let now = self.clock.now();
        inner.adapting.begin_turn();
        let is_behind = inner.work(now);
        let inner = &mut *inner;
        let has_fired = inner.adapting.fire(&mut inner.seat, now);
        if is_behind || has_fired {
            // In a turn of its own.
            self.wake.notify_one();
        }
        inner.armed = inner.next_timer();
        inner.armed
    }

    /// Does everything that the node says, and has the housekeeper come in time for what is left. Many events may come in
    /// one round of the loop: together their scripts have one turn, and the rest waits for the housekeeper.
    fn pump(&self, inner: &mut Inner, now: Time) {
        inner.adapting.go_on(std::time::Instant::now());
        let is_behind = inner.work(now);
        let next = inner.next_timer();
        let is_earlier = next.is_some_and(|at| inner.armed.is_none_or(|armed| at < armed));
        if is_earlier {
            inner.armed = next;
        }
        if is_behind || is_earlier {
            self.wake.notify_one();
        }
    }

    /// What scripts made since the last look.
    pub(super) fn inserted(&self) -> Vec<(DeliveryId, Passed)> {
        std::mem::take(&mut self.inner.borrow_mut().inserted)
    }

    /// An inserted message was sent, or not.
    pub(super) fn end_inserted(&self, id: DeliveryId, output: OutputId, ending: Ending) {
        self.handle(ended(id, output, ending));
    }

    /// An output can send, or cannot. What it was handed and has not answered is not sent again: its
    /// exchange goes on, or ends by itself.
    pub(super) fn set_up(&self, output: OutputId, is_up: bool) {
        let mut inner = self.inner.borrow_mut();
        let now = self.clock.now();
        if !is_up {
            inner.settle_all(now, output);
        }
        let lanes = inner.seat.options().lanes(output);
        for lane in 0..lanes {
            let state = if is_up { PathState::Up } else { PathState::Down };
            inner.seat.handle(now, Input::PathState { path: PathId { output, lane }, state });
        }
        self.pump(&mut inner, now);
    }

    /// Figures of an output's connections, all together.
    pub(super) fn sample(&self, output: OutputId, sample: PathSample, rate: Option<Rate>) {
        let mut inner = self.inner.borrow_mut();
        let now = self.clock.now();
        let lanes = inner.seat.options().lanes(output);
        for lane in 1..lanes {
            let path = PathId { output, lane };
            inner.seat.handle(now, Input::PathSample { path, sample: PathSample::default() });
        }
        let path = PathId { output, lane: 0 };
        inner.seat.handle(now, Input::PathSample { path, sample });
        if let Some(rate) = rate {
            inner.seat.handle(now, Input::Capacity { output, rate });
        }
        self.pump(&mut inner, now);
    }

    /// Whether an output is known to be down.
    fn is_down(inner: &Inner, now: Time, output: OutputId) -> bool {
        inner.seat.queue_state(now, output) == QueueState::Down
    }

    pub(super) fn status(&self) -> NodeStatus {
        self.inner.borrow_mut().seat.status(self.clock.now())
    }

    /// Other scripts take over.
    ///
    /// # Errors
    /// One fails on what waits.
    pub(crate) fn swap(&self, scripts: Vec<Script>) -> Result<(), LoadError> {
        let inner = &mut *self.inner.borrow_mut();
        inner.adapting.swap(&mut inner.seat, self.clock.now(), scripts)
    }

    /// Nothing more is accepted.
    pub(super) fn stop(&self) {
        self.handle(Input::Control(Control::Stop));
    }
}
