//! `lab sim frames-step`: a camera, a link and a channel that falls from 40 to 4 Mbit/s and rises again.
//!
//! As `lab bench frames-step`, in virtual time: a flow and both ends of a link are the product's, what lies between them
//! (a node's queues, a codec) is a list by deadline and a time. What a frame met is told frame by frame, so that the cause
//! of one that was late can be read.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tidegate_frames::{ControllerName, Flow, FrameTarget, Gains, InfeasiblePolicy, Ladder};
use tidegate_link::packet::Custody;
use tidegate_link::{Link, LinkEvent, LinkOptions, Outgoing, PathOptions};
use tidegate_types::record::Fate;
use tidegate_types::units::{Size, Time};

use crate::bench::median;
use crate::link::{Direction, Options as Way, Outcome, Profile, Service};
use crate::report::{Findings, figure};

/// Bits a second, high and low, and how long each stays.
const RATES: (u64, u64) = (40_000_000, 4_000_000);
const HALF: Duration = Duration::from_secs(6);
/// Before the first fall.
const WARM: Duration = Duration::from_secs(5);
/// Falls of each run, each between frames elsewhere.
const STEPS: u32 = 6;
const DELAY: Duration = Duration::from_millis(5);
const QUEUE: u64 = 256_000;
/// What lies below a packet of the link.
const OVERHEAD: u64 = 60;
/// From capture to arrival.
const BOUND: Duration = Duration::from_millis(100);
const ENCODE: Duration = Duration::from_millis(12);
/// Bytes of a piece of a frame.
const PIECE: u64 = 8192;
/// A frame's bytes over those of its rung, and those of the frame as it was taken.
const SCENE: f64 = 1.7;
const SOURCE: u64 = 180_000;
/// Frames a second, and the target of settling, milliseconds.
const CASES: [(u32, f64); 2] = [(15, 250.0), (5, 500.0)];
const UP_MS: f64 = 2000.0;
/// So long all frames must be in time.
const CALM: Duration = Duration::from_secs(1);

/// What became of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Frame {
    taken: Time,
    /// Rung, and bytes as it left, if it did; and when.
    left: Option<(usize, u64, Time)>,
    /// When all of it was there.
    came: Option<Time>,
    /// Pieces that have not come.
    missing: u64,
    /// Bytes in the channel's queue when it left.
    queue: u64,
}

impl Frame {
    fn is_in_time(&self) -> bool {
        self.came.is_some_and(|came| came <= self.taken + BOUND)
    }
}

/// A piece that waits before the link.
#[derive(Clone, Copy, Debug)]
struct Piece {
    token: u64,
    bytes: u64,
    expires: Time,
}

struct World {
    now: Time,
    ends: [Link; 2],
    ways: [Direction<Vec<u8>>; 2],
    ladder: Ladder,
    flow: Flow,
    /// Chosen, being encoded: frame, rung, and when it is done.
    encoding: Option<(u64, usize, Time)>,
    waiting: VecDeque<Piece>,
    /// Frame and bytes of pieces without a fate.
    open: BTreeMap<u64, (u64, u64)>,
    tokens: u64,
    frames: Vec<Frame>,
}

