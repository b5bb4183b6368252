//! The leader of a fleet: hears beats, decides who borrows from whom, and tells them.
//!
//! It can be lost at any time. Grants live in the nodes; a new leader hears from them what they hold and
//! goes on from there. What a deposed one still says comes before the fence of its successor.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tidegate_types::units::Time;

use super::grant_history::{EndReason, GrantDecision, GrantTotals};
use super::grants::{LedgerEntry, key};
use super::ledger::{GrantStatus, Ledger, MemberStatus};
use super::members::{FleetMember, News};
use super::message::{Directive, FleetDigest, Heartbeat};
use super::pairs::{PairState, Pairs};
use super::plausibility;
use super::{Amount, FleetOptions, NodeId, sticky};

/// Lenders that are named to a node.
const LENDERS_MAX: usize = 16;
/// Part of a shortage that makes a lender one of the first.
const ENOUGH: f64 = 0.25;

/// What a driver tells an orchestrator.
#[derive(Clone, Debug)]
pub enum OrchestratorInput {
    /// It leads from now on. The revision is larger than that of every leader before.
    Elected {
        /// Of its election.
        revision: u64,
    },
    /// It no longer leads.
    Deposed,
    /// What the leader knows and no node does: to whoever may follow it.
    Inherit(FleetDigest),
    /// From a node.
    Beat(Heartbeat),
    /// A node is to lend nothing and to be left by its borrowers, or to take part again.
    Drain(NodeId, bool),
    /// How long the last decision took: the next one waits twice that at least.
    Took(Duration),
    /// Time has come.
    Timeout,
}

/// What an orchestrator tells its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrchestratorOutput {
    /// To be sent to the node that it names.
    Directive(Directive),
}

/// What the last decision did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchingRound {
    /// Decisions of this leader so far.
    pub number: u64,
    /// Amounts granted, all together.
    pub granted: Amount,
    /// What of that differs from the decision before: new, larger, smaller and over.
    pub changed: Amount,
    /// Grants.
    pub grants: usize,
    /// Grants that are new.
    pub new: usize,
    /// What all requests want.
    pub wanted: Amount,
}

/// The state machine of an orchestrator, leading or not.
#[derive(Debug)]
pub struct Orchestrator {
    options: FleetOptions,
    revision: Option<u64>,
    ledger: Ledger,
    pairs: Pairs,
    round: MatchingRound,
    decided: Option<Time>,
    took: Duration,
    has_news: bool,
    /// Nodes that are to lend nothing until they are told to take part again, heard or not.
    drained: BTreeSet<NodeId>,
    inherited: FleetDigest,
    outputs: VecDeque<OrchestratorOutput>,
}

impl Orchestrator {
    /// One that does not lead.
    pub fn new(options: FleetOptions) -> Self {
        Orchestrator {
            options,
            revision: None,
            ledger: Ledger::default(),
            pairs: Pairs::default(),
            round: MatchingRound::default(),
            decided: None,
            took: Duration::ZERO,
            has_news: false,
            drained: BTreeSet::new(),
            inherited: FleetDigest::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Time, input: OrchestratorInput) {
        match input {
            OrchestratorInput::Elected { revision } => {
                self.clear();
                self.revision = Some(revision);
                let FleetDigest { drained, apart } = std::mem::take(&mut self.inherited);
                self.drained = drained.into_iter().collect();
                for (receiver, provider, left) in apart {
                    self.pairs.part(now, (receiver, provider), left.min(self.options.apart));
                }
            }
            OrchestratorInput::Deposed => {
                // It goes on from there if nobody else leads in between.
                self.inherited = self.digest(now);
                self.clear();
            }
            OrchestratorInput::Inherit(digest) if self.revision.is_none() => {
                self.inherited = digest;
            }
            OrchestratorInput::Inherit(_) => {}
            OrchestratorInput::Beat(beat) => self.hear(now, beat),
            OrchestratorInput::Drain(node, is_drained) => {
                if let Some(member) = self.ledger.members.get_mut(node) {
                    self.has_news |= member.is_drained != is_drained;
                    member.is_drained = is_drained;
                    if is_drained {
                        self.drained.insert(node);
                    } else {
                        self.drained.remove(&node);
                    }
                }
            }
            OrchestratorInput::Took(took) => self.took = took,
            OrchestratorInput::Timeout => {}
        }
        if self.next_timeout().is_some_and(|due| due <= now) {
            self.decide(now);
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<OrchestratorOutput> {
        self.outputs.pop_front()
    }

    /// When the next decision is due: at once on news, but not too soon after the last one.
    pub fn next_timeout(&self) -> Option<Time> {
        self.revision?;
        let Some(decided) = self.decided else { return self.has_news.then_some(Time::ZERO) };
        let is_empty = self.ledger.members.iter().next().is_none();
        let pause = self.options.decisions.max(self.took * 2);
        (self.has_news || !is_empty).then_some(decided + pause)
    }

    /// The revision under which it leads.
    pub fn revision(&self) -> Option<u64> {
        self.revision
    }

    /// What the last decision did.
    pub fn round(&self) -> MatchingRound {
        self.round
    }

    /// What it has decided since it was made, under whatever revision.
    pub fn totals(&self) -> GrantTotals {
        self.ledger.totals
    }

    /// Every node that it hears.
    pub fn members(&self) -> impl Iterator<Item = MemberStatus> + '_ {
        self.ledger.members.iter().map(|member: &FleetMember| MemberStatus {
            node: member.node,
            tuple: member.tuple.clone(),
            heard: member.heard,
            is_drained: member.is_drained,
        })
    }

    /// Every grant.
    pub fn grants(&self) -> impl Iterator<Item = GrantStatus> + '_ {
        self.ledger.grants.iter().map(|entry: &LedgerEntry| GrantStatus {
            grant: entry.grant,
            carried: entry.carried,
            since: entry.since,
        })
    }

    /// The last grants of a receiver by this leader, the oldest first, and why they were given.
    pub fn given(&self, receiver: NodeId) -> impl Iterator<Item = &GrantDecision> + '_ {
        self.ledger.history.of(receiver)
    }

