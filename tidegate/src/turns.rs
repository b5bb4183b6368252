//! Turns at something dear that strangers ask for: tasks wait here for theirs. Whose is next, and who is
//! turned away, `tidegate_broker::turns` decides.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_broker::fair_queue::{FairQueue, FairQueueLimits, Requester};
use tokio::sync::oneshot;

use crate::port::Clock;

/// So many wait already that one more would wait in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many wait already")]
pub struct Crowded;

#[derive(Debug)]
struct State {
    turns: FairQueue<oneshot::Sender<Turn>>,
    /// Places that nobody has. Zero while anybody waits.
    free: usize,
}

/// Something that a few may use at a time.
#[derive(Debug)]
pub struct Desk {
    state: Mutex<State>,
    clock: Clock,
    /// Its keys are this process's own: nobody outside can choose a name that collides with another's.
    names: RandomState,
}

impl Desk {
    /// With so many places.
    pub fn new(places: usize, bounds: FairQueueLimits) -> Arc<Self> {
        let state = State { turns: FairQueue::new(bounds), free: places };
        let names = RandomState::new();
        Arc::new(Desk { state: Mutex::new(state), clock: Clock::start(), names })
    }

    /// Who asks: a client at this address, under this name.
    pub fn asker(&self, address: IpAddr, name: &str) -> Requester {
        Requester::new(address, self.names.hash_one(name))
    }

    /// Waits for a turn, which lasts until it is dropped. Cancel-safe.
    ///
    /// # Errors
    /// Too many wait.
    pub async fn turn(self: &Arc<Self>, asker: Requester) -> Result<Turn, Crowded> {
        let turn = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(Turn(Some(self.clone())));
            }
            let (sender, turn) = oneshot::channel();
            // Whoever is turned away hears of it by the end of its channel.
            drop(state.turns.ask(asker, sender));
            turn
        };
        turn.await.map_err(|_| Crowded)
    }

    /// What a turn was spent on was wrong: the next of this asker come later.
    pub fn wrong(&self, asker: Requester) {
        self.state().turns.wrong(self.clock.now(), asker);
    }

    /// It was right.
    pub fn right(&self, asker: Requester) {
        self.state().turns.right(asker);
    }

    /// Gives a place to who is next, or keeps it for who comes.
    fn hand_on(self: Arc<Self>) {
        loop {
            let next = {
                let mut state = self.state();
                let next = state.turns.next(self.clock.now());
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                // It did not wait so long. The place is still ours.
                Err(mut turn) => turn.0 = None,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It changes by whole steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place at a desk. Dropped, it is the next one's.
#[derive(Debug)]
pub struct Turn(Option<Arc<Desk>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(desk) = self.0.take() {
            desk.hand_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const BOUNDS: FairQueueLimits = FairQueueLimits { all: 4, network: 3, name: 2 };

    fn at(desk: &Desk, host: u8) -> Requester {
        desk.asker([127, 0, 0, host].into(), "plc")
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_place_goes_to_who_waits_and_comes_back() {
        let desk = Desk::new(1, BOUNDS);
        let Poll::Ready(Ok(first)) = poll(pin!(desk.turn(at(&desk, 1)))) else { panic!() };
        let mut second = pin!(desk.turn(at(&desk, 1)));
        assert!(poll(second.as_mut()).is_pending());
        drop(first);
        let Poll::Ready(Ok(turn)) = poll(second.as_mut()) else { panic!() };
        drop(turn);
        assert_eq!(desk.state().free, 1);
    }

    #[test]
    fn who_does_not_wait_any_more_is_passed_over() {
        let desk = Desk::new(1, BOUNDS);
        let Poll::Ready(Ok(first)) = poll(pin!(desk.turn(at(&desk, 1)))) else { panic!() };
        let mut patient = pin!(desk.turn(at(&desk, 2)));
        {
            let mut hasty = pin!(desk.turn(at(&desk, 1)));
            assert!(poll(hasty.as_mut()).is_pending());
            assert!(poll(patient.as_mut()).is_pending());
        }
        drop(first);
        assert!(matches!(poll(patient.as_mut()), Poll::Ready(Ok(_))));
        // A turn that was given and never taken is given on.
        let (mut given, mut next) = (pin!(desk.turn(at(&desk, 1))), pin!(desk.turn(at(&desk, 2))));
        let Poll::Ready(Ok(first)) = poll(given.as_mut()) else { panic!() };
        {
            let mut gone = Box::pin(desk.turn(at(&desk, 3)));
            assert!(poll(gone.as_mut()).is_pending() && poll(next.as_mut()).is_pending());
            drop(first);
        }
        assert!(matches!(poll(next.as_mut()), Poll::Ready(Ok(_))));
        assert_eq!(desk.state().free, 1);
    }

    #[test]
    fn too_many_are_turned_away() {
        let desk = Desk::new(1, BOUNDS);
        let Poll::Ready(Ok(_first)) = poll(pin!(desk.turn(at(&desk, 1)))) else { panic!() };
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(desk.turn(at(&desk, 1)))).collect();
        let answers: Vec<_> = waiting.iter_mut().map(|turn| poll(turn.as_mut())).collect();
        assert!(answers[..2].iter().all(Poll::is_pending));
        assert!(matches!(answers[2], Poll::Ready(Err(Crowded))));
    }
}
