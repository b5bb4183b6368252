//! The best that a node could do with its uplink: the optimisation that JANUS's algorithms approximate.
//! Source: papers/janus.txt, §IV-B.1, Eq. 2-14.
//! Inputs: capacity in bytes/s, ε, and for each class backlog, input rate, bound and weight. Outputs: the
//! objective of Eq. 7 of any allocation, in bytes/s; the best allocation. O(64 · classes).
//! Deviations: s is the queue's length in Eq. 1 and what waits or comes within Δt in Eq. 3; the bound of
//! the most urgent class is kept in the node, ε included (docs/ALGORITHMS.md#optimum).
//! Limits: CLASSES_MAX.
//!
//! The objective is a sum of one concave function a class, with one constraint that couples them, so one
//! *price* of bandwidth decides: at the right price the classes' demands add up to the capacity. The price
//! is found to the last bit of a float. At the price 1 the demand may jump, for there a class earns as much
//! throughput as it pays: the two allocations on either side of the price are then mixed.

pub mod gap;
pub mod random;
mod served;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tidegate_types::limits::CLASSES_MAX;
use tidegate_types::units::{Rate, Size};

/// One class of an instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Bytes that wait (s of Eq. 1).
    pub backlog: Size,
    /// Bytes/s that come (Λ).
    pub input: Rate,
    /// δ.
    pub bound: Duration,
    /// Bytes/s that a second of excess delay costs (w of Eq. 7); the most urgent class needs none, for its
    /// bound is a constraint.
    pub weight: f64,
}

/// What is to be optimised.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// C, above zero.
    pub capacity: Rate,
    /// Δt of Eq. 3, above zero.
    pub interval: Duration,
    /// ε.
    pub processing: Duration,
    /// Most urgent first.
    pub parts: Vec<Part>,
}

/// The best allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// Bytes/s of each class.
    pub rates: Vec<Rate>,
    /// Eq. 7 of it.
    pub objective: f64,
}

/// A class as the solver sees it, all in bytes, seconds and bytes/s.
#[derive(Clone, Copy, Debug)]
struct Curve {
    backlog: f64,
    /// Beyond it there is nothing to carry: s / Δt + Λ.
    carried: f64,
    /// What keeps the bound: s / (δ - ε), without end where ε alone breaks it.
    keeping: f64,
    bound: f64,
    processing: f64,
    weight: f64,
    is_hard: bool,
}

impl Curve {
    /// The class's part of Eq. 7 at `rate`. Without a rate, a backlog waits for ever.
    fn value(&self, rate: f64) -> f64 {
        let delay = if self.backlog > 0.0 { self.backlog / rate } else { 0.0 };
        rate.min(self.carried) - self.penalty(delay)
    }

    /// What a delay of so many seconds costs, ε not counted in it.
    fn penalty(&self, delay: f64) -> f64 {
        let excess = delay + self.processing - self.bound;
        let is_free = self.is_hard || self.weight <= 0.0 || excess <= 0.0;
        if is_free { 0.0 } else { self.weight * excess }
    }

    /// The rate at which the class's gain falls to `price` (> 0).
    fn demand(&self, price: f64) -> f64 {
        if self.is_hard {
            return if price < 1.0 { self.keeping.max(self.carried) } else { self.keeping };
        }
        // The penalty's gain at V is w s / V², until the bound is kept; below `carried` throughput adds 1.
        let penalised = |price: f64| (self.weight * self.backlog / price).sqrt().min(self.keeping);
        if price < 1.0 {
            penalised(price).max(self.carried)
        } else {
            let above = price - 1.0;
            let wanted = if above > 0.0 { penalised(above) } else { self.keeping };
            let beyond = penalised(price);
            if wanted <= self.carried { wanted } else { beyond.max(self.carried) }
        }
    }
}

impl Instance {
    /// Eq. 7 of an allocation in bytes/s: negative infinity where a backlog of a soft class gets nothing.
    /// `None` where it breaks a constraint (Eq. 6 or 9), by more than a billionth.
    ///
    /// # Panics
    /// Where `rates` has not one entry a class.
    pub fn objective(&self, rates: &[Rate]) -> Option<f64> {
        assert_eq!(rates.len(), self.parts.len(), "one rate a class");
        const TOLERANCE: f64 = 1e-9;
        let total: f64 = rates.iter().map(|rate| rate.as_f64()).sum();
        let curves = self.curves();
        let keeps = |(curve, rate): (&Curve, &Rate)| {
            !curve.is_hard || rate.as_f64() >= curve.keeping * (1.0 - TOLERANCE)
        };
        let is_feasible = total <= self.capacity.as_f64() * (1.0 + TOLERANCE)
            && curves.iter().zip(rates).all(keeps);
        let value = |(curve, rate): (&Curve, &Rate)| curve.value(rate.as_f64());
        is_feasible.then(|| curves.iter().zip(rates).map(value).sum())
    }

