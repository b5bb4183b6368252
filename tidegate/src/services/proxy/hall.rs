//! Where messages wait: the node, its scripts, and who waits for what they decide.
//!
//! [`Hall::enter`] offers a record and does everything that follows from it at once; [`Ticket::pass`] is
//! then ready at its first look, unless something holds the message up. A ticket that is dropped takes its
//! message back.

mod ticket;
mod waiters;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tidegate_node::adapt::QueueState;
use tidegate_node::io::{Control, Input, OutputId, PathId, PathSample, PathState, UplinkId};
use tidegate_node::options::{NodeOptions, UplinkOptions};
use tidegate_node::rules::RuleId;
use tidegate_node::status::NodeStatus;
use tidegate_types::record::{DeliveryId, DropReason, Offered, Properties, Record, Token};
use tidegate_types::units::{Rate, Time};
use tokio::sync::Notify;

pub(super) use self::ticket::Ticket;
use self::waiters::{Inner, State, Waiter, ended};
use super::sources::Name;
use crate::node::contract::Adaptation;
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
    /// Whose it is, and under which rule.
    pub(super) from: (Name, RuleId),
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
pub(super) struct Hall {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
    wake: Arc<Notify>,
}

impl Hall {
    pub(super) fn new(seat: Seat, adapting: Adapting, clock: Clock) -> Hall {
        let inner = Arc::new(Mutex::new(Inner::new(seat, adapting)));
        Hall { inner, clock, wake: Arc::default() }
    }

    /// For as long as it takes to do what follows from one event: a thread that comes meanwhile waits.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Told when the housekeeper must look: earlier than it meant to, or at once.
    pub(super) fn wake(&self) -> &Notify {
        &self.wake
    }

    /// A message comes.
    pub(super) fn enter(&self, entry: Entry) -> Ticket {
        let mut guard = self.inner();
        let inner = &mut *guard;
        let now = self.clock.now();
        let (name, rule) = entry.from;
        let seat = &mut inner.seat;
        let source =
            inner.sources.find(name, rule, |control| seat.handle(now, Input::Control(control)));
        inner.last_token += 1;
        let token = Token(inner.last_token);
        let offered = Offered {
            source,
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
        self.pump(inner, now);
        drop(guard);
        Ticket { hall: self.clone(), token }
    }

    /// Tells the node something and does what follows.
    pub(super) fn handle(&self, input: Input) {
        let mut inner = self.inner();
        let now = self.clock.now();
        inner.seat.handle(now, input);
        self.pump(&mut inner, now);
    }

    /// What is due; answers with when to come again.
    pub(super) fn keep(&self) -> Option<Time> {
        let mut inner = self.inner();
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
        std::mem::take(&mut self.inner().inserted)
    }

    /// An inserted message was sent, or not.
    pub(super) fn end_inserted(&self, id: DeliveryId, output: OutputId, ending: Ending) {
        self.handle(ended(id, output, ending));
    }

    /// An output can send, or cannot. What it was handed and has not answered is not sent again: its
    /// exchange goes on, or ends by itself.
    pub(super) fn set_up(&self, output: OutputId, is_up: bool) {
        let mut inner = self.inner();
        let now = self.clock.now();
        if !is_up {
            inner.settle_all(now, output);
        }
        let state = if is_up { PathState::Up } else { PathState::Down };
        Hall::turn(&mut inner, now, output, state);
        self.pump(&mut inner, now);
    }

    fn turn(inner: &mut Inner, now: Time, output: OutputId, state: PathState) {
        for lane in 0..inner.seat.options().lanes(output) {
            inner.seat.handle(now, Input::PathState { path: PathId { output, lane }, state });
        }
    }

    /// Figures of an output's connections, all together.
    pub(super) fn sample(&self, output: OutputId, sample: PathSample, rate: Option<Rate>) {
        let mut inner = self.inner();
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
        self.inner().seat.status(self.clock.now())
    }

    /// What the node works by.
    pub(super) fn options(&self) -> NodeOptions {
        self.inner().seat.options().clone()
    }

    /// Tries a script that is new on what waits: who comes meanwhile waits for one turn of it.
    ///
    /// # Errors
    /// It fails.
    pub(super) fn try_on(&self, script: &mut Script) -> Result<(), LoadError> {
        let Inner { seat, adapting, .. } = &mut *self.inner();
        adapting.try_scripts(seat, self.clock.now(), std::slice::from_mut(script))
    }

    /// Whether the node takes other rules, outputs and uplinks. Nothing changes.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn check(&self, new: &NodeOptions) -> anyhow::Result<()> {
        Adapting::check(&self.inner().seat, &new.rules, new.outputs.clone(), new.uplinks.clone())
    }

