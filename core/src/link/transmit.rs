//! What goes next: which path takes which piece, and what a packet holds.

use super::Link;
use super::in_flight::Carried;
use super::options::PathState;
use super::packet::{ACK_MAX, FATE_MAX, Frame, Head, PIECE_HEAD_MAX, PING_MAX};
use super::path::Path;
use super::schedule::{Choice, PathView};
use crate::units::{Size, Time};

/// What waits for a path beyond the difference in length to the longest one: enough that no timer makes
/// a path idle.
const SLACK: f64 = 0.010;
/// Longest virtual queue in seconds, however much the paths differ.
const QUEUE_MAX: f64 = 0.5;
/// The peer is told of its window again when it has grown by so much of it.
const WINDOW_STEP: u64 = 8;

impl Link {
    /// The next packet for this path; `None` while nothing may or need go.
    pub fn poll_transmit(&mut self, path: usize, now: Time) -> Option<Vec<u8>> {
        self.now = now;
        if self.paths[path].state == PathState::Absent {
            return None;
        }
        // Acknowledgements and questions never wait behind data.
        self.control_packet(path, now).or_else(|| self.data_packet(path, now))
    }

    fn begin(&mut self, path: usize) -> (u64, Vec<u8>) {
        let (from, to) = (self.options.incarnation, self.peer.unwrap_or(0));
        let psn = self.paths[path].take_psn();
        let mut packet = Vec::with_capacity(self.options.packet_max);
        Head { from, to, psn }.encode(&mut packet);
        (psn, packet)
    }

    fn control_packet(&mut self, path: usize, now: Time) -> Option<Vec<u8>> {
        let due = |other: &Path| other.received.due().is_some_and(|due| due <= now);
        let is_usable = self.is_usable(path);
        let acks: Vec<usize> = (0..self.paths.len())
            .filter(|&other| due(&self.paths[other]))
            .filter(|&other| other == path || self.paths[other].state != PathState::Up)
            .collect();
        let window = self.inbox.window();
        let grown = window.limit.saturating_sub(self.told_limit);
        let tells_window = is_usable && grown.0 * WINDOW_STEP >= self.options.receive_window.0;
        let has_custodies = is_usable && !self.custodies.is_empty();
        let question = self.paths[path].take_question();
        let is_asked = question || self.paths[path].has_train();
        if acks.is_empty() && !tells_window && !has_custodies && !is_asked {
            return None;
        }
        let (psn, mut packet) = self.begin(path);
        let mut carried = Vec::new();
        Frame::Window(window).encode(&mut packet);
        if tells_window {
            self.told_limit = window.limit;
            carried.push(Carried::Window);
        }
        for other in acks {
            if packet.len() + ACK_MAX + PING_MAX <= self.options.packet_max
                && let Some(ack) = self.paths[other].received.ack(now, other as u8, false)
            {
                Frame::Ack(ack).encode(&mut packet);
            }
        }
        while has_custodies
            && packet.len() + FATE_MAX + PING_MAX <= self.options.packet_max
            && let Some((record, custody)) = self.custodies.pop_front()
        {
            Frame::Custody { record, custody }.encode(&mut packet);
            carried.push(Carried::Custody(record, custody));
        }
        let trains = self.paths[path].take_train();
        if question || trains || !carried.is_empty() {
            let room = self.options.packet_max.saturating_sub(packet.len() + PING_MAX);
            Frame::Ping { padding: if trains { room } else { 0 } }.encode(&mut packet);
            let size = Size(packet.len() as u64);
            self.paths[path].sent(now, psn, size, carried);
        }
        Some(packet)
    }

    /// Whether data may go by this path: a silent one is used only where none works.
    fn is_usable(&self, path: usize) -> bool {
        match self.paths[path].state {
            PathState::Up => true,
            PathState::Silent => self.paths.iter().all(|other| other.state != PathState::Up),
            PathState::Dead | PathState::Absent => false,
        }
    }

