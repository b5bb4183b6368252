//! Two ends of a link, the ways between them, and who else uses those: virtual time, seeded.
//!
//! Records come to the first end and go to the second. What must hold is checked at every step: each record comes
//! once, whole and in its stream's order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tidegate_link::packet::Custody;
use tidegate_link::{
    Link, LinkEvent, LinkOptions, OfferError, Outgoing, PathHealth, PathOptions, READ_MAX,
};
use tidegate_types::record::Fate;
use tidegate_types::units::{Size, Time};

use super::neighbour::Neighbour;
use super::way::{Parcel, Way};

/// What lies below a packet on the wire: IP, UDP, and a QUIC datagram with its seal.
pub const OVERHEAD: u64 = 60;
/// More than this in one go is an endless loop.
const POLLS_MAX: usize = 1_000_000;
/// Bytes of a record that say which it is.
const NAME: usize = 16;
/// Added to the clock of the second end: clocks of two hosts began at different times.
const SKEW: Duration = Duration::from_secs(5000);

/// Where the packets of a path go in one direction.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The way: paths may share one.
    pub way: usize,
    pub beyond: Duration,
}

/// A record that came.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    pub at: Time,
    /// Since it was offered.
    pub latency: Duration,
    /// Its bytes.
    pub size: usize,
    /// What the load called it.
    pub kind: u8,
}

/// A record that was offered and has no fate.
#[derive(Clone, Copy, Debug)]
struct Owed {
    stream: u64,
    offered: Time,
    kind: u8,
    size: usize,
    has_come: bool,
    /// The first end knows that it has come.
    is_known: bool,
}

/// A record to be carried.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub stream: u64,
    /// Its bytes.
    pub size: usize,
    /// How long it may take.
    pub bound: Duration,
    /// A name for its figures.
    pub kind: u8,
}

#[derive(Debug)]
pub struct World {
    pub ends: [Link; 2],
    pub now: Time,
    /// Records that came, in that order.
    pub came: Vec<Came>,
    /// Bytes of them.
    pub bytes: u64,
    /// Those whose arrival the first end knows of: when, and how long that took.
    pub known: Vec<(Time, Duration)>,
    /// What paths did at the first end.
    pub turns: Vec<(Time, usize, PathHealth)>,
    /// Bytes that the first end sent, all paths and all that lies below included.
    pub sent: u64,
    /// Who else uses the ways.
    pub neighbours: Vec<Neighbour>,
    /// Records that wait before the link, by deadline: each stream's have one bound, so its order is kept.
    waiting: BTreeSet<(Time, u64)>,
    routes: Vec<[Route; 2]>,
    pub ways: Vec<Way>,
    /// What is beyond its way, by arrival.
    beyond: BTreeMap<(Time, u64), Parcel>,
    parcels: u64,
    owed: BTreeMap<u64, Owed>,
    last: u64,
    /// Last record of each stream that came.
    order: BTreeMap<u64, u64>,
    memory: [(Size, Size); 2],
    pattern: Vec<u8>,
}

impl World {
    /// Both ends with these options; path n takes the routes there and back of place n.
    pub fn new(options: &LinkOptions, ways: Vec<Way>, routes: Vec<[Route; 2]>) -> Self {
        let end = |incarnation| LinkOptions { incarnation, paths: routes.len(), ..options.clone() };
        let now = Time::from_millis(1000);
        let mut ends = [Link::new(end(11)), Link::new(end(22))];
        for path in 0..routes.len() {
            ends[0].path_up(path, now, PathOptions::default());
            ends[1].path_up(path, now + SKEW, PathOptions::default());
        }
        World {
            ends,
            now,
            came: Vec::new(),
            bytes: 0,
            known: Vec::new(),
            turns: Vec::new(),
            sent: 0,
            neighbours: Vec::new(),
            waiting: BTreeSet::new(),
            routes,
            ways,
            beyond: BTreeMap::new(),
            parcels: 0,
            owed: BTreeMap::new(),
            last: 0,
            order: BTreeMap::new(),
            memory: [(options.memory, options.receive_window); 2],
            pattern: (0..1 << 17).map(|byte: u32| (byte ^ byte >> 8) as u8).collect(),
        }
    }

    fn clock(&self, end: usize) -> Time {
        if end == 0 { self.now } else { self.now + SKEW }
    }

    /// A record waits to be offered, and is owed from now on.
    pub fn submit(&mut self, job: Job) {
        let Job { stream, size, bound, kind } = job;
        self.last += 1;
        let size = size.max(NAME);
        let owed = Owed { stream, offered: self.now, kind, size, has_come: false, is_known: false };
        self.owed.insert(self.last, owed);
        self.waiting.insert((self.now + bound, self.last));
        self.feed();
    }

    /// Records that wait before the link.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Records that were submitted and have not come.
    pub fn missing(&self) -> usize {
        self.owed.values().filter(|owed| !owed.has_come).count()
    }

    /// Offers what the link has room for.
    fn feed(&mut self) {
        while self.ends[0].room() > Size::ZERO
            && let Some(&(deadline, token)) = self.waiting.first()
        {
            let Owed { stream, size, .. } = self.owed[&token];
            let content = content(&self.pattern, token, stream, size);
            let outgoing = Outgoing { token, stream, content, deadline, expires: None };
            match self.ends[0].offer(outgoing) {
                Ok(()) => drop(self.waiting.pop_first()),
                Err(OfferError::Full) => return,
                Err(OfferError::Oversize) => panic!("{size} bytes are too many"),
            }
        }
    }

