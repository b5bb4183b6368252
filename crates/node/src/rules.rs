//! Rules: which records belong to which stream, and what their stream promises.

use std::sync::Arc;
use std::time::Duration;

pub use tidegate_schedule::discipline::Discipline;
use tidegate_types::class::{ClassId, Classes};
pub use tidegate_types::ids::RuleId;
use tidegate_types::limits::RULES_MAX;
use tidegate_types::record::AcceptMode;
use tidegate_types::topic::{Filter, FilterError};
use tidegate_types::units::Size;

use crate::io::OutputId;

/// An adaptation script, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptId(pub u16);

/// What happens to a record that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullPolicy {
    /// The oldest waiting records of the stream go (`full`).
    DropOldest,
    /// The new record is accepted and dropped (`full`).
    DropNewest,
    /// The new record is refused.
    Reject,
    /// Its connection is not read until there is room, for at most this long; then it is refused, and
    /// so are the stream's next ones, without waiting, until the stream has room again. So a full
    /// stream holds up the other streams of its connection at most once.
    Block(Duration),
}

impl Default for FullPolicy {
    /// Blocks for a second.
    fn default() -> Self {
        FullPolicy::Block(Duration::from_secs(1))
    }
}

/// One `[[stream]]`: what its records are and what is promised to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Label in metrics and messages.
    pub name: Arc<str>,
    /// Any of these matches the key; an empty list matches every key.
    pub filters: Vec<Filter>,
    /// Bound on residence.
    pub latency: Duration,
    /// Class that serves it.
    pub class: ClassId,
    /// Where its records go, each with a fate of its own.
    pub to: Vec<OutputId>,
    /// Which record goes next.
    pub discipline: Discipline,
    /// Keep order even across late records: nothing overtakes inside the stream. A stream with a late
    /// record is then served by the late share until it has caught up.
    pub strict_order: bool,
    /// What happens to a record that does not fit.
    pub full: FullPolicy,
    /// Bound on the bytes held of each of its streams, in memory and in the log.
    pub bound: Size,
    /// Bound on those of them in memory: what is beyond it of a durable stream is in the log only.
    pub memory: Size,
    /// How long its records are worth sending.
    pub ttl: Option<Duration>,
    /// When its senders are told.
    pub accept: AcceptMode,
    /// The adaptation script that looks at each of its records before it may go.
    pub script: Option<ScriptId>,
    /// Its name, for people.
    pub script_name: Option<Arc<str>>,
    /// Set for the rule of records that neighbours send here for our uplink, by their class there: it
    /// covers all of these and nothing else.
    pub relays: Option<ClassId>,
    /// The neighbours that may carry its records, for their far ends are the same; `None`: all.
    pub lent_to: Option<Arc<[OutputId]>>,
    /// It covers what comes by sources that are bound to it, and nothing by its key.
    pub is_bound: bool,
}

impl Rule {
    /// A rule that matches everything, with the defaults: the last class, FIFO, blocking, 16 MiB a
    /// stream, no ttl.
    pub fn catch_all(classes: &Classes, to: Vec<OutputId>) -> Self {
        let class = ClassId((classes.len() - 1) as u8);
        Rule {
            name: "default".into(),
            filters: Vec::new(),
            latency: classes.spec(class).latency,
            class,
            to,
            discipline: Discipline::Fifo,
            strict_order: false,
            full: FullPolicy::default(),
            bound: Size::from_mib(16),
            memory: Size::from_mib(16),
            ttl: None,
            accept: AcceptMode::Memory,
            script: None,
            script_name: None,
            relays: None,
            lent_to: None,
            is_bound: false,
        }
    }

    /// Whether a neighbour may carry its records.
    pub(crate) fn may_go_by(&self, peer: OutputId) -> bool {
        self.lent_to.as_ref().is_none_or(|only| only.contains(&peer))
    }

    /// The rule of neighbours' records of a class: served by `by`, which is less urgent than all of the
    /// node's own, so that own records go first; told when the far end has them, so that the neighbour
    /// answers for them until then.
    pub fn relay(classes: &Classes, of: ClassId, by: ClassId, to: OutputId) -> Self {
        Rule {
            name: format!("relay-{}", classes.spec(of).name).into(),
            latency: classes.spec(of).latency,
            class: by,
            accept: AcceptMode::Confirmed,
            full: FullPolicy::Reject,
            relays: Some(of),
            ..Rule::catch_all(classes, vec![to])
        }
    }

    /// The rule of neighbours' records of a class for which our uplink is reserved: they are served as our own ones
    /// of the class are.
    pub fn reserved(classes: &Classes, of: ClassId, to: OutputId) -> Self {
        let name = format!("reserved-{}", classes.spec(of).name).into();
        Rule { name, ..Rule::relay(classes, of, of, to) }
    }

    /// Whether it is one of those.
    pub fn is_reserved(&self) -> bool {
        self.relays == Some(self.class)
    }

    /// Whether its records may be in the log only, to be read back later.
    pub fn can_leave(&self) -> bool {
        self.accept == AcceptMode::Durable && self.discipline != Discipline::NewestOnly
    }

    /// The same rule for keys that match `filters`, with this bound.
    ///
    /// # Errors
    /// A filter that MQTT forbids.
    pub fn for_topics(
        mut self,
        classes: &Classes,
        name: &str,
        filters: &[&str],
        latency: Duration,
    ) -> Result<Self, FilterError> {
        self.name = name.into();
        self.filters =
            filters.iter().map(|filter| Filter::new(filter)).collect::<Result<_, _>>()?;
        self.class = classes.for_latency(latency);
        self.latency = latency;
        Ok(self)
    }
}

