//! One path: its estimates, its virtual queue, what is in flight on it, and whether it works.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_types::units::{Rate, Size, Time};

use super::arrival_delay::ArrivalDelay;
use super::in_flight::{Carried, InFlight, Sent, Settled};
use super::loss_rate::LossRate;
use super::marks::CountedMarks;
use super::options::{LinkOptions, PathCounts, PathHealth, PathOptions};
use super::outbox::PartKey;
use super::outgoing_record::Part;
use super::packet::SelectiveAck;
use super::path_scheduler::PathView;
use super::predict::PredictorName;
use super::rate_control::{Feedback, Mark, PathControl, explains_loss};
use super::received::Received;
use super::round_trip::RoundTrip;

/// Packets without an answer after which a path is silent: at 10 % loss it is one of a thousand times
/// that so many are lost with nothing after them.
const UNANSWERED_MAX: u32 = 3;
/// A path that is silent is asked at least this often whether it works.
const ASK_MAX: Duration = Duration::from_secs(2);
/// A path with nothing to send is asked this often: its delay is known, and its death is noticed.
const KEEPALIVE: Duration = Duration::from_secs(1);
/// Packets that ask a silent path: at 10 % loss one in a hundred questions is lost.
const QUESTIONS: u32 = 2;
/// Packets that a new path is shown at once, so that their spread tells its rate before it is needed.
const TRAIN: u32 = 7;
/// What may be in flight on a silent path, where there is no better one.
const SILENT_WINDOW: Size = Size(3000);

/// The state of one path.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) state: PathHealth,
    pub(super) received: Received,
    pub(super) counts: PathCounts,
    controller: RateControllerName,
    decrease_factor: Option<f64>,
    predictor: PredictorName,
    options: PathOptions,
    next_psn: u64,
    in_flight: InFlight,
    trips: RoundTrip,
    delay: ArrivalDelay,
    loss: LossRate,
    pub(super) control: PathControl,
    /// Bytes found lost that the rate controller has not heard of.
    untold: Size,
    pub(super) marks: CountedMarks,
    queue: BTreeMap<PartKey, Size>,
    queued: Size,
    /// Packets that were not answered in time, without a word since.
    unanswered: u32,
    /// Times that the path was asked in vain since it fell silent.
    timeouts: u32,
    questions: u32,
    /// Packets of the first train that are not sent yet.
    train: u32,
    /// When the path is asked next if nothing else is in flight.
    keepalive: Time,
}

impl Path {
    /// A path that the driver does not have yet.
    pub(super) fn new(options: &LinkOptions) -> Self {
        let LinkOptions { controller, predictor, .. } = *options;
        let on_loss = options.decreases_on_loss;
        let decrease_factor = on_loss.then_some(options.decrease_factor.as_f64());
        Path {
            state: PathHealth::Absent,
            received: Received::default(),
            counts: PathCounts::default(),
            controller,
            decrease_factor,
            predictor,
            options: PathOptions::default(),
            next_psn: 0,
            in_flight: InFlight::default(),
            trips: RoundTrip::default(),
            delay: ArrivalDelay::new(predictor),
            loss: LossRate::default(),
            control: PathControl::new(controller, None, None, decrease_factor),
            untold: Size::ZERO,
            marks: CountedMarks::default(),
            queue: BTreeMap::new(),
            queued: Size::ZERO,
            unanswered: 0,
            timeouts: 0,
            questions: 0,
            train: 0,
            keepalive: Time::FAR,
        }
    }

    /// The driver has the path (again). Its numbers go on; what was measured of an earlier one is void.
    pub(super) fn up(&mut self, now: Time, options: PathOptions) {
        self.options = options;
        (self.trips, self.delay) = (RoundTrip::default(), ArrivalDelay::new(self.predictor));
        self.loss = LossRate::default();
        self.restart(options.remembered);
        (self.state, self.timeouts, self.unanswered) = (PathHealth::Up, 0, 0);
        // A rate that is remembered need not be found out.
        self.train = if options.remembered.is_some() { 1 } else { TRAIN };
        self.keepalive = now + KEEPALIVE;
    }

    fn restart(&mut self, remembered: Option<Rate>) {
        self.control =
            PathControl::new(self.controller, self.options.cap, remembered, self.decrease_factor);
    }

    /// The driver has lost the path. Answers what must go by others.
    pub(super) fn down(&mut self) -> Vec<Carried> {
        self.state = PathHealth::Absent;
        (self.questions, self.train, self.keepalive) = (0, 0, Time::FAR);
        self.give_up()
    }

    /// Drains the queue, and gives up what is in flight.
    fn give_up(&mut self) -> Vec<Carried> {
        let mut carried = self.in_flight.give_up();
        carried.extend(self.drain().into_iter().map(Carried::Part));
        carried
    }

    /// Drains the queue. Answers what was in it.
    pub(super) fn drain(&mut self) -> Vec<Part> {
        self.queued = Size::ZERO;
        std::mem::take(&mut self.queue).into_keys().map(|(_, part)| part).collect()
    }

