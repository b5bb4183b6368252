//! What a client subscribes to: a topic filter, alone or as one of a group (MQTT 5, 4.8.2).

use std::sync::Arc;

use tidegate_types::topic::{Filter, FilterError};

/// How the name of a shared subscription begins.
const SHARE: &str = "$share/";

/// A topic filter, and the group whose members share what it matches, if there is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subscription {
    /// The name of the group.
    pub group: Option<Arc<str>>,
    /// The filter.
    pub filter: Filter,
}

/// Why a text is nothing to subscribe to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionError {
    /// A wrong filter.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A group needs a name, without wildcards, and a filter.
    #[error("a shared subscription is $share/GROUP/FILTER, without + or # in GROUP")]
    Share,
}

impl Subscription {
    /// Reads `a/+/b`, or `$share/group/a/+/b`.
    ///
    /// # Errors
    /// See [`SubscriptionError`].
    pub fn new(text: &str) -> Result<Self, SubscriptionError> {
        let Some(shared) = text.strip_prefix(SHARE) else {
            return Ok(Subscription { group: None, filter: Filter::new(text)? });
        };
        let (group, filter) = shared.split_once('/').ok_or(SubscriptionError::Share)?;
        if group.is_empty() || group.contains(['+', '#']) || filter.is_empty() {
            return Err(SubscriptionError::Share);
        }
        Ok(Subscription { group: Some(group.into()), filter: Filter::new(filter)? })
    }

    /// The text that it was read from.
    pub fn text(&self) -> String {
        let filter = self.filter.as_str();
        self.group.as_ref().map_or(filter.into(), |group| format!("{SHARE}{group}/{filter}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_a_name_and_a_filter() {
        let shared = Subscription::new("$share/g/a/+").unwrap();
        assert_eq!((shared.group.as_deref(), shared.filter.as_str()), (Some("g"), "a/+"));
        let slash = Subscription::new("$share/g//").unwrap();
        assert_eq!(slash.filter.as_str(), "/");
        assert_eq!(Subscription::new("a/b").unwrap().group, None);
        for wrong in ["$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/#/a"] {
            assert_eq!(Subscription::new(wrong), Err(SubscriptionError::Share), "{wrong}");
        }
        assert!(Subscription::new("$share/g/a/#/b").is_err());
        assert!(Subscription::new("a#").is_err());
    }
}
