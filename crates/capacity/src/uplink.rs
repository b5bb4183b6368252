//! One uplink: its rate controller, its pacer, and the exact count of bytes below the scheduler.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::limits::{CUT_MAX, CUT_MIN};
use tidegate_types::units::{Rate, Size, Time};

use crate::pace::Pacer;
use crate::window_filter::{Extreme, WindowFilter};
use crate::{Ack, PathSample, RateController, RateControllerName, UplinkOptions};

/// How far back the delivered bytes are remembered: longer than any round trip that can be used.
const HISTORY: Duration = Duration::from_secs(10);
/// Bound on the remembered points: one each 2 ms.
const HISTORY_MAX: usize = 5000;

/// What urgent bytes alone may always fill: what a fresh start sends (RFC 6928). A link that returns from a
/// silence has bytes to carry at once; nothing is held up by them but what is as urgent.
const URGENT_MIN: Size = Size(14_600);
/// Round trip that is taken for one that is not measured yet.
const RTT_GUESS: Duration = Duration::from_millis(100);

/// Bytes of one path.
#[derive(Clone, Copy, Debug, Default)]
struct PathBytes {
    /// Picked and not yet reported as handed to the path.
    picked: Size,
    /// Handed to the path and not acknowledged.
    below: Size,
    /// Acknowledged since the path came up.
    delivered: Size,
    lost: Size,
    marked: Size,
}

/// Of what a piece was a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PickedOf {
    /// It was read back from a backlog.
    pub is_backlog: bool,
    /// Its class's bound on latency; `None` for what is late in any case.
    pub bound: Option<Duration>,
}

/// For so long a stream counts that sent nothing since: an alarm each few seconds must not find a queue of bulk.
const URGENCY: Duration = Duration::from_secs(10);
/// Bytes over which the part of a backlog is reckoned.
const BACKLOG_BYTES: f64 = 256.0 * 1024.0;

/// The state of one uplink.
#[derive(Debug)]
pub struct Uplink {
    controller: Box<dyn RateController>,
    /// Bound of the pace's floor: a configured rate is a cap. Zero where the rate controller does not estimate.
    floor_max: Rate,
    /// No network below, or one that keeps its own count: bytes handed over are gone.
    is_forgotten: bool,
    /// No network below.
    is_local: bool,
    pacer: Pacer,
    paths: Vec<PathBytes>,
    delivered: Size,
    /// Acknowledged, found lost and marked since the rate controller was last told: a sample without a round trip is not
    /// told, and must not take these with it.
    newly: Size,
    lost: Size,
    marked: Size,
    /// Of the lost some are gaps between acknowledged ones.
    has_gaps: bool,
    /// (time, delivered) points, oldest first: to find what was delivered when a byte was sent.
    history: VecDeque<(Time, Size)>,
    /// Acknowledgements up to here were sent while there was nothing more to send.
    limited_upto: Size,
    rtt: Option<Duration>,
    /// Part of the bytes picked lately that were read back from a backlog.
    backlog_part: f64,
    /// The tightest bound of what was picked lately, seconds.
    bounds: WindowFilter,
    /// What the driver saw below it, where it said so.
    observed: Option<Rate>,
    /// What it is believed to carry before anything was measured: the estimate of an earlier run, a configured rate.
    told: Option<Rate>,
}

