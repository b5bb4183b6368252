//! A camera, a channel and a controller, in steps of a millisecond.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_frames::{
    CameraSubscription, Frame, FrameDecision, FrameTarget, InfeasiblePolicy, Ladder,
};
use tidegate_frames::{ControllerName, Gains};
use tidegate_types::random::SplitMix;
use tidegate_types::units::{Size, Time};

use super::channel::Channel;

/// One way, and back.
pub(super) const DELAY_MS: usize = 10;
/// From the choice of a rung to its bytes.
pub(super) const ENCODE_MS: usize = 6;
/// From capture to the last byte at the far end.
pub(super) const BOUND_MS: usize = 100;
/// Spread of what there is to see, from frame to frame and as a whole, and how much of it stays.
const CONTENT: (f64, f64) = (0.15, 0.97);

/// A camera: its frames are the same for whoever sends them.
#[derive(Debug)]
pub(super) struct Camera<'a> {
    pub(super) ladder: &'a Ladder,
    fps: usize,
    /// Factor on each frame's bytes.
    content: Vec<f64>,
}

/// Who sends, and what becomes of frames that wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sender {
    pub(super) name: &'static str,
    pub(super) controller: ControllerName,
    pub(super) gains: Gains,
    pub(super) habit: Habit,
}

/// What becomes of frames that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Habit {
    /// Each is sent, in order.
    All,
    /// The newest is sent when the one before has arrived.
    Newest,
    /// Those for which what is under way leaves no time are skipped.
    Skip,
    /// And those that are late are given up on their way.
    Cancel,
}

/// What one sender made of a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Score {
    /// Part of all frames that arrived in time.
    pub(super) hits: f64,
    /// Mean accuracy over all frames; 0 for one that was not in time.
    pub(super) effective: f64,
    /// Latency of frames that arrived, milliseconds.
    pub(super) p95: f64,
}

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
struct Sending {
    captured: usize,
    rung: usize,
    /// Bytes that have not left.
    left: f64,
}

impl<'a> Camera<'a> {
    /// One whose scene comes from a seed.
    pub(super) fn new(ladder: &'a Ladder, fps: usize, seconds: u64, seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let mut level = 0.0;
        let (spread, stays) = CONTENT;
        let mut draw = || {
            // Twelve uniform numbers make a normal one.
            let normal: f64 = (0..12).map(|_| random.share()).sum::<f64>() - 6.0;
            level = stays * level + (1.0 - stays * stays).sqrt() * normal;
            (spread * level).exp()
        };
        let content = (0..=seconds as usize * fps).map(|_| draw()).collect();
        Camera { ladder, fps, content }
    }

    pub(super) fn frames(&self, channel: &Channel) -> usize {
        // The last ones would arrive after the end.
        ((channel.millis() - BOUND_MS) * self.fps / 1000).min(self.content.len() - 1)
    }

    pub(super) fn captured_ms(&self, frame: usize) -> usize {
        frame * 1000 / self.fps
    }

    pub(super) fn bytes(&self, frame: usize, rung: usize) -> f64 {
        (self.ladder.rungs()[rung].bytes * self.content[frame]).round()
    }
}

/// A run in progress.
struct Run<'a> {
    camera: &'a Camera<'a>,
    habit: Habit,
    ladder: Ladder,
    subscription: CameraSubscription,
    /// Chosen and being encoded, or waiting for those before.
    queue: VecDeque<(usize, Sending)>,
    /// Bytes chosen and not acknowledged.
    backlog: f64,
    /// When what arrives, as milliseconds: bytes, and the frame if they are its last.
    arrivals: VecDeque<(usize, f64, Option<Sending>)>,
    waits: Option<usize>,
    latencies: Vec<usize>,
    hits: usize,
    sum: f64,
}

