//! Which topics whom.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::topic::{Filter, FilterError};
use tokio::time::Instant;

/// Stands for the user's name in a topic filter.
const USER: &str = "%u";

/// One rule: these users may publish to these topics, and subscribe to those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// Pattern of names, `*` for any characters; `None` for everybody, also for who has no name.
    user: Option<String>,
    topics: Vec<String>,
    subscribe: Vec<String>,
}

impl Allow {
    /// The rule.
    ///
    /// # Errors
    /// A topic is no filter.
    pub fn new(
        user: Option<String>,
        topics: Vec<String>,
        subscribe: Vec<String>,
    ) -> Result<Allow, FilterError> {
        for topic in topics.iter().chain(&subscribe) {
            Filter::new(&topic.replace(USER, "u"))?;
        }
        Ok(Allow { user, topics, subscribe })
    }

    fn is_for(&self, user: Option<&str>) -> bool {
        match (&self.user, user) {
            (None, _) => true,
            (Some(pattern), Some(user)) => covers(pattern, user),
            (Some(_), None) => false,
        }
    }
}

/// What one client may publish and subscribe to.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// `None` is everything.
    filters: Option<Vec<Filter>>,
    subscribe: Option<Vec<Filter>>,
    /// The topic that was allowed last: it mostly comes again.
    last: Bytes,
    /// Whose they are.
    user: Option<Box<str>>,
    proof: Proof,
    /// What they were given beside the listener's rules.
    own: Option<Arc<Allow>>,
    /// Until when they count.
    until: Option<Instant>,
}

/// By what a client has shown who it is, as far as that can end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// By nothing.
    #[default]
    Nothing,
    /// By a password that was checked against what bears this mark.
    Password(u64),
    /// By a certificate.
    Certificate,
    /// By a token that the key of this mark has signed.
    Token(u64),
    /// By what a server answered.
    Hook,
}

impl Grants {
    /// The rights of a user, or of nobody.
    pub fn new(allow: Option<&[Allow]>, user: Option<&str>) -> Grants {
        Grants::with(allow, None, user)
    }

    /// The same with rights of the client's own.
    pub(super) fn with(
        allow: Option<&[Allow]>,
        own: Option<Arc<Allow>>,
        user: Option<&str>,
    ) -> Grants {
        let owner = user.map(Into::into);
        if allow.is_none() && own.is_none() {
            return Grants { user: owner, ..Grants::default() };
        }
        let allow = allow.unwrap_or_default();
        // A name with a wildcard or a slash must not widen what a rule with %u gives.
        let level = user.filter(|name| !name.contains(['/', '+', '#', '\0']));
        let filter = |topic: &String| {
            let filter = match (topic.contains(USER), level) {
                (false, _) => Filter::new(topic),
                (true, name) => Filter::new(&topic.replace(USER, name?)),
            };
            // Every filter was checked with its rule; what a name makes too deep gives no right.
            filter.ok()
        };
        let rules = || allow.iter().chain(own.as_deref()).filter(|rule| rule.is_for(user));
        let filters = rules().flat_map(|rule| &rule.topics).filter_map(filter).collect();
        let subscribe = rules().flat_map(|rule| &rule.subscribe).filter_map(filter).collect();
        Grants {
            filters: Some(filters),
            subscribe: Some(subscribe),
            last: Bytes::new(),
            user: owner,
            proof: Proof::Nothing,
            own,
            until: None,
        }
    }

    /// The same, given for this.
    pub(super) fn by(self, proof: Proof) -> Grants {
        Grants { proof, ..self }
    }

    /// The same, until then.
    pub(super) fn until(self, until: Option<Instant>) -> Grants {
        Grants { until, ..self }
    }

    /// When they end, if ever.
    pub fn end(&self) -> Option<Instant> {
        self.until
    }

    /// What they were given beside the listener's rules.
    pub(super) fn own(&self) -> Option<Arc<Allow>> {
        self.own.clone()
    }

    /// By what they were given.
    pub(super) fn proof(&self) -> Proof {
        self.proof
    }

    /// The user, where the node knows one.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Whether a filter may be subscribed to: a single right must cover all of it, so that what is then
    /// delivered needs no look.
    pub fn may_subscribe(&self, filter: &Filter) -> bool {
        let covers = |rights: &Vec<Filter>| rights.iter().any(|right| right.covers(filter));
        self.subscribe.as_ref().is_none_or(covers)
    }

    /// Whether messages of a topic may be delivered.
    pub fn may_get(&self, topic: &[u8]) -> bool {
        let Some(rights) = &self.subscribe else { return true };
        std::str::from_utf8(topic)
            .is_ok_and(|topic| rights.iter().any(|right| right.matches(topic)))
    }

