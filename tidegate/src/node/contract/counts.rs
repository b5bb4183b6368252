//! What inputs count by themselves: what never reached the node, or was answered otherwise than the node
//! decided.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts by reason.
pub type ByReason = BTreeMap<&'static str, u64>;

/// Counts of all inputs of a node together; only upward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Records that were acknowledged to their sender, or offered with QoS 0, and not taken.
    pub dropped: ByReason,
    /// Records that an input refused without asking the node, and whose sender was told.
    pub refused: ByReason,
    /// Connections that were not let in.
    pub denied: ByReason,
    /// What a user wanted beyond his quota or share, by which.
    pub over_quota: ByReason,
    /// Records that bear another node's name by no right that is known here, by what became of them.
    pub unproven: ByReason,
}

impl Default for Counts {
    /// Reasons that are shown from the start stand at 0.
    fn default() -> Self {
        let zero = |reasons: &[&'static str]| reasons.iter().map(|reason| (*reason, 0)).collect();
        Counts {
            dropped: zero(&["forbidden", "full", "no-rule", "oversize", "too-many-streams"]),
            refused: zero(&["claim", "forbidden"]),
            denied: zero(&[
                "anonymous",
                "busy",
                "certificate",
                "clone",
                "password",
                "quota",
                "revoked",
                "session",
                "tls",
                "token",
                "unasked",
                "websocket",
            ]),
            over_quota: zero(&["connections", "session-expiry", "sessions", "subscriptions"]),
            unproven: zero(&["renamed", "taken"]),
        }
    }
}

/// The counters. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub struct InputCounts(Arc<Mutex<Counts>>);

impl InputCounts {
    /// A record was not taken though its sender believes so.
    pub fn dropped(&self, reason: &'static str) {
        self.count(|counts| &mut counts.dropped, reason);
    }

    /// A record was refused without asking the node, and its sender was told.
    pub fn refused(&self, reason: &'static str) {
        self.count(|counts| &mut counts.refused, reason);
    }

    /// A connection was not let in.
    pub fn denied(&self, reason: &'static str) {
        self.count(|counts| &mut counts.denied, reason);
    }

    /// A user wanted more than he may have.
    pub fn over_quota(&self, which: &'static str) {
        self.count(|counts| &mut counts.over_quota, which);
    }

    /// A record is taken that bears another node's name by no right that is known here.
    pub fn unproven(&self, outcome: &'static str) {
        self.count(|counts| &mut counts.unproven, outcome);
    }

    fn count(&self, of: impl Fn(&mut Counts) -> &mut ByReason, reason: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *of(&mut counts).entry(reason).or_default() += 1;
    }

    /// The counts so far.
    pub fn read(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_together() {
        let counts = InputCounts::default();
        counts.clone().dropped("full");
        counts.dropped("stopping");
        counts.denied("tls");
        let Counts { dropped, refused, denied, over_quota, unproven } = counts.read();
        assert_eq!(over_quota["connections"], 0);
        assert_eq!((dropped["full"], dropped["stopping"], dropped["no-rule"]), (1, 1, 0));
        assert_eq!((refused["forbidden"], denied["tls"], denied["password"]), (0, 1, 0));
        assert_eq!((refused["claim"], unproven["taken"]), (0, 0));
    }
}
