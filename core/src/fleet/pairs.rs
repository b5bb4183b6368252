//! Which pairs of nodes do help each other.
//!
//! Two nodes behind one bottleneck have nothing to lend: what the provider carries, the receiver's own
//! uplink loses. So the first grant of a pair is on trial: it must raise what the two carry by half of its
//! amount. A pair that fails alone is kept apart for a while. Of several on trial together nobody knows
//! which one failed: those that a loss could be the fault of become suspects, and each has a trial for
//! itself, one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ledger::Ledger;
use super::{Amount, FleetOptions, NodeId};
use crate::units::Time;

/// How long a pair that helped is not tried again.
const PROVEN: Duration = Duration::from_secs(600);
/// Part of a grant that must be gained.
const GAIN: f64 = 0.5;
/// Part of what is granted that the receiver must still be short of, or it would not use it.
const NEEDED: f64 = 0.5;
/// What is granted on trial, as a part of the receiver's own uplink: less is lost in its noise.
const TELLING: f64 = 0.1;

/// What is known of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairState {
    /// Its grants are on trial.
    Trial {
        /// Since when.
        since: Time,
        /// What the receiver's own uplink carried for it before.
        before: Amount,
        /// Whether no other pair of the receiver is on trial because of it.
        is_alone: bool,
    },
    /// It failed beside others.
    Suspect {
        /// What the receiver's own uplink carried for it before that.
        before: Amount,
    },
    /// It helped.
    Proven {
        /// Until when that is believed.
        until: Time,
    },
    /// It did not help: a shared uplink, or no way worth the name.
    Apart {
        /// Until when it is left alone.
        until: Time,
    },
}

/// Receiver and provider.
type Pair = (NodeId, NodeId);

/// All pairs of which something is known.
#[derive(Debug, Default)]
pub(super) struct Pairs(BTreeMap<Pair, PairState>);

impl Pairs {
    pub(super) fn of(&self, receiver: NodeId, provider: NodeId) -> Option<PairState> {
        self.0.get(&(receiver, provider)).copied()
    }

    fn of_receiver(&self, receiver: NodeId) -> impl Iterator<Item = (Pair, PairState)> + '_ {
        let all = (receiver, NodeId(0))..=(receiver, NodeId(u64::MAX));
        self.0.range(all).map(|(pair, state)| (*pair, *state))
    }

    /// Whether the pair may be matched: a suspect when nothing else of its receiver is on trial, and
    /// nothing new beside a suspect's trial.
    pub(super) fn may_try(&self, now: Time, receiver: NodeId, provider: NodeId) -> bool {
        let mut all = self.of_receiver(receiver);
        match self.of(receiver, provider) {
            Some(PairState::Apart { until }) if until > now => false,
            Some(PairState::Suspect { .. }) => !all.any(|(pair, state)| match state {
                PairState::Suspect { .. } => pair.1 < provider,
                PairState::Trial { .. } => true,
                _ => false,
            }),
            Some(PairState::Trial { .. } | PairState::Proven { .. }) => true,
            None | Some(PairState::Apart { .. }) => {
                !all.any(|(_, state)| matches!(state, PairState::Trial { is_alone: true, .. }))
            }
        }
    }

    /// A pair has a grant. Answers with whether what may be matched has changed.
    pub(super) fn granted(&mut self, now: Time, pair: Pair, before: Amount) -> bool {
        let trial = match self.of(pair.0, pair.1) {
            None | Some(PairState::Apart { .. }) => Some((before, false)),
            // What it took then may still be missing.
            Some(PairState::Suspect { before: earlier }) => Some((before.max(earlier), true)),
            Some(PairState::Proven { until }) => (until <= now).then_some((before, false)),
            Some(PairState::Trial { .. }) => None,
        };
        if let Some((before, is_alone)) = trial {
            self.0.insert(pair, PairState::Trial { since: now, before, is_alone });
        }
        trial.is_some()
    }

    /// Judges those whose time has come; answers with the pairs whose grants are to be revoked, and
    /// whether what may be matched has changed.
    pub(super) fn judge(
        &mut self,
        now: Time,
        ledger: &Ledger,
        options: &FleetOptions,
    ) -> (BTreeSet<Pair>, bool) {
        let before = self.0.len();
        self.0.retain(|_, state| match state {
            PairState::Apart { until } | PairState::Proven { until } => *until > now,
            PairState::Trial { .. } | PairState::Suspect { .. } => true,
        });
        let mut has_changed = self.0.len() != before;
        let mut failed = BTreeSet::new();
        let is_due = |state: &PairState| matches!(state, PairState::Trial { since, .. } if now.since(*since) >= options.trial);
        let due: Vec<Pair> =
            self.0.iter().filter(|(_, state)| is_due(state)).map(|(pair, _)| *pair).collect();
        for of_one in due.chunk_by(|a, b| a.0 == b.0) {
            let trials = Trials::new(self, ledger, of_one[0].0);
            for pair in of_one {
                let state = match trials.verdict(pair) {
                    Verdict::Open => continue,
                    Verdict::Gone => {
                        self.0.remove(pair);
                        has_changed = true;
                        continue;
                    }
                    Verdict::Helps => PairState::Proven { until: now + PROVEN },
                    Verdict::Fails if trials.is_single(pair) => {
                        PairState::Apart { until: now + options.apart }
                    }
                    Verdict::Fails => PairState::Suspect { before: trials.before },
                };
                if !matches!(state, PairState::Proven { .. }) {
                    failed.insert(*pair);
                }
                self.0.insert(*pair, state);
                has_changed = true;
            }
        }
        (failed, has_changed)
    }
}

