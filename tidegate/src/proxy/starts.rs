//! Requests of HTTP/2 begin by turns: a few in each pass of this thread's loop, one connection after the other.
//!
//! A connection may bring a hundred requests in one packet, and many connections may do so at once. Were each a task
//! that is ready now, whoever asks by another connection would wait for all of them.
//!
//! Limits: [`PASS`] beginnings in a pass; of each connection as many wait as it may have requests at once.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::pin::Pin;
use std::rc::Rc;

use tokio::task::{spawn_local, yield_now};

/// Requests that begin in one pass of the loop: work of some hundred microseconds.
const PASS: u32 = 8;

type Beginning = Pin<Box<dyn Future<Output = ()>>>;

/// See the file's header.
pub(super) struct Starts(RefCell<State>);

struct State {
    /// Turns that nobody took in this pass. While any are left nobody waits.
    free: u32,
    /// A task hands out those of the next one.
    is_kept: bool,
    /// What waits, by connection.
    waiting: BTreeMap<u64, VecDeque<Beginning>>,
    /// The connection that had the last turn.
    last: u64,
    newest: u64,
}

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Line {
    starts: Rc<Starts>,
    number: u64,
    max: usize,
}

impl fmt::Debug for Starts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Starts").finish_non_exhaustive()
    }
}

impl Starts {
    pub(super) fn new() -> Rc<Starts> {
        let waiting = BTreeMap::new();
        let state = State { free: PASS, is_kept: false, waiting, last: 0, newest: 0 };
        Rc::new(Starts(RefCell::new(state)))
    }

    /// A connection that may have so many requests at once.
    pub(super) fn line(self: &Rc<Self>, max: u32) -> Line {
        let state = &mut *self.0.borrow_mut();
        state.newest += 1;
        Line { starts: self.clone(), number: state.newest, max: max as usize }
    }

    /// Hands out the turns of each pass as long as anybody waits.
    async fn keep(self: Rc<Self>) {
        while self.begin_some() {
            yield_now().await;
        }
    }

    /// The turns of a new pass; whether anybody waited for one.
    fn begin_some(&self) -> bool {
        let mut begun = Vec::new();
        let state = &mut *self.0.borrow_mut();
        state.free = PASS;
        while state.free > 0
            && let Some(next) = state.next()
        {
            state.free -= 1;
            begun.push(next);
        }
        state.is_kept = !begun.is_empty();
        begun.into_iter().for_each(|beginning| _ = spawn_local(beginning));
        state.is_kept
    }
}

impl State {
    /// What begins next: of the connection behind the last one.
    fn next(&mut self) -> Option<Beginning> {
        let behind = self.waiting.range((Excluded(self.last), Unbounded)).next();
        let number =
            behind.or_else(|| self.waiting.first_key_value()).map(|(number, _)| *number)?;
        let line = self.waiting.get_mut(&number)?;
        let next = line.pop_front();
        if line.is_empty() {
            self.waiting.remove(&number);
        }
        self.last = number;
        next
    }
}

impl Line {
    /// Runs what begins with a request, when it has its turn.
    pub(super) fn begin(&self, request: impl Future<Output = ()> + 'static) {
        let mut state = self.starts.0.borrow_mut();
        if !state.is_kept {
            state.is_kept = true;
            // It has its turn behind all that is ready now.
            spawn_local(self.starts.clone().keep());
        }
        if let Some(free) = state.free.checked_sub(1) {
            state.free = free;
            drop(state);
            spawn_local(request);
        } else {
            let waiting = state.waiting.entry(self.number).or_default();
            waiting.push_back(Box::pin(request));
            // There are as many as there may be at once: the first one was reset before it began.
            let gone = if waiting.len() > self.max { waiting.pop_front() } else { None };
            drop(state);
            drop(gone);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let gone = self.starts.0.borrow_mut().waiting.remove(&self.number);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::proxy::tests::on_one_thread;

    #[test]
    fn a_flood_of_requests_lets_those_of_others_and_all_other_work_pass() {
        on_one_thread(async {
            let starts = Starts::new();
            let (flood, other) = (starts.line(1000), starts.line(1000));
            let begun: Rc<RefCell<Vec<&str>>> = Rc::default();
            let note = |what| {
                let begun = begun.clone();
                async move { begun.borrow_mut().push(what) }
            };
            (0..100).for_each(|_| flood.begin(note("flood")));
            other.begin(note("other"));
            let passes = Rc::new(Cell::new(0));
            while begun.borrow().len() < 101 {
                passes.set(passes.get() + 1);
                yield_now().await;
            }
            let place = begun.borrow().iter().position(|what| *what == "other");
            assert!(place.is_some_and(|place| place < 2 * PASS as usize), "{place:?}");
            assert!(passes.get() >= 100 / PASS, "others had {} turns meanwhile", passes.get());
        });
    }

    #[test]
    fn what_waits_of_a_connection_is_bounded_and_goes_with_it() {
        on_one_thread(async {
            let starts = Starts::new();
            let line = starts.line(3);
            let held = Rc::new(());
            for _ in 0..PASS + 10 {
                let held = held.clone();
                line.begin(async move { drop(held) });
            }
            // Those that had a turn are tasks that have not run yet.
            assert_eq!(Rc::strong_count(&held), 1 + PASS as usize + 3);
            drop(line);
            assert_eq!(Rc::strong_count(&held), 1 + PASS as usize);
        });
    }
}
