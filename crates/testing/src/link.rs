//! Two ends of a link in virtual time, the paths between them, and what must hold at every step.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use tidegate_link::packet::Custody;
use tidegate_link::{
    Link, LinkEvent, LinkOptions, OfferError, Outgoing, PathHealth, PathOptions, READ_MAX,
};
use tidegate_types::random::SplitMix;
use tidegate_types::record::Fate;
use tidegate_types::units::{Rate, Size, Time};

/// What lies below a packet on the wire: IP, UDP, and a QUIC datagram with its seal.
pub const OVERHEAD: usize = 60;
/// More than this in one go is an endless loop.
const POLLS_MAX: usize = 1_000_000;
/// Bytes of a record that say which it is.
pub const NAME: usize = 16;

/// One direction of a path.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// What the bottleneck carries.
    pub rate: Rate,
    /// From the bottleneck's end to the far end.
    pub delay: Duration,
    /// What may stand before the bottleneck; more is dropped.
    pub queue: Size,
    /// Part of the packets that are lost behind the bottleneck.
    pub loss: f64,
    /// Mean length of a loss in packets: 1 is independent loss.
    pub burst: f64,
    /// Part of the packets that arrive twice.
    pub twice: f64,
    /// A packet is late by up to this, and so may be overtaken.
    pub jitter: Duration,
    /// Whether anything arrives at all.
    pub is_alive: bool,
}

impl Way {
    /// Megabits, milliseconds one way, kilobytes of queue, and independent loss.
    pub fn new(mbit: f64, delay_ms: u64, queue_kb: u64, loss: f64) -> Self {
        Way {
            rate: Rate::from_bits(mbit * 1e6),
            delay: Duration::from_millis(delay_ms),
            queue: Size(queue_kb * 1000),
            loss,
            burst: 1.0,
            twice: 0.0,
            jitter: Duration::ZERO,
            is_alive: true,
        }
    }
}

/// A direction and its state.
#[derive(Clone, Debug)]
struct Wire {
    way: Way,
    /// When the bottleneck has sent all that stands before it.
    free_at: Time,
    in_burst: bool,
}

impl Wire {
    /// When a packet that goes now arrives: never, once or twice.
    fn carry(&mut self, now: Time, bytes: usize, seeded: &mut SplitMix) -> Vec<Time> {
        let Way { rate, delay, queue, loss, burst, twice, jitter, is_alive } = self.way;
        let size = Size((bytes + OVERHEAD) as u64);
        if rate.in_span(self.free_at.since(now)) + size > queue || !is_alive {
            return Vec::new();
        }
        self.free_at = self.free_at.max(now) + rate.time_for(size);
        // Two states (Gilbert): a burst ends with 1 / its mean length, and begins so often that `loss`
        // of all packets are in one.
        let leaves = 1.0 / burst;
        let enters = leaves * loss / (1.0 - loss);
        let turn = seeded.share();
        self.in_burst = if self.in_burst { turn >= leaves } else { turn < enters };
        let copies = if self.in_burst { 0 } else { 1 + usize::from(seeded.share() < twice) };
        let arrival = |_| self.free_at + delay + jitter.mul_f64(seeded.share());
        (0..copies).map(arrival).collect()
    }
}

/// A record that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// When.
    pub at: Time,
    /// Its stream.
    pub stream: u64,
    /// Since it was submitted.
    pub latency: Duration,
}

/// A record that was offered.
#[derive(Clone, Copy, Debug)]
struct Owed {
    stream: u64,
    offered: Time,
    deadline: Time,
    has_arrived: bool,
}

/// Two ends and all between them. End 0 offers and end 1 takes, unless told otherwise.
#[derive(Debug)]
pub struct LinkWorld {
    /// Both ends.
    pub ends: [Link; 2],
    /// The virtual clock.
    pub now: Time,
    /// Records that wait before each link, until it has room: (token, stream, size).
    pub ahead: [VecDeque<(u64, u64, usize)>; 2],
    /// Each record that arrived, in that order.
    pub came: Vec<Came>,
    /// Bytes of records that arrived.
    pub arrived: Size,
    /// Fates that came back, by kind of end.
    pub confirmed: u64,
    /// Records that expired.
    pub expired: u64,
    /// What paths did at end 0.
    pub turns: Vec<(Time, usize, PathHealth)>,
    /// How long a record that is submitted now may take by its sender's wish.
    pub bound: Duration,
    /// Added to the clock of end 1: clocks of two hosts began at different times.
    pub skew: Duration,
    options: [LinkOptions; 2],
    wires: Vec<[Wire; 2]>,
    under_way: BTreeMap<(Time, u64), (usize, usize, Vec<u8>)>,
    sent: u64,
    seeded: SplitMix,
    owed: BTreeMap<u64, Owed>,
    last_token: u64,
    /// Last token of each stream that arrived.
    order: BTreeMap<(usize, u64), u64>,
}

