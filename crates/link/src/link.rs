//! One end of a link: what its driver tells it, and what it tells the driver.

mod assign;
mod transmit;

use std::collections::VecDeque;

use tidegate_capacity::RateControllerName;
use tidegate_types::units::{Rate, Ratio, Size, Time};

use crate::error::WireError;
use crate::in_flight::{Carried, Settled};
use crate::limits::PATHS_MAX;
use crate::options::{
    LinkCounts, LinkEvent, LinkOptions, OfferError, Outgoing, PathHealth, PathOptions, PathStatus,
};
use crate::outbox::{Outbox, WINDOW_START};
use crate::packet::{self, Custody, HEAD_MAX, LinkFrame, MarkCount, PIECE_HEAD_MAX, PacketHeader};
use crate::path::Path;
use crate::path_scheduler::{PathScheduler, PathView};
use crate::reassembly::{Reassembly, Taken};
use crate::redundancy::Redundancy;
use crate::shared_bottleneck::SharedBottleneck;

/// Least `LinkOptions::packet_max`: an acknowledgement must fit.
const PACKET_MIN: usize = 600;

/// One end of a link, for one life of this node and one of the peer.
#[derive(Debug)]
pub struct Link {
    options: LinkOptions,
    /// The peer's incarnation, once it has said a word.
    peer: Option<u32>,
    paths: Vec<Path>,
    scheduler: Box<dyn PathScheduler>,
    guard: Redundancy,
    shared: SharedBottleneck,
    outbox: Outbox,
    inbox: Reassembly,
    /// The window that the peer surely heard of, or will.
    told_limit: Size,
    /// The peer's window kept a record from beginning, and counts as short until then.
    blocked_until: Time,
    scratch: Scratch,
    /// Answers to records that go with the next packet.
    custodies: VecDeque<(u64, Custody)>,
    /// They open a packet of their own from then on.
    custodies_at: Time,
    events: VecDeque<LinkEvent>,
    counts: LinkCounts,
    now: Time,
}

impl Link {
    /// A link without paths. Panics on options that no configuration can give.
    pub fn new(options: LinkOptions) -> Self {
        assert!(options.incarnation != 0, "0 stands for an unknown incarnation");
        assert!((1..=PATHS_MAX).contains(&options.paths), "at most PATHS_MAX paths");
        assert!(options.packet_max >= PACKET_MIN, "an acknowledgement fits in a packet");
        assert!(options.receive_window >= WINDOW_START, "peers begin with this window");
        let paths = (0..options.paths).map(|_| Path::new(&options)).collect();
        let piece_max = options.packet_max - HEAD_MAX - PIECE_HEAD_MAX;
        Link {
            peer: None,
            paths,
            shared: SharedBottleneck::new(options.paths),
            guard: Redundancy::new(options.guard, options.guard_share.as_f64()),
            scheduler: options.schedule.build(options.decrease_factor.as_f64()),
            outbox: Outbox::new(options.memory, options.unsettled_max, piece_max),
            inbox: Reassembly::new(options.receive_window),
            told_limit: WINDOW_START,
            blocked_until: Time::ZERO,
            scratch: Scratch::default(),
            custodies: VecDeque::new(),
            custodies_at: Time::ZERO,
            events: VecDeque::new(),
            counts: LinkCounts::default(),
            now: Time::ZERO,
            options,
        }
    }

    /// The driver has this path (again).
    pub fn path_up(&mut self, path: usize, now: Time, options: PathOptions) {
        self.now = now;
        if self.paths[path].state != PathHealth::Absent {
            self.path_down(path, now);
        }
        self.shared.forget(path);
        self.paths[path].received.tells_marks = options.hears_marks;
        self.paths[path].up(now, options);
    }

    /// The driver has lost this path; what was on it goes by others.
    pub fn path_down(&mut self, path: usize, now: Time) {
        self.now = now;
        let failed = self.paths[path].down();
        self.settle_outcome(Settled { failed, ..Settled::default() });
    }

    /// Takes a record, to be sent by its deadline.
    ///
    /// # Errors
    /// [`OfferError`]: not now, or never.
    pub fn offer(&mut self, outgoing: Outgoing) -> Result<(), OfferError> {
        self.outbox.offer(outgoing)
    }

    /// Bytes that may be offered now without waiting here longer than the paths differ in length: what
    /// is not offered can still be overtaken.
    pub fn room(&self) -> Size {
        let unfilled = self.unfilled(&self.backlogs(self.now));
        Size(unfilled as u64).saturating_sub(self.outbox.unassigned())
    }

    /// Bytes that were offered and that no path has taken yet, what goes again included.
    pub fn waiting(&self) -> Size {
        self.outbox.unassigned()
    }

    /// So many packets more have come by `path` with a mark of congestion, as the system below tells; the next acknowledgement
    /// says so.
    pub fn marked(&mut self, path: usize, packets: u64) {
        self.paths[path].received.marked += packets;
    }

