//! One direction of an emulated link, as pure code: packets with sizes and times in, departures out.
//!
//! A packet waits in the queue, takes its time on the wire, may be lost there, and travels. Everything
//! happens at its own virtual time, whenever somebody looks: a caller that comes late sees late, but what
//! it sees is not changed by that. The same seed and the same packets give the same departures. The pump
//! of `net` and simulations in virtual time use the same code.

mod aqm;
mod chances;
mod cross;
mod loss;
mod profile;
mod queue;
mod server;
pub mod trace;

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::units::Time;

use crate::sim::random::Random;

pub use self::aqm::{Ecn, Tag};
pub use self::chances::{CHANCE, Chances, ChancesError};
pub use self::cross::Cross;
pub use self::loss::{GilbertElliott, Loss};
pub use self::profile::{Profile, ProfileError};
pub use self::queue::{Discipline, Red};
pub use self::server::Service;

pub use self::cross::Sources;

use self::loss::Fate;
use self::queue::Queue;
use self::server::Server;

/// How a direction behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How fast packets leave.
    pub service: Service,
    /// Bytes that the queue holds, the packet on the wire included.
    pub queue: u64,
    /// Which packets the queue refuses.
    pub discipline: Discipline,
    /// Propagation.
    pub delay: Duration,
    /// Up to so much is added to the propagation of each packet, evenly distributed.
    pub jitter: Duration,
    /// Whether jitter may change the order; otherwise a packet waits for the one before it.
    pub reorders: bool,
    /// What is lost on the wire.
    pub loss: Loss,
    /// Who else uses it.
    pub cross: Option<Cross>,
}

impl Options {
    /// A constant rate, a drop-tail queue, propagation; nothing is lost on the wire.
    pub fn new(bits_per_second: u64, delay: Duration, queue: u64) -> Self {
        Options {
            service: Service::Rate(Profile::constant(bits_per_second)),
            queue,
            discipline: Discipline::DropTail,
            delay,
            jitter: Duration::ZERO,
            reorders: false,
            loss: Loss::Random(0.0),
            cross: None,
        }
    }
}

/// What can change while packets are under way.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Down: what waits and what comes is lost; what has left arrives. Up again.
    Up(bool),
    /// Another rate, from the middle of the packet that is being sent. Zero: all wait.
    Service(Service),
    /// Another queue; what waits beyond its bound stays.
    Queue(Discipline, u64),
    /// Another propagation and jitter, for what leaves from now on.
    Delay(Duration, Duration),
    /// Another loss.
    Loss(Loss),
    /// Other cross traffic.
    Cross(Option<Cross>),
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The queue refused it.
    Queue,
    /// It was lost on the wire.
    Loss,
    /// The link was down.
    Down,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It is there.
    Arrived {
        /// Since when.
        at: Time,
        /// The packet.
        item: T,
    },
    /// It will never be.
    Lost {
        /// Why.
        cause: Cause,
        /// The packet.
        item: T,
    },
}

/// What has happened so far. `offered` is `arrived`, lost and what is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that came to the link.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets at the far end.
    pub arrived: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets that the queue refused.
    pub lost_queue: u64,
    /// Packets lost on the wire.
    pub lost_wire: u64,
    /// Packets lost because the link was down.
    pub lost_down: u64,
    /// Packets of the cross traffic that have left the wire.
    pub cross: u64,
    /// Packets of the cross traffic that the queue refused.
    pub cross_refused: u64,
}

/// While cross traffic is on, somebody looks this often, so that catching up is never much work.
const CROSS_LOOK: Duration = Duration::from_millis(5);

/// One direction of a link that carries packets of `T`.
#[derive(Clone, Debug)]
pub struct Direction<T> {
    options: Options,
    is_up: bool,
    now: Time,
    queue: Queue<T>,
    server: Server,
    fate: Fate,
    cross: Option<Sources>,
    /// What has left the wire, by arrival.
    flight: VecDeque<(Time, u64, T)>,
    last_arrival: Time,
    lost: VecDeque<(Cause, T)>,
    counts: Counts,
    seed: u64,
    random: Parts,
}

/// A stream of random numbers for each part, so that a change of one does not shift the others.
#[derive(Clone, Debug)]
struct Parts {
    queue: Random,
    loss: Random,
    jitter: Random,
    /// Cross traffic that begins anew has new numbers.
    cross: u64,
}

impl<T> Direction<T> {
    /// A direction without packets, at time zero.
    pub fn new(options: Options, seed: u64) -> Self {
        let random = Parts {
            queue: Random::new(seed, 0),
            loss: Random::new(seed, 1),
            jitter: Random::new(seed, 2),
            cross: 3,
        };
        let mut direction = Direction {
            is_up: true,
            now: Time::ZERO,
            queue: Queue::new(options.discipline, options.queue),
            server: Server::new(options.service.clone(), Time::ZERO),
            fate: Fate::new(options.loss),
            cross: None,
            flight: VecDeque::new(),
            last_arrival: Time::ZERO,
            lost: VecDeque::new(),
            counts: Counts::default(),
            seed,
            random,
            options,
        };
        direction.set_cross(direction.options.cross);
        direction
    }

    /// The same, with packets that can be marked: where the tag of one is.
    #[must_use]
    pub fn tagged(mut self, tag: for<'a> fn(&'a mut T) -> &'a mut Tag) -> Self {
        self.queue.tag = Some(tag);
        self
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes that wait or are being sent, cross traffic included.
    pub fn queued(&self) -> u64 {
        self.queue.bytes()
    }

