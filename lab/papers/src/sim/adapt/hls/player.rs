//! A player of a live stream that chooses as hls.js does with its default parameters: which quality comes next
//! (its estimate, 0.95 of it to stay, 0.7 to rise), and when a chunk that comes too slowly is given up for a smaller
//! one. The first chunk is loaded at the lowest quality, only to measure. In steps of 20 ms.

use std::collections::VecDeque;

use super::estimate::Estimate;
use super::ladder::{CHUNK_S, Ladder, RUNGS};
use super::middle::Middle;
use crate::sim::frames::channel::Channel;

/// From a request to the first byte.
pub(super) const RTT_MS: usize = 50;
const STEP_MS: usize = 20;
const CHUNK_MS: f64 = CHUNK_S * 1e3;
/// Between two looks at a chunk that is being loaded.
const LOOK_MS: usize = 100;
/// How far behind the newest chunk a live stream begins, in chunks (`liveSyncDurationCount`).
const BEHIND: u64 = 3;
/// Chunks that there are when it begins.
const THERE: u64 = 10;
/// Seconds of buffer above which nothing is loaded (`maxBufferLength`).
const BUFFER_MAX: f64 = 30.0;
/// Part of the estimate that a quality may need (`abrBandWidthFactor`, `abrBandWidthUpFactor`).
const STAY: f64 = 0.95;
const RISE: f64 = 0.7;

/// The first chunk that is played.
pub(super) const FIRST: u64 = THERE - BEHIND;

/// When there is a chunk, in milliseconds.
pub(super) fn is_there_at(chunk: u64) -> usize {
    ((chunk + 1) as f64 * CHUNK_MS - THERE as f64 * CHUNK_MS).max(0.0) as usize
}

#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// Seconds without a picture after the first.
    pub(super) stalled: f64,
    /// When the first picture came, in milliseconds.
    pub(super) begun: Option<usize>,
    /// Seconds played at each quality.
    pub(super) played: [f64; RUNGS.len()],
}

impl Watched {
    /// Part of the time without a picture.
    pub(super) fn share(&self) -> f64 {
        self.stalled / (self.stalled + self.played.iter().sum::<f64>()).max(1e-9)
    }

    /// The quality below and above which half of what was played was.
    pub(super) fn median(&self) -> usize {
        let half = self.played.iter().sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let place = self.played.iter().position(|seconds| {
            sum += seconds;
            sum >= half
        });
        place.unwrap_or_default()
    }
}

#[derive(Debug)]
struct Loading {
    chunk: u64,
    /// What was asked for; what comes may be something else.
    rung: usize,
    served: usize,
    bytes: f64,
    loaded: f64,
    begun: usize,
    first_byte: usize,
    is_test: bool,
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Player<'a> {
    ladder: &'a Ladder,
    channel: &'a Channel,
    middle: Middle,
    estimate: Estimate,
    /// What is loaded and not played: quality, seconds.
    buffer: VecDeque<(usize, f64)>,
    loading: Option<Loading>,
    next: u64,
    rung: usize,
    /// Seconds that the chunk took by which it measured, before one is played.
    tested: Option<f64>,
    watched: Watched,
}