/// What is wrong with a list of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// More than `RULES_MAX`.
    #[error("{0} rules are more than {RULES_MAX}")]
    TooMany(usize),
    /// A rule without destination.
    #[error("stream {0:?} goes nowhere: name an output in `to`")]
    NoDestination(Arc<str>),
}

/// The rules of a node. A rule keeps its place over every update, for its streams, counts and stored
/// records are known by it; the order in which rules are asked is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    all: Vec<Rule>,
    /// Those that are asked, in order.
    asked: Vec<RuleId>,
}

impl Rules {
    /// Checks the list.
    ///
    /// # Errors
    /// See [`RuleError`].
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleError> {
        if rules.len() > RULES_MAX {
            return Err(RuleError::TooMany(rules.len()));
        }
        match rules.iter().find(|rule| rule.to.is_empty()) {
            Some(rule) => Err(RuleError::NoDestination(rule.name.clone())),
            None => {
                let asked = (0..rules.len()).map(|place| RuleId(place as u16)).collect();
                Ok(Rules { all: rules, asked })
            }
        }
    }

    /// The new rules, each at the place of the present rule of its name if there is one. A rule that is
    /// gone keeps its place, is asked no more, and serves what it still holds.
    ///
    /// # Errors
    /// More than `RULES_MAX`, with those that are gone.
    pub fn updated(&self, new: &Rules) -> Result<Rules, RuleError> {
        let mut all = self.all.clone();
        let mut asked: Vec<RuleId> = Vec::new();
        for (_, rule) in new.asked() {
            let is_it = |place: &usize| {
                all[*place].name == rule.name && !asked.contains(&RuleId(*place as u16))
            };
            let place = (0..all.len()).find(is_it).unwrap_or(all.len());
            if place == all.len() {
                all.push(rule.clone());
            } else {
                all[place] = rule.clone();
            }
            asked.push(RuleId(place as u16));
        }
        if all.len() > RULES_MAX {
            return Err(RuleError::TooMany(all.len()));
        }
        Ok(Rules { all, asked })
    }

    /// The first rule that covers `key`.
    pub fn find(&self, key: &str) -> Option<RuleId> {
        let covers = |rule: &Rule| {
            let is_covered =
                rule.filters.is_empty() || rule.filters.iter().any(|filter| filter.matches(key));
            is_covered && rule.relays.is_none() && !rule.is_bound
        };
        self.asked.iter().copied().find(|&rule| covers(self.get(rule)))
    }

    /// The rule of neighbours' records of a class, with or without a reservation.
    pub fn relaying(&self, class: ClassId, is_reserved: bool) -> Option<RuleId> {
        let is_it = |rule: &Rule| rule.relays == Some(class) && rule.is_reserved() == is_reserved;
        self.asked.iter().copied().find(|&rule| is_it(self.get(rule)))
    }

    /// The rule of a record of our own, by its key.
    pub fn covering(&self, key: &[u8]) -> Option<RuleId> {
        std::str::from_utf8(key).ok().and_then(|key| self.find(key))
    }

    /// The rule at its place.
    pub fn get(&self, rule: RuleId) -> &Rule {
        &self.all[usize::from(rule.0)]
    }

    /// By place, those that are asked no more with them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (RuleId, &Rule)> {
        self.all.iter().enumerate().map(|(place, rule)| (RuleId(place as u16), rule))
    }

    /// Those that are asked, in order.
    pub fn asked(&self) -> impl ExactSizeIterator<Item = (RuleId, &Rule)> {
        self.asked.iter().map(|&rule| (rule, self.get(rule)))
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::class::default_classes;

    use super::*;

    #[test]
    fn the_first_match_wins() {
        let classes = Classes::new(default_classes()).unwrap();
        let all = Rule::catch_all(&classes, vec![OutputId(0)]);
        let plc = all
            .clone()
            .for_topics(&classes, "plc", &["factory/+/plc/#"], Duration::from_millis(50))
            .unwrap();
        let rules = Rules::new(vec![plc, all]).unwrap();
        assert_eq!(rules.find("factory/7/plc/alarm"), Some(RuleId(0)));
        assert_eq!(rules.find("factory/7/hvac"), Some(RuleId(1)));
        assert_eq!(rules.get(RuleId(0)).class, ClassId(0));
        assert_eq!(rules.get(RuleId(1)).class, ClassId(2));
    }

    #[test]
    fn an_update_keeps_places() {
        let classes = Classes::new(default_classes()).unwrap();
        let all = Rule::catch_all(&classes, vec![OutputId(0)]);
        let named = |name: &str, filter: &str| {
            let rule = all.clone();
            rule.for_topics(&classes, name, &[filter], Duration::from_millis(50)).unwrap()
        };
        let old = Rules::new(vec![named("a", "a"), named("b", "b"), all.clone()]).unwrap();
        let new = Rules::new(vec![named("c", "c"), all.clone(), named("b", "x")]).unwrap();
        let rules = old.updated(&new).unwrap();
        assert_eq!((rules.len(), rules.asked().len()), (4, 3));
        let names: Vec<&str> = rules.iter().map(|(_, rule)| &*rule.name).collect();
        assert_eq!(names, ["a", "b", "default", "c"]);
        assert_eq!(rules.find("c"), Some(RuleId(3)));
        assert_eq!(rules.find("a"), Some(RuleId(2)), "a rule that is gone covers nothing");
        assert_eq!(rules.get(RuleId(1)).filters, [Filter::new("x").unwrap()]);
        assert_eq!(old.updated(&old), Ok(old.clone()));
    }

    #[test]
    fn a_rule_must_go_somewhere() {
        let classes = Classes::new(default_classes()).unwrap();
        let error = Rules::new(vec![Rule::catch_all(&classes, vec![])]).unwrap_err();
        assert_eq!(error, RuleError::NoDestination("default".into()));
    }
}