impl LinkWorld {
    /// Both ends with these options, joined by these paths, all up from the beginning.
    pub fn new(options: &LinkOptions, ways: &[[Way; 2]], seed: u64) -> Self {
        let end = |incarnation| LinkOptions { incarnation, paths: ways.len(), ..options.clone() };
        let options = [end(11), end(22)];
        let wire = |way: Way| Wire { way, free_at: Time::ZERO, in_burst: false };
        let mut world = LinkWorld {
            ends: [Link::new(options[0].clone()), Link::new(options[1].clone())],
            now: Time::from_millis(1000),
            ahead: [VecDeque::new(), VecDeque::new()],
            came: Vec::new(),
            arrived: Size::ZERO,
            confirmed: 0,
            expired: 0,
            turns: Vec::new(),
            bound: Duration::from_millis(500),
            skew: Duration::from_secs(5000),
            options,
            wires: ways.iter().map(|[there, back]| [wire(*there), wire(*back)]).collect(),
            under_way: BTreeMap::new(),
            sent: 0,
            seeded: SplitMix(seed),
            owed: BTreeMap::new(),
            last_token: 0,
            order: BTreeMap::new(),
        };
        (0..ways.len()).for_each(|path| world.path_up(path, PathOptions::default()));
        world
    }

    fn clock(&self, end: usize) -> Time {
        if end == 0 { self.now } else { self.now + self.skew }
    }

    /// Both ends have this path (again).
    pub fn path_up(&mut self, path: usize, options: PathOptions) {
        for end in 0..2 {
            let now = self.clock(end);
            self.ends[end].path_up(path, now, options);
        }
        self.pump();
    }

    /// From now on the path is so, in both directions.
    pub fn change(&mut self, path: usize, change: impl Fn(&mut Way)) {
        self.wires[path].iter_mut().for_each(|wire| change(&mut wire.way));
    }

    /// The path carries nothing from now on, and what is on it is lost; or it works again.
    pub fn kill(&mut self, path: usize, is_alive: bool) {
        self.change(path, |way| way.is_alive = is_alive);
        if !is_alive {
            self.under_way.retain(|_, (_, other, _)| *other != path);
        }
    }

    /// A record waits to be offered at this end, and is owed from now on.
    pub fn submit(&mut self, end: usize, stream: u64, size: usize) {
        self.last_token += 1;
        let deadline = self.now + self.bound;
        let owed = Owed { stream, offered: self.now, deadline, has_arrived: false };
        self.owed.insert(self.last_token, owed);
        self.ahead[end].push_back((self.last_token, stream, size.max(NAME)));
        self.feed(end);
    }

    /// Offers what the link has room for.
    fn feed(&mut self, end: usize) {
        while self.ends[end].room() > Size::ZERO
            && let Some(&(token, stream, size)) = self.ahead[end].front()
        {
            let deadline = self.owed[&token].deadline;
            let content = content(token, stream, size);
            let outgoing = Outgoing { token, stream, content, deadline, expires: None };
            match self.ends[end].offer(outgoing) {
                Ok(()) => drop(self.ahead[end].pop_front()),
                Err(OfferError::Full) => return,
                Err(OfferError::Oversize) => panic!("{size} bytes are too many"),
            }
        }
    }

    /// Lets both ends say and do all that they can now.
    pub fn pump(&mut self) {
        for _ in 0..POLLS_MAX {
            let mut is_busy = false;
            for end in 0..2 {
                self.feed(end);
                let now = self.clock(end);
                for path in 0..self.wires.len() {
                    while let Some(packet) = self.ends[end].poll_transmit(path, now) {
                        is_busy = true;
                        self.carry(end, path, packet);
                    }
                }
                while let Some(event) = self.ends[end].poll_event() {
                    is_busy = true;
                    self.event(end, event);
                }
            }
            self.check();
            if !is_busy {
                return;
            }
        }
        panic!("the link never comes to rest");
    }

    fn carry(&mut self, end: usize, path: usize, packet: Vec<u8>) {
        assert!(packet.len() <= self.options[end].packet_max, "{} bytes", packet.len());
        let wire = &mut self.wires[path][end];
        for at in wire.carry(self.now, packet.len(), &mut self.seeded) {
            self.sent += 1;
            self.under_way.insert((at, self.sent), (1 - end, path, packet.clone()));
        }
    }