    /// Nodes that could lend to one that is short, for it to open links to: those first that have a quarter
    /// of what it wants, else in an order that differs from receiver to receiver, so that not all of them
    /// go to the same one. `is_near` says who can be reached at all.
    pub fn lenders(
        &self,
        now: Time,
        receiver: NodeId,
        is_near: impl Fn(NodeId) -> bool,
    ) -> Vec<NodeId> {
        let Some(asking) = self.ledger.members.get(receiver) else { return Vec::new() };
        let short: Amount = asking.tuple.shortage().sum();
        let is_open = self.pairs.open_to(now, receiver);
        let rank = |member: &FleetMember| {
            let node = member.node;
            let may = node != receiver && !member.is_drained && is_near(node) && is_open(node);
            let lent: Amount =
                self.ledger.grants.lent_by(node).map(|entry| entry.grant.amount).sum();
            let spare = member.tuple.spare(self.options.headroom).saturating_sub(lent);
            // A multiplication mixes upwards: the high bits are those of both names.
            let order = (receiver.0 ^ node.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            (may && !spare.is_zero()).then_some((spare < short.times(ENOUGH), order, node))
        };
        let mut ranked: Vec<_> = self.ledger.members.iter().filter_map(rank).collect();
        ranked.sort_unstable();
        ranked.truncate(LENDERS_MAX);
        ranked.into_iter().map(|(_, _, node)| node).collect()
    }

    /// What is known of a pair of a receiver and a provider.
    pub fn pair(&self, receiver: NodeId, provider: NodeId) -> Option<PairState> {
        self.pairs.of(receiver, provider)
    }

    /// What it knows and no node does.
    pub fn digest(&self, now: Time) -> FleetDigest {
        let apart = self.pairs.apart(now).map(|(pair, left)| (pair.0, pair.1, left)).collect();
        FleetDigest { drained: self.drained.iter().copied().collect(), apart }
    }

    fn clear(&mut self) {
        self.revision = None;
        let totals = self.ledger.totals;
        self.ledger = Ledger::default();
        self.ledger.totals = totals;
        self.pairs = Pairs::default();
        self.drained.clear();
        self.round = MatchingRound::default();
        (self.decided, self.has_news) = (None, false);
        self.outputs.clear();
    }

    fn hear(&mut self, now: Time, mut beat: Heartbeat) {
        let Some(revision) = self.revision else { return };
        if beat.check(self.options.uplink_max).is_err() {
            self.ledger.totals.false_claims += 1;
            return;
        }
        plausibility::within(&mut beat.tuple.demand, self.options.uplink_max);
        let news = self.ledger.hear(now, &beat, revision, self.options.classes);
        self.ledger.totals.beats += u64::from(news != News::Old);
        self.has_news |= news != News::Old;
        if news == News::First
            && let Some(member) = self.ledger.members.get_mut(beat.node)
        {
            member.is_drained = self.drained.contains(&beat.node);
        }
    }

    fn decide(&mut self, now: Time) {
        let Some(revision) = self.revision else { return };
        let round = (revision, self.round.number + 1);
        self.ledger.silence(now, &self.options);
        self.judge(now);
        let pairs = |receiver| self.pairs.open_to(now, receiver);
        let is_reshaped = self.ledger.members.refresh(pairs);
        self.ledger.permit(is_reshaped, &self.options);
        let problem = self.ledger.problem(&self.options);
        let wanted = problem.wanted().iter().copied().sum();
        let redirections = sticky::solve(self.options.matching, &problem, round.1);
        let new = self.ledger.apply(now, &redirections, round);
        for grant in &new {
            let member = self.ledger.members.get(grant.receiver);
            let carries = member.map_or(Amount::ZERO, FleetMember::carries);
            if self.pairs.granted(now, (grant.receiver, grant.provider), carries) {
                self.ledger.members.reshape();
            }
        }
        let directives = self.ledger.directives(now, round, &self.options);
        self.ledger.totals.decisions += 1;
        self.ledger.totals.directives += directives.len() as u64;
        self.outputs.extend(directives.into_iter().map(OrchestratorOutput::Directive));
        self.round = MatchingRound {
            number: round.1,
            granted: self.ledger.grants.iter().map(|entry| entry.grant.amount).sum(),
            changed: self.ledger.take_changed(),
            grants: self.ledger.grants.len(),
            new: new.len(),
            wanted,
        };
        (self.decided, self.has_news) = (Some(now), false);
    }

    /// Revokes what does not help.
    fn judge(&mut self, now: Time) {
        let (failed, has_changed) = self.pairs.judge(now, &self.ledger, &self.options);
        for (receiver, provider) in failed {
            let grants = self.ledger.grants.between(receiver, provider);
            let keys = grants.map(|entry| key(&entry.grant)).collect();
            self.ledger.end(now, keys, EndReason::NoHelp);
        }
        if has_changed {
            self.ledger.members.reshape();
        }
    }
}
