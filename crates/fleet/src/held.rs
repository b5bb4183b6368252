//! Grants and standing permits as a node holds them.

use std::collections::BTreeMap;

use tidegate_types::class::ClassId;
use tidegate_types::units::Time;

use super::message::StandingPermits;
use super::moving_average::CarriedFlow;
use super::{Amount, FencingToken, Grant, NodeId};

/// A grant as its holder sees it.
#[derive(Clone, Copy, Debug)]
pub struct HeldGrant {
    /// As granted.
    pub grant: Grant,
    /// What of it is to be used now: a provider gives less than it granted while it needs more itself.
    pub usable: Amount,
    /// When it ends unless it is renewed, on this node's clock.
    pub until: Time,
    /// As provider: what it carries of it.
    pub(super) carried: CarriedFlow,
}

/// The standing permits of a node, one a pair of provider and receiver.
#[derive(Debug, Default)]
pub(super) struct HeldPermits(BTreeMap<(NodeId, NodeId), HeldGrant>);

impl HeldPermits {
    /// All of them, as provider and as receiver.
    pub(super) fn all(&self) -> impl Iterator<Item = &HeldGrant> + '_ {
        self.0.values()
    }

    /// Two nodes have agreed on one by their configurations.
    pub(super) fn agree(&mut self, pair: (NodeId, NodeId), class: ClassId, amount: Amount) {
        let token = FencingToken { revision: 0, id: 0 };
        let grant = Grant { token, provider: pair.0, receiver: pair.1, class, amount };
        self.hold(grant, Time::FAR);
    }

    fn hold(&mut self, grant: Grant, until: Time) {
        let carried = CarriedFlow::new(Time::ZERO);
        let held = HeldGrant { grant, usable: grant.amount, until, carried };
        self.0.insert((grant.provider, grant.receiver), held);
    }

    /// A leader of this revision has named a node's permits: each replaces that of its pair, unless a later leader or the
    /// configuration gave that. `began` is when its time counts from, as provider and as receiver, where that is known.
    pub(super) fn obey(
        &mut self,
        (node, began): (NodeId, [Option<Time>; 2]),
        revision: u64,
        StandingPermits { lease, permits }: &StandingPermits,
    ) {
        let is_listed = |pair: &(NodeId, NodeId)| {
            permits.iter().any(|one| (one.provider, one.receiver) == *pair)
        };
        let is_agreed = |held: &HeldGrant| held.until == Time::FAR;
        self.0.retain(|pair, held| {
            held.grant.token.revision != revision || is_listed(pair) || is_agreed(held)
        });
        for grant in permits {
            let known = self.0.get(&(grant.provider, grant.receiver));
            let is_later =
                known.is_some_and(|held| is_agreed(held) || held.grant.token.revision > revision);
            let is_party = [grant.provider, grant.receiver].contains(&node);
            let began = began[usize::from(grant.receiver == node)].filter(|_| is_party);
            if let Some(began) = began.filter(|_| !is_later) {
                self.hold(*grant, began + *lease);
            }
        }
    }

    /// A provider honours so much in all: none of it is part of what it lends, for it holds in the worst hour.
    pub(super) fn fit(&mut self, provider: NodeId, most: Amount) {
        let mut left = most;
        for held in self.0.values_mut().filter(|held| held.grant.provider == provider) {
            held.usable = held.grant.amount.min(left);
            left -= held.usable;
        }
    }

    /// Those whose time is over end.
    pub(super) fn expire(&mut self, now: Time) {
        self.0.retain(|_, held| held.until > now);
    }
}
