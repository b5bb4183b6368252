//! What a packet holds, and when it goes.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::Link;
use crate::in_flight::Carried;
use crate::options::PathHealth;
use crate::packet::{ACK_MAX, FATE_MAX, LinkFrame, PIECE_HEAD_MAX, PING_MAX, PacketHeader};
use crate::path::Path;

/// The peer is told of its window again when it has grown by so much of it.
const WINDOW_STEP: u64 = 32;

/// Answers to records go at once, but not so soon after the ones before: while many come, those of this time share a
/// packet.
const CUSTODY_SPACING: Duration = Duration::from_millis(2);
/// What a driver may add to a packet without moving it: the number of its path.
const DRIVER_MAX: usize = 1;

impl Link {
    /// The next packet for this path; `None` while nothing may or need go.
    pub fn poll_transmit(&mut self, path: usize, now: Time) -> Option<Vec<u8>> {
        self.now = now;
        if self.paths[path].state == PathHealth::Absent {
            return None;
        }
        // Acknowledgements and questions never wait behind data.
        self.control_packet(path, now).or_else(|| self.data_packet(path, now))
    }

    fn begin(&mut self, path: usize) -> (u64, Vec<u8>) {
        let (from, to) = (self.options.incarnation, self.peer.unwrap_or(0));
        let psn = self.paths[path].take_psn();
        let mut packet = Vec::with_capacity(self.options.packet_max + DRIVER_MAX);
        PacketHeader { from, to, psn }.encode(&mut packet);
        (psn, packet)
    }

    fn control_packet(&mut self, path: usize, now: Time) -> Option<Vec<u8>> {
        let due = |other: &Path| other.received.due().is_some_and(|due| due <= now);
        let is_usable = self.is_usable(path);
        let acks: Vec<usize> = (0..self.paths.len())
            .filter(|&other| due(&self.paths[other]))
            .filter(|&other| other == path || self.paths[other].state != PathHealth::Up)
            .collect();
        let window = self.inbox.window();
        let grown = window.limit.saturating_sub(self.told_limit);
        let tells_window = is_usable && grown.0 * WINDOW_STEP >= self.options.receive_window.0;
        let has_custodies = is_usable && !self.custodies.is_empty();
        let tells_custodies = has_custodies && self.custodies_at <= now;
        let question = self.paths[path].take_question();
        let is_asked = question || self.paths[path].has_train();
        if acks.is_empty() && !tells_window && !tells_custodies && !is_asked {
            return None;
        }
        let (psn, mut packet) = self.begin(path);
        let mut carried = Vec::new();
        LinkFrame::Window(window).encode(&mut packet);
        if tells_window {
            self.told_limit = window.limit;
            carried.push(Carried::Window);
        }
        // What came by this path is acknowledged by the way, due or not.
        for other in [path].into_iter().chain(acks.into_iter().filter(|&other| other != path)) {
            if packet.len() + ACK_MAX + PING_MAX <= self.options.packet_max
                && let Some(ack) = self.paths[other].received.ack(now, other as u8, other == path)
            {
                if let Some(marks) = self.paths[other].received.marks(other as u8) {
                    LinkFrame::Marks(marks).encode(&mut packet);
                }
                LinkFrame::Ack(ack).encode(&mut packet);
            }
        }
        if has_custodies {
            self.custodies_at = now + CUSTODY_SPACING;
        }
        while has_custodies
            && packet.len() + FATE_MAX + PING_MAX <= self.options.packet_max
            && let Some((record, custody)) = self.custodies.pop_front()
        {
            LinkFrame::Custody { record, custody }.encode(&mut packet);
            carried.push(Carried::Custody(record, custody));
        }
        let trains = self.paths[path].take_train();
        if question || trains || !carried.is_empty() {
            let room = self.options.packet_max.saturating_sub(packet.len() + PING_MAX);
            LinkFrame::Ping { padding: if trains { room } else { 0 } }.encode(&mut packet);
            let size = Size(packet.len() as u64);
            self.paths[path].sent(now, psn, size, carried);
        }
        Some(packet)
    }

    /// Whether another path carries data instead: both go through one bottleneck.
    pub(super) fn is_spare(&self, path: usize) -> bool {
        let other = self.shared.spare_to(path, self.now);
        other.is_some_and(|other| self.paths[other].state == PathHealth::Up)
    }

    /// Whether data may go by this path: a silent one is used only where none works.
    pub(super) fn is_usable(&self, path: usize) -> bool {
        match self.paths[path].state {
            PathHealth::Up => !self.is_spare(path),
            PathHealth::Silent => self.paths.iter().all(|other| other.state != PathHealth::Up),
            PathHealth::Dead | PathHealth::Absent => false,
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
        while let Some((part, length)) = self.paths[path].head() {
            // It may have arrived by another way meanwhile.
            if self.outbox.is_wanted(part) {
                let (_, packet) = opened.get_or_insert_with(|| self.begin(path));
                // Repairs that are lost with what they repair are worth nothing.
                let is_apart = carried.iter().any(|carried| match *carried {
                    Carried::Part(other) => self.outbox.repairs_each_other(part, other),
                    Carried::Custody(..) | Carried::Window => false,
                });
                let end = packet.len() + PIECE_HEAD_MAX + length.0 as usize;
                if is_apart || end > self.options.packet_max {
                    break;
                }
                self.outbox.encode(part, packet);
                carried.push(Carried::Part(part));
            }
            self.paths[path].dequeue();
        }
        let (psn, packet) = opened?;
        self.counts.parts += carried.len() as u64;
        self.paths[path].sent(now, psn, Size(packet.len() as u64), carried);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::record::Fate;

    use super::*;
    use crate::packet::Custody;
    use crate::{LinkOptions, PathOptions};

    /// How many answers each packet holds that goes now.
    fn answers(link: &mut Link, now: Time) -> Vec<usize> {
        let packets = std::iter::from_fn(|| link.poll_transmit(0, now));
        let count = |packet: Vec<u8>| {
            let (_, frames) = PacketHeader::decode(&packet).expect("our own packet");
            frames.iter().filter(|frame| matches!(frame, LinkFrame::Custody { .. })).count()
        };
        packets.map(count).collect()
    }

    #[test]
    fn the_first_answer_goes_at_once_and_those_of_two_milliseconds_share_a_packet() {
        let at = |millis: u64| Time::from_millis(1000 + millis);
        let mut link = Link::new(LinkOptions::new(1, 1));
        link.path_up(0, at(0), PathOptions::default());
        assert!(answers(&mut link, at(0)).iter().all(|&count| count == 0), "the first train");
        link.settle(1, Custody::Final(Fate::Confirmed));
        assert_eq!(answers(&mut link, at(0)), [1]);
        link.settle(2, Custody::Final(Fate::Confirmed));
        assert!(answers(&mut link, at(1)).is_empty());
        link.settle(3, Custody::Final(Fate::Confirmed));
        assert_eq!(link.next_timeout(), Some(at(2)));
        assert_eq!(answers(&mut link, at(2)), [2]);
        link.settle(4, Custody::Final(Fate::Confirmed));
        assert_eq!(answers(&mut link, at(5)), [1]);
    }
}
