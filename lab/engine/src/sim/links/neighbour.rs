//! A connection of somebody else that shares a way: it has always something to send, and gives way as its law has it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidegate_capacity::pace::Pacer;
use tidegate_capacity::{self as capacity, Ack, RateController, RateControllerName};
use tidegate_node::options::UplinkOptions;
use tidegate_types::units::{Rate, Size, Time};

use super::super::cubic::Cubic;
use super::world::Route;

/// A packet with its headers.
const PACKET: u64 = 1500;
/// A packet is lost when one that was sent so many later has come.
const REORDER: u64 = 3;
/// Shortest time-out, as Linux has it.
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// Round trip that is taken for one that is not known.
const RTT_GUESS: Duration = Duration::from_millis(200);

/// What its window follows.
#[derive(Debug)]
enum Control {
    Cubic(Cubic),
    Law(Box<dyn RateController>),
}

/// A packet under way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    delivered: Size,
    reached_at: Time,
}

/// The connection, both ends of it.
#[derive(Debug)]
pub struct Neighbour {
    route: Route,
    /// What an acknowledgement takes: its way is empty.
    back: Duration,
    from: Time,
    control: Control,
    /// What its application sends at most; zero: as much as its window lets.
    most: Rate,
    pacer: Pacer,
    next: u64,
    flight: BTreeMap<u64, Sent>,
    acks: VecDeque<(Time, u64)>,
    /// Bytes acknowledged, and since when it has been so many.
    delivered: Size,
    reached_at: Time,
    rtt: Option<Duration>,
    /// Losses of packets before this one are of the same round.
    recover: u64,
    heard_at: Time,
}

impl Neighbour {
    /// A connection that begins at `from`, with CUBIC.
    pub fn cubic(route: Route, back: Duration, from: Time) -> Self {
        Neighbour::new(route, back, from, Control::Cubic(Cubic::new()))
    }

    /// A connection that begins at `from`, with BBR.
    pub fn bbr(route: Route, back: Duration, from: Time) -> Self {
        let name = "neighbour".into();
        let options = UplinkOptions {
            name,
            controller: RateControllerName::Bbr,
            cap: None,
            ..UplinkOptions::default()
        };
        Neighbour::new(route, back, from, Control::Law(capacity::build(&options)))
    }

    fn new(route: Route, back: Duration, from: Time, control: Control) -> Self {
        Neighbour {
            route,
            back,
            from,
            control,
            most: Rate::ZERO,
            pacer: Pacer::default(),
            next: 0,
            flight: BTreeMap::new(),
            acks: VecDeque::new(),
            delivered: Size::ZERO,
            reached_at: from,
            rtt: None,
            recover: 0,
            heard_at: from,
        }
    }

    /// The same with no more to send than so much.
    pub fn at_most(self, most: Rate) -> Self {
        Neighbour { most, ..self }
    }

    /// Where its packets go.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Bytes of a packet.
    pub fn packet(&self) -> u64 {
        PACKET
    }

    /// Bytes acknowledged so far.
    pub fn delivered(&self) -> u64 {
        self.delivered.0
    }

    /// A packet has come to the far end.
    pub fn came(&mut self, now: Time, number: u64) {
        self.acks.push_back((now + self.back, number));
    }

    /// Hears what is due, and answers the next packet that may go.
    pub fn poll(&mut self, now: Time) -> Option<u64> {
        while self.acks.front().is_some_and(|(at, _)| *at <= now) {
            let (_, number) = self.acks.pop_front()?;
            self.acked(now, number);
        }
        if now < self.from {
            return None;
        }
        if self.timeout_at().is_some_and(|at| at <= now) {
            self.timed_out(now);
        }
        let under_way = self.flight.len() as f64;
        if under_way > 0.0 && under_way + 1.0 > self.window() || self.free_at(now) > now {
            return None;
        }
        if self.flight.is_empty() {
            (self.reached_at, self.heard_at) = (now, now);
        }
        let pace = self.pace();
        self.pacer.spend(now, pace, Size(PACKET));
        let sent = Sent { at: now, delivered: self.delivered, reached_at: self.reached_at };
        self.flight.insert(self.next, sent);
        let in_flight = self.in_flight();
        if let Control::Law(law) = &mut self.control {
            law.sent(now, Size(PACKET), in_flight);
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// When to poll at the latest.
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let ack = self.acks.front().map(|(at, _)| *at);
        let has_room = self.flight.len() as f64 + 1.0 <= self.window();
        let free = has_room.then(|| self.free_at(now).max(self.from));
        [ack, free, self.timeout_at()].into_iter().flatten().min()
    }

    fn in_flight(&self) -> Size {
        Size(self.flight.len() as u64 * PACKET)
    }

    fn window(&self) -> f64 {
        match &self.control {
            Control::Cubic(cubic) => cubic.window(),
            Control::Law(law) => law.window().as_f64() / PACKET as f64,
        }
    }

    fn pace(&self) -> Rate {
        match &self.control {
            Control::Cubic(_) => self.most,
            Control::Law(law) => law.pace(),
        }
    }

    fn free_at(&self, now: Time) -> Time {
        self.pacer.next_free(now, self.pace())
    }

    fn timeout_at(&self) -> Option<Time> {
        let timeout = (self.rtt.unwrap_or(RTT_GUESS) * 2).max(TIMEOUT_MIN);
        (!self.flight.is_empty()).then(|| self.heard_at + timeout)
    }

    fn acked(&mut self, now: Time, number: u64) {
        let Some(sent) = self.flight.remove(&number) else { return };
        let rtt = now.since(sent.at);
        self.rtt = Some(self.rtt.map_or(rtt, |smoothed| (smoothed * 7 + rtt) / 8));
        self.delivered += Size(PACKET);
        (self.reached_at, self.heard_at) = (now, now);
        let earlier = self.flight.keys().take_while(|&other| other + REORDER <= number);
        let lost: Vec<u64> = earlier.copied().collect();
        let is_new_round = lost.last().is_some_and(|&newest| newest >= self.recover);
        for number in &lost {
            self.flight.remove(number);
        }
        let in_flight = self.in_flight();
        match &mut self.control {
            Control::Cubic(cubic) if is_new_round => cubic.lost(),
            Control::Cubic(cubic) => cubic.acked(now, rtt),
            Control::Law(law) => law.acked(
                now,
                &Ack {
                    rtt,
                    sent_at: sent.at,
                    delivered_at_send: sent.delivered,
                    reached_at: sent.reached_at,
                    delivered: self.delivered,
                    newly: Size(PACKET),
                    in_flight,
                    lost: Size(lost.len() as u64 * PACKET),
                    marked: Size::ZERO,
                    is_timeout: false,
                    app_limited: false,
                },
            ),
        }
        if is_new_round {
            self.recover = self.next;
        }
    }

    /// Nothing was heard for too long: all that is under way counts as lost.
    fn timed_out(&mut self, now: Time) {
        self.flight.clear();
        self.heard_at = now;
        self.recover = self.next;
        if let Control::Cubic(cubic) = &mut self.control {
            cubic.timed_out();
        }
    }
}