enum Verdict {
    /// The grants are over: nothing is known.
    Gone,
    /// Too little is granted or needed to tell: wait.
    Open,
    Helps,
    Fails,
}

/// A pair on trial.
struct Trial {
    pair: Pair,
    granted: Amount,
    carried: Amount,
    is_alone: bool,
}

/// The pairs of a receiver that are on trial, together.
struct Trials {
    all: Vec<Trial>,
    /// What the receiver is short of.
    short: Amount,
    /// What its own uplink carried before, and what it has lost of that.
    before: Amount,
    lost: Amount,
}

impl Trials {
    fn new(states: &Pairs, ledger: &Ledger, receiver: NodeId) -> Self {
        let mut all = Vec::new();
        let mut before = Amount::ZERO;
        for (pair, state) in states.of_receiver(receiver) {
            let PairState::Trial { before: own, is_alone, .. } = state else { continue };
            let granted = ledger.between(pair.0, pair.1).map(|entry| entry.grant.amount).sum();
            let carried = ledger.between(pair.0, pair.1).map(|entry| entry.carried).sum();
            all.push(Trial { pair, granted, carried, is_alone });
            before = before.max(own);
        }
        let member = ledger.members.get(receiver);
        let output = member.map_or(Amount::ZERO, |member| member.output);
        let short = member.map_or(Amount::ZERO, |member| member.tuple.shortage().sum());
        Trials { all, short, before, lost: before.saturating_sub(output) }
    }

    /// Whether the pair is the only one that can have failed.
    fn is_single(&self, pair: &Pair) -> bool {
        self.all.len() == 1 || self.all.iter().any(|trial| trial.pair == *pair && trial.is_alone)
    }

    /// Nobody knows whose fault a loss is: only who helps even if all of it is its own is cleared.
    fn verdict(&self, pair: &Pair) -> Verdict {
        let Some(trial) = self.all.iter().find(|trial| trial.pair == *pair) else {
            return Verdict::Gone;
        };
        let granted: Amount = self.all.iter().map(|trial| trial.granted).sum();
        if trial.granted.is_zero() {
            return Verdict::Gone;
        }
        if self.short < granted.times(NEEDED) || granted < self.before.times(TELLING) {
            return Verdict::Open;
        }
        let gain = trial.carried.saturating_sub(self.lost);
        if gain >= trial.granted.times(GAIN) { Verdict::Helps } else { Verdict::Fails }
    }
}