impl Uplink {
    /// An uplink of these options, under this rate controller and with so many paths.
    pub fn new(options: &UplinkOptions, controller: Box<dyn RateController>, paths: usize) -> Self {
        let floor_max = match options.controller {
            RateControllerName::Known
            | RateControllerName::Unlimited
            | RateControllerName::Reported => Rate::ZERO,
            _ => options.cap.unwrap_or(Rate::new(f64::MAX)),
        };
        Uplink {
            controller,
            floor_max,
            is_forgotten: matches!(
                options.controller,
                RateControllerName::Unlimited | RateControllerName::Reported
            ),
            is_local: options.controller == RateControllerName::Unlimited,
            pacer: Pacer::default(),
            paths: vec![PathBytes::default(); paths],
            delivered: Size::ZERO,
            newly: Size::ZERO,
            lost: Size::ZERO,
            marked: Size::ZERO,
            has_gaps: false,
            history: VecDeque::new(),
            limited_upto: Size::ZERO,
            rtt: None,
            backlog_part: 0.0,
            bounds: WindowFilter::new(Extreme::Min),
            observed: None,
            told: [options.remembered, options.cap].into_iter().flatten().reduce(Rate::min),
        }
    }

    /// So many more paths; answers with the place of the first of them.
    pub fn add_paths(&mut self, count: usize) -> usize {
        let first = self.paths.len();
        self.paths.resize(first + count, PathBytes::default());
        first
    }

    /// Another rate or law from now on. It goes on with the capacity that it has found, and with what is under way.
    pub fn govern(&mut self, options: &UplinkOptions) {
        let found = Some(self.capacity()).filter(|rate| !rate.is_zero());
        let options = UplinkOptions { remembered: found, ..options.clone() };
        let next = Uplink::new(&options, crate::build(&options), 0);
        self.controller = next.controller;
        (self.floor_max, self.is_forgotten) = (next.floor_max, next.is_forgotten);
        (self.is_local, self.told) = (next.is_local, next.told);
        self.controller.patient(self.is_patient());
    }

    /// Bytes below the scheduler.
    #[inline]
    pub fn in_flight(&self) -> Size {
        self.paths.iter().map(|path| path.picked + path.below).sum()
    }

    /// Bytes picked for a path and not yet reported as handed over.
    #[inline]
    pub fn picked(&self, path: usize) -> Size {
        self.paths[path].picked
    }

    /// The size of one cut at the present rate.
    #[inline]
    pub fn cut(&self) -> Size {
        // Where there is no network below, there is no wire that a large cut could hold up.
        if self.is_local { CUT_MAX } else { self.controller.cut() }
    }

    /// The rate at which bytes may be handed over; zero where nothing but the window holds them back. At
    /// least a packet a round trip, whatever an estimate fell to in a silence or began with: at 20 byte/s a
    /// pacer holds a packet for a minute, and nothing teaches the rate controller better.
    #[inline]
    pub fn pace(&self) -> Rate {
        let pace = self.controller.pace();
        if pace.is_zero() {
            return pace;
        }
        let floor = Rate::of(CUT_MIN, self.rtt.unwrap_or(RTT_GUESS));
        pace.max(floor.min(self.floor_max))
    }

    /// Whether a piece may go now. An urgent one, for this path, skips the pacer and may overdraw the
    /// window: by a cut, or as far as urgent bytes alone would fill it, or a first window. What is under way
    /// of others holds it up below in any case, and here it would hold it up as well.
    pub fn is_free(&self, now: Time, piece: Size, urgent: Option<usize>) -> bool {
        let in_flight = self.in_flight();
        if in_flight == Size::ZERO {
            // Whatever the window is, one piece at a time always passes.
            return urgent.is_some() || self.pacer.next_free(now, self.pace()) <= now;
        }
        let window = self.controller.window();
        if let Some(path) = urgent {
            let own = self.paths[path].picked + self.paths[path].below;
            return in_flight + piece <= window + self.cut()
                || own + piece <= window.max(URGENT_MIN);
        }
        in_flight + piece <= window && self.pacer.next_free(now, self.pace()) <= now
    }

    /// When the pacer lets the next piece go; `None` where the window is closed, for then only an
    /// acknowledgement helps.
    #[inline]
    pub fn next_free(&self, now: Time, piece: Size) -> Option<Time> {
        let in_flight = self.in_flight();
        let is_open = in_flight == Size::ZERO || in_flight + piece <= self.controller.window();
        is_open.then(|| self.pacer.next_free(now, self.pace()))
    }

