//! Turns the kernel's byte counts of a connection into the samples that the rate controller wants.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_node::io::PathSample;
use tidegate_types::units::{Size, Time};

use crate::support::tcp_info::TcpInfo;

/// Marks kept: more writes than this are never in flight within one window; beyond, neighbours merge.
const MARKS_MAX: usize = 4096;

/// When a write took place, and what it reached up to.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Bytes handed over so far, this write included.
    end: u64,
    at: Time,
}

/// Counts what was handed to one connection, and when.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    /// The kernel's count when the connection was made: its handshake may count as a byte.
    first: u64,
    handed: u64,
    acked: u64,
    /// Handed before the login was done: not records.
    before_up: u64,
    /// Writes of which a byte is not acknowledged, oldest first.
    marks: VecDeque<Mark>,
    /// Whether a sample has said that bytes are on the wire, since the last acknowledgement.
    is_waiting_told: bool,
    /// A timer was seen to have fired at the last sample or since: what it took for lost may be there before the next.
    is_timed_out: bool,
}

impl Gauge {
    /// A fresh connection.
    pub(super) fn new(info: &TcpInfo) -> Self {
        Gauge { first: info.acked, ..Gauge::default() }
    }

    /// The login is done: bytes count from here on. What the kernel knows by then is told: its round trip is that of
    /// the handshake.
    pub(super) fn up(&mut self, info: &TcpInfo) -> PathSample {
        self.before_up = self.handed;
        self.is_waiting_told = false;
        PathSample { lost: Size(info.resent), tcp: Some(info.into()), ..PathSample::default() }
    }

