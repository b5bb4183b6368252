//! Carries packets between two TUN devices as an emulated link says: a thread that reads, waits, writes.
//!
//! It decides nothing: `link::Direction` does, at the times at which packets were read. Buffers go round,
//! so that in the steady state nothing is allocated.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tidegate_types::units::Time;

use super::NetError;
use super::tun::{PACKET_MAX, Tun};
use super::urgent::urgent;
use crate::link::{Change, Counts, Direction, Options, Outcome};

/// Packets read from one device before the other one has its turn.
const BATCH: usize = 64;
/// The longest wait where nothing is due.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A way of a link, seen from its first end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From the first end to the second.
    Uplink,
    Downlink,
}

impl Way {
    pub const ALL: [Way; 2] = [Way::Uplink, Way::Downlink];
}

/// What a way has done so far.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the model says.
    pub counts: Counts,
    /// Packets that were due and that the host did not take: a fault of the emulator, not of the link.
    pub refused: u64,
    /// How late packets were written, in nanoseconds after their time.
    pub lateness: Histogram<u64>,
}

/// What the thread is asked for.
#[derive(Debug)]
enum Order {
    Change(Way, Change),
    Report(Way, Sender<Report>),
    Stop,
}

/// The thread. Dropping it stops it and with it the link.
#[derive(Debug)]
pub struct Pump {
    orders: Sender<Order>,
    /// Ends the thread's wait.
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    /// Joins two devices by a link with these options (uplink, downlink), from now on.
    ///
    /// # Errors
    /// The system has no thread or no file for it.
    pub fn start(ends: [Tun; 2], options: [Options; 2], seed: u64) -> Result<Pump, NetError> {
        let io = |source| NetError::Io { doing: "could not start a link".into(), source };
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = Arc::new(wake.map_err(|error| io(error.into()))?);
        let (orders, of_thread) = mpsc::channel();
        let [uplink, downlink] = options;
        // Directions of one link have nothing in common but the seed.
        let ways = [Carrier::new(uplink, seed), Carrier::new(downlink, !seed)];
        let work = Work {
            ends,
            ways,
            pool: Vec::new(),
            origin: Instant::now(),
            orders: of_thread,
            wake: Arc::clone(&wake),
            is_gone: false,
        };
        let thread = std::thread::Builder::new().name("link".into());
        let thread = thread.spawn(move || work.run()).map_err(io)?;
        let pump = Pump { orders, wake, thread: Some(thread) };
        // It answers when it carries packets.
        let _ = pump.report(Way::Uplink);
        Ok(pump)
    }

    /// Changes a way from now on.
    pub fn change(&self, way: Way, change: Change) {
        self.order(Order::Change(way, change));
    }

    /// What a way has done so far; `None` if the thread has ended, which only a mistake of ours can do.
    pub fn report(&self, way: Way) -> Option<Report> {
        let (sender, report) = mpsc::channel();
        self.order(Order::Report(way, sender));
        report.recv().ok()
    }

    fn order(&self, order: Order) {
        // Fails only where the thread has ended.
        let _ = self.orders.send(order);
        // Fails only where a wake is already waiting.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// A packet's bytes.
struct Buffer {
    length: usize,
    bytes: Box<[u8; PACKET_MAX]>,
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer { length: 0, bytes: Box::new([0; PACKET_MAX]) }
    }
}

/// One way: the model, and how well it was kept to.
struct Carrier {
    direction: Direction<Buffer>,
    refused: u64,
    lateness: Histogram<u64>,
}

impl Carrier {
    fn new(options: Options, seed: u64) -> Carrier {
        let direction = Direction::new(options, seed);
        Carrier { direction, refused: 0, lateness: lateness() }
    }

    fn report(&self) -> Report {
        let counts = self.direction.counts();
        Report { counts, refused: self.refused, lateness: self.lateness.clone() }
    }
}

/// From a microsecond to ten seconds, within a percent.
fn lateness() -> Histogram<u64> {
    Histogram::new_with_bounds(1000, 10_000_000_000, 2).expect("constant bounds are in order")
}

/// All that the thread has.
struct Work {
    ends: [Tun; 2],
    ways: [Carrier; 2],
    pool: Vec<Buffer>,
    origin: Instant,
    orders: Receiver<Order>,
    wake: Arc<OwnedFd>,
    /// A device was taken away with its host: nothing can come any more.
    is_gone: bool,
}

impl Work {
    fn run(mut self) {
        urgent();
        loop {
            while let Ok(order) = self.orders.try_recv() {
                match order {
                    Order::Change(way, change) => {
                        let now = self.now();
                        self.ways[way as usize].direction.change(now, change);
                    }
                    // Who asked may have gone.
                    Order::Report(way, to) => drop(to.send(self.ways[way as usize].report())),
                    Order::Stop => return,
                }
            }
            let mut has_more = false;
            for way in Way::ALL {
                has_more |= self.read(way) == BATCH;
                self.write(way);
            }
            if !has_more {
                self.wait();
            }
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// Takes what the sending end has, a batch at most; answers how many.
    fn read(&mut self, way: Way) -> usize {
        for count in 0..BATCH {
            let mut buffer = self.pool.pop().unwrap_or_default();
            // An error is "nothing there", or a device that was taken down.
            let Ok(length) = self.ends[way as usize].read(&mut buffer.bytes[..]) else {
                self.pool.push(buffer);
                return count;
            };
            buffer.length = length;
            let now = self.now();
            self.ways[way as usize].direction.offer(now, length as u64, buffer);
        }
        BATCH
    }

    /// Gives the receiving end what is due.
    fn write(&mut self, way: Way) {
        let end = &self.ends[1 - way as usize];
        let carrier = &mut self.ways[way as usize];
        loop {
            let now = Time::ZERO + self.origin.elapsed();
            let item = match carrier.direction.poll(now) {
                Some(Outcome::Arrived { at, item }) => {
                    match end.write(&item.bytes[..item.length]) {
                        Ok(()) => {
                            let late = u64::try_from(now.since(at).as_nanos()).unwrap_or(u64::MAX);
                            carrier.lateness.saturating_record(late);
                        }
                        Err(_) => carrier.refused += 1,
                    }
                    item
                }
                Some(Outcome::Lost { item, .. }) => item,
                None => break,
            };
            self.pool.push(item);
        }
    }

    /// Until something is due, comes, or is ordered.
    fn wait(&mut self) {
        let next = self.ways.iter().filter_map(|way| way.direction.next_timeout()).min();
        let now = self.now();
        let wait = next.map_or(LONGEST_WAIT, |next| next.since(now).min(LONGEST_WAIT));
        if wait.is_zero() {
            return;
        }
        let timeout = Timespec::try_from(wait).ok();
        let file = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let [first, second] = &self.ends;
        let mut files = [file(self.wake.as_fd()), file(first.as_fd()), file(second.as_fd())];
        let count = if self.is_gone { 1 } else { files.len() };
        // An interrupted wait is a short one.
        let _ = poll(&mut files[..count], timeout.as_ref());
        let [wake, first, second] = files.map(|file| file.revents());
        self.is_gone |= (first | second).contains(PollFlags::ERR);
        if !wake.is_empty() {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
    }
}
