//! Which records of other nodes were accepted here: a record that comes again is not accepted twice.
//!
//! Bounded: what is forgotten may come twice, and nothing is lost by it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ranges::Ranges;
use crate::record::{Identity, Origin, StreamId};

/// Streams that are remembered; the one that was silent for longest goes.
pub const STREAMS_MAX: usize = 65_536;
/// Gaps of one stream that are remembered: records of it that went elsewhere, or were dropped before.
pub const RUNS_MAX: usize = 1024;
/// Gaps of all streams together: some 20 MB at most, whatever the other nodes send.
pub const RUNS_ALL_MAX: usize = 262_144;

/// A stream of another node.
pub type OriginStream = (Arc<Origin>, StreamId);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    seqs: Ranges,
    used: u64,
}

/// Numbers of accepted records, by the stream of the node that accepted them first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    streams: BTreeMap<OriginStream, Known>,
    /// Streams by when they were used last.
    order: BTreeMap<u64, OriginStream>,
    last: u64,
    /// Of all streams.
    runs: usize,
}

impl Accepted {
    /// Whether a record was accepted.
    pub fn contains(&self, identity: &Identity) -> bool {
        let known = self.streams.get(&(identity.origin.clone(), identity.stream));
        known.is_some_and(|known| known.seqs.contains(identity.seq))
    }

    /// A record is accepted.
    pub fn insert(&mut self, identity: &Identity) {
        let name = (identity.origin.clone(), identity.stream);
        self.last += 1;
        let known = self.streams.entry(name.clone()).or_default();
        self.order.remove(&known.used);
        known.used = self.last;
        let before = known.seqs.runs();
        known.seqs.insert(identity.seq..=identity.seq);
        if known.seqs.runs() > RUNS_MAX {
            known.seqs.pop_oldest();
        }
        self.runs = self.runs - before + known.seqs.runs();
        self.order.insert(self.last, name);
        while self.streams.len() > STREAMS_MAX || self.runs > RUNS_ALL_MAX {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            let gone = self.streams.remove(&oldest);
            self.runs -= gone.map_or(0, |gone| gone.seqs.runs());
        }
    }

    /// Streams that are remembered.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(incarnation: u64, stream: u64, seq: u64) -> Identity {
        let origin = Arc::new(Origin { node: "gate-7".into(), incarnation });
        Identity { origin, stream: StreamId(stream), seq }
    }

    #[test]
    fn a_record_is_known_by_all_of_its_name() {
        let mut accepted = Accepted::default();
        accepted.insert(&identity(1, 2, 3));
        assert!(accepted.contains(&identity(1, 2, 3)));
        for other in [identity(2, 2, 3), identity(1, 3, 3), identity(1, 2, 4)] {
            assert!(!accepted.contains(&other), "{other}");
        }
    }

    #[test]
    fn all_gaps_together_are_bounded() {
        let mut accepted = Accepted::default();
        let streams = (RUNS_ALL_MAX / RUNS_MAX) as u64;
        for stream in 0..=streams {
            (1..=RUNS_MAX as u64).for_each(|seq| accepted.insert(&identity(1, stream, 2 * seq)));
        }
        assert_eq!((accepted.streams(), accepted.runs), (streams as usize, RUNS_ALL_MAX));
        assert!(
            !accepted.contains(&identity(1, 0, 2)) && accepted.contains(&identity(1, streams, 2))
        );
    }

    #[test]
    fn of_many_gaps_the_oldest_is_forgotten_and_of_many_streams_the_silent_one() {
        let mut accepted = Accepted::default();
        let gaps = RUNS_MAX as u64 + 1;
        (1..=gaps).for_each(|number| accepted.insert(&identity(1, 1, 2 * number)));
        assert!(!accepted.contains(&identity(1, 1, 2)));
        assert!(
            accepted.contains(&identity(1, 1, 4)) && accepted.contains(&identity(1, 1, 2 * gaps))
        );
        let streams = STREAMS_MAX as u64;
        (2..=streams).for_each(|stream| accepted.insert(&identity(1, stream, 1)));
        accepted.insert(&identity(1, 1, 5));
        accepted.insert(&identity(1, streams + 1, 1));
        assert_eq!((accepted.streams(), accepted.order.len()), (STREAMS_MAX, STREAMS_MAX));
        assert!(accepted.contains(&identity(1, 1, 5)), "used a moment ago");
        assert!(!accepted.contains(&identity(1, 2, 1)));
    }
}