/// Runs it; answers the lines to print. `traces`: whether each frame after a fall has a line.
pub(super) fn run(ladder: &Ladder, traces: bool) -> Findings {
    let mut lines = vec![format!(
        "{:<10} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "frames/s", "settled", "worst", "up", "worst", "p95", "in time"
    )];
    let mut figures = Vec::new();
    for (per_second, target) in CASES {
        let falls = falls(per_second);
        let frames = play(ladder, per_second, &falls);
        if traces {
            falls.iter().for_each(|&fall| lines.extend(trace(ladder, &frames, fall)));
        }
        let settled: Vec<f64> = falls.iter().map(|&fall| ms(settled(&frames, fall))).collect();
        let up: Vec<f64> = falls.iter().map(|&fall| ms(returned(&frames, fall))).collect();
        let worst = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        let in_time = frames.iter().filter(|frame| frame.is_in_time()).count();
        let in_time = in_time as f64 / frames.len() as f64;
        lines.push(format!(
            "{per_second:<10} {:>7.0} ms {:>7.0} ms {:>7.0} ms {:>7.0} ms {:>6.1} ms {in_time:>9.3}",
            median(settled.clone()),
            worst(&settled),
            median(up.clone()),
            worst(&up),
            p95(&frames),
        ));
        let keeps = |is_kept: bool| if is_kept { "kept" } else { "MISSED" };
        lines.push(format!(
            "           settled within {target:.0} ms: {}; up within {UP_MS:.0} ms: {}",
            keeps(median(settled.clone()) <= target),
            keeps(median(up.clone()) <= UP_MS)
        ));
        let name = |what: &str| format!("frames_sim_step_{per_second}fps_{what}");
        figures.push(figure(&name("settled"), median(settled), "ms"));
        figures.push(figure(&name("up"), median(up), "ms"));
        figures.push(figure(&name("in_time"), in_time, "1"));
    }
    (lines, figures).into()
}

fn ms(took: Option<Duration>) -> f64 {
    took.map_or(f64::INFINITY, |took| took.as_secs_f64() * 1e3)
}

fn falls(per_second: u32) -> Vec<Time> {
    let period = Duration::from_secs(1) / per_second;
    let fall = |step: u32| {
        let shift = period * (2 * step + 1) / (2 * STEPS);
        Time::ZERO + WARM + HALF * 2 * step + shift
    };
    (0..STEPS).map(fall).collect()
}

/// The channel that falls at these times.
fn service(falls: &[Time]) -> Service {
    let mut steps = vec![(Duration::ZERO, RATES.0)];
    for fall in falls {
        let fall = fall.since(Time::ZERO);
        steps.extend([(fall, RATES.1), (fall + HALF, RATES.0)]);
    }
    Service::Rate(Profile::new(steps, None).expect("the times rise"))
}

/// From a fall to the first frame from which on all frames of a second are in time.
fn settled(frames: &[Frame], fall: Time) -> Option<Duration> {
    let after = frames.iter().filter(|frame| frame.taken >= fall && frame.taken < fall + HALF);
    let is_calm = |first: &&Frame| {
        let second = frames
            .iter()
            .filter(|frame| frame.taken >= first.taken && frame.taken < first.taken + CALM);
        second.clone().count() > 0 && second.clone().all(Frame::is_in_time)
    };
    after.clone().find(is_calm).map(|first| first.taken.since(fall))
}

/// From a rise to a frame in time at most one rung below the middle one of the second before the fall.
fn returned(frames: &[Frame], fall: Time) -> Option<Duration> {
    let within = |from: Time, until: Time| {
        frames.iter().filter(move |frame| frame.taken >= from && frame.taken < until)
    };
    let mut rungs: Vec<usize> =
        within(fall - CALM, fall).filter_map(|frame| frame.left.map(|left| left.0)).collect();
    rungs.sort_unstable();
    let usual = *rungs.get(rungs.len() / 2)?;
    let rise = fall + HALF;
    let back = within(rise, rise + HALF)
        .find(|frame| frame.is_in_time() && frame.left.is_some_and(|left| left.0 + 1 >= usual))?;
    back.came.map(|came| came.since(rise))
}

fn p95(frames: &[Frame]) -> f64 {
    let came = frames.iter().filter_map(|frame| frame.came.map(|came| came.since(frame.taken)));
    let mut all: Vec<Duration> = came.collect();
    all.sort_unstable();
    ms(all.get(all.len() * 95 / 100).copied())
}

