//! Which topics whom.

use bytes::Bytes;
use tidegate_core::topic::{Filter, FilterError};

/// Stands for the user's name in a topic filter.
const USER: &str = "%u";

/// One rule: these users may publish to these topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// Pattern of names, `*` for any characters; `None` for everybody, also for who has no name.
    user: Option<String>,
    topics: Vec<String>,
}

impl Allow {
    /// The rule.
    ///
    /// # Errors
    /// A topic is no filter.
    pub fn new(user: Option<String>, topics: Vec<String>) -> Result<Allow, FilterError> {
        for topic in &topics {
            Filter::new(&topic.replace(USER, "u"))?;
        }
        Ok(Allow { user, topics })
    }

    fn is_for(&self, user: Option<&str>) -> bool {
        match (&self.user, user) {
            (None, _) => true,
            (Some(pattern), Some(user)) => covers(pattern, user),
            (Some(_), None) => false,
        }
    }
}

/// What one client may publish to.
#[derive(Debug, Default)]
pub struct Grants {
    /// `None` is everything.
    filters: Option<Vec<Filter>>,
    /// The topic that was allowed last: it mostly comes again.
    last: Bytes,
}

impl Grants {
    /// The rights of a user, or of nobody.
    pub fn new(allow: Option<&[Allow]>, user: Option<&str>) -> Grants {
        let Some(allow) = allow else { return Grants::default() };
        // A name with a wildcard or a slash must not widen what a rule with %u gives.
        let level = user.filter(|name| !name.contains(['/', '+', '#', '\0']));
        let mut filters = Vec::new();
        for topic in allow.iter().filter(|rule| rule.is_for(user)).flat_map(|rule| &rule.topics) {
            let filter = match (topic.contains(USER), level) {
                (false, _) => Filter::new(topic),
                (true, Some(name)) => Filter::new(&topic.replace(USER, name)),
                (true, None) => continue,
            };
            // Every filter was checked with its rule; what a name makes too deep gives no right.
            filters.extend(filter);
        }
        Grants { filters: Some(filters), last: Bytes::new() }
    }

    /// Whether all topics are allowed.
    pub fn is_everything(&self) -> bool {
        self.filters.is_none()
    }

    /// Whether a topic may be published to.
    pub fn allows(&mut self, topic: &Bytes) -> bool {
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

/// Whether a pattern with `*` covers a name. The first place that fits each part is as good as any
/// later one, so it takes time of the order of their product at most.
fn covers(pattern: &str, name: &str) -> bool {
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
        Allow::new(user.map(Into::into), topics).unwrap()
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
    }

    #[test]
    fn what_is_allowed_again_is_the_same_and_nothing_else() {
        let mut grants = Grants::new(Some(&[rule(None, &["a/#"])]), None);
        let [good, bad] = [Bytes::from_static(b"a/b"), Bytes::from_static(b"b")];
        assert!(grants.allows(&good) && grants.allows(&good) && !grants.allows(&bad));
        assert!(Allow::new(None, vec!["a/#/b".into()]).is_err());
    }
}