    fn event(&mut self, end: usize, event: LinkEvent) {
        match event {
            LinkEvent::Arrived { record, content } => {
                self.take(end, &content);
                self.ends[end].settle(record, Custody::Held);
                self.ends[end].settle(record, Custody::Final(Fate::Confirmed));
            }
            LinkEvent::Custody { token, custody, .. } => {
                assert!(self.owed[&token].has_arrived, "{token} is answered for before it came");
                if custody != Custody::Held {
                    self.owed.remove(&token);
                    self.confirmed += 1;
                }
            }
            LinkEvent::Expired { token } => {
                assert!(self.owed.remove(&token).is_some_and(|owed| !owed.has_arrived));
                self.expired += 1;
            }
            LinkEvent::Path { path, state } if end == 0 => self.turns.push((self.now, path, state)),
            LinkEvent::Delivered { .. } | LinkEvent::Path { .. } => {}
            LinkEvent::Restarted { .. } => panic!("nobody restarted"),
        }
    }

    /// A record came: it is whole, new, and in its stream's order.
    fn take(&mut self, end: usize, bytes: &Bytes) {
        let number =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
        let (token, stream) = (number(0), number(8));
        assert_eq!(*bytes, content(token, stream, bytes.len()), "record {token} is damaged");
        let owed = self.owed.get_mut(&token).unwrap_or_else(|| panic!("{token} is not owed"));
        assert!(!owed.has_arrived, "{token} came twice");
        assert_eq!(owed.stream, stream);
        owed.has_arrived = true;
        let last = self.order.insert((end, stream), token).unwrap_or(0);
        assert!(last < token, "{token} came after {last} of stream {stream}");
        let latency = self.now.since(owed.offered);
        self.came.push(Came { at: self.now, stream, latency });
        self.arrived += Size(bytes.len() as u64);
    }

    fn check(&self) {
        for (end, options) in self.ends.iter().zip(&self.options) {
            let (sending, receiving) = end.held();
            assert!(sending <= options.memory && receiving <= options.receive_window + READ_MAX);
            assert!(end.unsettled() <= options.unsettled_max);
            assert_eq!(end.counts().refused, 0, "an honest peer keeps to the window");
        }
    }

    /// When something happens next.
    fn next(&self) -> Option<Time> {
        let arrival = self.under_way.first_key_value().map(|(&(at, _), _)| at);
        let near = self.ends[0].next_timeout();
        let far = self.ends[1].next_timeout().map(|at| at - self.skew);
        [arrival, near, far].into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// Runs until `end`, or until nothing is left to happen.
    pub fn run_until(&mut self, end: Time) {
        self.pump();
        let mut stalls = 0;
        while let Some(at) = self.next().filter(|&at| at <= end) {
            stalls = if at == self.now { stalls + 1 } else { 0 };
            assert!(stalls < POLLS_MAX, "time stands still at {at:?}");
            self.now = at;
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= at)
            {
                let (to, path, packet) = entry.remove();
                let now = self.clock(to);
                let result = self.ends[to].receive(path, &packet, now);
                result.unwrap_or_else(|error| panic!("our own packet: {error}"));
            }
            for end in 0..2 {
                let now = self.clock(end);
                if self.ends[end].next_timeout().is_some_and(|at| at <= now) {
                    self.ends[end].tick(now);
                }
            }
            self.pump();
        }
        self.now = end;
    }

    /// Runs for so long.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// Records that were submitted and have neither arrived nor expired.
    pub fn missing(&self) -> usize {
        self.owed.values().filter(|owed| !owed.has_arrived).count()
    }

    /// Records without a fate.
    pub fn unsettled(&self) -> usize {
        self.owed.len()
    }

    /// Percentile (0..=100) of the latencies of records that arrived from `since` on, of one stream or of all.
    pub fn latency(&self, since: Time, percent: f64, stream: Option<u64>) -> Duration {
        let is_meant =
            |came: &&Came| came.at >= since && stream.is_none_or(|stream| stream == came.stream);
        let mut sorted: Vec<Duration> =
            self.came.iter().filter(is_meant).map(|came| came.latency).collect();
        sorted.sort_unstable();
        let place = ((sorted.len().max(1) - 1) as f64 * percent / 100.0).round() as usize;
        sorted.get(place).copied().unwrap_or_default()
    }

    /// Bytes of packets that an end sent, but for acknowledgements.
    pub fn sent(&self, end: usize) -> Size {
        let paths = 0..self.wires.len();
        paths.map(|path| self.ends[end].path_status(path).counts.bytes).sum()
    }
}

/// A record's bytes: its name, and a pattern that no other has at the same place.
fn content(token: u64, stream: u64, size: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(&token.to_le_bytes());
    bytes.extend_from_slice(&stream.to_le_bytes());
    let rest = size - NAME;
    bytes.extend((0..rest).map(|at| (at as u64 ^ token.wrapping_mul(31)) as u8));
    bytes.into()
}