    /// Eq. 7 where the classes' delays in seconds are known, ε not counted in them, and no byte that could
    /// go in the interval is left. `None` where the most urgent class is late (Eq. 9).
    fn objective_of_delays(&self, delays: &[f64]) -> Option<f64> {
        const TOLERANCE: f64 = 1e-9;
        let curves = self.curves();
        let is_late = |(curve, delay): (&Curve, &f64)| {
            let is_over = delay + curve.processing > curve.bound * (1.0 + TOLERANCE);
            curve.is_hard && curve.backlog > 0.0 && is_over
        };
        let carried = curves.iter().map(|curve| curve.carried).sum::<f64>();
        let penalty = |(curve, &delay): (&Curve, &f64)| curve.penalty(delay);
        let penalties: f64 = curves.iter().zip(delays).map(penalty).sum();
        let is_any_late = curves.iter().zip(delays).any(is_late);
        (!is_any_late).then(|| carried.min(self.capacity.as_f64()) - penalties)
    }

    /// Bytes/s that each class can use within the interval.
    fn usable(&self) -> Vec<Rate> {
        self.curves().iter().map(|curve| Rate::new(curve.carried)).collect()
    }

    /// The best allocation; `None` where the most urgent class alone is too much (Eq. 9).
    pub fn optimum(&self) -> Option<Optimum> {
        let curves = self.curves();
        let capacity = self.capacity.as_f64();
        let demands = |price: f64| curves.iter().map(|curve| curve.demand(price)).collect();
        let total = |rates: &Vec<f64>| rates.iter().sum::<f64>();
        if curves.iter().filter(|curve| curve.is_hard).any(|curve| curve.keeping > capacity) {
            return None;
        }
        // Prices as bits: neighbouring floats have neighbouring bits, so halving them ends at the last one.
        let (mut low, mut high) = (f64::MIN_POSITIVE.to_bits(), f64::MAX.to_bits());
        let mut generous: Vec<f64> = demands(f64::from_bits(low));
        let mut rates = generous.clone();
        if total(&generous) > capacity {
            rates = demands(f64::from_bits(high));
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                let tried = demands(f64::from_bits(middle));
                if total(&tried) > capacity {
                    (low, generous) = (middle, tried);
                } else {
                    (high, rates) = (middle, tried);
                }
            }
            let gap = total(&generous) - total(&rates);
            let part = if gap > 0.0 { (capacity - total(&rates)).max(0.0) / gap } else { 0.0 };
            for (rate, generous) in rates.iter_mut().zip(generous) {
                *rate += part * (generous - *rate);
            }
        }
        let objective = curves.iter().zip(&rates).map(|(curve, rate)| curve.value(*rate)).sum();
        Some(Optimum { rates: rates.into_iter().map(Rate::new).collect(), objective })
    }

    fn curves(&self) -> Vec<Curve> {
        assert!(self.parts.len() <= CLASSES_MAX, "a node has at most {CLASSES_MAX} classes");
        let curve = |(place, part): (usize, &Part)| self.curve(place, part);
        self.parts.iter().enumerate().map(curve).collect()
    }

    fn curve(&self, place: usize, part: &Part) -> Curve {
        assert!(part.weight >= 0.0, "a weight is a number, and not negative");
        let backlog = part.backlog.as_f64();
        let (bound, processing) = (part.bound.as_secs_f64(), self.processing.as_secs_f64());
        let keeping = match (backlog > 0.0, bound > processing) {
            (true, true) => backlog / (bound - processing),
            (true, false) => f64::INFINITY,
            (false, _) => 0.0,
        };
        Curve {
            backlog,
            carried: backlog / self.interval.as_secs_f64() + part.input.as_f64(),
            keeping,
            bound,
            processing,
            weight: part.weight,
            is_hard: place == 0,
        }
    }
}