    /// Other rules, scripts, outputs and bounds are in force, of which nothing would be refused. What waits has what its rule
    /// says now. The outputs `come` are new: they are up before `publish` tells anybody
    /// of them. It gets the places of the rules, in their order, and must not come to the hall.
    pub(super) fn change<T>(
        &self,
        scripts: Vec<Script>,
        new: NodeOptions,
        come: &[OutputId],
        publish: impl FnOnce(&[RuleId]) -> T,
    ) -> T {
        let mut inner = self.inner();
        let now = self.clock.now();
        let Inner { seat, adapting, .. } = &mut *inner;
        let before = seat.options().clone();
        let NodeOptions { rules, outputs, uplinks, record_max, memory, .. } = new;
        let adaptation = Adaptation { scripts, rules: Arc::new(rules) };
        let mut order = |control| seat.handle(now, Input::Control(control));
        order(Control::Limits { memory, record_max });
        order(Control::Outputs(Box::new((outputs.clone(), uplinks.clone()))));
        for ((uplink, old), new) in (0..).map(UplinkId).zip(&before.uplinks).zip(uplinks) {
            if (old.controller, old.cap) != (new.controller, new.cap) {
                let UplinkOptions { controller, cap, .. } = new;
                order(Control::Govern { uplink, controller, cap });
            }
        }
        for ((output, old), new) in (0..).map(OutputId).zip(&before.outputs).zip(&outputs) {
            if old.unconfirmed_max != new.unconfirmed_max {
                seat.handle(now, Input::Window { output, records: new.unconfirmed_max });
            }
        }
        adapting.adapt(seat, now, adaptation);
        come.iter().for_each(|output| Hall::turn(&mut inner, now, *output, PathState::Up));
        let seat = &inner.seat;
        let places: Vec<RuleId> = seat.options().rules.asked().map(|(place, _)| place).collect();
        let published = publish(&places);
        self.pump(&mut inner, now);
        published
    }

    /// Nobody comes or waits under anything but what was put in force last: outputs but these are gone, and so are the
    /// sources of rules that are.
    pub(super) fn forget_all_but(&self, outputs: &BTreeSet<OutputId>) {
        let mut inner = self.inner();
        let now = self.clock.now();
        let Inner { seat, sources, .. } = &mut *inner;
        let mut options = seat.options().clone();
        for (place, output) in (0..).map(OutputId).zip(&mut options.outputs) {
            output.is_gone = !outputs.contains(&place);
        }
        let asked: BTreeSet<RuleId> = options.rules.asked().map(|(place, _)| place).collect();
        let NodeOptions { outputs, uplinks, .. } = options;
        let order = Control::Outputs(Box::new((outputs, uplinks)));
        seat.handle(now, Input::Control(order));
        sources.keep(&asked, |source| seat.handle(now, Input::Control(Control::Close(source))));
        self.pump(&mut inner, now);
        inner.forget_ended();
    }

    /// Nothing more is accepted.
    pub(super) fn stop(&self) {
        self.handle(Input::Control(Control::Stop));
    }
}