    /// Takes a packet that comes now. Its outcome is one of the next that [`Direction::poll`] returns.
    /// bytes: > 0, as counted by the rate.
    pub fn offer(&mut self, now: Time, bytes: u64, item: T) {
        self.advance(now);
        self.counts.offered += 1;
        self.counts.offered_bytes += bytes;
        if self.is_up {
            self.enqueue(self.now, bytes, Some(item));
        } else {
            self.lose(Cause::Down, item);
        }
    }

    /// The next outcome up to now; `None` when there is no more.
    pub fn poll(&mut self, now: Time) -> Option<Outcome<T>> {
        self.advance(now);
        if let Some((cause, item)) = self.lost.pop_front() {
            return Some(Outcome::Lost { cause, item });
        }
        let is_there = self.flight.front().is_some_and(|(at, ..)| *at <= self.now);
        let (at, bytes, item) = is_there.then(|| self.flight.pop_front()).flatten()?;
        self.counts.arrived += 1;
        self.counts.arrived_bytes += bytes;
        Some(Outcome::Arrived { at, item })
    }

    /// When to poll again, at the latest: nothing arrives before.
    pub fn next_timeout(&self) -> Option<Time> {
        if !self.lost.is_empty() {
            return Some(self.now);
        }
        let flight = self.flight.front().map(|(at, ..)| *at);
        // Nothing that waits arrives earlier than the head of the queue, and that not before this.
        let queue = self.queue.has_items().then(|| self.server.ends()).flatten();
        let cross = self.cross.as_ref().and_then(Sources::next).map(|_| self.now + CROSS_LOOK);
        let queue = queue.map(|ends| ends + self.options.delay);
        [flight, queue, cross].into_iter().flatten().min()
    }

    /// Changes something from now on.
    pub fn change(&mut self, now: Time, change: Change) {
        self.advance(now);
        match change {
            Change::Up(is_up) => {
                self.is_up = is_up;
                if !is_up {
                    self.flush();
                }
            }
            Change::Service(service) => self.server.replace(service, self.now),
            Change::Queue(discipline, limit) => self.queue.set(discipline, limit),
            Change::Delay(delay, jitter) => {
                (self.options.delay, self.options.jitter) = (delay, jitter);
            }
            Change::Loss(loss) => self.fate = Fate::new(loss),
            Change::Cross(cross) => self.set_cross(cross),
        }
    }

    fn set_cross(&mut self, cross: Option<Cross>) {
        let random = Random::new(self.seed, self.random.cross);
        self.random.cross += 1;
        self.cross = cross.map(|cross| Sources::new(cross, self.now, random));
    }

    /// Does what was due up to now, each thing at its own time. A clock that goes back stands still.
    fn advance(&mut self, now: Time) {
        loop {
            let ends = self.server.ends().unwrap_or(Time::FAR);
            let comes = self.cross.as_ref().and_then(Sources::next).unwrap_or(Time::FAR);
            if ends.min(comes) > now || ends.min(comes) == Time::FAR {
                break;
            }
            if ends <= comes {
                self.depart(ends);
            } else if let Some(bytes) = self.cross.as_mut().and_then(Sources::take) {
                self.now = comes;
                if self.is_up {
                    self.enqueue(comes, bytes, None);
                }
            }
        }
        self.now = self.now.max(now);
    }

    fn enqueue(&mut self, at: Time, bytes: u64, item: Option<T>) {
        match self.queue.push(at, bytes, item, &mut self.random.queue) {
            Ok(()) if self.server.is_idle() => self.begin(at),
            Ok(()) => {}
            Err(Some(item)) => self.lose(Cause::Queue, item),
            Err(None) => self.counts.cross_refused += 1,
        }
    }

    /// The next packet begins, if there is one.
    fn begin(&mut self, at: Time) {
        if let Some(bytes) = self.queue.next(at) {
            self.server.begin(at, bytes);
        }
        while let Some(dropped) = self.queue.take_dropped() {
            match dropped {
                Some(item) => self.lose(Cause::Queue, item),
                None => self.counts.cross_refused += 1,
            }
        }
    }

    /// The packet on the wire has left; the next one begins.
    fn depart(&mut self, at: Time) {
        self.now = at;
        self.server.complete();
        let Some((bytes, item)) = self.queue.pop(at) else { return };
        self.begin(at);
        let is_lost = self.fate.is_lost(&mut self.random.loss);
        let Some(item) = item else {
            self.counts.cross += 1;
            return;
        };
        if is_lost {
            return self.lose(Cause::Loss, item);
        }
        let jitter = self.random.jitter.span(Duration::ZERO, self.options.jitter);
        let mut arrives = at + self.options.delay + jitter;
        if !self.options.reorders {
            arrives = arrives.max(self.last_arrival);
            self.last_arrival = arrives;
        }
        let place = self.flight.partition_point(|(at, ..)| *at <= arrives);
        self.flight.insert(place, (arrives, bytes, item));
    }

    fn flush(&mut self) {
        self.server.complete();
        while let Some((_, item)) = self.queue.pop(self.now) {
            if let Some(item) = item {
                self.lose(Cause::Down, item);
            }
        }
    }

    fn lose(&mut self, cause: Cause, item: T) {
        match cause {
            Cause::Queue => self.counts.lost_queue += 1,
            Cause::Loss => self.counts.lost_wire += 1,
            Cause::Down => self.counts.lost_down += 1,
        }
        self.lost.push_back((cause, item));
    }
}

#[cfg(test)]
mod tests;