    /// A piece was picked for a path.
    #[inline]
    pub fn picked_for(&mut self, now: Time, path: usize, piece: Size) {
        if !self.is_forgotten && self.in_flight() == Size::ZERO {
            // The delivery rate is measured from here: nothing was under way before.
            self.remember(now);
        }
        self.paths[path].picked += piece;
        self.pacer.spend(now, self.pace(), piece);
        let in_flight = self.in_flight();
        self.controller.sent(now, piece, in_flight);
    }

    /// What was picked. While most was read back from a backlog, the rate controller keeps no queue below, which a live record
    /// would meet: nobody waits for a backlog. And the tightest bound of late says how long a queue may be.
    #[inline]
    pub fn picked_of(&mut self, now: Time, of: PickedOf, piece: Size) {
        if let Some(bound) = of.bound {
            self.bounds.push(now.as_nanos(), URGENCY.as_nanos() as u64, bound.as_secs_f64());
        }
        let is_backlog = of.is_backlog;
        let weight = (piece.as_f64() / BACKLOG_BYTES).min(1.0);
        self.backlog_part += (f64::from(u8::from(is_backlog)) - self.backlog_part) * weight;
        // What has no queue below hears of none, for each record.
        if !self.is_local {
            self.controller.patient(self.is_patient());
            self.controller.urgent(self.bounds.get().map(Duration::from_secs_f64));
        }
    }

    /// Whether most of what was picked lately was read back from a backlog.
    #[inline]
    pub fn is_patient(&self) -> bool {
        self.backlog_part > 0.5
    }

    /// The driver handed a piece to the path as so many bytes.
    #[inline]
    pub fn handed(&mut self, path: usize, piece: Size, bytes: Size) {
        let path = &mut self.paths[path];
        path.picked = path.picked.saturating_sub(piece);
        if !self.is_forgotten {
            path.below += bytes;
        }
    }

    /// Byte-level feedback of a path.
    pub fn sample(&mut self, now: Time, path: usize, sample: &PathSample) {
        let bytes = &mut self.paths[path];
        let newly = sample.delivered.saturating_sub(bytes.delivered);
        let lost = sample.lost.saturating_sub(bytes.lost);
        bytes.delivered = bytes.delivered.max(sample.delivered);
        bytes.lost = bytes.lost.max(sample.lost);
        self.marked += sample.marked.saturating_sub(bytes.marked);
        bytes.marked = bytes.marked.max(sample.marked);
        self.has_gaps |= lost > Size::ZERO && !sample.is_timeout;
        bytes.below = sample.in_flight;
        self.delivered += newly;
        self.newly += newly;
        self.lost += lost;
        let Some(rtt) = sample.rtt else { return };
        self.rtt = Some(rtt);
        let sent_at = now - rtt;
        let (reached_at, delivered_at_send) = self.delivered_at(sent_at);
        let ack = Ack {
            rtt,
            sent_at,
            delivered_at_send,
            reached_at,
            delivered: self.delivered,
            newly: std::mem::take(&mut self.newly),
            in_flight: self.in_flight(),
            is_timeout: self.lost > Size::ZERO && !std::mem::take(&mut self.has_gaps),
            lost: std::mem::take(&mut self.lost),
            marked: std::mem::take(&mut self.marked),
            app_limited: delivered_at_send <= self.limited_upto,
        };
        self.remember(now);
        self.controller.acked(now, &ack);
    }

    /// What is below has found its own capacity.
    #[inline]
    pub fn report_rate(&mut self, rate: Rate) {
        self.controller.report_rate(rate);
        self.observed = Some(rate);
    }

    /// Bytes/s that it could carry, for whoever adapts to it: what was measured, or what it was told to carry. What was
    /// seen below where no rate controller finds it, and without end where nothing was seen yet. `None` where nothing
    /// is known.
    #[inline]
    pub fn observed(&self) -> Option<Rate> {
        if self.is_local {
            return Some(self.observed.unwrap_or(Rate::new(f64::MAX)));
        }
        let measured = Some(self.capacity()).filter(|rate| !rate.is_zero());
        measured.or(self.told)
    }