    /// So many bytes were written.
    pub(super) fn wrote(&mut self, now: Time, bytes: usize) {
        self.handed += bytes as u64;
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_back();
        }
        self.marks.push_back(Mark { end: self.handed, at: now });
    }

    /// Whether the far end has not acknowledged everything.
    pub(super) fn is_in_flight(&self) -> bool {
        self.acked < self.handed
    }

    /// The sample of this moment; `None` where nothing new was acknowledged, but for the first time that bytes are on
    /// the wire and have no answer: from then on the way may be silent.
    pub(super) fn sample(&mut self, now: Time, info: &TcpInfo) -> Option<PathSample> {
        let acked = (info.acked - self.first.min(info.acked)).min(self.handed);
        let acked = acked + self.behind_a_gap(now, acked, info);
        let is_news = acked > self.acked;
        self.is_timed_out |= info.is_timeout;
        if !is_news && (self.is_waiting_told || info.unsent >= self.handed - self.acked) {
            return None;
        }
        self.is_waiting_told = !is_news;
        self.acked = self.acked.max(acked);
        let rtt = if is_news { self.take_marks(now) } else { None };
        let login_left = self.before_up.saturating_sub(self.acked);
        let unacknowledged = self.handed - self.acked;
        Some(PathSample {
            rtt,
            delivered: Size(self.acked.saturating_sub(self.before_up)),
            in_flight: Size(unacknowledged - login_left),
            unsent: Size(info.unsent.min(unacknowledged)),
            lost: Size(info.resent),
            // What a kernel makes of marks shows in its window.
            marked: Size::ZERO,
            is_timeout: std::mem::replace(&mut self.is_timed_out, info.is_timeout),
            tcp: Some(info.into()),
        })
    }

    /// Bytes that are there already and wait for a lost one before them, as far as segments are alike: without them a lost packet
    /// looks like a round trip of silence, and then like a multiple of the rate. Where segments differ it is a guess, but what was
    /// written less than the shortest round trip ago cannot be there.
    fn behind_a_gap(&self, now: Time, acked: u64, info: &TcpInfo) -> u64 {
        let [there, all] = info.sacked.unwrap_or_default().map(u64::from);
        let sent = (self.handed - acked).saturating_sub(info.unsent);
        let guess = (sent * there.min(all)).checked_div(all).unwrap_or_default();
        if guess == 0 {
            return 0;
        }
        let old = self.marks.partition_point(|mark| mark.at + info.min_rtt <= now);
        let oldest = old.checked_sub(1).map_or(acked, |newest| self.marks[newest].end);
        guess.min(oldest.saturating_sub(acked))
    }

    /// Forgets the writes that are acknowledged; the round trip of the newest acknowledged byte.
    fn take_marks(&mut self, now: Time) -> Option<Duration> {
        while self.marks.front().is_some_and(|mark| mark.end < self.acked) {
            self.marks.pop_front();
        }
        let mark = self.marks.front().copied()?;
        if mark.end == self.acked {
            self.marks.pop_front();
        }
        // A clock may not have moved between a write and its acknowledgement on this machine.
        Some(now.since(mark.at).max(Duration::from_micros(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(acked: u64) -> TcpInfo {
        TcpInfo { acked, unsent: 5, ..TcpInfo::default() }
    }

    #[test]
    fn round_trips_are_those_of_the_newest_acknowledged_byte() {
        let ms = Time::from_millis;
        let mut gauge = Gauge::new(&info(1));
        gauge.wrote(ms(0), 50); // login
        let known = gauge.up(&info(1));
        assert!(known.rtt.is_none() && known.tcp.is_some());
        gauge.wrote(ms(10), 1000);
        gauge.wrote(ms(20), 1000);
        let waiting = gauge.sample(ms(21), &info(1)).unwrap();
        assert_eq!((waiting.rtt, waiting.in_flight), (None, Size(2000)), "nothing has an answer");
        assert!(gauge.sample(ms(26), &info(1)).is_none(), "it is told once");
        let sample = gauge.sample(ms(40), &info(1 + 20)).unwrap();
        assert_eq!((sample.delivered, sample.in_flight), (Size(0), Size(2000)), "login only");
        let sample = gauge.sample(ms(60), &info(1 + 50 + 1000)).unwrap();
        assert_eq!(sample.rtt, Some(Duration::from_millis(50)));
        assert_eq!((sample.delivered, sample.in_flight), (Size(1000), Size(1000)));
        assert_eq!(sample.unsent, Size(5));
        let sample = gauge.sample(ms(70), &info(1 + 50 + 1600)).unwrap();
        assert_eq!(sample.rtt, Some(Duration::from_millis(50)));
        let sample = gauge.sample(ms(80), &info(1 + 50 + 2000)).unwrap();
        assert_eq!(sample.rtt, Some(Duration::from_millis(60)));
        assert_eq!((sample.in_flight, sample.unsent), (Size::ZERO, Size::ZERO));
        assert!(!gauge.is_in_flight());
    }

    #[test]
    fn bytes_that_wait_for_their_first_answer_are_told_and_unsent_ones_are_not() {
        let ms = Time::from_millis;
        let mut gauge = Gauge::new(&info(0));
        gauge.up(&info(0));
        gauge.wrote(ms(0), 5);
        assert!(gauge.sample(ms(5), &info(0)).is_none(), "all five are unsent");
        gauge.wrote(ms(10), 100);
        assert!(gauge.sample(ms(15), &info(0)).is_some_and(|sample| sample.rtt.is_none()));
        // An answer for all of it, and a silence after the next write.
        assert!(gauge.sample(ms(20), &info(105)).is_some_and(|sample| sample.rtt.is_some()));
        gauge.wrote(ms(9000), 100);
        let silent = gauge.sample(ms(9005), &info(105)).unwrap();
        assert_eq!((silent.delivered, silent.in_flight), (Size(105), Size(100)));
    }

    #[test]
    fn what_is_there_behind_a_lost_segment_counts_once() {
        let ms = Time::from_millis;
        let mut gauge = Gauge::new(&info(0));
        gauge.up(&info(0));
        for write in 0..10 {
            gauge.wrote(ms(write), 100);
        }
        let sacked = |acked, sacked| TcpInfo { acked, sacked: Some(sacked), ..TcpInfo::default() };
        // The third is lost, the next four are there.
        let sample = gauge.sample(ms(50), &sacked(200, [4, 8])).unwrap();
        assert_eq!((sample.delivered, sample.in_flight), (Size(600), Size(400)));
        assert_eq!(sample.rtt, Some(Duration::from_millis(45)));
        let sample = gauge.sample(ms(60), &sacked(800, [0, 2])).unwrap();
        assert_eq!((sample.delivered, sample.in_flight), (Size(800), Size(200)));
        let waiting = gauge.sample(ms(61), &sacked(800, [0, 2])).unwrap();
        assert_eq!((waiting.rtt, waiting.delivered), (None, Size(800)), "nothing is taken back");
    }

    #[test]
    fn what_was_written_a_moment_ago_is_not_behind_a_gap() {
        let ms = Time::from_millis;
        let mut gauge = Gauge::new(&info(0));
        gauge.up(&info(0));
        // Nine alarms, of which the first is lost, and ten long segments a millisecond ago.
        for write in 0..9 {
            gauge.wrote(ms(write), 200);
        }
        gauge.wrote(ms(107), 14_480);
        let min_rtt = Duration::from_millis(100);
        let sacked = TcpInfo { sacked: Some([8, 19]), min_rtt, ..TcpInfo::default() };
        let sample = gauge.sample(ms(108), &sacked).unwrap();
        assert_eq!(sample.rtt, Some(min_rtt), "that of the newest alarm");
        assert_eq!((sample.delivered, sample.in_flight), (Size(1800), Size(14_480)));
        // Duplicate acknowledgements of a far end that says no more tell nothing.
        let plain = TcpInfo { sacked: None, unacked: 27_512, ..sacked };
        let mut gauge = Gauge::new(&info(0));
        gauge.wrote(ms(0), 2000);
        let waiting = gauge.sample(ms(150), &plain).unwrap();
        assert_eq!((waiting.rtt, waiting.in_flight), (None, Size(2000)));
    }

    #[test]
    fn what_a_timer_took_for_lost_before_the_state_was_left_is_its_own() {
        let ms = Time::from_millis;
        let mut gauge = Gauge::new(&info(0));
        gauge.up(&info(0));
        gauge.wrote(ms(0), 300);
        let fired = TcpInfo { is_timeout: true, resent: 100, ..info(100) };
        assert!(gauge.sample(ms(300), &fired).is_some_and(|sample| sample.is_timeout));
        let over = TcpInfo { resent: 200, ..info(200) };
        assert!(gauge.sample(ms(305), &over).is_some_and(|sample| sample.is_timeout));
        let later = TcpInfo { resent: 200, ..info(300) };
        assert!(gauge.sample(ms(310), &later).is_some_and(|sample| !sample.is_timeout));
    }

    #[test]
    fn a_timer_that_fired_before_the_answer_came_is_told() {
        let ms = Time::from_millis;
        let mut gauge = Gauge::new(&info(0));
        gauge.up(&info(0));
        gauge.wrote(ms(0), 100);
        assert!(gauge.sample(ms(5), &info(0)).is_some());
        let silent = TcpInfo { is_timeout: true, resent: 100, ..info(0) };
        assert!(gauge.sample(ms(300), &silent).is_none());
        let late = TcpInfo { resent: 100, ..info(100) };
        assert!(gauge.sample(ms(305), &late).is_some_and(|sample| sample.is_timeout));
    }

    #[test]
    fn many_writes_merge() {
        let mut gauge = Gauge::new(&info(0));
        for _ in 0..10_000 {
            gauge.wrote(Time::ZERO, 1);
        }
        assert_eq!(gauge.marks.len(), MARKS_MAX);
        let sample = gauge.sample(Time::from_millis(1), &info(10_000)).unwrap();
        assert_eq!((sample.delivered, sample.in_flight), (Size(10_000), Size::ZERO));
        assert!(gauge.marks.is_empty());
    }
}
