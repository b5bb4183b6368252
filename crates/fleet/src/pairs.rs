//! Which pairs of nodes do help each other.
//!
//! Two nodes behind one bottleneck have nothing to lend: what the provider carries, the receiver's own
//! uplink loses. So the first grant of a pair is on trial: half of what the provider carries of it must be
//! gained by the two. A pair that fails alone is kept apart for a while. Of several on trial together nobody
//! knows which one failed: those that a loss could be the fault of become suspects, and each has a trial
//! for itself, one at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_types::units::Time;

use super::ledger::Ledger;
use super::{Amount, FleetOptions, NodeId};

/// How long a pair that helped is not tried again.
const PROVEN: Duration = Duration::from_secs(600);
/// Part of what is carried that must be gained.
const GAIN: f64 = 0.5;
/// Part of a grant that must be carried: an uplink that was idle grows into what it lends.
const WORTH: f64 = 0.1;
/// Part of what is granted that the receiver must still be short of, or it would not use it.
const NEEDED: f64 = 0.5;
/// Trials that an undecided suspect may take.
const PATIENCE: u32 = 5;
/// What is granted on trial and carried, as a part of the receiver's own uplink: less is lost in its noise.
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

    /// The pairs that are left alone, and how much longer.
    pub(super) fn apart(&self, now: Time) -> impl Iterator<Item = (Pair, Duration)> + '_ {
        self.0.iter().filter_map(move |(pair, state)| match state {
            PairState::Apart { until } if *until > now => Some((*pair, until.since(now))),
            _ => None,
        })
    }

    /// Leaves a pair alone for so long: an earlier leader knew why.
    pub(super) fn part(&mut self, now: Time, pair: Pair, left: Duration) {
        self.0.insert(pair, PairState::Apart { until: now + left });
    }

    fn of_receiver(&self, receiver: NodeId) -> impl Iterator<Item = (Pair, PairState)> + '_ {
        let all = (receiver, NodeId(0))..=(receiver, NodeId(u64::MAX));
        self.0.range(all).map(|(pair, state)| (*pair, *state))
    }

    /// The providers that a receiver may be matched with: a suspect when nothing else of it is on trial,
    /// one at a time; nothing new beside a suspect's trial.
    pub(super) fn open_to(&self, now: Time, receiver: NodeId) -> impl Fn(NodeId) -> bool {
        let known: Vec<(NodeId, PairState)> =
            self.of_receiver(receiver).map(|(pair, state)| (pair.1, state)).collect();
        let is_trial = |state: &PairState| matches!(state, PairState::Trial { .. });
        let is_lonely =
            |state: &PairState| matches!(state, PairState::Trial { is_alone: true, .. });
        let has_trials = known.iter().any(|(_, state)| is_trial(state));
        let has_lonely = known.iter().any(|(_, state)| is_lonely(state));
        let is_suspect =
            |(_, state): &&(NodeId, PairState)| matches!(state, PairState::Suspect { .. });
        let suspect = known.iter().find(is_suspect).map(|(provider, _)| *provider);
        move |provider| {
            let state = known.iter().find(|(node, _)| *node == provider).map(|(_, state)| *state);
            match state {
                Some(PairState::Apart { until }) if until > now => false,
                Some(PairState::Suspect { .. }) => !has_trials && suspect == Some(provider),
                Some(PairState::Trial { .. } | PairState::Proven { .. }) => true,
                None | Some(PairState::Apart { .. }) => !has_lonely,
            }
        }
    }

    fn is_old(&self, now: Time, pair: &Pair, options: &FleetOptions) -> bool {
        let Some(PairState::Trial { since, .. }) = self.0.get(pair) else { return false };
        now.since(*since) >= options.trial * PATIENCE
    }

    /// Whether somebody waits for the trials of a receiver to end.
    fn has_suspects(&self, receiver: NodeId) -> bool {
        self.of_receiver(receiver).any(|(_, state)| matches!(state, PairState::Suspect { .. }))
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
        let Some((before, is_alone)) = trial else { return false };
        self.0.insert(pair, PairState::Trial { since: now, before, is_alone });
        is_alone || self.has_suspects(pair.0)
    }

    /// Judges those whose time has come; answers with the pairs whose grants are to be revoked, and
    /// whether what may be matched has changed.
    pub(super) fn judge(
        &mut self,
        now: Time,
        ledger: &Ledger,
        options: &FleetOptions,
    ) -> (Vec<Pair>, bool) {
        let mut has_changed = false;
        self.0.retain(|_, state| match state {
            PairState::Apart { until } => {
                has_changed |= *until <= now;
                *until > now
            }
            PairState::Proven { until } => *until > now,
            PairState::Trial { .. } | PairState::Suspect { .. } => true,
        });
        // What a receiver whose uplink carries nothing has lost, no provider took: its trials begin anew.
        let is_dead = |receiver: NodeId| {
            ledger.members.get(receiver).is_some_and(|one| one.tuple.capacity.is_zero())
        };
        for ((receiver, _), state) in &mut self.0 {
            if let PairState::Trial { since, .. } = state
                && is_dead(*receiver)
            {
                *since = now;
            }
        }
        let mut failed = Vec::new();
        let is_due = |state: &PairState| matches!(state, PairState::Trial { since, .. } if now.since(*since) >= options.trial);
        let due: Vec<Pair> =
            self.0.iter().filter(|(_, state)| is_due(state)).map(|(pair, _)| *pair).collect();
        for of_one in due.chunk_by(|a, b| a.0 == b.0) {
            let receiver = of_one[0].0;
            let trials = Trials::new(self, ledger, receiver);
            for pair in of_one {
                let state = match trials.verdict(pair) {
                    // A suspect keeps others from being tried: it is not waited for without end.
                    Verdict::Small if trials.is_alone(pair) && self.is_old(now, pair, options) => {
                        PairState::Apart { until: now + options.apart }
                    }
                    Verdict::Small | Verdict::Open => continue,
                    // A suspect stays one.
                    Verdict::Gone if trials.is_alone(pair) => {
                        PairState::Suspect { before: trials.before }
                    }
                    Verdict::Gone => {
                        self.0.remove(pair);
                        has_changed |= self.has_suspects(receiver);
                        continue;
                    }
                    Verdict::Helps => PairState::Proven { until: now + PROVEN },
                    Verdict::Fails if trials.is_single(pair) => {
                        PairState::Apart { until: now + options.apart }
                    }
                    Verdict::Fails => PairState::Suspect { before: trials.before },
                };
                has_changed |= trials.is_alone(pair) || self.has_suspects(receiver);
                if !matches!(state, PairState::Proven { .. }) {
                    failed.push(*pair);
                    has_changed = true;
                }
                self.0.insert(*pair, state);
            }
        }
        (failed, has_changed)
    }
}

enum Verdict {
    /// The grants are over: nothing is known.
    Gone,
    /// The receiver does not need it now: wait.
    Open,
    /// Too little is granted or carried to tell: wait.
    Small,
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
            let granted =
                ledger.grants.between(pair.0, pair.1).map(|entry| entry.grant.amount).sum();
            let carried = ledger.grants.between(pair.0, pair.1).map(|entry| entry.carried).sum();
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
        self.all.len() == 1 || self.is_alone(pair)
    }

    fn is_alone(&self, pair: &Pair) -> bool {
        self.all.iter().any(|trial| trial.pair == *pair && trial.is_alone)
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
        if self.short < granted.times(NEEDED) {
            return Verdict::Open;
        }
        if granted < self.before.times(TELLING) {
            return Verdict::Small;
        }
        if trial.carried < trial.granted.times(WORTH) {
            return Verdict::Fails;
        }
        let carried: Amount = self.all.iter().map(|trial| trial.carried).sum();
        if carried < self.before.times(TELLING) {
            return Verdict::Small;
        }
        let gain = trial.carried.saturating_sub(self.lost);
        if gain >= trial.carried.times(GAIN) { Verdict::Helps } else { Verdict::Fails }
    }
}