    /// Takes a packet that came by `path`.
    ///
    /// # Errors
    /// [`WireError`]: it is no packet of a peer that this link can talk to; nothing has changed.
    pub fn receive(&mut self, path: usize, packet: &[u8], now: Time) -> Result<(), WireError> {
        self.now = now;
        let (head, frames) =
            PacketHeader::decode(packet).inspect_err(|_| self.counts.strange += 1)?;
        let is_mine = head.to == self.options.incarnation;
        let known = *self.peer.get_or_insert(head.from);
        if known != head.from {
            // Old packets may come late, but only a living peer knows who we are.
            self.counts.strange += 1;
            if head.to == 0 || is_mine {
                self.restarted(head.from);
            }
            return Ok(());
        }
        let is_stale = !is_mine && head.to != 0;
        let received = &self.paths[path].received;
        if is_stale || self.paths[path].state == PathHealth::Absent || !received.is_new(head.psn) {
            self.counts.strange += 1;
            return Ok(());
        }
        let mut asks = false;
        let mut is_refused = false;
        for frame in frames {
            asks |=
                !matches!(frame, LinkFrame::Ack(_) | LinkFrame::Marks(_) | LinkFrame::Window(_));
            is_refused |= !self.take(frame, is_mine);
        }
        if is_refused {
            self.counts.refused += 1;
        } else {
            self.paths[path].received.push(now, head.psn, asks);
        }
        Ok(())
    }

    /// Takes a frame. Answers whether it keeps to the rules.
    fn take(&mut self, frame: LinkFrame<'_>, is_mine: bool) -> bool {
        match frame {
            LinkFrame::Ping { .. } => {}
            LinkFrame::Piece(piece) => match self.inbox.push(&piece) {
                Taken::New => self.counts.arrived += Size(piece.data.len() as u64),
                Taken::Duplicate => self.counts.duplicates += 1,
                Taken::Refused => return false,
            },
            LinkFrame::Repair(repair) => match self.inbox.push_repair(&repair) {
                Taken::New => self.counts.repairs += 1,
                Taken::Duplicate => self.counts.duplicates += 1,
                Taken::Refused => return false,
            },
            // What follows speaks of our packets: an earlier life's are not ours.
            LinkFrame::Ack(ack) if is_mine => self.take_ack(&ack),
            LinkFrame::Marks(MarkCount { path, packets }) if is_mine => {
                if let Some(path) = self.paths.get_mut(usize::from(path)) {
                    path.counts.marked += path.marks.told(packets);
                }
            }
            LinkFrame::Window(window) if is_mine => self.outbox.widen(window),
            LinkFrame::Custody { record, custody } if is_mine => {
                if let Some((token, paths)) = self.outbox.settle(record, custody) {
                    self.events.push_back(LinkEvent::Custody { token, custody, paths });
                }
            }
            LinkFrame::Ack(_)
            | LinkFrame::Marks(_)
            | LinkFrame::Window(_)
            | LinkFrame::Custody { .. } => {}
        }
        true
    }

    fn take_ack(&mut self, ack: &packet::SelectiveAck) {
        let path = usize::from(ack.path);
        let mut outcome = Settled::default();
        let Some(state) = self.paths.get_mut(path) else { return };
        if state.acked(self.now, ack, &mut outcome) {
            self.events.push_back(LinkEvent::Path { path, state: PathHealth::Up });
        }
        if let Some((sent_at, delay)) = outcome.measured.filter(|_| self.options.spares_shared) {
            self.shared.push(self.now, path, sent_at, delay);
        }
        if self.options.controller == RateControllerName::Coupled {
            self.couple();
        }
        self.drain_spare();
        self.settle_outcome(outcome);
    }

    /// Windows of MPTCP's kind grow together: α over their sum (RFC 6356, section 3).
    fn couple(&mut self) {
        let all = (0..self.paths.len()).map(|path| self.path_status(path));
        let known = all.filter(|path| path.state == PathHealth::Up);
        let known = known.filter_map(|path| Some((path.window.as_f64(), path.srtt?.as_secs_f64())));
        let (best, sum) = known.fold((0.0_f64, 0.0), |(best, sum), (window, trip)| {
            (best.max(window / trip / trip), sum + window / trip)
        });
        if sum > 0.0 {
            let factor = best / sum / sum;
            self.paths.iter_mut().for_each(|path| path.control.couple(factor));
        }
    }

    /// What waits for a path that is spare from now on goes by others.
    fn drain_spare(&mut self) {
        for path in 0..self.paths.len() {
            if self.paths[path].queued() > Size::ZERO && self.is_spare(path) {
                let parts = self.paths[path].drain();
                parts.into_iter().for_each(|part| self.outbox.requeue(part));
            }
        }
    }

    fn restarted(&mut self, incarnation: u32) {
        let event = LinkEvent::Restarted { incarnation };
        if !self.events.contains(&event) {
            self.events.push_back(event);
        }
    }

