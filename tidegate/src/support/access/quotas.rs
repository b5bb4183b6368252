//! What one user may have, and which rule says so.

use std::time::Duration;

use tidegate_types::units::Size;

use super::acl::covers;

/// What one user may have, or one address where nobody says who he is. What is `None` has no bound of his own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Clients that are connected at a time.
    pub connections: Option<u32>,
    /// Sessions that are kept while their clients are away.
    pub sessions: Option<u32>,
    /// Subscriptions of all his sessions.
    pub subscriptions: Option<u32>,
    /// How long a session is kept.
    pub session_expiry: Option<Duration>,
    /// Streams that are fed or hold something.
    pub streams: Option<u32>,
    /// Bytes of the log.
    pub log: Option<Size>,
}

/// A quota and for whom it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRule {
    /// Pattern of names, `*` for any characters; `None` for everybody, also for who has no name.
    pub user: Option<String>,
    /// The quota.
    pub quota: Quota,
}

/// The rules of all quotas; the first that covers a user holds for him.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas(pub Vec<QuotaRule>);

impl Quotas {
    /// That of a user, or of nobody.
    pub fn of(&self, user: Option<&str>) -> Quota {
        let is_for = |rule: &&QuotaRule| match (&rule.user, user) {
            (None, _) => true,
            (Some(pattern), Some(user)) => covers(pattern, user),
            (Some(_), None) => false,
        };
        self.0.iter().find(is_for).map_or(Quota::default(), |rule| rule.quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_covers_a_user_holds() {
        let rule = |user: Option<&str>, connections| QuotaRule {
            user: user.map(Into::into),
            quota: Quota { connections: Some(connections), ..Quota::default() },
        };
        let quotas = Quotas(vec![rule(Some("plc-*"), 2), rule(Some("scada"), 50), rule(None, 5)]);
        let of = |user| quotas.of(user).connections;
        assert_eq!(
            [of(Some("plc-7")), of(Some("scada")), of(Some("x"))],
            [Some(2), Some(50), Some(5)]
        );
        assert_eq!(of(None), Some(5), "who has no name is of the rule for everybody");
        assert_eq!(Quotas(vec![rule(Some("*"), 2)]).of(None), Quota::default());
    }
}
