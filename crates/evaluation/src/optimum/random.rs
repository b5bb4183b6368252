//! Random instances to compare schedulers on.
//! Source: own.
//! Inputs: numbers in [0, 1) from a seeded source. Outputs: instances. O(classes), several tries an
//! instance.
//! Deviations: none.
//! Limits: `CLASSES`.

use std::time::Duration;

use tidegate_schedule::allocate::wanted_rate;
use tidegate_types::units::{Rate, Size};

use super::{Instance, Part};

/// Fewest and most classes.
const CLASSES: [f64; 2] = [2.0, 6.0];
/// Bytes/s of an uplink: from GPRS to fibre.
const CAPACITY: [f64; 2] = [1e4, 1e8];
/// What a second of excess delay costs, as a part of the capacity. Below, the objective does not see the
/// penalty, and above, it sees nothing else.
const WEIGHT: [f64; 2] = [1e-3, 1e-1];
/// What comes and waits, over the bounds, as a multiple of the capacity.
const DEMAND: [f64; 2] = [0.3, 3.0];
/// How long a backlog has gathered at most, as a multiple of its class's bound.
const GATHERED: f64 = 2.0;
/// Bounds of the most urgent class, seconds.
const BOUND: [f64; 2] = [0.02, 0.1];
/// Each further bound over the one before.
const BOUND_STEP: [f64; 2] = [1.5, 10.0];
/// Δt, unless the smallest bound is less.
const INTERVAL: Duration = Duration::from_millis(50);
/// ε.
const PROCESSING: Duration = Duration::from_micros(200);

tidegate_types::named! {
    /// How much of what the classes want an instance's uplink can carry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Pressure {
        /// All.
        Fits = "fits",
        /// All but what the least urgent class wants.
        Bulk = "bulk",
        /// Less, but what keeps the bound of the most urgent class.
        Urgent = "urgent",
    }
}

impl Pressure {
    /// That of an instance.
    pub fn of(instance: &Instance) -> Self {
        let wanted = |part: &Part| wanted_rate(part.input, part.backlog, part.bound);
        let wants: Vec<Rate> = instance.parts.iter().map(wanted).collect();
        let all: Rate = wants.iter().copied().sum();
        let last = wants.last().copied().unwrap_or_default();
        if all <= instance.capacity {
            Pressure::Fits
        } else if all - last <= instance.capacity {
            Pressure::Bulk
        } else {
            Pressure::Urgent
        }
    }
}

/// A source of numbers, and the ways to use it.
struct Draw<'a>(&'a mut dyn FnMut() -> f64);

impl Draw<'_> {
    fn between(&mut self, [low, high]: [f64; 2]) -> f64 {
        low + (high - low) * (self.0)()
    }

    /// Evenly over the orders of magnitude.
    fn scale(&mut self, [low, high]: [f64; 2]) -> f64 {
        self.between([low.ln(), high.ln()]).exp()
    }
}

/// A random instance whose optimum is positive. `uniform` gives numbers in [0, 1).
pub fn instance(uniform: &mut dyn FnMut() -> f64) -> Instance {
    let mut draw = Draw(uniform);
    loop {
        let instance = any(&mut draw);
        if instance.optimum().is_some_and(|best| best.objective > 0.0) {
            return instance;
        }
    }
}

fn any(draw: &mut Draw<'_>) -> Instance {
    let capacity = draw.scale(CAPACITY);
    let demand = draw.scale(DEMAND) * capacity;
    let classes = draw.between([CLASSES[0], CLASSES[1] + 1.0]) as usize;
    let mut weights: Vec<f64> = (1..classes).map(|_| draw.scale(WEIGHT) * capacity).collect();
    weights.sort_by(|a, b| b.total_cmp(a)); // Eq. 10
    weights.insert(0, 0.0);
    let mut bound = draw.scale(BOUND);
    let mut parts = Vec::new();
    for weight in weights {
        // An input without a scale as yet, and how long its backlog has gathered.
        let (input, gathered) = (draw.between([0.0, 1.0]), draw.between([0.0, GATHERED]));
        parts.push((weight, bound, input, gathered));
        bound *= draw.between(BOUND_STEP);
    }
    let total: f64 = parts.iter().map(|(_, _, input, gathered)| input * (1.0 + gathered)).sum();
    let part = |(weight, bound, input, gathered): (f64, f64, f64, f64)| {
        let input = input / total.max(f64::MIN_POSITIVE) * demand;
        Part {
            backlog: Size((input * gathered * bound) as u64),
            input: Rate::new(input),
            bound: Duration::from_secs_f64(bound),
            weight,
        }
    };
    let parts: Vec<Part> = parts.into_iter().map(part).collect();
    let interval = parts[0].bound.min(INTERVAL);
    Instance { capacity: Rate::new(capacity), interval, processing: PROCESSING, parts }
}