    /// Lets all say and do what they can now.
    fn pump(&mut self) {
        for _ in 0..POLLS_MAX {
            let mut is_busy = false;
            self.feed();
            for end in 0..2 {
                let now = self.clock(end);
                for path in 0..self.routes.len() {
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
            for flow in 0..self.neighbours.len() {
                while let Some(number) = self.neighbours[flow].poll(self.now) {
                    let bytes = self.neighbours[flow].packet();
                    let way = self.neighbours[flow].route().way;
                    self.ways[way].offer(self.now, bytes, Parcel::Neighbour { flow, number });
                }
            }
            if !is_busy {
                return self.check();
            }
        }
        panic!("the link never comes to rest");
    }

    fn carry(&mut self, end: usize, path: usize, packet: Vec<u8>) {
        let bytes = packet.len() as u64 + OVERHEAD;
        self.sent += if end == 0 { bytes } else { 0 };
        let way = self.routes[path][end].way;
        self.ways[way].offer(self.now, bytes, Parcel::Link { to: 1 - end, path, packet });
    }

    fn event(&mut self, end: usize, event: LinkEvent) {
        match event {
            LinkEvent::Arrived { record, content } => {
                self.take(&content);
                self.ends[end].settle(record, Custody::Held);
                self.ends[end].settle(record, Custody::Final(Fate::Confirmed));
            }
            LinkEvent::Delivered { token } => self.known(token),
            LinkEvent::Custody { token, custody, .. } => {
                assert!(self.owed[&token].has_come, "{token} is answered for before it came");
                // Its word may come before the acknowledgement of what it stands for.
                self.known(token);
                if custody != Custody::Held {
                    self.owed.remove(&token);
                }
            }
            LinkEvent::Path { path, state } if end == 0 => self.turns.push((self.now, path, state)),
            LinkEvent::Path { .. } => {}
            LinkEvent::Expired { .. } | LinkEvent::Restarted { .. } => {
                panic!("nothing of the kind")
            }
        }
    }

    /// The first end knows from now on that a record has come.
    fn known(&mut self, token: u64) {
        if let Some(owed) = self.owed.get_mut(&token).filter(|owed| !owed.is_known) {
            owed.is_known = true;
            self.known.push((self.now, self.now.since(owed.offered)));
        }
    }

    /// A record came: it is whole, new, and in its stream's order.
    fn take(&mut self, bytes: &Bytes) {
        let number = |at: usize| {
            let bytes: [u8; 8] = std::array::from_fn(|place| bytes[at + place]);
            u64::from_le_bytes(bytes)
        };
        let (token, stream) = (number(0), number(8));
        assert!(*bytes == content(&self.pattern, token, stream, bytes.len()), "{token} is damaged");
        let owed = self.owed.get_mut(&token).unwrap_or_else(|| panic!("{token} is not owed"));
        assert!(!owed.has_come && owed.stream == stream, "{token} came twice");
        owed.has_come = true;
        let last = self.order.insert(stream, token).unwrap_or(0);
        assert!(last < token, "{token} came after {last} of stream {stream}");
        let latency = self.now.since(owed.offered);
        self.came.push(Came { at: self.now, latency, size: owed.size, kind: owed.kind });
        self.bytes += bytes.len() as u64;
    }

    fn check(&self) {
        for (end, (memory, window)) in self.ends.iter().zip(self.memory) {
            let (sending, receiving) = end.held();
            assert!(sending <= memory && receiving <= window + READ_MAX, "bounds hold");
            assert_eq!(end.counts().refused, 0, "an honest peer keeps to the window");
        }
    }

    fn next(&self) -> Option<Time> {
        let ways = self.ways.iter().filter_map(Way::next_timeout).min();
        let beyond = self.beyond.first_key_value().map(|(&(at, _), _)| at);
        let near = self.ends[0].next_timeout();
        let far = self.ends[1].next_timeout().map(|at| at - SKEW);
        let neighbours =
            self.neighbours.iter().filter_map(|flow| flow.next_timeout(self.now)).min();
        let all = [ways, beyond, near, far, neighbours];
        all.into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// What has left its way goes on to its end.
    fn move_on(&mut self) {
        for way in 0..self.ways.len() {
            while let Some(parcel) = self.ways[way].poll(self.now) {
                let beyond = match &parcel {
                    Parcel::Link { to, path, .. } => self.routes[*path][1 - to].beyond,
                    Parcel::Neighbour { flow, .. } => self.neighbours[*flow].route().beyond,
                };
                self.parcels += 1;
                self.beyond.insert((self.now + beyond, self.parcels), parcel);
            }
        }
        while let Some(entry) = self.beyond.first_entry().filter(|entry| entry.key().0 <= self.now)
        {
            match entry.remove() {
                Parcel::Link { to, path, packet } => {
                    let now = self.clock(to);
                    let result = self.ends[to].receive(path, &packet, now);
                    result.unwrap_or_else(|error| panic!("our own packet: {error}"));
                }
                Parcel::Neighbour { flow, number } => self.neighbours[flow].came(self.now, number),
            }
        }
    }

    pub fn run_until(&mut self, end: Time) {
        self.pump();
        let mut stalls = 0;
        while let Some(at) = self.next().filter(|&at| at <= end) {
            stalls = if at == self.now { stalls + 1 } else { 0 };
            assert!(stalls < POLLS_MAX, "time stands still at {at:?}");
            self.now = at;
            self.move_on();
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
}

/// A record's bytes: its name, and a part of the pattern that depends on it.
fn content(pattern: &[u8], token: u64, stream: u64, size: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(&token.to_le_bytes());
    bytes.extend_from_slice(&stream.to_le_bytes());
    let from = (token % 251) as usize;
    bytes.extend(pattern[from..].iter().cycle().take(size - NAME));
    bytes.into()
}
