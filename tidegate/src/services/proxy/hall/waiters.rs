//! Who waits, and what the node says to them.

use std::collections::HashMap;
use std::task::Waker;

use tidegate_node::io::{Control, Destination, Input, Output, OutputId, Refusal};
use tidegate_types::record::{DeliveryId, DropReason, RefuseReason, Token};
use tidegate_types::units::{Size, Time};

use super::{Ending, Passed};
use crate::node::event_loop::adapting::Adapting;
use crate::script::Seat;
use crate::services::proxy::sources::Sources;

#[derive(Debug)]
pub(super) enum State {
    Waiting(Option<Waker>),
    Passed(Option<Passed>),
    Refused(RefuseReason),
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) delivery: Option<DeliveryId>,
    pub(super) state: State,
    pub(super) output: OutputId,
    /// Whether all its bytes were picked: only then the node hears how it ended.
    pub(super) is_whole: bool,
    pub(super) ending: Option<Ending>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) seat: Seat,
    pub(super) adapting: Adapting,
    pub(super) waiters: HashMap<Token, Waiter>,
    pub(super) by_delivery: HashMap<DeliveryId, Token>,
    pub(super) sources: Sources,
    pub(super) last_token: u64,
    /// When the housekeeper will look again.
    pub(super) armed: Option<Time>,
    /// What scripts made: it goes, and nobody waits for an answer.
    pub(super) inserted: Vec<(DeliveryId, Passed)>,
}

impl Inner {
    pub(super) fn new(seat: Seat, adapting: Adapting) -> Inner {
        Inner {
            seat,
            adapting,
            waiters: HashMap::new(),
            by_delivery: HashMap::new(),
            sources: Sources::default(),
            last_token: 0,
            armed: None,
            inserted: Vec::new(),
        }
    }

    /// Everything that the node says, as long as scripts leave others their time; whether there is more.
    pub(super) fn work(&mut self, now: Time) -> bool {
        while !self.adapting.is_turn_over() {
            let Some(output) = self.seat.poll(now) else { break };
            self.act(now, output);
        }
        self.adapting.is_turn_over() || !self.inserted.is_empty()
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        let timers = [self.seat.next_timeout(), self.adapting.next_timer()];
        timers.into_iter().flatten().min()
    }

    pub(super) fn act(&mut self, now: Time, output: Output) {
        match output {
            Output::RunScript { queue, delivery } => {
                self.adapting.run(&mut self.seat, now, queue, delivery);
            }
            Output::Transmit { path, id, range, .. } => {
                let size = self.seat.size_of(id).unwrap_or_default().0;
                let bytes = Size(range.end - range.start);
                self.seat.handle(now, Input::Sent { id, bytes });
                self.pass(now, path.output, id, range.end >= size);
            }
            Output::Accept { token, result: Err(reason), .. } => {
                if let Some(waiter) = self.waiters.get_mut(&token)
                    && let State::Waiting(waker) = &mut waiter.state
                {
                    waker.take().into_iter().for_each(Waker::wake);
                    waiter.state = State::Refused(reason);
                }
            }
            Output::Transform { work, id, endpoint } => {
                // It may have left since the node asked.
                let payload = self.seat.record(id).map(|record| record.payload.clone());
                self.adapting.transform(work, endpoint, payload);
            }
            Output::Report(event) => tracing::debug!(?event, "the node reports"),
            _ => {}
        }
    }

    /// A message is picked, or another part of it.
    pub(super) fn pass(&mut self, now: Time, output: OutputId, id: DeliveryId, is_whole: bool) {
        let Some(record) = self.seat.record(id).cloned() else { return };
        let passed = Passed { output, record };
        let Some(token) = self.by_delivery.get(&id) else {
            if is_whole {
                self.inserted.push((id, passed));
            }
            return;
        };
        let Some(waiter) = self.waiters.get_mut(token) else { return };
        waiter.is_whole |= is_whole;
        waiter.output = output;
        if let State::Waiting(waker) = &mut waiter.state {
            waker.take().into_iter().for_each(Waker::wake);
            waiter.state = State::Passed(Some(passed));
        }
        if let (true, Some(ending)) = (is_whole, waiter.ending) {
            let token = *token;
            self.seat.handle(now, ended(id, output, ending));
            self.forget(token);
        }
    }

    /// Nobody asks for this message any more.
    pub(super) fn leave(&mut self, now: Time, token: Token, ending: Ending) {
        let Some(waiter) = self.waiters.get_mut(&token) else { return };
        let (output, is_whole) = (waiter.output, waiter.is_whole);
        let Some(id) = waiter.delivery else {
            self.waiters.remove(&token);
            return;
        };
        match waiter.state {
            State::Waiting(_) => {
                self.seat.handle(now, Input::Control(Control::Withdraw(id)));
            }
            State::Passed(_) if is_whole => self.seat.handle(now, ended(id, output, ending)),
            State::Passed(_) => {
                // The rest of it is paced still.
                waiter.ending.get_or_insert(ending);
                return;
            }
            State::Refused(_) => {}
        }
        self.forget(token);
    }

    pub(super) fn forget(&mut self, token: Token) {
        if let Some(id) = self.waiters.remove(&token).and_then(|waiter| waiter.delivery) {
            self.by_delivery.remove(&id);
        }
    }

    /// Those of whom nobody hears any more: their exchange ended while they were paced, and the node gave up the rest.
    pub(super) fn forget_ended(&mut self) {
        let Inner { seat, waiters, by_delivery, .. } = self;
        waiters.retain(|_, waiter| {
            let gone =
                waiter.delivery.filter(|id| waiter.ending.is_some() && seat.record(*id).is_none());
            gone.inspect(|id| _ = by_delivery.remove(id)).is_none()
        });
    }

    /// The node hears of everything that an output was handed that it is over.
    pub(super) fn settle_all(&mut self, now: Time, output: OutputId) {
        let is_its = |waiter: &&Waiter| {
            waiter.output == output && waiter.is_whole && matches!(waiter.state, State::Passed(_))
        };
        let mut ids: Vec<DeliveryId> =
            self.waiters.values().filter(is_its).filter_map(|waiter| waiter.delivery).collect();
        ids.sort_unstable();
        let destination = Destination::Output(output);
        let reason = Refusal::Final(DropReason::Refused);
        self.seat.handle(now, Input::Refused { destination, ids, reason });
    }
}

/// What the node hears of a message's end.
pub(super) fn ended(id: DeliveryId, output: OutputId, ending: Ending) -> Input {
    let (destination, ids) = (Destination::Output(output), vec![id]);
    match ending {
        Ending::Answered => Input::Confirmed { destination, ids },
        Ending::Failed(reason) => {
            Input::Refused { destination, ids, reason: Refusal::Final(reason) }
        }
    }
}
