//! What nobody can avoid: the least time without a picture, of whoever begins when the player does and knows the whole
//! recording.

use super::ladder::{CHUNK_S, Ladder};
use super::player::{FIRST, RTT_MS, is_there_at};
use crate::sim::frames::channel::Channel;

const CHUNK_MS: usize = (CHUNK_S * 1e3) as usize;

/// Seconds without a picture until `end` if the first chunk was there at `begun` (milliseconds) and each later one is
/// loaded in its smallest quality, as early as there is one. No order of qualities has any chunk sooner, so none stalls
/// less; that buffers have a bound is left out, which can only make it less.
pub(super) fn unavoidable(ladder: &Ladder, channel: &Channel, begun: usize, end: usize) -> f64 {
    let (mut free, mut stalled) = (begun, 0);
    for chunk in FIRST + 1.. {
        let due = begun + (chunk - FIRST) as usize * CHUNK_MS + stalled;
        if due >= end {
            break;
        }
        let from = free.max(is_there_at(chunk)) + RTT_MS;
        let bytes = ladder.smallest(chunk) as f64;
        let Some(there) = channel.finish(from, bytes).filter(|there| *there < end) else {
            stalled += end - due;
            break;
        };
        stalled += there.saturating_sub(due);
        free = there;
    }
    stalled as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::link::{Profile, Service};

    #[test]
    fn an_outage_stalls_for_what_no_buffer_covers() {
        let steps = [(0, 10_000_000), (42, 0), (82, 10_000_000)];
        let steps = steps.map(|(at, bits)| (Duration::from_secs(at), bits)).to_vec();
        let service = Service::Rate(Profile::new(steps, None).unwrap());
        let channel = Channel::new(&service, Duration::from_secs(120));
        let stalled = unavoidable(&Ladder::even(), &channel, 1000, 120_000);
        // At 42 s all chunks are loaded that there are.
        let there = (0..).find(|chunk| is_there_at(*chunk) > 42_000).unwrap();
        let covered = 1.0 + (there - FIRST) as f64 * CHUNK_S;
        assert!((stalled - (82.0 - covered)).abs() < 0.3, "{stalled} {covered}");
        let wide =
            Channel::new(&Service::Rate(Profile::constant(10_000_000)), Duration::from_secs(120));
        assert!(unavoidable(&Ladder::even(), &wide, 1000, 120_000) < 1e-9);
    }
}
