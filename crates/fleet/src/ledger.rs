//! What a leader knows: its members, and every grant between them.

use std::collections::BTreeSet;

use tidegate_types::class::ClassId;
use tidegate_types::units::{Ratio, Time};

use super::grant_history::{EndReason, GrantDecision, GrantTotals, History};
use super::grants::{GrantKey, Grants, LedgerEntry, key};
use super::members::{FleetMember, Members, News};
use super::message::{CarriedGrant, Directive, Fence, Heartbeat, StandingPermits};
use super::standing::Standing;
use super::{
    Amount, FencingToken, FleetOptions, Grant, MatchingProblem, NodeId, Redirection, Tuple,
};

/// A member of the fleet, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Who.
    pub node: NodeId,
    /// What it has and wants.
    pub tuple: Tuple,
    /// When its newest beat came.
    pub heard: Time,
    /// Whether it is asked to lend nothing.
    pub is_drained: bool,
}

/// A grant, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantStatus {
    /// As it is now.
    pub grant: Grant,
    /// What the provider carries of it.
    pub carried: Amount,
    /// Since when this leader knows it.
    pub since: Time,
}

/// Members and grants.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) members: Members,
    pub(super) grants: Grants,
    /// Why they were given, for people.
    pub(super) history: History,
    pub(super) totals: GrantTotals,
    /// What neighbours may always send by each other.
    standing: Standing,
    /// Grants of this leader so far.
    granted: u64,
    /// What grants have changed by since [`Ledger::take_changed`].
    changed: Amount,
}

impl Ledger {
    /// The sum of all changes of amounts since the last call.
    pub(super) fn take_changed(&mut self) -> Amount {
        std::mem::take(&mut self.changed)
    }

    /// Takes a beat in, and brings the grants of its node together with what it says it holds. The provider
    /// decides: what it does not hold is over. What nobody here granted came from an earlier leader.
    pub(super) fn hear(
        &mut self,
        now: Time,
        beat: &Heartbeat,
        revision: u64,
        classes: usize,
    ) -> News {
        let news = self.members.hear(now, beat, revision, classes);
        if news == News::Old {
            return news;
        }
        let node = beat.node;
        for &CarriedGrant { grant, carried } in &beat.held {
            let is_lent = grant.provider == node;
            match self.grants.get_mut(key(&grant)) {
                Some(entry) if entry.grant.token >= grant.token => {
                    if is_lent && entry.grant.token == grant.token {
                        entry.carried = carried;
                    }
                    continue;
                }
                _ => {}
            }
            // A receiver may still hold what its provider has told to be over.
            let provider = self.members.get(grant.provider);
            let is_true = is_lent || grant.receiver == node && provider.is_none();
            let is_earlier = grant.token.revision < revision && grant.class.index() < classes;
            if news == News::First && is_true && is_earlier {
                self.grants.insert(LedgerEntry { grant, carried, since: now, round: 0, wanted: 0 });
            }
        }
        let lists = |token: FencingToken| beat.held.iter().any(|held| held.grant.token == token);
        // A first beat of a life has heard nothing of this leader, and holds all that it will.
        let heard = self.members.get(node).map_or(0, |member| member.obeyed);
        let is_over = |entry: &&LedgerEntry| {
            let is_told = entry.round <= heard || news == News::First;
            is_told && !lists(entry.grant.token)
        };
        let over: Vec<GrantKey> =
            self.grants.lent_by(node).filter(is_over).map(|entry| key(&entry.grant)).collect();
        self.end(now, over, EndReason::GivenUp);
        news
    }

    /// Ends grants; those who hold them must hear of it.
    pub(super) fn end(&mut self, now: Time, keys: Vec<GrantKey>, reason: EndReason) {
        for key in keys {
            let Some(entry) = self.grants.remove(key) else { continue };
            self.changed += entry.grant.amount;
            self.totals.ended[reason.index()] += 1;
            self.history.ended(now, &entry.grant, entry.carried);
            tell(&mut self.members, [entry.grant.provider, entry.grant.receiver]);
        }
    }

    fn where_is(&self, is_over: impl Fn(&LedgerEntry) -> bool) -> Vec<GrantKey> {
        let over = self.grants.iter().filter(|entry| is_over(entry));
        over.map(|entry| key(&entry.grant)).collect()
    }