pub(super) fn play(channel: &Channel, camera: &Camera<'_>, sender: &Sender) -> Score {
    let latency = Duration::from_millis(BOUND_MS as u64);
    let target = FrameTarget { latency, accuracy: 0.0, policy: InfeasiblePolicy::Degrade };
    let ladder = camera.ladder.clone();
    let mut run = Run {
        camera,
        habit: sender.habit,
        subscription: CameraSubscription::new(target, sender.controller, &ladder, sender.gains),
        ladder,
        queue: VecDeque::new(),
        backlog: 0.0,
        arrivals: VecDeque::new(),
        waits: None,
        latencies: Vec::new(),
        hits: 0,
        sum: 0.0,
    };
    let frames = camera.frames(channel);
    let mut next = 0;
    for milli in 0..channel.millis() {
        run.arrive(milli);
        if run.habit >= Habit::Cancel {
            run.cancel(milli);
        }
        if next < frames && camera.captured_ms(next) <= milli {
            run.waits = Some(next);
            next += 1;
        }
        run.choose(milli);
        run.carry(milli, channel.room(milli));
    }
    let count = frames.max(1) as f64;
    run.latencies.sort_unstable();
    let at = (run.latencies.len() as f64 * 0.95) as usize;
    let p95 = run.latencies.get(at.min(run.latencies.len().saturating_sub(1)));
    Score {
        hits: run.hits as f64 / count,
        effective: run.sum / count,
        p95: p95.map_or(f64::NAN, |&millis| millis as f64),
    }
}

fn time(milli: usize) -> Time {
    Time::from_millis(milli as u64)
}

impl Run<'_> {
    /// What the far end acknowledged is heard of.
    fn arrive(&mut self, milli: usize) {
        while self.arrivals.front().is_some_and(|arrival| arrival.0 <= milli) {
            let Some((_, bytes, frame)) = self.arrivals.pop_front() else { return };
            self.backlog = (self.backlog - bytes).max(0.0);
            self.subscription.acked(time(milli), Size(bytes as u64));
            if let Some(frame) = frame {
                let took = milli - DELAY_MS - frame.captured;
                self.subscription.ended(time(milli), Some(Duration::from_millis(took as u64)));
            }
        }
    }

    /// Frames that cannot arrive in time any more are given up.
    fn cancel(&mut self, milli: usize) {
        while let Some(&(_, frame)) = self.queue.front() {
            if milli + DELAY_MS < frame.captured + BOUND_MS {
                return;
            }
            self.queue.pop_front();
            self.backlog = (self.backlog - frame.left).max(0.0);
            self.subscription.ended(time(milli), None);
        }
    }

    /// The newest frame goes, or not.
    fn choose(&mut self, milli: usize) {
        if self.habit == Habit::Newest && self.backlog >= 1.0 {
            return;
        }
        let Some(frame) = self.waits.take() else { return };
        let captured = self.camera.captured_ms(frame);
        let overhead = Duration::from_millis((DELAY_MS + ENCODE_MS) as u64);
        let waiting = Frame { captured_at: time(captured), overhead };
        let seen = if self.habit >= Habit::Skip { self.backlog } else { 0.0 };
        let choice =
            self.subscription.choose(time(milli), &waiting, &self.ladder, Size(seen as u64));
        let rung = match choice {
            FrameDecision::Send(rung) => rung,
            // Whoever never skips sends what it has, however late.
            FrameDecision::Skip(_) if self.habit < Habit::Skip => self.ladder.rungs().len() - 1,
            FrameDecision::Skip(_) => return,
        };
        let bytes = self.camera.bytes(frame, rung);
        self.ladder.encoded(rung, bytes as u64);
        self.backlog += bytes;
        self.subscription.sent(time(milli + ENCODE_MS));
        self.queue.push_back((milli + ENCODE_MS, Sending { captured, rung, left: bytes }));
    }

    /// The channel carries what is ready.
    fn carry(&mut self, milli: usize, mut room: f64) {
        while room > 0.0 {
            let Some((ready, frame)) = self.queue.front_mut() else { return };
            if *ready > milli {
                return;
            }
            let part = room.min(frame.left);
            frame.left -= part;
            room -= part;
            let is_whole = frame.left < 1e-6;
            let frame = *frame;
            let arrived = milli + 1 + DELAY_MS;
            self.arrivals.push_back((arrived + DELAY_MS, part, is_whole.then_some(frame)));
            if is_whole {
                self.queue.pop_front();
                let latency = arrived - frame.captured;
                self.latencies.push(latency);
                if latency <= BOUND_MS {
                    self.hits += 1;
                    self.sum += self.camera.ladder.rungs()[frame.rung].accuracy;
                }
            }
        }
    }
}