    /// There is nothing to send. Where there is room below, what is in flight measures us and not the
    /// uplink.
    #[inline]
    pub fn idle(&mut self) {
        let in_flight = self.in_flight();
        if in_flight + CUT_MIN <= self.controller.window() {
            self.limited_upto = self.delivered + in_flight;
        }
    }

    /// A path went down: nothing of it is below any more.
    #[inline]
    pub fn path_down(&mut self, path: usize) {
        self.paths[path] = PathBytes::default();
    }

    /// Time passes.
    #[inline]
    pub fn tick(&mut self, now: Time) {
        if self.controller.next_timeout().is_some_and(|at| at <= now) {
            self.controller.tick(now);
        }
    }

    /// When `tick` must be called next.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        self.controller.next_timeout()
    }

    /// The estimated capacity; zero while unknown.
    #[inline]
    pub fn capacity(&self) -> Rate {
        self.controller.rate()
    }

    /// Bytes that may be below the scheduler.
    #[inline]
    pub fn window(&self) -> Size {
        self.controller.window()
    }

    /// The smallest round trip seen on the present path.
    #[inline]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.controller.min_rtt()
    }

    /// The newest round trip.
    #[inline]
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    #[inline]
    fn remember(&mut self, now: Time) {
        self.history.push_back((now, self.delivered));
        let is_old = |&(at, _): &(Time, Size)| at + HISTORY < now;
        while self.history.len() > HISTORY_MAX || self.history.front().is_some_and(is_old) {
            self.history.pop_front();
        }
    }

    /// The last point of the history at or before `time`.
    #[inline]
    fn delivered_at(&self, time: Time) -> (Time, Size) {
        match self.history.partition_point(|&(at, _)| at <= time) {
            0 => self.history.front().map_or((time, Size::ZERO), |&(_, bytes)| (time, bytes)),
            after => self.history[after - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::pace::CREDIT_MAX;

    /// A rate controller that says what it is told to and remembers what it heard.
    #[derive(Clone, Debug)]
    struct Said {
        rate: Rate,
        window: u64,
        heard: Arc<Mutex<Vec<Ack>>>,
    }

    impl RateController for Said {
        fn acked(&mut self, _now: Time, ack: &Ack) {
            self.heard.lock().unwrap().push(*ack);
        }
        fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}
        fn tick(&mut self, _now: Time) {}
        fn rate(&self) -> Rate {
            self.rate
        }
        fn window(&self) -> Size {
            Size(self.window)
        }
        fn pace(&self) -> Rate {
            self.rate
        }
        fn min_rtt(&self) -> Option<Duration> {
            None
        }
    }

    const NOW: Time = Time::from_millis(1000);
    const RTT: Duration = Duration::from_millis(50);

    fn uplink(
        controller: RateControllerName,
        cap: Option<Rate>,
        rate: f64,
    ) -> (Uplink, Arc<Mutex<Vec<Ack>>>) {
        uplink_with(controller, cap, rate, 10_000)
    }

    fn uplink_with(
        controller: RateControllerName,
        cap: Option<Rate>,
        rate: f64,
        window: u64,
    ) -> (Uplink, Arc<Mutex<Vec<Ack>>>) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let said = Said { rate: Rate::new(rate), window, heard: heard.clone() };
        let options =
            UplinkOptions { name: "wan".into(), controller, cap, ..UplinkOptions::default() };
        (Uplink::new(&options, Box::new(said), 2), heard)
    }

    fn sample(delivered: u64, in_flight: u64, lost: u64, rtt: Option<Duration>) -> PathSample {
        let (delivered, in_flight, lost) = (Size(delivered), Size(in_flight), Size(lost));
        PathSample { rtt, delivered, in_flight, lost, ..PathSample::default() }
    }

    #[test]
    fn bytes_below_are_counted_from_the_pick_to_the_acknowledgement() {
        let (mut uplink, _) = uplink(RateControllerName::Tide, None, 1e6);
        uplink.picked_for(NOW, 0, Size(1000));
        uplink.picked_for(NOW, 1, Size(500));
        assert_eq!((uplink.in_flight(), uplink.picked(0)), (Size(1500), Size(1000)));
        uplink.handed(0, Size(1000), Size(1040));
        assert_eq!((uplink.in_flight(), uplink.picked(0)), (Size(1540), Size::ZERO));
        uplink.sample(NOW, 0, &sample(700, 340, 0, Some(RTT)));
        assert_eq!(uplink.in_flight(), Size(840));
        uplink.path_down(1);
        assert_eq!(uplink.in_flight(), Size(340));
    }

    #[test]
    fn another_cap_counts_at_once_and_what_is_under_way_stays() {
        let of = |megabits: f64| UplinkOptions {
            name: "wan".into(),
            controller: RateControllerName::Known,
            cap: Some(Rate::from_bits(megabits * 1e6)),
            ..UplinkOptions::default()
        };
        let mut uplink = Uplink::new(&of(8.0), crate::build(&of(8.0)), 1);
        uplink.picked_for(NOW, 0, Size(1000));
        let before = uplink.pace();
        uplink.govern(&of(2.0));
        assert_eq!(uplink.in_flight(), Size(1000));
        assert!((uplink.pace().as_f64() / before.as_f64() - 0.25).abs() < 1e-9);
        let tide = UplinkOptions { controller: RateControllerName::Tide, ..of(1.0) };
        uplink.govern(&tide);
        assert!(uplink.pace() <= Rate::from_bits(1e6));
    }

    #[test]
    fn a_sample_without_a_round_trip_loses_nothing() {
        let (mut uplink, heard) = uplink(RateControllerName::Tide, None, 1e6);
        uplink.sample(NOW, 0, &sample(1000, 0, 0, Some(RTT)));
        uplink.sample(NOW, 0, &sample(1500, 0, 300, None));
        uplink.sample(NOW, 1, &sample(200, 0, 0, Some(RTT)));
        let heard = heard.lock().unwrap();
        let told: Vec<(u64, u64, u64)> =
            heard.iter().map(|ack| (ack.newly.0, ack.lost.0, ack.delivered.0)).collect();
        assert_eq!(told, [(1000, 0, 1000), (700, 300, 1700)]);
    }

    #[test]
    fn a_rate_is_measured_from_what_was_delivered_when_the_byte_was_sent() {
        let (mut uplink, heard) = uplink(RateControllerName::Tide, None, 1e6);
        for step in 0..10 {
            let now = NOW + Duration::from_millis(10) * step;
            uplink.sample(now, 0, &sample(1000 * u64::from(step + 1), 0, 0, Some(RTT)));
        }
        let last = heard.lock().unwrap()[9];
        assert_eq!(last.sent_at, NOW + Duration::from_millis(40));
        assert_eq!((last.delivered, last.delivered_at_send), (Size(10_000), Size(5_000)));
    }

    #[test]
    fn what_was_sent_while_idle_says_little_about_the_uplink() {
        let (mut uplink, heard) = uplink(RateControllerName::Tide, None, 1e6);
        uplink.picked_for(NOW, 0, Size(1000));
        uplink.handed(0, Size(1000), Size(1000));
        uplink.idle();
        uplink.picked_for(NOW, 0, Size(9000)); // the window is full: nothing is idle any more
        uplink.handed(0, Size(9000), Size(9000));
        uplink.idle();
        uplink.sample(NOW, 0, &sample(1000, 9000, 0, Some(RTT)));
        uplink.sample(NOW + RTT, 0, &sample(1001, 8999, 0, Some(RTT)));
        uplink.sample(NOW + RTT * 2, 0, &sample(5000, 5000, 0, Some(RTT / 2)));
        let limited: Vec<bool> = heard.lock().unwrap().iter().map(|ack| ack.app_limited).collect();
        // The third byte was sent when all that was under way while idle had been delivered.
        assert_eq!(limited, [true, true, false]);
    }

    #[test]
    fn the_urgent_overdraw_the_window_by_a_cut() {
        let (mut uplink, _) = uplink_with(RateControllerName::Tide, None, 250_000.0, 20_000);
        let cut = uplink.cut();
        assert_eq!(cut, Size(2000));
        uplink.picked_for(NOW, 0, Size(19_500));
        let later = NOW + Duration::from_secs(1);
        assert!(uplink.is_free(later, Size(500), None) && !uplink.is_free(later, Size(501), None));
        let may_overdraw = |bytes, path| uplink.is_free(later, Size(bytes), Some(path));
        assert!(may_overdraw(2_500, 0) && !may_overdraw(2_501, 0));
        assert!(
            may_overdraw(20_000, 1) && !may_overdraw(20_001, 1),
            "what is under way of others does not hold them up"
        );
        assert!(!uplink.is_free(NOW, Size(500), None), "the pacer is not ready");
        assert!(uplink.is_free(NOW, Size(500), Some(0)), "the urgent do not wait for it");
        let free = uplink.next_free(NOW, Size(500));
        assert_eq!(free, Some(NOW + Duration::from_millis(78) - CREDIT_MAX));
        assert_eq!(uplink.next_free(NOW, Size(501)), None, "only an acknowledgement helps");
    }

    #[test]
    fn the_urgent_fill_a_first_window_whatever_the_rate_controller_says() {
        let (mut uplink, _) = uplink_with(RateControllerName::Tide, None, 250_000.0, 3_000);
        uplink.picked_for(NOW, 0, Size(6_000));
        let may_go = |bytes| uplink.is_free(NOW, Size(bytes), Some(0));
        assert!(may_go(8_600) && !may_go(8_601));
        assert!(!uplink.is_free(NOW + RTT, Size(1), None));
    }

    #[test]
    fn one_piece_passes_whatever_the_window_is() {
        let (mut uplink, _) = uplink(RateControllerName::Tide, None, 1e9);
        assert!(uplink.is_free(NOW, CUT_MAX, None));
        uplink.picked_for(NOW, 0, CUT_MAX);
        assert!(!uplink.is_free(NOW + RTT, Size(1), None));
    }

    #[test]
    fn an_estimate_that_fell_to_nothing_does_not_stop_the_node() {
        let wait = |controller, cap: Option<f64>, rate| {
            let (mut uplink, _) = uplink(controller, cap.map(Rate::new), rate);
            uplink.sample(NOW, 0, &sample(1, 0, 0, Some(RTT)));
            uplink.picked_for(NOW, 0, CUT_MIN);
            uplink.next_free(NOW, CUT_MIN).unwrap().since(NOW)
        };
        assert_eq!(wait(RateControllerName::Tide, None, 0.001), RTT - CREDIT_MAX);
        assert_eq!(
            wait(RateControllerName::Tide, Some(14_000.0), 0.001),
            2 * RTT - CREDIT_MAX,
            "a cap is a cap"
        );
        assert_eq!(wait(RateControllerName::Known, Some(14_000.0), 12_880.0).as_millis(), 106);
    }

    #[test]
    fn without_a_network_below_nothing_is_acknowledged() {
        let (mut uplink, _) = uplink(RateControllerName::Unlimited, None, 0.0);
        uplink.picked_for(NOW, 0, Size(1000));
        uplink.handed(0, Size(1000), Size(1000));
        assert_eq!((uplink.in_flight(), uplink.cut()), (Size::ZERO, CUT_MAX));
    }
}
