//! A connection that waits lends what it writes to its client by: who publishes a little to a few writes that at once.
//! No task is woken, and no other thread.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_broker::Outbox;
use tidegate_types::units::Time;

/// Bytes that wait, up to which they are written at once: what is more is for the connection's own task, which others do
/// not wait for.
const LITTLE: usize = 4096;

/// How a subscriber's client is written to.
pub trait DirectLine: fmt::Debug + Send {
    /// Encodes what may go of the outbox. Says how much it was, and adds the times of what operators made.
    fn encode(&mut self, now: Time, outbox: &mut Outbox, times: &mut Vec<(u32, Duration)>)
    -> usize;

    /// Writes what is encoded; false where some of it is left.
    fn write(&mut self) -> bool;

    /// Where it encodes to: the connection's buffer, which is empty when it comes, and goes back with what is left.
    fn buffer(&mut self) -> &mut Vec<u8>;
}

/// The place of such a line with a subscriber.
#[derive(Debug, Default)]
pub(super) struct Direct(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    line: Option<Box<dyn DirectLine>>,
    /// The connection waits.
    is_lent: bool,
}

/// A line that is lent, and has messages to write.
#[derive(Debug)]
pub(super) struct Lent<'a>(MutexGuard<'a, State>);

impl Lent<'_> {
    /// Writes them; false where the connection must go on.
    pub(super) fn write(mut self) -> bool {
        let is_written = self.0.line.as_mut().is_some_and(|line| line.write());
        self.0.is_lent = is_written;
        is_written
    }
}

impl Direct {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection waits from now on, and has written all that was in its buffer.
    pub(super) fn lend(
        &self,
        buffer: &mut Vec<u8>,
        line: impl FnOnce() -> Option<Box<dyn DirectLine>>,
    ) -> bool {
        let mut state = self.state();
        state.line = state.line.take().or_else(line);
        if let Some(line) = &mut state.line {
            std::mem::swap(line.buffer(), buffer);
        }
        state.is_lent = state.line.is_some();
        state.is_lent
    }

    /// The connection writes by itself again, and first what is left of what others wrote.
    pub(super) fn take_back(&self) -> Vec<u8> {
        let mut state = self.state();
        state.is_lent = false;
        state.line.as_mut().map(|line| std::mem::take(line.buffer())).unwrap_or_default()
    }

    /// The connection ends.
    pub(super) fn end(&self) {
        *self.state() = State::default();
    }

    /// Encodes what waits, where it is little and the connection waits: the outbox is as after its own turn. Then it is to
    /// be written, with or without the outbox at hand.
    pub(super) fn encode(
        &self,
        now: Time,
        outbox: &mut Outbox,
        times: &mut Vec<(u32, Duration)>,
    ) -> Option<(Lent<'_>, usize)> {
        if outbox.bytes() > LITTLE || outbox.has_appetite() {
            return None;
        }
        // Whoever else has it tells the connection.
        let mut state = self.0.try_lock().ok().filter(|state| state.is_lent)?;
        let count = state.line.as_mut()?.encode(now, outbox, times);
        Some((Lent(state), count))
    }
}