impl<'a> Player<'a> {
    pub(super) fn new(ladder: &'a Ladder, channel: &'a Channel, middle: Middle) -> Player<'a> {
        Player {
            ladder,
            channel,
            middle,
            estimate: Estimate::new(),
            buffer: VecDeque::new(),
            loading: None,
            next: FIRST,
            rung: 0,
            tested: None,
            watched: Watched::default(),
        }
    }

    /// Watches for so long.
    pub(super) fn watch(mut self, millis: usize) -> anyhow::Result<Watched> {
        self.load(0, 0, true)?;
        for now in (STEP_MS..=millis).step_by(STEP_MS) {
            self.play();
            self.progress(now)?;
            if now.is_multiple_of(LOOK_MS)
                && let Some(smaller) = self.gives_up(now)
            {
                self.loading = None;
                self.load(now, smaller, false)?;
            }
            let is_there = is_there_at(self.next) <= now;
            if self.loading.is_none() && is_there && self.buffered() < BUFFER_MAX {
                let rung = self.choose();
                self.load(now, rung, false)?;
            }
        }
        self.middle.end()?;
        Ok(self.watched)
    }

    fn buffered(&self) -> f64 {
        self.buffer.iter().map(|(_, seconds)| seconds).sum()
    }

    /// Plays for a step, or stalls.
    fn play(&mut self) {
        let mut left = STEP_MS as f64 / 1e3;
        while let Some((rung, seconds)) = self.buffer.front_mut().filter(|_| left > 1e-9) {
            let part = seconds.min(left);
            self.watched.played[*rung] += part;
            (*seconds, left) = (*seconds - part, left - part);
            if *seconds < 1e-9 {
                self.buffer.pop_front();
            }
        }
        if self.watched.begun.is_some() {
            self.watched.stalled += left.max(0.0);
        }
    }

    fn load(&mut self, now: usize, rung: usize, is_test: bool) -> anyhow::Result<()> {
        self.rung = rung;
        let served = self.middle.ask(now, rung, self.next)?;
        let bytes = self.ladder.bytes(served, self.next) as f64;
        let (chunk, first_byte) = (self.next, now + RTT_MS);
        self.loading = Some(Loading {
            chunk,
            rung,
            served,
            bytes,
            loaded: 0.0,
            begun: now,
            first_byte,
            is_test,
        });
        Ok(())
    }

    /// What came in the last step.
    fn progress(&mut self, now: usize) -> anyhow::Result<()> {
        self.middle.advance(now);
        let Some(loading) = &mut self.loading else { return Ok(()) };
        let from = (now - STEP_MS).max(loading.first_byte);
        if from >= now {
            return Ok(());
        }
        if loading.loaded == 0.0 {
            self.middle.head(now, loading.bytes as u64)?;
        }
        loading.loaded += self.channel.carried(from, now);
        if loading.loaded < loading.bytes {
            return Ok(());
        }
        let Loading { chunk, served, bytes, begun, first_byte, is_test, .. } = *loading;
        self.loading = None;
        self.middle.done(now, bytes);
        self.estimate.sample((now - first_byte) as f64 / 1e3, bytes);
        if is_test {
            self.tested = Some((now - begun) as f64 / 1e3);
        } else {
            self.tested = None;
            self.buffer.push_back((served, CHUNK_S));
            self.next = chunk + 1;
            self.watched.begun.get_or_insert(now);
        }
        Ok(())
    }

    /// The quality of the next chunk.
    fn choose(&self) -> usize {
        let bits = self.estimate.bits();
        if let Some(tested) = self.tested {
            // Nothing is played yet: what comes within the time that a start may take.
            let allowed = (CHUNK_S - tested).max(0.0);
            let fits = |need: f64| need <= bits && need * CHUNK_S / bits < allowed;
            return RUNGS.iter().rposition(|(_, need)| fits(*need)).unwrap_or(0);
        }
        let part = |rung: usize| if rung <= self.rung { STAY } else { RISE };
        let fits = |rung: &usize| RUNGS[*rung].1 <= part(*rung) * bits;
        (0..RUNGS.len()).rfind(fits).unwrap_or(0)
    }

    /// Whether the chunk that is being loaded comes so slowly that a smaller one is there sooner, and before the
    /// buffer is empty.
    fn gives_up(&mut self, now: usize) -> Option<usize> {
        let buffered = self.buffered();
        let loading =
            self.loading.as_ref().filter(|loading| loading.rung > 0 && !loading.is_test)?;
        let seconds = (now - loading.begun) as f64 / 1e3;
        if self.watched.begun.is_none() || seconds <= CHUNK_S / 2.0 {
            return None;
        }
        let streaming = now.saturating_sub(loading.first_byte).max(1) as f64 / 1e3;
        let bits = match loading.loaded > 0.0 {
            true => loading.loaded * 8.0 / streaming,
            false => self.estimate.bits(),
        };
        let left = (loading.bytes - loading.loaded) * 8.0 / bits;
        if left <= buffered {
            return None;
        }
        let takes = |rung: usize| RUNGS[rung].1 * CHUNK_S / bits;
        let in_time = |rung: &usize| takes(*rung) < buffered.min(CHUNK_S);
        let smaller = (1..loading.rung).rfind(in_time).unwrap_or(0);
        if takes(smaller) >= left || takes(smaller) > CHUNK_S * 10.0 {
            return None;
        }
        if loading.loaded > 0.0 {
            self.estimate.sample(streaming, loading.loaded);
        }
        Some(smaller)
    }
}
