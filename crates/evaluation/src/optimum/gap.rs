//! How near each scheduler comes to the optimum.
//! Source: own; the yardstick is papers/janus.txt, §IV-B.1, Eq. 7.
//! Inputs: instances. Outputs: bytes/s that a scheduler gives each class, and the part of the optimum's
//! objective that it reaches. O(classes) an instance, O(64 · classes) for its optimum.
//! Deviations: none.
//! Limits: CLASSES_MAX.

use tidegate_schedule::allocate::{Demand, allocate, wanted_rate};
use tidegate_schedule::{ClassLoad, SchedulerName, UplinkLoad};
use tidegate_types::class::{ClassSpec, Classes};
use tidegate_types::units::{Rate, Time};

use super::Instance;
use super::served::delays;

/// How near to the optimum counts as near: the aim of `tidegate`.
pub const NEAR: f64 = 0.98;

/// Eq. 7 of the rates that a scheduler gives: see [`allocation`] and [`Instance::objective`].
pub fn objective(name: SchedulerName, instance: &Instance) -> Option<f64> {
    instance.objective(&allocation(name, instance))
}

/// Eq. 7 of `tidegate` by the delays that it causes and not by rates, for it gives none: what a class no
/// longer needs goes to the others at once. No fixed allocation can do that, so it may be more than the
/// optimum. `None` where the most urgent class is late (Eq. 9).
pub fn objective_as_served(instance: &Instance) -> Option<f64> {
    instance.objective_of_delays(&delays(instance, &classes_of(instance)))
}

/// A scheduler over many instances.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Part of the optimum reached, of each instance that is in neither of the next two counts.
    pub parts: Vec<f64>,
    /// Instances in which a soft class with a backlog gets nothing: Eq. 7 is minus infinity.
    pub starves: usize,
    /// Instances in which the most urgent class is late: Eq. 9 is broken.
    pub late: usize,
    reached: f64,
    best: f64,
}

impl Score {
    /// Takes the objective of one instance; one without an optimum above zero does not count.
    pub fn add(&mut self, instance: &Instance, objective: Option<f64>) {
        let best = instance.optimum().map(|best| best.objective);
        let Some(best) = best.filter(|best| *best > 0.0) else { return };
        match objective {
            None => self.late += 1,
            Some(f64::NEG_INFINITY) => self.starves += 1,
            Some(objective) => {
                let capacity = instance.capacity.as_f64();
                self.parts.push(objective / best);
                self.reached += objective / capacity;
                self.best += best / capacity;
            }
        }
    }

    /// Part of the optimum reached over all of `parts`, each instance measured by its capacity.
    pub fn part(&self) -> f64 {
        self.reached / self.best
    }

    /// Part of all instances in which the optimum is reached but for a fiftieth.
    pub fn near(&self) -> f64 {
        let all = self.parts.len() + self.starves + self.late;
        self.parts.iter().filter(|part| **part >= NEAR).count() as f64 / all as f64
    }
}

/// Bytes/s that each class gets over an interval, what is lent included. Schedulers that grant rates have
/// divided evenly and reallocate once. For those that do not, the rates that the node reports.
pub fn allocation(name: SchedulerName, instance: &Instance) -> Vec<Rate> {
    if !name.has_classes() {
        return first_come(instance);
    }
    let classes = classes_of(instance);
    granted(name, &classes, instance).unwrap_or_else(|| {
        let demand = |((_, spec), part): ((_, &ClassSpec), &super::Part)| Demand {
            wanted: wanted_rate(part.input, part.backlog, part.bound),
            min_share: spec.min_share,
            cap: spec.cap,
        };
        let demands: Vec<Demand> = classes.iter().zip(&instance.parts).map(demand).collect();
        let allocation = allocate(instance.capacity, &demands);
        lend(instance, allocation.rates, allocation.spare)
    })
}

/// Classes as a node has them: with the default shares.
///
/// # Panics
/// Where the bounds do not rise from class to class.
fn classes_of(instance: &Instance) -> Classes {
    let spec =
        |(place, part): (usize, &super::Part)| ClassSpec::new(&place.to_string(), part.bound);
    let specs = instance.parts.iter().enumerate().map(spec).collect();
    Classes::new(specs).expect("bounds rise from class to class")
}

/// One FIFO: to each its part of what waits and comes.
fn first_come(instance: &Instance) -> Vec<Rate> {
    let usable = instance.usable();
    let all: Rate = usable.iter().copied().sum();
    let part = if all.is_zero() { 0.0 } else { instance.capacity.as_f64() / all.as_f64() };
    usable.into_iter().map(|rate| rate.times(part.min(1.0))).collect()
}

/// The first reallocation after the even one.
fn granted(name: SchedulerName, classes: &Classes, instance: &Instance) -> Option<Vec<Rate>> {
    let mut scheduler = name.build(classes);
    let (capacity, processing) = (instance.capacity, instance.processing);
    for (now, arrived) in [(Time::ZERO, 0.0), (Time::ZERO + instance.interval, 1.0)] {
        let load = |part: &super::Part| ClassLoad {
            arrived: part.input.times(arrived).in_span(instance.interval),
            input: part.input,
            backlog: part.backlog,
        };
        let classes: Vec<ClassLoad> = instance.parts.iter().map(load).collect();
        let load = UplinkLoad { capacity, pace: capacity, processing, classes: &classes };
        scheduler.reallocate(now, &load);
    }
    let shares = scheduler.shares().cloned()?;
    Some(lend(instance, shares.rates, shares.lent))
}

/// Adds what is free, the most urgent class first, as far as a class can use it.
fn lend(instance: &Instance, mut rates: Vec<Rate>, mut free: Rate) -> Vec<Rate> {
    for (rate, usable) in rates.iter_mut().zip(instance.usable()) {
        let more = (usable - *rate).min(free);
        *rate = *rate + more;
        free = free - more;
    }
    rates
}
