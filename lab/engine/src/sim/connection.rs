//! One connection over the link: packets, acknowledgements, retransmission, both ends of it.
//!
//! Its sender takes bytes at once (the node's window is what limits them) and counts what a congestion window holds back as
//! `unsent`. A packet is known to be lost when three that were sent later have been acknowledged. After a timeout everything that
//! is not acknowledged counts as lost (RFC 5681, 3.1; RFC 6298, 5.4 to 5.7): it goes again in order, as that window allows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tidegate_node::io::PathSample;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::{Size, Time};

use super::feedback::Shape;
use super::link::{Packet, Reply};
use super::loss_based::{LossBased, PACKET};
use super::scenario::{ConnectionSpec, Order};
use crate::link::{Ecn, Tag};

/// Later packets that must be acknowledged before one is taken for lost.
const REORDER: u64 = 3;
/// Smallest retransmission timeout (as Linux has it), and that before a round trip is known (RFC 6298, 2.1).
const TIMEOUT_MIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// Longest: a timeout doubles each time.
const TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Of which delivery; `None` for a competitor's.
    pub(super) delivery: Option<DeliveryId>,
    /// How many bytes of it.
    pub(super) bytes: u64,
}

/// A copy of a segment that came: its number, place of sending, bytes, and whether it was marked.
#[derive(Clone, Copy, Debug)]
struct Came {
    number: u64,
    sent: u64,
    bytes: u64,
    is_marked: bool,
}

#[derive(Debug)]
struct Segment {
    piece: Piece,
    handed: Time,
    /// Place in the order of sending; `None` while it waits for the congestion window.
    sent: Option<u64>,
    is_acked: bool,
    /// Sent more than once: its acknowledgement measures no round trip (Karn).
    is_again: bool,
}

/// A connection. Segments are numbered from 0; `base` is the number of the first one kept.
#[derive(Debug)]
pub(super) struct Connection {
    flow: usize,
    pub(super) epoch: u32,
    pub(super) is_up: bool,
    spec: ConnectionSpec,
    window: Option<LossBased>,
    shape: Shape,
    segments: VecDeque<Segment>,
    base: u64,
    /// Segments kept although they are acknowledged, for one before them is not; and their bytes.
    ahead: usize,
    ahead_bytes: u64,
    /// Number of the first segment never sent.
    unsent: u64,
    /// Segments that a timeout found lost and that wait for the congestion window.
    again: BTreeSet<u64>,
    last_sent: u64,
    newest_acked: u64,
    /// Bytes handed over, acknowledged without a gap before them, found lost.
    handed: u64,
    delivered: u64,
    lost: u64,
    /// Bytes that came marked.
    marked: u64,
    /// Bytes on the wire: sent, not acknowledged, not known to be lost.
    under_way: u64,
    /// Copies acknowledged and not heard yet, and when they are.
    acks: VecDeque<(Time, Came)>,
    /// The far end: the next number in order, and what came before its turn.
    expected: u64,
    early: BTreeMap<u64, Piece>,
    /// What its replies say, until one is there: the reply, and a copy that came.
    said: VecDeque<(u64, Came)>,
    /// Deliveries that are complete since a reply.
    confirmed: VecDeque<(u64, DeliveryId)>,
    replies: u64,
    progress_at: Time,
    srtt: Duration,
    backoff: u32,
    /// The first number that the last timeout did not take for lost.
    recovered: u64,
    /// The timer had fired at the last sample, or has since.
    is_timed_out: bool,
    /// Whether the driver has planned its timer.
    pub(super) has_timer: bool,
    /// When the driver's newest look at its acknowledgements is.
    pub(super) heard_at: Option<Time>,
}

impl Connection {
    pub(super) fn new(
        flow: usize,
        spec: ConnectionSpec,
        window: Option<LossBased>,
        shape: Shape,
    ) -> Self {
        Connection {
            flow,
            epoch: 0,
            is_up: true,
            spec,
            window,
            shape,
            segments: VecDeque::new(),
            base: 0,
            ahead: 0,
            ahead_bytes: 0,
            unsent: 0,
            again: BTreeSet::new(),
            last_sent: 0,
            newest_acked: 0,
            handed: 0,
            delivered: 0,
            lost: 0,
            marked: 0,
            under_way: 0,
            acks: VecDeque::new(),
            expected: 0,
            early: BTreeMap::new(),
            said: VecDeque::new(),
            confirmed: VecDeque::new(),
            replies: 0,
            progress_at: Time::ZERO,
            srtt: Duration::ZERO,
            backoff: 0,
            recovered: 0,
            is_timed_out: false,
            has_timer: false,
            heard_at: None,
        }
    }

    /// It broke: nothing of it is under way any more, and it begins anew.
    pub(super) fn restart(&mut self) {
        let window = self.window.as_ref().map(LossBased::anew);
        let shape = std::mem::replace(&mut self.shape, Shape::idle());
        let epoch = self.epoch + 1;
        *self = Connection { epoch, ..Connection::new(self.flow, self.spec, window, shape) };
    }