/// What frames met around a fall.
fn trace(ladder: &Ladder, frames: &[Frame], fall: Time) -> Vec<String> {
    let since = |at: Time| at.since(fall).as_secs_f64() * 1e3 - fall.since(at).as_secs_f64() * 1e3;
    let near = frames
        .iter()
        .filter(|frame| frame.taken + CALM / 4 >= fall && frame.taken < fall + CALM + CALM / 2);
    let line = |frame: &Frame| {
        let left = frame.left.map_or("left out".into(), |(rung, bytes, at)| {
            let accuracy = ladder.rungs().get(rung).map_or(1.0, |rung| rung.accuracy);
            format!(
                "rung {rung:>2} ({accuracy:.3}) {bytes:>7} B left {:>6.0} behind {:>6} B",
                since(at),
                frame.queue
            )
        });
        let came = frame.came.map_or("never came".into(), |came| {
            format!("came after {:>4.0} ms", ms(Some(came.since(frame.taken))))
        });
        format!("  taken {:>6.0} ms: {left}; {came}", since(frame.taken))
    };
    near.map(line).collect()
}

fn play(ladder: &Ladder, per_second: u32, falls: &[Time]) -> Vec<Frame> {
    let target = FrameTarget { latency: BOUND, accuracy: 0.9, policy: InfeasiblePolicy::Degrade };
    let way = || Way { service: service(falls), ..Way::new(RATES.0, DELAY, QUEUE) };
    let mut ends = [11, 22].map(|incarnation| Link::new(LinkOptions::new(incarnation, 1)));
    let now = Time::from_millis(1);
    ends.iter_mut().for_each(|end| end.path_up(0, now, PathOptions::default()));
    let mut world = World {
        now,
        ends,
        ways: [way(), Way::new(RATES.0, DELAY, QUEUE)].map(|way| Direction::new(way, 1)),
        flow: Flow::new(target, ControllerName::FeedForward, ladder, Gains::default()),
        ladder: ladder.clone(),
        encoding: None,
        waiting: VecDeque::new(),
        open: BTreeMap::new(),
        tokens: 0,
        frames: Vec::new(),
    };
    let period = Duration::from_secs(1) / per_second;
    let end = WARM + HALF * 2 * STEPS;
    let mut due = Time::from_millis(500);
    while due < Time::ZERO + end {
        world.run_until(due);
        world.take();
        due += period;
    }
    world.run_until(due + CALM);
    world.frames
}

impl World {
    /// A frame is taken now.
    fn take(&mut self) {
        self.frames.push(Frame { taken: self.now, ..Frame::default() });
        self.flow.arrived(self.frames.len() as u64, self.now);
        self.pump();
    }

    fn run_until(&mut self, end: Time) {
        self.pump();
        while let Some(at) = self.next().filter(|&at| at <= end) {
            self.now = at.max(self.now);
            for end in 0..2 {
                while let Some(outcome) = self.ways[end].poll(self.now) {
                    if let Outcome::Arrived { item, .. } = outcome {
                        self.ends[1 - end].receive(0, &item, self.now).expect("our own packet");
                    }
                }
                if self.ends[end].next_timeout().is_some_and(|at| at <= self.now) {
                    self.ends[end].tick(self.now);
                }
            }
            self.pump();
        }
        self.now = end;
    }

    fn next(&self) -> Option<Time> {
        let ways = self.ways.iter().filter_map(Direction::next_timeout);
        let ends = self.ends.iter().filter_map(Link::next_timeout);
        let encoded = self.encoding.map(|(.., at)| at);
        let expires = self.waiting.front().map(|piece| piece.expires);
        // Timers of a node are this coarse.
        let soon = self.now + Duration::from_micros(500);
        ways.chain(ends.map(|at| at.max(soon))).chain(encoded).chain(expires).min()
    }

    /// Lets all do what they can now.
    fn pump(&mut self) {
        loop {
            let mut is_busy = self.leave();
            is_busy |= self.look();
            self.offer();
            for end in 0..2 {
                while let Some(packet) = self.ends[end].poll_transmit(0, self.now) {
                    let bytes = packet.len() as u64 + OVERHEAD;
                    self.ways[end].offer(self.now, bytes, packet);
                    is_busy = true;
                }
                while let Some(event) = self.ends[end].poll_event() {
                    self.event(end, event);
                    is_busy = true;
                }
            }
            if !is_busy {
                return;
            }
        }
    }