    /// Nodes that have said nothing for too long are gone, and with them their grants; so are grants whose
    /// other side this leader never heard.
    pub(super) fn silence(&mut self, now: Time, options: &FleetOptions) {
        let is_silent = |member: &&FleetMember| now.since(member.heard) >= options.silence;
        let silent: Vec<NodeId> =
            self.members.iter().filter(is_silent).map(|one| one.node).collect();
        for node in silent {
            self.members.remove(node);
            let its = self.grants.lent_by(node).chain(self.grants.borrowed_by(node));
            let its = its.map(|entry| key(&entry.grant)).collect();
            self.end(now, its, EndReason::Silent);
        }
        let lonely = self.where_is(|entry| {
            now.since(entry.since) >= options.silence && !self.is_between_members(&entry.grant)
        });
        self.end(now, lonely, EndReason::Silent);
    }

    fn is_between_members(&self, grant: &Grant) -> bool {
        [grant.provider, grant.receiver].iter().all(|node| self.members.place(*node).is_some())
    }

    /// The fleet as a matching sees it, grants in force included. A grant whose other side this leader has
    /// not heard yet is left alone: it counts, and does not move.
    pub(super) fn problem(&self, options: &FleetOptions) -> MatchingProblem<'_> {
        let (classes, nodes) = (options.classes, self.members.rows().len());
        let mut wanted = vec![Amount::ZERO; nodes * classes];
        let mut asked = vec![u64::MAX; nodes * classes];
        let mut holds = vec![Amount::ZERO; nodes * classes];
        let mut lent = vec![Amount::ZERO; nodes];
        let (mut pinned_wants, mut pinned) = (holds.clone(), lent.clone());
        let mut held = Vec::with_capacity(self.grants.len());
        for LedgerEntry { grant, .. } in self.grants.iter() {
            let request = |place: usize| place * classes + grant.class.index();
            match (self.members.place(grant.receiver), self.members.place(grant.provider)) {
                (Some(receiver), Some(provider)) => {
                    holds[request(receiver)] += grant.amount;
                    lent[provider] += grant.amount;
                    let (receiver, provider) = (receiver as u32, provider as u32);
                    let (class, amount) = (grant.class.0, grant.amount);
                    held.push(Redirection { receiver, class, provider, amount });
                }
                (Some(receiver), None) => pinned_wants[request(receiver)] += grant.amount,
                (None, Some(provider)) => pinned[provider] += grant.amount,
                (None, None) => {}
            }
        }
        let mut spare = vec![Amount::ZERO; nodes];
        for (place, member) in self.members.rows().iter().enumerate() {
            let Some(FleetMember { tuple, is_drained, asked: since, .. }) = member else {
                continue;
            };
            if !is_drained {
                // The headroom is kept from new grants; those in force may use it.
                let kept = tuple.spare(Ratio::ZERO).min(lent[place] + pinned[place]);
                spare[place] =
                    tuple.spare(options.headroom).max(kept).saturating_sub(pinned[place]);
            }
            for (class, short) in tuple.shortage().enumerate() {
                let request = place * classes + class;
                let short = short.saturating_sub(pinned_wants[request]);
                wanted[request] = follow(short, holds[request], options.slack);
                asked[request] = since[class].unwrap_or(u64::MAX);
            }
        }
        MatchingProblem::new(self.members.candidates(), wanted, spare).asked(asked).holding(held)
    }

    /// Makes the grants what a matching says; answers with those that are new.
    pub(super) fn apply(
        &mut self,
        now: Time,
        redirections: &[Redirection],
        (revision, round): (u64, u64),
    ) -> Vec<Grant> {
        let mut new = Vec::new();
        for redirection in redirections {
            let node = |place: u32| {
                let member = self.members.rows()[place as usize].as_ref();
                member.expect("only members want and lend").node
            };
            let (provider, receiver) = (node(redirection.provider), node(redirection.receiver));
            let (class, amount) = (ClassId(redirection.class), redirection.amount);
            let before = match self.grants.get_mut((receiver, provider, class)) {
                Some(entry) => {
                    entry.wanted = round;
                    std::mem::replace(&mut entry.grant.amount, amount)
                }
                None => {
                    self.granted += 1;
                    let token = FencingToken { revision, id: self.granted };
                    let grant = Grant { token, provider, receiver, class, amount };
                    let carried = Amount::ZERO;
                    let entry = LedgerEntry { grant, carried, since: now, round, wanted: round };
                    self.note(now, grant);
                    self.grants.insert(entry);
                    new.push(grant);
                    Amount::ZERO
                }
            };
            if before != amount {
                self.changed += Amount(before.0.abs_diff(amount.0));
                tell(&mut self.members, [provider, receiver]);
            }
        }
        let over =
            self.where_is(|entry| entry.wanted != round && self.is_between_members(&entry.grant));
        self.end(now, over, EndReason::Unwanted);
        self.totals.given += new.len() as u64;
        new
    }

    /// Remembers why a grant is given.
    fn note(&mut self, now: Time, grant: Grant) {
        let tuple = |node| self.members.get(node).map(|member| &member.tuple);
        let lent: Amount =
            self.grants.lent_by(grant.provider).map(|entry| entry.grant.amount).sum();
        let spare = tuple(grant.provider).map(|tuple| tuple.spare(Ratio::ZERO));
        let given = GrantDecision {
            grant,
            receiver: tuple(grant.receiver).cloned().unwrap_or_default(),
            spare: spare.unwrap_or_default().saturating_sub(lent),
            carried: Amount::ZERO,
            since: now,
            until: None,
        };
        self.history.given(given);
    }

    /// Divides standing permits anew, where pairs have changed or capacities.
    pub(super) fn permit(&mut self, is_reshaped: bool, options: &FleetOptions) {
        if options.standing_lease.is_zero() {
            return;
        }
        if is_reshaped {
            self.standing.reshape(&self.members);
        }
        let mut told = BTreeSet::new();
        self.standing.divide(self.members.rows(), options.standing, |place| _ = told.insert(place));
        for place in told {
            if let Some(member) = &mut self.members.rows_mut()[place] {
                member.change_permits();
            }
        }
    }

    /// The standing permits of a member, where it must hear of them.
    fn permits(
        &self,
        now: Time,
        place: usize,
        revision: u64,
        options: &FleetOptions,
    ) -> Option<StandingPermits> {
        let member = self.members.rows()[place].as_ref()?;
        let lease = options.standing_lease;
        if lease.is_zero() || !member.lacks_permits(now, lease) {
            return None;
        }
        let permits = self.standing.of(place, &self.members, revision, options);
        Some(StandingPermits { lease, permits })
    }

    /// Directives for all who must hear something, with all of their grants: what has changed, and what
    /// must be renewed.
    pub(super) fn directives(
        &mut self,
        now: Time,
        (revision, round): (u64, u64),
        options: &FleetOptions,
    ) -> Vec<Directive> {
        let mut grants = vec![Vec::new(); self.members.rows().len()];
        for LedgerEntry { grant, .. } in self.grants.iter() {
            for node in [grant.provider, grant.receiver] {
                let place = self.members.place(node);
                place.into_iter().for_each(|place| grants[place].push(*grant));
            }
        }
        let mut directives = Vec::new();
        for (place, grants) in grants.into_iter().enumerate() {
            let standing = self.permits(now, place, revision, options);
            let Some(member) = &mut self.members.rows_mut()[place] else { continue };
            let has_new = standing.as_ref().is_some_and(|standing| !standing.permits.is_empty());
            let is_due = member.is_due(now, options.renewal, !grants.is_empty());
            if member.must_direct || has_new || is_due {
                member.direct(now, round);
                if standing.is_some() {
                    member.permit(now, round);
                }
                directives.push(Directive {
                    node: member.node,
                    incarnation: member.incarnation,
                    fence: Fence { revision, round },
                    beat: member.number,
                    lease: options.lease,
                    grants,
                    standing,
                });
            }
        }
        directives
    }
}

fn tell(members: &mut Members, parties: [NodeId; 2]) {
    for node in parties {
        if let Some(member) = members.get_mut(node) {
            member.must_direct = true;
        }
    }
}

/// What is asked for where something is held already: a grant follows a drift only when it is large, or
/// grants would never rest. It falls to nothing at once.
fn follow(short: Amount, holds: Amount, slack: Ratio) -> Amount {
    let is_near = short.0.abs_diff(holds.0) as f64 <= holds.0 as f64 * slack.as_f64();
    if is_near && !short.is_zero() { holds } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_follows_large_changes_only() {
        let slack = Ratio::new(0.1);
        let follow = |short, holds| follow(Amount(short), Amount(holds), slack).0;
        assert_eq!([follow(109, 100), follow(91, 100), follow(100, 0)], [100, 100, 100]);
        assert_eq!([follow(111, 100), follow(89, 100), follow(0, 5)], [111, 89, 0]);
    }
}