    fn settle_outcome(&mut self, outcome: Settled) {
        for carried in outcome.arrived {
            if let Carried::Part(part) = carried
                && let Some(token) = self.outbox.arrived(part)
            {
                self.events.push_back(LinkEvent::Delivered { token });
            }
        }
        // A record that is hedged soon waits for that: many an answer is only late.
        let until = self.now + outcome.rtt;
        let mut failed = outcome.failed;
        failed.extend(outcome.overdue.into_iter().filter(|carried| match *carried {
            Carried::Part(part) => !self.outbox.doubt(part, until),
            Carried::Custody(..) | Carried::Window => true,
        }));
        for carried in failed {
            match carried {
                Carried::Part(part) => self.counts.repeated += self.outbox.fail(part) as u64,
                Carried::Custody(record, custody) => self.custodies.push_back((record, custody)),
                Carried::Window => self.told_limit = Size::ZERO,
            }
        }
    }

    /// Tells the peer who answers for a record that came.
    pub fn settle(&mut self, record: u64, custody: Custody) {
        self.custodies.push_back((record, custody));
    }

    /// Time passes: called at `next_timeout` at the latest.
    pub fn tick(&mut self, now: Time) {
        self.now = now;
        let events = &mut self.events;
        self.outbox.expire(now, |token| events.push_back(LinkEvent::Expired { token }));
        let paths = &mut self.paths;
        self.outbox.take_back(now, |token, parts| {
            for path in paths.iter_mut() {
                parts.iter().for_each(|&part| path.forget(part));
            }
            events.push_back(LinkEvent::Expired { token });
        });
        let guard = &mut self.guard;
        self.outbox.hedge(now, |bytes| guard.pay(bytes));
        for path in 0..self.paths.len() {
            let mut outcome = Settled::default();
            if self.paths[path].tick(now, &mut outcome) {
                self.events.push_back(LinkEvent::Path { path, state: PathHealth::Dead });
            }
            self.settle_outcome(outcome);
        }
    }

    /// When `tick` must be called next, given that every path was polled until it had nothing to send.
    pub fn next_timeout(&self) -> Option<Time> {
        let packet = Size(self.options.packet_max as u64);
        let of_path = |path: &Path| {
            let due = path.received.due().filter(|_| path.state != PathHealth::Absent);
            let has_data = path.queued() > Size::ZERO;
            let free = path.next_free(self.now, packet).filter(|_| has_data);
            [path.next_timeout(), due, free].into_iter().flatten().min()
        };
        let paths = self.paths.iter().filter_map(of_path).min();
        let may_answer = !self.custodies.is_empty();
        let may_answer = may_answer && (0..self.paths.len()).any(|path| self.is_usable(path));
        let answers = Some(self.custodies_at).filter(|_| may_answer);
        [paths, answers, self.outbox.next_timeout()].into_iter().flatten().min()
    }

    /// The next thing to tell, until there is none.
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        let arrived = |inbox: &mut Reassembly| {
            let whole = inbox.pop()?;
            Some(LinkEvent::Arrived { record: whole.record, content: whole.bytes })
        };
        self.events.pop_front().or_else(|| arrived(&mut self.inbox))
    }

    /// Gives back every record without a fate: its token, and whether it may have arrived.
    pub fn close(&mut self) -> Vec<(u64, bool)> {
        self.outbox.close()
    }

    /// What a path looks like.
    pub fn path_status(&self, path: usize) -> PathStatus {
        let state = &self.paths[path];
        let (srtt, queue_delay) = state.times();
        PathStatus {
            state: state.state,
            rate: state.rate(),
            window: state.window(self.now),
            loss_rate: Ratio::new(state.loss_rate()),
            srtt,
            queue_delay,
            queued: state.queued(),
            is_spare: self.is_spare(path),
            counts: state.counts,
        }
    }

    /// What all working paths carry together, loss included.
    pub fn rate(&self) -> Rate {
        let carries =
            |&path: &usize| self.paths[path].state == PathHealth::Up && !self.is_spare(path);
        let working = (0..self.paths.len()).filter(carries).map(|path| &self.paths[path]);
        working.map(|path| path.rate().times(1.0 - path.loss_rate())).sum()
    }

    /// The link's sums.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// Bytes that were offered and have not arrived, and what has come and was not taken.
    pub fn held(&self) -> (Size, Size) {
        (self.outbox.held(), self.inbox.held())
    }

    /// Records without a fate.
    pub fn unsettled(&self) -> usize {
        self.outbox.unsettled()
    }

    /// Pieces that came after one with a larger number.
    pub fn disordered(&self) -> u64 {
        self.inbox.disordered()
    }
}

/// Lists that are filled again for each part: no part asks for memory.
#[derive(Debug, Default)]
struct Scratch {
    open: Vec<PathView>,
    full: Vec<PathView>,
    candidates: Vec<PathView>,
    chosen: Vec<usize>,
}