    fn data_packet(&mut self, path: usize, now: Time) -> Option<Vec<u8>> {
        let packet_max = Size(self.options.packet_max as u64);
        if !self.is_usable(path) || !self.paths[path].is_free(now, packet_max) {
            return None;
        }
        self.assign(now);
        let mut opened = None;
        let mut carried = Vec::new();
        while let Some((dsn, length)) = self.paths[path].head() {
            // It may have arrived by another way meanwhile.
            if self.outbox.piece(dsn).is_some() {
                let (_, packet) = opened.get_or_insert_with(|| self.begin(path));
                if packet.len() + PIECE_HEAD_MAX + length.0 as usize > self.options.packet_max {
                    break;
                }
                if let Some(piece) = self.outbox.piece(dsn) {
                    Frame::Piece(piece).encode(packet);
                }
                carried.push(Carried::Piece(dsn));
            }
            self.paths[path].dequeue();
        }
        let (psn, packet) = opened?;
        self.paths[path].sent(now, psn, Size(packet.len() as u64), carried);
        Some(packet)
    }

    /// Gives pieces to virtual queues, the most urgent first, as long as one has room and the scheduler does not
    /// wait for another.
    fn assign(&mut self, now: Time) {
        let mut backlogs = self.backlogs(now);
        while let Some((key, length)) = self.outbox.peek() {
            let doubles = self.options.doubles_repeats && self.outbox.has_failed(key.1);
            let copies = self.scheduler.copies().max(1 + usize::from(doubles));
            let chosen = self.choose(now, &backlogs, length, copies);
            if chosen.is_empty() {
                return;
            }
            self.outbox.assign(key);
            for path in chosen {
                self.paths[path].enqueue(key, length);
                if let Some((view, _)) = backlogs.iter_mut().find(|(view, _)| view.path == path) {
                    view.queued = self.paths[path].queued().as_f64();
                }
            }
        }
    }

    /// The paths that a piece of this length goes by, at most so many; none where it waits.
    fn choose(
        &mut self,
        now: Time,
        backlogs: &[(PathView, f64)],
        length: Size,
        copies: usize,
    ) -> Vec<usize> {
        let has_room = |(view, wanted): &&(PathView, f64)| view.queued < *wanted;
        let (open, full): (Vec<_>, Vec<_>) = backlogs.iter().partition(has_room);
        let views = |of: Vec<&(PathView, f64)>| of.into_iter().map(|(view, _)| *view).collect();
        let (mut open, full): (Vec<PathView>, Vec<PathView>) = (views(open), views(full));
        let mut chosen = Vec::new();
        while !open.is_empty() && chosen.len() < copies {
            let choice = Choice {
                now,
                open: &open,
                full: &full,
                piece: length.as_f64(),
                waiting: self.outbox.unassigned().as_f64(),
                peer_window: self.outbox.peer_window().as_f64(),
                is_blocked: self.outbox.is_blocked(),
            };
            let Some(place) = self.scheduler.choose(&choice) else { break };
            chosen.push(open.remove(place).path);
        }
        chosen
    }

    /// The paths that data may go by, and how long their virtual queues should be, in bytes: a short path
    /// may as well take what will only arrive when a long one's packets do.
    pub(super) fn backlogs(&self, now: Time) -> Vec<(PathView, f64)> {
        let origins = self.paths.iter().filter_map(Path::origin);
        let origin = origins.min_by(|(left, _), (right, _)| left.total_cmp(right));
        let usable = (0..self.paths.len()).filter(|&path| self.is_usable(path));
        let views: Vec<PathView> =
            usable.map(|path| self.paths[path].view(now, path, origin)).collect();
        let longest = views.iter().map(|view| view.predicted_delay).fold(0.0, f64::max);
        let wanted = |view: PathView| {
            let span = (longest - view.predicted_delay).min(QUEUE_MAX) + SLACK;
            let pace = if view.pace > 0.0 { view.pace } else { view.window / view.srtt.max(SLACK) };
            (view, (pace * span).max(2.0 * self.options.packet_max as f64))
        };
        views.into_iter().map(wanted).collect()
    }
}
