//! Latency classes: what a class promises, and which class a bound belongs to.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::CLASSES_MAX;
use crate::units::{Rate, Ratio};

/// Place of a class in the node's list, 0 the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// As an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A named latency bound and its claims on the uplink.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Name, as in `class = "ls"`.
    pub name: Arc<str>,
    /// Bound on residence; streams with a bound up to this belong here.
    pub latency: Duration,
    /// Part of the uplink that is its own while it has a backlog.
    pub min_share: Ratio,
    /// Never more than this, in bytes/s.
    pub cap: Option<Rate>,
    /// Part of the uplink that its late list may take ahead of live records: of less urgent classes, and
    /// once it has saved up, of its own.
    pub late_share: Ratio,
}

impl ClassSpec {
    /// A class with the default shares: 1 % of the uplink at least, no cap, late records 10 %.
    pub fn new(name: &str, latency: Duration) -> Self {
        ClassSpec {
            name: name.into(),
            latency,
            min_share: Ratio::new(0.01),
            cap: None,
            late_share: Ratio::new(0.1),
        }
    }
}

/// The three classes of the paper: `ls` 50 ms, `nm` 500 ms, `lt` 1000 ms (JANUS Table I).
pub fn default_classes() -> Vec<ClassSpec> {
    [("ls", 50), ("nm", 500), ("lt", 1000)]
        .map(|(name, millis)| ClassSpec::new(name, Duration::from_millis(millis)))
        .to_vec()
}

/// What is wrong with a list of classes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// No class at all.
    #[error("a node needs at least one class")]
    Empty,
    /// More than `CLASSES_MAX`.
    #[error("{0} classes are more than {CLASSES_MAX}")]
    TooMany(usize),
    /// Two classes of one name.
    #[error("class {0:?} stands twice")]
    Twice(Arc<str>),
    /// Bounds must rise from class to class: order is urgency.
    #[error("class {0:?} must have a larger latency than the class before it")]
    Order(Arc<str>),
    /// The minimum shares promise more than there is.
    #[error("the minimum shares of all classes sum to more than 1")]
    Shares,
}

/// The classes of a node, most urgent first.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes(Arc<[ClassSpec]>);

impl Classes {
    /// Checks the list.
    ///
    /// # Errors
    /// See [`ClassError`].
    pub fn new(specs: Vec<ClassSpec>) -> Result<Self, ClassError> {
        if specs.is_empty() {
            return Err(ClassError::Empty);
        }
        if specs.len() > CLASSES_MAX {
            return Err(ClassError::TooMany(specs.len()));
        }
        for (place, spec) in specs.iter().enumerate() {
            if specs[..place].iter().any(|other| other.name == spec.name) {
                return Err(ClassError::Twice(spec.name.clone()));
            }
            if place > 0 && specs[place - 1].latency >= spec.latency {
                return Err(ClassError::Order(spec.name.clone()));
            }
        }
        if specs.iter().map(|spec| spec.min_share.as_f64()).sum::<f64>() > 1.0 + 1e-9 {
            return Err(ClassError::Shares);
        }
        Ok(Classes(specs.into()))
    }

    /// The most urgent class whose latency is at least `bound`; a bound beyond all belongs to the last.
    /// The record keeps its own deadline, so a tighter bound goes first inside its class.
    #[inline]
    pub fn for_latency(&self, bound: Duration) -> ClassId {
        let place = self.0.iter().position(|spec| bound <= spec.latency);
        ClassId(place.unwrap_or(self.0.len() - 1) as u8)
    }

    /// The class called `name`.
    #[inline]
    pub fn by_name(&self, name: &str) -> Option<ClassId> {
        self.0.iter().position(|spec| &*spec.name == name).map(|place| ClassId(place as u8))
    }

    /// The class's specification.
    #[inline]
    pub fn spec(&self, class: ClassId) -> &ClassSpec {
        &self.0[class.index()]
    }

    /// Most urgent first.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ClassId, &ClassSpec)> {
        self.0.iter().enumerate().map(|(place, spec)| (ClassId(place as u8), spec))
    }

    /// How many there are; never 0.
    #[expect(clippy::len_without_is_empty, reason = "a node always has a class")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_bound_belongs_to_the_class_that_promises_it() {
        let classes = Classes::new(default_classes()).unwrap();
        let name = |bound| &*classes.spec(classes.for_latency(bound)).name;
        assert_eq!(
            [name(ms(10)), name(ms(50)), name(ms(51)), name(ms(1000))],
            ["ls", "ls", "nm", "lt"]
        );
        assert_eq!(name(ms(60_000)), "lt");
    }

    #[test]
    fn bad_lists_are_named() {
        let spec = ClassSpec::new;
        let error = |specs| Classes::new(specs).unwrap_err();
        assert_eq!(error(vec![]), ClassError::Empty);
        assert_eq!(error(vec![spec("a", ms(5)), spec("a", ms(6))]), ClassError::Twice("a".into()));
        assert_eq!(error(vec![spec("a", ms(5)), spec("b", ms(5))]), ClassError::Order("b".into()));
        let greedy = |name, bound| ClassSpec { min_share: Ratio::new(0.6), ..spec(name, bound) };
        assert_eq!(error(vec![greedy("a", ms(1)), greedy("b", ms(2))]), ClassError::Shares);
        let many = (0..17).map(|n| spec(&n.to_string(), ms(n + 1))).collect();
        assert_eq!(error(many), ClassError::TooMany(17));
    }
}