    /// Takes bytes of a delivery.
    pub(super) fn hand(&mut self, now: Time, piece: Piece) {
        let mut left = piece.bytes;
        while left > 0 {
            let bytes = left.min(self.spec.segment);
            left -= bytes;
            let piece = Piece { bytes, ..piece };
            let (sent, is_acked, is_again) = (None, false, false);
            self.segments.push_back(Segment { piece, handed: now, sent, is_acked, is_again });
            self.handed += bytes;
        }
    }

    /// Bytes that wait for the congestion window.
    pub(super) fn waiting(&self) -> u64 {
        let from = (self.unsent - self.base) as usize;
        self.segments.iter().skip(from).map(|segment| segment.piece.bytes).sum()
    }

    /// The next packet that may go, if any.
    pub(super) fn send(&mut self, now: Time) -> Option<Packet> {
        let number = self.again.first().copied().unwrap_or(self.unsent);
        let bytes = self.segments.get((number - self.base) as usize)?.piece.bytes;
        let window = self.window.as_ref().map_or(u64::MAX, LossBased::window);
        let is_free = self.window.as_ref().is_none_or(|window| window.is_free(now));
        if (self.under_way > 0 && self.under_way + bytes > window) || !is_free {
            return None;
        }
        if self.under_way == 0 {
            self.progress_at = now;
        }
        if !self.again.remove(&number) {
            self.unsent += 1;
        }
        if self.window.as_mut().is_some_and(|window| window.sent(now, bytes, self.srtt)) {
            // Its round trip is that of the path, without the wait before its own pace.
            self.segments[(number - self.base) as usize].handed = now;
        }
        Some(self.transmit(number))
    }

    /// When its pace lets the next packet go, told once.
    pub(super) fn awaited(&mut self, now: Time) -> Option<Time> {
        self.window.as_mut()?.awaited(now)
    }

    fn transmit(&mut self, number: u64) -> Packet {
        self.last_sent += 1;
        let segment = &mut self.segments[(number - self.base) as usize];
        let (sent, bytes) = (self.last_sent, segment.piece.bytes);
        segment.sent = Some(sent);
        self.under_way += bytes;
        let tag = Tag { ecn: self.spec.ecn, ..Tag::default() };
        Packet { flow: self.flow, epoch: self.epoch, number, sent, bytes, tag }
    }

    /// A packet reached the far end; answers with what is complete in order. A reply is due.
    pub(super) fn arrive(&mut self, packet: Packet) -> Vec<Piece> {
        let Packet { number, sent, bytes, tag, .. } = packet;
        self.replies += 1;
        let is_marked = tag.ecn == Ecn::Ce;
        self.said.push_back((self.replies, Came { number, sent, bytes, is_marked }));
        let is_known = number < self.expected || self.early.contains_key(&number);
        let kept = number.checked_sub(self.base).and_then(|at| self.segments.get(at as usize));
        let Some(piece) = kept.map(|segment| segment.piece).filter(|_| !is_known) else {
            return Vec::new();
        };
        let mut complete = Vec::new();
        self.early.insert(number, piece);
        while let Some(piece) = self.early.remove(&self.expected) {
            self.expected += 1;
            if self.spec.order == Order::Kept {
                complete.push(piece);
            }
        }
        if self.spec.order == Order::None {
            complete.push(piece);
        }
        complete
    }

    /// The far end has all of a delivery; the reply that is due says so as well.
    pub(super) fn complete(&mut self, id: DeliveryId) {
        self.confirmed.push_back((self.replies, id));
    }

    /// What the far end replies now.
    pub(super) fn reply(&self) -> Reply {
        Reply { flow: self.flow, epoch: self.epoch, number: self.replies }
    }

    /// A reply is here; answers with the deliveries that it confirms, and when the sender hears of its
    /// acknowledgements. One that was lost is made good by the next.
    pub(super) fn replied(&mut self, now: Time, reply: Reply) -> (Vec<DeliveryId>, Time) {
        let heard = self.shape.heard(now);
        while let Some((_, came)) = self.said.pop_front_if(|said| said.0 <= reply.number) {
            self.acks.push_back((heard, came));
        }
        let mut confirmed = Vec::new();
        while let Some((_, id)) = self.confirmed.pop_front_if(|said| said.0 <= reply.number) {
            confirmed.push(id);
        }
        (confirmed, heard)
    }

