//! When a turn of a call is over, and what happens then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mlua::VmState;
use rustix::time::{ClockId, clock_gettime};

/// What a look at the clock stands for where looks are counted. An assumption: a busy machine needs two to three times
/// as much from one look to the next (docs/decisions/0135).
pub const LOOK: Duration = Duration::from_nanos(150);

/// What the time of a call is measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The time that its thread was on a processor. A machine that stands still for a moment must not end a script
    /// that does nothing wrong (docs/decisions/0053).
    #[default]
    Processor,
    /// Its looks at the clock, each for `LOOK`: for virtual time, where the same script must take the same.
    Looks,
}

/// How far a turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing runs.
    Idle,
    /// It has time.
    Runs { may_yield: bool },
    /// Its time is over, and it is to be suspended at the next place where it can be: but not for long.
    Yields,
    /// Every look fails until the call has ended.
    CutOff,
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Deadline {
    clock: Clock,
    origin: Instant,
    /// By the clock or in looks: when to look closer. Looking at the thread's time asks the kernel, looking at this
    /// does not; the thread's time never runs faster.
    look_at: AtomicU64,
    /// Looks of this turn.
    looks: AtomicU64,
    turn: Mutex<Turn>,
}

#[derive(Debug)]
struct Turn {
    phase: Phase,
    limit: u64,
    /// When it began, as `end`.
    began: u64,
    /// Of the thread's time, or of looks: when the turn must have ended.
    end: u64,
}

impl Deadline {
    pub(super) fn new(clock: Clock) -> Deadline {
        Deadline {
            clock,
            origin: Instant::now(),
            look_at: AtomicU64::new(u64::MAX),
            looks: AtomicU64::new(0),
            turn: Mutex::new(Turn { phase: Phase::Idle, limit: 0, began: 0, end: 0 }),
        }
    }

    /// A turn begins. Nanoseconds, or looks.
    pub(super) fn set(&self, limit: Duration, may_yield: bool) {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let (limit, now, began) = match self.clock {
            Clock::Processor => (limit, self.now(), thread_time()),
            Clock::Looks => (limit / LOOK.as_nanos() as u64, 0, 0),
        };
        self.looks.store(0, Ordering::Relaxed);
        self.look_at.store(now.saturating_add(limit).max(1), Ordering::Relaxed);
        let end = began.saturating_add(limit);
        *self.turn() = Turn { phase: Phase::Runs { may_yield }, limit, began, end };
    }

    /// Nothing runs any more.
    pub(super) fn clear(&self) {
        self.look_at.store(u64::MAX, Ordering::Relaxed);
        self.turn().phase = Phase::Idle;
    }

    /// What a machine does at each of its looks.
    pub(super) fn look(&self) -> mlua::Result<VmState> {
        let looks = self.looks.load(Ordering::Relaxed) + 1;
        self.looks.store(looks, Ordering::Relaxed);
        let now = if self.clock == Clock::Looks { looks } else { self.now() };
        if now < self.look_at.load(Ordering::Relaxed) {
            return Ok(VmState::Continue);
        }
        let mut turn = self.turn();
        let left = self.left(&turn);
        match turn.phase {
            Phase::Idle => return Ok(VmState::Continue),
            Phase::Runs { .. } if left > 0 => {
                self.look_at.store(now.saturating_add(left), Ordering::Relaxed);
                return Ok(VmState::Continue);
            }
            Phase::Runs { may_yield: true } => {
                turn.end = turn.end.saturating_add(turn.limit / 2);
                turn.phase = Phase::Yields;
                return Ok(VmState::Yield);
            }
            Phase::Yields if left > 0 => return Ok(VmState::Yield),
            Phase::Runs { .. } | Phase::Yields | Phase::CutOff => turn.phase = Phase::CutOff,
        }
        Err(mlua::Error::runtime("the time of this call is over"))
    }

    /// Whether the time is over.
    pub(super) fn is_over(&self) -> bool {
        let turn = self.turn();
        turn.phase != Phase::Idle && (turn.phase == Phase::CutOff || self.left(&turn) == 0)
    }

    /// Whether looks fail.
    pub(super) fn is_cut_off(&self) -> bool {
        self.turn().phase == Phase::CutOff
    }

    /// What the turn has taken so far.
    pub(super) fn took(&self) -> Duration {
        match self.clock {
            Clock::Processor => {
                Duration::from_nanos(thread_time().saturating_sub(self.turn().began))
            }
            Clock::Looks => {
                LOOK * u32::try_from(self.looks.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
            }
        }
    }

    fn left(&self, turn: &Turn) -> u64 {
        let now = match self.clock {
            Clock::Processor => thread_time(),
            Clock::Looks => self.looks.load(Ordering::Relaxed),
        };
        turn.end.saturating_sub(now)
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Nanoseconds that this thread has been on a processor.
pub fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    u64::try_from(time.tv_sec).unwrap_or_default().saturating_mul(1_000_000_000) + nanos
}
