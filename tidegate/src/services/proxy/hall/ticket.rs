//! A message's place in the hall, for whoever sent it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tidegate_types::record::{DropReason, RefuseReason, Token};

use super::waiters::State;
use super::{Ending, Hall, Passed};

/// The place of a message in the hall.
#[derive(Debug)]
pub(in crate::services::proxy) struct Ticket {
    pub(super) hall: Hall,
    pub(super) token: Token,
}

impl Ticket {
    /// Waits until the message may go.
    ///
    /// # Errors
    /// It was not taken, or was given up.
    pub(in crate::services::proxy) async fn pass(&self) -> Result<Passed, RefuseReason> {
        poll_fn(|context| self.poll_pass(context)).await
    }

    fn poll_pass(&self, context: &mut Context<'_>) -> Poll<Result<Passed, RefuseReason>> {
        let mut inner = self.hall.inner();
        let Some(waiter) = inner.waiters.get_mut(&self.token) else {
            return Poll::Ready(Err(RefuseReason::Stopping));
        };
        match &mut waiter.state {
            State::Waiting(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            State::Passed(passed) => match passed.take() {
                Some(passed) => Poll::Ready(Ok(passed)),
                None => Poll::Ready(Err(RefuseReason::Stopping)),
            },
            State::Refused(reason) => Poll::Ready(Err(*reason)),
        }
    }

    /// Whether it waits for an output that is down.
    pub(in crate::services::proxy) fn waits_in_vain(&self) -> bool {
        let inner = self.hall.inner();
        let Some(waiter) = inner.waiters.get(&self.token) else { return false };
        let is_waiting = matches!(waiter.state, State::Waiting(_));
        let output = waiter.delivery.and_then(|id| inner.seat.waits_for(id));
        let now = self.hall.clock.now();
        is_waiting && output.is_some_and(|output| Hall::is_down(&inner, now, output))
    }

    /// The exchange ended.
    pub(in crate::services::proxy) fn end(self, ending: Ending) {
        self.leave(ending);
    }

    fn leave(&self, ending: Ending) {
        let mut inner = self.hall.inner();
        let now = self.hall.clock.now();
        inner.leave(now, self.token, ending);
        self.hall.pump(&mut inner, now);
    }
}

impl Drop for Ticket {
    /// Whoever waited is gone; after [`Ticket::end`] there is nothing left to do.
    fn drop(&mut self) {
        let is_there = self.hall.inner().waiters.contains_key(&self.token);
        if is_there {
            self.leave(Ending::Failed(DropReason::Withdrawn));
        }
    }
}