    /// Hears all that is to be heard by now; answers with the sample that a sender takes, and with what
    /// it sends again.
    pub(super) fn hear(&mut self, now: Time) -> (Option<PathSample>, Vec<Packet>) {
        let (delivered, marked, mut newest) = (self.delivered, self.marked, None);
        let known = delivered + self.ahead_bytes;
        // A window that was not in use does not grow.
        let is_full =
            self.window.as_ref().is_some_and(|one| self.under_way + 2 * PACKET >= one.window());
        while let Some(&(at, Came { number, sent, bytes, is_marked })) = self.acks.front() {
            if at > now {
                break;
            }
            self.acks.pop_front();
            self.marked += if is_marked { bytes } else { 0 };
            // The copy that arrived tells what was sent before it, whichever copy was sent last.
            self.newest_acked = self.newest_acked.max(sent);
            newest = newest.max(self.acked(number));
        }
        while self.segments.front().is_some_and(|segment| segment.is_acked) {
            let segment = self.segments.pop_front().expect("there is a front");
            self.base += 1;
            self.ahead -= 1;
            self.ahead_bytes -= segment.piece.bytes;
            self.delivered += segment.piece.bytes;
        }
        // What the far end has behind a gap is delivered. The kernel tells it in segments, so a node guesses the bytes.
        let there = self.delivered + self.ahead_bytes;
        // A kernel's window and timer follow what comes in order.
        let newly = match self.spec.order {
            Order::Kept => self.delivered - delivered,
            Order::None => there - known,
        };
        if newly > 0 {
            (self.progress_at, self.backoff) = (now, 0);
            if let Some(window) = self.window.as_mut().filter(|_| is_full) {
                window.acked(now, self.srtt, newly, self.marked - marked);
            }
        }
        let again = self.find_lost();
        let rtt = newest.map(|handed| now.since(handed));
        if let Some(rtt) = rtt {
            self.srtt = if self.srtt.is_zero() { rtt } else { (self.srtt * 7 + rtt) / 8 };
        }
        let sample = PathSample {
            rtt,
            delivered: Size(there),
            in_flight: Size(self.handed - there),
            unsent: Size(self.waiting()),
            lost: Size(self.lost),
            marked: Size(self.marked),
            is_timeout: self.is_timed_out || self.base < self.recovered,
            ..PathSample::default()
        };
        // What the timer took for lost may be there before the next sample.
        if there > known {
            self.is_timed_out = self.base < self.recovered;
        }
        ((there > known).then_some(sample), again)
    }

    /// One packet is acknowledged; answers with when it was handed over, if that tells a round trip.
    fn acked(&mut self, number: u64) -> Option<Time> {
        let at = number.checked_sub(self.base)? as usize;
        let segment = self.segments.get_mut(at).filter(|segment| !segment.is_acked)?;
        segment.is_acked = true;
        self.ahead += 1;
        self.ahead_bytes += segment.piece.bytes;
        // What waits to go again is not under way: a copy that was slow has come after all.
        if !self.again.remove(&number) {
            self.under_way = self.under_way.saturating_sub(segment.piece.bytes);
        }
        Some(segment.handed).filter(|_| !segment.is_again)
    }

    fn find_lost(&mut self) -> Vec<Packet> {
        let newest = self.newest_acked;
        let sent = (self.unsent - self.base) as usize;
        let is_lost = |segment: &Segment| {
            !segment.is_acked && segment.sent.is_some_and(|sent| sent + REORDER <= newest)
        };
        if self.ahead == 0 {
            // Everything comes in order: nothing is missing.
            return Vec::new();
        }
        let lost: Vec<u64> = self
            .segments
            .iter()
            .take(sent)
            .enumerate()
            .filter(|(_, segment)| is_lost(segment))
            .map(|(at, _)| self.base + at as u64)
            .collect();
        lost.into_iter().map(|number| self.retransmit(number)).collect()
    }

    fn retransmit(&mut self, number: u64) -> Packet {
        let segment = &mut self.segments[(number - self.base) as usize];
        let (bytes, sent) = (segment.piece.bytes, segment.sent.unwrap_or_default());
        segment.is_again = true;
        self.lost += bytes;
        self.under_way = self.under_way.saturating_sub(bytes);
        if let Some(window) = &mut self.window {
            window.lost(sent, self.last_sent);
        }
        self.transmit(number)
    }

    /// When the retransmission timer fires; `None` with nothing under way.
    pub(super) fn timeout(&self) -> Option<Time> {
        let is_waiting = self.segments.front().is_some_and(|segment| segment.sent.is_some());
        let least = TIMEOUT_MIN[usize::from(self.srtt.is_zero())];
        let span = (self.srtt * 2).max(least) * 2u32.pow(self.backoff.min(6));
        is_waiting.then(|| self.progress_at + span.min(TIMEOUT_MAX))
    }

    /// The timer fired: all that is not acknowledged is lost, and goes again by [`Connection::send`].
    pub(super) fn timed_out(&mut self, now: Time) {
        if self.timeout().is_none_or(|at| at > now) {
            return;
        }
        self.progress_at = now;
        self.backoff += 1;
        (self.recovered, self.is_timed_out) = (self.unsent, true);
        if let Some(window) = &mut self.window {
            window.timed_out(self.last_sent);
        }
        let sent = (self.unsent - self.base) as usize;
        for (place, segment) in self.segments.iter_mut().enumerate().take(sent) {
            if segment.is_acked || segment.sent.take().is_none() {
                continue;
            }
            segment.is_again = true;
            self.lost += segment.piece.bytes;
            self.under_way = self.under_way.saturating_sub(segment.piece.bytes);
            self.again.insert(self.base + place as u64);
        }
    }
}
