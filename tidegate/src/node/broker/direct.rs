//! A connection that waits lends what it writes to its client by: who publishes a little to a few writes that at once.
//! No task is woken, and no other thread.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_broker::Outbox;

use super::seat::Seat;

/// Bytes that wait, up to which they are written at once: what is more is for the connection's own task, which others do
/// not wait for.
const LITTLE: usize = 4096;

/// How a subscriber's client is written to.
pub trait DirectLine: fmt::Debug + Send {
    /// Encodes what may go of the outbox now. Says how much it was, and whether there is more; adds the times of what
    /// operators made.
    fn encode(&mut self, outbox: &mut Outbox, times: &mut Vec<(u32, Duration)>) -> (usize, bool);

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
    /// Whose line it is: each connection has another number, and only the last one's is of use.
    owner: u64,
}

/// What a connection lends its line by. With it the line ends, however the connection does.
#[derive(Debug)]
pub struct LineOwner {
    seat: Arc<Seat>,
    number: u64,
}

impl LineOwner {
    /// The next one of a seat: the line of an earlier connection is gone.
    pub fn new(seat: &Arc<Seat>) -> Self {
        let mut state = seat.direct.state();
        *state = State { owner: state.owner + 1, ..State::default() };
        LineOwner { seat: seat.clone(), number: state.owner }
    }

    /// The connection waits from now on, has written all that was in its buffer, and lends that and how it writes, said
    /// once. True where it is lent.
    pub fn lend(
        &self,
        buffer: &mut Vec<u8>,
        line: impl FnOnce() -> Option<Box<dyn DirectLine>>,
    ) -> bool {
        let Some(mut state) = self.state().filter(|_| !self.seat.is_durable()) else {
            return false;
        };
        state.line = state.line.take().or_else(line);
        if let Some(line) = &mut state.line {
            std::mem::swap(line.buffer(), buffer);
        }
        state.is_lent = state.line.is_some();
        state.is_lent
    }

    /// The connection writes by itself again: first what is left of what others wrote.
    pub fn reclaim(&self) -> Vec<u8> {
        let Some(mut state) = self.state() else { return Vec::new() };
        state.is_lent = false;
        state.line.as_mut().map(|line| std::mem::take(line.buffer())).unwrap_or_default()
    }

    /// Its seat's line, as long as that is its own.
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.seat.direct.state()).filter(|state| state.owner == self.number)
    }
}

impl Drop for LineOwner {
    fn drop(&mut self) {
        if let Some(mut state) = self.state() {
            (state.line, state.is_lent) = (None, false);
        }
    }
}

/// A line that is lent, and has messages to write.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    state: MutexGuard<'a, State>,
    /// The outbox has more than went at once: for the connection.
    has_more: bool,
}

impl Lent<'_> {
    /// Writes them; false where the connection must go on.
    pub(super) fn write(mut self) -> bool {
        let Lent { state, has_more } = &mut self;
        let is_written = state.line.as_mut().is_some_and(|line| line.write()) && !*has_more;
        state.is_lent = is_written;
        is_written
    }
}

impl Direct {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes what waits, where it is little and the connection waits: the outbox is as after its own turn. Then it is to
    /// be written, with or without the outbox at hand.
    pub(super) fn encode(
        &self,
        outbox: &mut Outbox,
        times: &mut Vec<(u32, Duration)>,
    ) -> Option<(Lent<'_>, usize)> {
        if outbox.bytes() > LITTLE || outbox.has_appetite() {
            return None;
        }
        // Whoever else has it tells the connection.
        let mut state = self.0.try_lock().ok().filter(|state| state.is_lent)?;
        let (count, has_more) = state.line.as_mut()?.encode(outbox, times);
        Some((Lent { state, has_more }, count))
    }
}
