//! Which class a topic is in, and whether its records leave the node at all.

use std::time::Duration;

use tidegate_types::class::ClassId;
use tidegate_types::topic::Filter;

/// What holds for the topics of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Any of these; an empty list is every topic.
    pub filters: Vec<Filter>,
    /// Its class.
    pub class: ClassId,
    /// How soon subscribers should have it.
    pub latency: Duration,
    /// Whether records are for subscribers here only, and for no output.
    pub is_local: bool,
}

/// The rules, as a broker sees them: the first one that covers a topic holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// In order.
    pub fn new(scopes: Vec<Scope>) -> Self {
        Scopes(scopes)
    }

    /// The first that covers a topic.
    pub fn find(&self, topic: &str) -> Option<&Scope> {
        self.0.iter().find(|scope| {
            scope.filters.is_empty() || scope.filters.iter().any(|filter| filter.matches(topic))
        })
    }

    /// Whether any topic is for subscribers here only.
    pub fn has_local(&self) -> bool {
        self.0.iter().any(|scope| scope.is_local)
    }
}