    /// Has the frame encoded that goes next.
    fn look(&mut self) -> bool {
        let Some((frame, rung)) = self.flow.poll(self.now, &self.ladder) else { return false };
        self.encoding = Some((frame, rung, self.now + ENCODE));
        true
    }

    /// A frame that is encoded leaves in pieces.
    fn leave(&mut self) -> bool {
        let Some((frame, rung, _)) = self.encoding.take_if(|(.., at)| *at <= self.now) else {
            return false;
        };
        let made = (self.ladder.rungs()[rung].bytes * SCENE) as u64;
        let is_source = SOURCE as f64 <= self.ladder.expected(rung);
        let bytes = if is_source { SOURCE } else { made };
        if !is_source {
            self.ladder.encoded(rung, made);
        }
        let taken = &mut self.frames[frame as usize - 1];
        taken.left = Some((rung, bytes, self.now));
        taken.queue = self.ways[0].queued();
        taken.missing = bytes.div_ceil(PIECE);
        let expires = taken.taken + BOUND;
        for piece in 0..taken.missing {
            self.tokens += 1;
            let bytes = PIECE.min(bytes - piece * PIECE);
            self.open.insert(self.tokens, (frame, bytes));
            self.waiting.push_back(Piece { token: self.tokens, bytes, expires });
        }
        self.flow.encoded(self.now, bytes);
        true
    }

    /// Offers what the link has room for, and gives up what has expired.
    fn offer(&mut self) {
        while let Some(piece) = self.waiting.front().copied() {
            if piece.expires <= self.now {
                self.waiting.pop_front();
                self.settled(piece.token, false);
                continue;
            }
            if self.ends[0].room() == Size::ZERO {
                return;
            }
            let mut content = vec![0; piece.bytes as usize];
            content[..8].copy_from_slice(&piece.token.to_be_bytes());
            let outgoing = Outgoing {
                token: piece.token,
                stream: 1,
                content: content.into(),
                deadline: self.now + BOUND,
                expires: Some(piece.expires),
            };
            if self.ends[0].offer(outgoing).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    fn settled(&mut self, token: u64, has_arrived: bool) {
        if let Some((frame, bytes)) = self.open.remove(&token) {
            self.flow.settled(self.now, frame, bytes, has_arrived);
        }
    }

    fn event(&mut self, end: usize, event: LinkEvent) {
        match event {
            LinkEvent::Arrived { record, content } => {
                self.arrived(&content);
                self.ends[end].settle(record, Custody::Final(Fate::Confirmed));
            }
            LinkEvent::Custody { token, custody: Custody::Final(_), .. } => {
                self.settled(token, true)
            }
            LinkEvent::Expired { token } => self.settled(token, false),
            _ => {}
        }
    }

    /// A piece has come.
    fn arrived(&mut self, content: &Bytes) {
        let token = content.first_chunk().map_or(0, |token| u64::from_be_bytes(*token));
        let Some(&(frame, _)) = self.open.get(&token) else { return };
        let frame = &mut self.frames[frame as usize - 1];
        frame.missing -= 1;
        if frame.missing == 0 {
            frame.came = Some(self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_and_a_rise_are_over_in_time() {
        let ladder = tidegate::services::cameras::load_ladder(None, false).unwrap().ladder;
        let lines = run(&ladder, true).lines;
        let missed = lines.iter().filter(|line| line.contains("MISSED")).count();
        assert_eq!(missed, 0, "{}", lines.join("\n"));
    }

    #[test]
    fn what_is_never_in_time_is_never_settled() {
        let frame = |millis| Frame { taken: Time::from_millis(millis), ..Frame::default() };
        let frames: Vec<Frame> = (0..100).map(|number| frame(number * 100)).collect();
        assert_eq!(settled(&frames, Time::from_millis(1000)), None);
        assert_eq!(returned(&frames, Time::from_millis(2000)), None);
    }
}
