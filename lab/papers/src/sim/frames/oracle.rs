//! What a camera could do that knew the channel: the best sum of accuracies in time, exactly, to the millisecond.
//!
//! Dynamic programming over when the channel is free again. A frame goes as a whole or not at all, in the order of
//! capture, and is sent as soon as it can be: sending later never helps. Of two ways to the same free millisecond the more
//! accurate one is kept.

use super::channel::Channel;
use super::play::{BOUND_MS, Camera, DELAY_MS, ENCODE_MS, Score};

/// How a state was reached: sum of accuracies, frames in time.
type Best = Option<(f64, u32)>;

/// The best that can be done.
pub(super) fn oracle(channel: &Channel, camera: &Camera<'_>) -> Score {
    // State: milliseconds from the present capture until the channel is free; 0 where it is free already.
    let mut best: Vec<Best> = vec![None; BOUND_MS + 1];
    best[0] = Some((0.0, 0));
    let frames = camera.frames(channel);
    for frame in 0..frames {
        let captured = camera.captured_ms(frame);
        let period = camera.captured_ms(frame + 1) - captured;
        let mut next: Vec<Best> = vec![None; BOUND_MS + 1];
        let mut offer = |free: usize, value: (f64, u32)| {
            let free = free.saturating_sub(period).min(BOUND_MS);
            if next[free].is_none_or(|old| old.0 < value.0) {
                next[free] = Some(value);
            }
        };
        for (free, value) in best.iter().enumerate() {
            let Some((sum, hits)) = *value else { continue };
            offer(free, (sum, hits));
            let from = captured + free.max(ENCODE_MS);
            for rung in 0..camera.ladder.rungs().len() {
                let Some(ends) = channel.finish(from, camera.bytes(frame, rung)) else { break };
                if ends + DELAY_MS > captured + BOUND_MS {
                    break;
                }
                let accuracy = camera.ladder.rungs()[rung].accuracy;
                offer(ends - captured, (sum + accuracy, hits + 1));
            }
        }
        best = next;
    }
    let (sum, hits) =
        best.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
    let frames = frames.max(1) as f64;
    Score { hits: f64::from(hits) / frames, effective: sum / frames, p95: f64::NAN }
}
