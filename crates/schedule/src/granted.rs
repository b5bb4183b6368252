//! The part that schedulers share which grant each class a rate for an interval ahead.

use std::fmt::Debug;
use std::time::Duration;

use tidegate_types::class::Classes;
use tidegate_types::units::{Rate, Size, Time};

use crate::scheduler::{Choice, ClassView, Scheduler, UplinkLoad, interval};
use crate::shares::UplinkShares;
use crate::throttle::Throttle;

/// How the uplink is divided for the next interval.
pub(crate) trait GrantRule: Debug + Send {
    /// The new shares; `None` while the capacity is zero, which means unknown. There are no `old` shares at first, and
    /// after a time of unknown capacity.
    fn divide(
        &mut self,
        now: Time,
        load: &UplinkLoad<'_>,
        old: Option<UplinkShares>,
    ) -> Option<UplinkShares>;
}

/// A scheduler that grants by a rule, and holds each class to its rate.
#[derive(Debug)]
pub(crate) struct Granted<Rule> {
    rule: Rule,
    /// t of JANUS, Alg. 1.
    interval: Duration,
    next_at: Time,
    shares: Option<UplinkShares>,
    throttle: Throttle,
}

impl<Rule: GrantRule> Granted<Rule> {
    /// For these classes; nothing is granted before the capacity is known.
    pub(crate) fn new(classes: &Classes, rule: Rule) -> Self {
        let interval = interval(classes);
        let throttle = Throttle::new(classes.len(), interval);
        Granted { rule, interval, next_at: Time::ZERO, shares: None, throttle }
    }
}

/// "Initializing from the time T, we evenly assign bandwidth" (JANUS, §V-A).
pub(crate) fn even(capacity: Rate, classes: usize) -> Vec<Rate> {
    vec![capacity.times(1.0 / classes as f64); classes]
}

impl<Rule: GrantRule> Scheduler for Granted<Rule> {
    fn next(&mut self, now: Time, views: &[ClassView]) -> Option<Choice> {
        self.throttle.next(now, views)
    }

    fn sent(&mut self, now: Time, choice: Choice, bytes: Size, _views: &[ClassView]) {
        self.throttle.sent(now, choice.class, bytes);
    }

    fn next_timeout(&self, _now: Time, views: &[ClassView]) -> Option<Time> {
        self.throttle.next_timeout(views)
    }

    fn next_reallocation(&self) -> Option<Time> {
        Some(self.next_at)
    }

    fn reallocate(&mut self, now: Time, load: &UplinkLoad<'_>) {
        self.next_at = now + self.interval;
        let old = self.shares.take();
        self.shares = self.rule.divide(now, load, old);
        match &self.shares {
            Some(shares) => self.throttle.set(now, &shares.rates, shares.lent, load.gain()),
            None => self.throttle.open(),
        }
    }

    fn shares(&self) -> Option<&UplinkShares> {
        self.shares.as_ref()
    }
}