    /// A part is to go by this path.
    pub(super) fn enqueue(&mut self, key: PartKey, length: Size) {
        if self.queue.insert(key, length).is_none() {
            self.queued += length;
        }
    }

    /// The most urgent part of the queue, and its length.
    pub(super) fn head(&self) -> Option<(Part, Size)> {
        self.queue.first_key_value().map(|(&(_, part), &length)| (part, length))
    }

    /// Takes the most urgent part out of the queue.
    pub(super) fn dequeue(&mut self) {
        if let Some((_, length)) = self.queue.pop_first() {
            self.queued -= length;
        }
    }

    /// A part does not go by this path any more, if it has not gone.
    pub(super) fn forget(&mut self, key: PartKey) {
        if let Some(length) = self.queue.remove(&key) {
            self.queued -= length;
        }
    }

    /// Bytes of the queue that go before a part of this key.
    pub(super) fn queued_before(&self, key: PartKey) -> Size {
        if self.queue.last_key_value().is_none_or(|(last, _)| *last < key) {
            return self.queued;
        }
        self.queue.range(..key).map(|(_, length)| *length).sum()
    }

    /// Bytes of the queue.
    pub(super) fn queued(&self) -> Size {
        self.queued
    }

    /// Whether window and pace let a packet of data go now.
    pub(super) fn is_free(&self, now: Time, packet: Size) -> bool {
        let in_flight = self.in_flight.bytes();
        match self.state {
            PathHealth::Up => {
                self.control.has_room(now, in_flight, packet) && self.control.next_free(now) <= now
            }
            PathHealth::Silent => in_flight + packet <= SILENT_WINDOW,
            PathHealth::Dead | PathHealth::Absent => false,
        }
    }

    /// The number of the next packet.
    pub(super) fn take_psn(&mut self) -> u64 {
        let psn = self.next_psn;
        self.next_psn += 1;
        psn
    }

    /// A packet that asks for an acknowledgement was sent.
    pub(super) fn sent(&mut self, now: Time, psn: u64, size: Size, carried: Vec<Carried>) {
        let is_limited = self.queue.is_empty()
            && self.control.has_room(now, self.in_flight.bytes() + size, size);
        let mark = self.control.sent(now, size, self.in_flight.bytes(), is_limited);
        self.counts.packets += 1;
        self.counts.bytes += size;
        self.in_flight.push(psn, Sent::new(mark, size, carried));
        self.keepalive = now + KEEPALIVE;
    }

    /// Whether the path is to be asked now whether it works.
    pub(super) fn take_question(&mut self) -> bool {
        let asks = self.questions > 0;
        self.questions = self.questions.saturating_sub(1);
        asks
    }

    /// Whether a packet of the first train is to go.
    pub(super) fn has_train(&self) -> bool {
        self.train > 0
    }

    /// Whether the packet that goes now is one of the first train.
    pub(super) fn take_train(&mut self) -> bool {
        let trains = self.has_train();
        self.train = self.train.saturating_sub(1);
        trains
    }

    /// Takes an acknowledgement of this path's packets. Answers whether the path has come back.
    pub(super) fn acked(&mut self, now: Time, ack: &SelectiveAck, outcome: &mut Settled) -> bool {
        if ack.largest() >= self.next_psn {
            return false;
        }
        let newest = self.in_flight.get(ack.largest()).map(|sent| sent.mark);
        let came = self.in_flight.acked(ack);
        if came.is_empty() {
            return false;
        }
        if let Some(mark) = newest {
            self.measure(now, mark, ack);
            outcome.measured = self.delay.last().map(|delay| (mark.at(), delay));
        }
        self.loss.arrived(came.len() as u64);
        let acked: Size = came.iter().map(|sent| sent.size).sum();
        let (marked, last) =
            (self.marks.take(acked, came.len()), came.last().map(|sent| sent.mark));
        outcome.arrived.extend(came.into_iter().flat_map(|sent| sent.carried));
        self.lost(now, outcome);
        if let Some(mark) = newest.or(last) {
            let rtt = self.delay.forward_rtt().unwrap_or(self.trips.smoothed());
            let (in_flight, queue) = (self.in_flight.bytes(), self.delay.queue());
            let lost = std::mem::take(&mut self.untold);
            let received_at = newest.map(|_| ack.received_at);
            let feedback =
                Feedback { mark, rtt, acked, lost, marked, in_flight, queue, received_at };
            self.control.acked(now, &feedback);
        }
        self.heard()
    }

    fn measure(&mut self, now: Time, mark: Mark, ack: &SelectiveAck) {
        let whole = now.since(mark.at());
        let held = Duration::from_micros(ack.delay).min(whole);
        let rtt = whole - held;
        self.trips.push(rtt);
        self.delay.push(now, mark.at(), ack.received_at, rtt);
    }

    /// Finds lost packets.
    fn lost(&mut self, now: Time, outcome: &mut Settled) {
        let lost = self.in_flight.lost(now, self.trips.patience());
        self.counts.lost += lost.len() as u64;
        if explains_loss(self.delay.queue(), self.trips.smoothed()) {
            self.loss.overflowed(now, self.trips.smoothed(), lost.len());
        } else {
            lost.iter().for_each(|_| self.loss.lost());
        }
        self.untold += lost.iter().map(|sent| sent.size).sum();
        outcome.failed.extend(lost.into_iter().flat_map(|sent| sent.carried));
    }

