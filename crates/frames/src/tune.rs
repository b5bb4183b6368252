//! Gains for the paper's controller: those that bring a ladder most accuracy in time over recorded channels.
//! Source: papers/mez.txt, §IV-B (K1 and K2 are tuned by hand there).
//! Inputs: what channels carry, a ladder, bounds. Outputs: gains, and what they bring. O(gains · milliseconds).
//! Deviations: none (docs/algorithms-frames.md#pi).
//! Limits: `MILLIS_MAX`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidegate_types::units::Time;

use super::{ControllerName, Flow, FrameResult, FrameTarget, Gains, Ladder};

/// K1 and K2 that are tried, bytes a millisecond, and aims.
const GAINS_P: [f64; 5] = [0.0, 25.0, 50.0, 100.0, 200.0];
const GAINS_I: [f64; 6] = [0.0, 5.0, 10.0, 20.0, 40.0, 80.0];
const AIMS: [f64; 3] = [0.6, 0.75, 0.9];
/// Bytes of a piece: each is acknowledged.
const PIECE: u64 = 8 << 10;
/// Longest recording, an hour.
pub const MILLIS_MAX: usize = 3_600_000;

/// What a channel carries in each millisecond, in bytes, and how long a byte is on its way beside that.
#[derive(Clone, Debug)]
pub struct RecordedChannel {
    /// Bytes, millisecond by millisecond.
    pub carries: Vec<f64>,
    /// One way.
    pub way: Duration,
}

/// A camera and who watches it.
#[derive(Clone, Debug)]
pub struct TunedCamera {
    /// Frames a second, above 0.
    pub rate: f64,
    /// Its ladder.
    pub ladder: Ladder,
    /// What its subscribers ask for.
    pub target: FrameTarget,
}

/// What gains brought.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TuneScore {
    /// Part of the frames that arrived in time.
    pub in_time: f64,
    /// Mean accuracy of all frames, those that did not arrive in time without any.
    pub effective: f64,
}

/// A frame's piece under way.
#[derive(Clone, Copy, Debug)]
struct PieceUnderWay {
    frame: u64,
    left: f64,
    bytes: u64,
    until: Time,
}

/// Plays a camera over a channel.
pub fn play_gains(camera: &TunedCamera, channel: &RecordedChannel, gains: Gains) -> TuneScore {
    let mut flow = Flow::new(camera.target, ControllerName::Pi, &camera.ladder, gains);
    let mut ladder = camera.ladder.clone();
    let mut queue: VecDeque<PieceUnderWay> = VecDeque::new();
    let mut acks: VecDeque<(Time, u64, u64)> = VecDeque::new();
    let mut accuracy: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut frames, mut room, mut arrived, mut sum) = (0_u64, 0.0, 0_u64, 0.0);
    for (milli, carries) in channel.carries.iter().take(MILLIS_MAX).enumerate() {
        let now = Time::from_millis(1 + milli as u64);
        if milli as f64 >= frames as f64 * 1e3 / camera.rate {
            frames += 1;
            flow.arrived(frames, now);
        }
        while let Some(&(at, frame, bytes)) = acks.front().filter(|(at, ..)| *at <= now) {
            acks.pop_front();
            flow.settled(at, frame, bytes, true);
        }
        // What is late is taken back, as the node does.
        while let Some(late) = queue.front().copied().filter(|piece| piece.until <= now) {
            queue.pop_front();
            flow.settled(now, late.frame, late.bytes, false);
        }
        room = if queue.is_empty() { 0.0 } else { room + carries };
        while let Some(piece) = queue.front_mut().filter(|piece| piece.left <= room) {
            room -= piece.left;
            acks.push_back((now + channel.way * 2, piece.frame, piece.bytes));
            queue.pop_front();
        }
        if let Some((frame, rung)) = flow.poll(now, &ladder) {
            let bytes = ladder.expected(rung) as u64;
            ladder.encoded(rung, bytes);
            accuracy.insert(frame, ladder.rungs()[rung].accuracy);
            flow.encoded(now, bytes);
            let until = now + camera.target.patience();
            let pieces = bytes.div_ceil(PIECE).max(1);
            let sizes = (0..pieces).map(|piece| (bytes - piece * PIECE).clamp(1, PIECE));
            queue.extend(sizes.map(|bytes| PieceUnderWay {
                frame,
                left: bytes as f64,
                bytes,
                until,
            }));
        }
        while let Some(ended) = flow.poll_ended() {
            let of_frame = accuracy.remove(&ended.frame).unwrap_or_default();
            if ended.result == FrameResult::Delivered {
                arrived += 1;
                sum += of_frame;
            }
        }
    }
    let all = frames.max(1) as f64;
    TuneScore { in_time: arrived as f64 / all, effective: sum / all }
}

/// The mean over channels.
pub fn score_gains(camera: &TunedCamera, channels: &[RecordedChannel], gains: Gains) -> TuneScore {
    let mut mean = TuneScore::default();
    for channel in channels {
        let one = play_gains(camera, channel, gains);
        mean.in_time += one.in_time / channels.len() as f64;
        mean.effective += one.effective / channels.len() as f64;
    }
    mean
}

/// The gains that bring most, of all that are tried; the first of equal ones. `tried` is told of each.
pub fn tune_gains(
    camera: &TunedCamera,
    channels: &[RecordedChannel],
    mut tried: impl FnMut(Gains, TuneScore),
) -> Gains {
    let (mut best, mut most) = (Gains::default(), f64::NEG_INFINITY);
    for aim in AIMS {
        for gain_p in GAINS_P {
            for gain_i in GAINS_I.into_iter().filter(|gain_i| gain_p + gain_i > 0.0) {
                let gains = Gains { gain_p, gain_i, aim };
                let score = score_gains(camera, channels, gains);
                tried(gains, score);
                if score.effective > most {
                    (best, most) = (gains, score.effective);
                }
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InfeasiblePolicy;
    use crate::ladder::tests::four;

    fn camera() -> TunedCamera {
        let latency = Duration::from_millis(100);
        let target = FrameTarget { latency, accuracy: 0.5, policy: InfeasiblePolicy::Degrade };
        TunedCamera { rate: 10.0, ladder: four(), target }
    }

    /// Steps between two rates, bytes a millisecond, each for two seconds.
    fn channel(rates: [f64; 2], seconds: usize) -> RecordedChannel {
        let carries = (0..seconds * 1000).map(|milli| rates[milli / 2000 % 2]).collect();
        RecordedChannel { carries, way: Duration::from_millis(10) }
    }

    #[test]
    fn a_channel_that_carries_all_brings_all_and_one_that_carries_nothing_nothing() {
        let wide = play_gains(&camera(), &channel([1e5; 2], 20), Gains::default());
        assert!(wide.in_time > 0.98 && wide.effective > 0.95, "{wide:?}");
        let none = play_gains(&camera(), &channel([0.0; 2], 20), Gains::default());
        assert_eq!(none, TuneScore::default());
    }

    #[test]
    fn what_is_found_is_no_worse_than_any_that_was_tried() {
        let channels = [channel([2000.0, 400.0], 20)];
        let mut all = Vec::new();
        let found = tune_gains(&camera(), &channels, |gains, score| all.push((gains, score)));
        let best = score_gains(&camera(), &channels, found);
        assert_eq!(all.len(), 87);
        assert!(all.iter().all(|(_, score)| score.effective <= best.effective));
        let spread = all.iter().map(|(_, score)| score.effective).fold(f64::INFINITY, f64::min);
        assert!(best.effective > spread + 0.05, "gains matter: {best:?}, {spread}");
    }
}