    /// Whether all topics are allowed but those that are the server's own.
    pub fn is_everything(&self) -> bool {
        self.filters.is_none()
    }

    /// Whether a topic may be published to.
    pub fn allows(&mut self, topic: &Bytes) -> bool {
        if is_of_server(topic) {
            return false;
        }
        let Some(filters) = &self.filters else { return true };
        if !self.last.is_empty() && self.last == topic {
            return true;
        }
        let Ok(text) = std::str::from_utf8(topic) else { return false };
        let is_allowed = filters.iter().any(|filter| filter.matches(text));
        if is_allowed {
            self.last = topic.clone();
        }
        is_allowed
    }
}

/// Whether a topic is one by which servers speak of themselves (MQTT 5, 4.7.2): no client publishes to it,
/// whatever its rights are, for others would believe it.
pub fn is_of_server(topic: &[u8]) -> bool {
    topic.strip_prefix(b"$SYS").is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Whether a pattern with `*` covers a name. The first place that fits each part is as good as any
/// later one, so it takes time of the order of their product at most.
pub(super) fn covers(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(user: Option<&str>, topics: &[&str]) -> Allow {
        let topics = topics.iter().map(ToString::to_string).collect();
        Allow::new(user.map(Into::into), topics, Vec::new()).unwrap()
    }

    #[test]
    fn patterns_cover_names() {
        for (pattern, name, expected) in [
            ("plc-*", "plc-7", true),
            ("plc-*", "plc-", true),
            ("plc-*", "a-plc-7", false),
            ("plc-7", "plc-7", true),
            ("plc-7", "plc-77", false),
            ("*", "", true),
            ("*-7-*x", "plc-7-ax", true),
            ("a*a", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(covers(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn rights_are_those_of_all_rules_that_cover_the_user() {
        let rules = [
            rule(Some("plc-*"), &["factory/%u/#"]),
            rule(Some("plc-7"), &["alarm/+"]),
            rule(None, &["public/#", "by/%u"]),
        ];
        let may = |user: Option<&str>, topic: &str| {
            Grants::new(Some(&rules), user).allows(&Bytes::copy_from_slice(topic.as_bytes()))
        };
        assert!(may(Some("plc-7"), "factory/plc-7/alarm") && may(Some("plc-7"), "alarm/1"));
        assert!(!may(Some("plc-8"), "factory/plc-7/alarm") && !may(Some("plc-8"), "alarm/1"));
        assert!(may(None, "public/a") && !may(None, "by/") && may(Some("x"), "by/x"));
        assert!(!may(Some("plc-+"), "factory/plc-7/a") && !may(Some("plc-#"), "factory/a"));
        assert!(Grants::default().allows(&Bytes::from_static(b"anything")));
        let everything = [rule(None, &["#", "$SYS/#"])];
        let mut grants = Grants::new(Some(&everything), None);
        for (topic, is_allowed) in [
            ("$SYS/broker/uptime", false),
            ("$SYS", false),
            ("$SYSTEM/a", false),
            ("a/$SYS/b", true),
        ] {
            assert_eq!(grants.allows(&Bytes::from_static(topic.as_bytes())), is_allowed, "{topic}");
        }
        assert!(Grants::default().allows(&Bytes::from_static(b"$SYSTEM/a")));
        assert!(!Grants::default().allows(&Bytes::from_static(b"$SYS/a")));
    }

    #[test]
    fn subscriptions_need_a_right_that_covers_all_of_them() {
        let rights = ["state/%u/#", "public/+"].map(Into::into).to_vec();
        let rules = [Allow::new(None, Vec::new(), rights).unwrap()];
        let may = |filter: &str| {
            Grants::new(Some(&rules), Some("plc-7")).may_subscribe(&Filter::new(filter).unwrap())
        };
        assert!(may("state/plc-7/#") && may("state/plc-7/a/+") && may("public/+"));
        assert!(!may("#") && !may("state/#") && !may("state/plc-8/a") && !may("public/#"));
        let grants = Grants::new(Some(&rules), Some("plc-7"));
        assert!(grants.may_get(b"public/a") && !grants.may_get(b"state/plc-8/a"));
        assert!(Grants::default().may_subscribe(&Filter::new("#").unwrap()));
    }

    #[test]
    fn what_is_allowed_again_is_the_same_and_nothing_else() {
        let mut grants = Grants::new(Some(&[rule(None, &["a/#"])]), None);
        let [good, bad] = [Bytes::from_static(b"a/b"), Bytes::from_static(b"b")];
        assert!(grants.allows(&good) && grants.allows(&good) && !grants.allows(&bad));
        assert!(Allow::new(None, vec!["a/#/b".into()], Vec::new()).is_err());
    }
}