    /// The path has given a sign of life. Answers whether it was dead.
    fn heard(&mut self) -> bool {
        (self.timeouts, self.unanswered) = (0, 0);
        let was_dead = self.state == PathHealth::Dead;
        if was_dead {
            self.restart(Some(self.control.rate()).filter(|rate| !rate.is_zero()));
        }
        if self.state != PathHealth::Absent {
            self.state = PathHealth::Up;
        }
        was_dead
    }

    /// How long an answer may take: longer each time that none came.
    fn answer_time(&self) -> Duration {
        (self.trips.probe_timeout() * (1 << self.timeouts.min(6))).min(ASK_MAX)
    }

    fn answer_due(&self) -> Option<Time> {
        self.in_flight.oldest().map(|at| at + self.answer_time())
    }

    /// Time passes. Answers whether the path has died.
    pub(super) fn tick(&mut self, now: Time, outcome: &mut Settled) -> bool {
        self.control.tick(now);
        if self.state == PathHealth::Absent {
            return false;
        }
        self.lost(now, outcome);
        if self.keepalive <= now && self.in_flight.is_empty() {
            (self.questions, self.keepalive) = (1, now + KEEPALIVE);
            self.loss.age();
        }
        if self.answer_due().is_none_or(|at| at > now) {
            return false;
        }
        self.unanswered(now, outcome);
        self.questions = QUESTIONS;
        let was_dead = self.state == PathHealth::Dead;
        if self.unanswered >= UNANSWERED_MAX {
            self.timeouts += 1;
            self.counts.timeouts += 1;
            outcome.failed.extend(self.give_up());
            self.state = if self.timeouts >= 2 { PathHealth::Dead } else { PathHealth::Silent };
        }
        self.state == PathHealth::Dead && !was_dead
    }

    /// What was not answered in time goes again, at once or when it is hedged.
    fn unanswered(&mut self, now: Time, outcome: &mut Settled) {
        let (carried, count) = self.in_flight.overdue(now - self.answer_time());
        self.unanswered = self.unanswered.saturating_add(count);
        outcome.overdue.extend(carried);
        outcome.rtt = self.trips.smoothed();
    }

    /// When `tick` must be called next.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        if self.state == PathHealth::Absent {
            return None;
        }
        let loss = self.in_flight.loss_timeout(self.trips.patience());
        let keepalive = Some(self.keepalive).filter(|_| self.in_flight.is_empty());
        let times = [loss, self.answer_due(), keepalive, self.control.next_timeout()];
        times.into_iter().flatten().min()
    }

    /// When the pace lets a packet go that the window has room for; `None` where only an acknowledgement helps.
    pub(super) fn next_free(&self, now: Time, packet: Size) -> Option<Time> {
        let has_room = self.control.has_room(now, self.in_flight.bytes(), packet);
        (self.state == PathHealth::Up && has_room).then(|| self.control.next_free(now))
    }

    /// Least arrival delay on the clocks of both ends, and half the least round trip: seconds.
    pub(super) fn origin(&self) -> Option<(f64, f64)> {
        let half = self.trips.least()? / 2;
        Some((self.delay.least()?, half.as_secs_f64()))
    }

    /// The path as a scheduler sees it. `origin` is that of the shortest path.
    pub(super) fn view(&self, now: Time, path: usize, origin: Option<(f64, f64)>) -> PathView {
        let srtt = self.trips.smoothed().as_secs_f64();
        let known = self.delay.predicted().zip(origin);
        let predicted_delay =
            known.map_or(srtt / 2.0, |(delay, (least, half))| delay - least + half);
        PathView {
            path,
            predicted_delay,
            srtt,
            rtt_variation: self.trips.variation().as_secs_f64(),
            min_rtt: self.trips.least().map_or(srtt, |least| least.as_secs_f64()),
            window: self.control.window(now).as_f64(),
            window_top: self.control.window_top(),
            in_flight: self.in_flight.bytes().as_f64(),
            queued: self.queued.as_f64(),
            pace: self.control.pace(now).as_f64(),
            loss_rate: self.loss.cautious(),
            detection: srtt,
        }
    }

    /// The estimated capacity.
    pub(super) fn rate(&self) -> Rate {
        self.control.rate()
    }

    /// Bytes that may be unacknowledged.
    pub(super) fn window(&self, now: Time) -> Size {
        self.control.window(now)
    }

    /// Loss rate ρ.
    pub(super) fn loss_rate(&self) -> f64 {
        self.loss.get()
    }

    /// Smoothed round trip, and the time that packets stand in queues on the way to the peer.
    pub(super) fn times(&self) -> (Option<Duration>, Duration) {
        let queue = Duration::try_from_secs_f64(self.delay.queue()).unwrap_or_default();
        (self.trips.measured(), queue)
    }
}
