//! The least number of nodes that any plan can have, and what part of a node each topic takes.
//! Source: own; dual feasible functions as for bin packing (Lueker, 1983): weights that no feasible set can bring
//! above 1 sum up to a lower bound.
//! Inputs: topics, a machine, model, k. Outputs: nodes, weights. O(n log k) questions.
//! Deviations: none.
//! Limits: sizes above [`SIZES_MAX`] are one; the weights are fitted to [`SAMPLE_MAX`] topics, and hold for all.

use super::{FeasibilityOracle, Topic};

/// Sizes of sets that have a price of their own.
const SIZES_MAX: usize = 64;
/// Topics to which the prices are fitted: a bound by prices holds whatever they were fitted to.
const SAMPLE_MAX: usize = 1000;
/// Steps of the fit.
const STEPS: usize = 300;

/// A lower bound, and what proves it.
#[derive(Clone, Debug, Default)]
pub struct LowerBound {
    /// Nodes that every plan of all these topics needs at least, on machines of this kind.
    pub nodes: usize,
    /// The part of a node that each topic takes, by its place: no feasible set has a sum above 1.
    pub weights: Vec<f64>,
    /// Topics that may be together with each at most, itself included; 0 where it misses its bound alone.
    pub together: Vec<usize>,
}

/// What the sets of one size can hold.
#[derive(Clone, Copy, Debug)]
struct SetSize {
    /// The most topics of it: what is counted, for the last one.
    topics: f64,
    /// The most load.
    load: f64,
}

/// The bound for the best of the machines; topics that miss their bound alone weigh nothing.
///
/// A set of m topics has at most a load of c(m), falling with m, for topics that share a machine slow each other
/// down. With any prices b(m) of load, 0 to 1 / c(m), a topic of load l that bears sets up to M weighs the least, over m up to
/// M, of (1 - b c) / m + b l, and a set of m has at most m (1 - b c) / m + b c = 1.
pub fn lower_bound(feasible: &mut FeasibilityOracle<'_>) -> LowerBound {
    let super::PlacementProblem { topics, machines, model, together_max, .. } = *feasible.problem();
    let Some(machine) = machines.best() else { return LowerBound::default() };
    let together: Vec<usize> =
        feasible.all().into_iter().map(|topic| feasible.together(topic)).collect();
    let sizes: Vec<SetSize> = (1..=together_max.min(SIZES_MAX))
        .map(|size| SetSize { topics: size as f64, load: model.load_max(&machine, size) })
        .chain((together_max > SIZES_MAX).then(|| SetSize {
            topics: together_max as f64,
            load: model.load_max(&machine, SIZES_MAX + 1),
        }))
        .collect();
    let all: Vec<(f64, usize)> = topics.iter().map(Topic::load).zip(together.clone()).collect();
    let step = all.len().div_ceil(SAMPLE_MAX).max(1);
    let sample: Vec<(f64, usize)> = all.iter().copied().step_by(step).collect();
    let prices = fitted(&sizes, &sample);
    let weights: Vec<f64> = all.iter().map(|topic| weighed(&sizes, &prices, *topic).0).collect();
    let nodes = (weights.iter().sum::<f64>() - 1e-9).ceil().max(0.0) as usize;
    LowerBound { nodes, weights, together }
}

/// The weight of a topic of this load that bears so many, and the size that gives it.
fn weighed(sizes: &[SetSize], prices: &[f64], (load, together): (f64, usize)) -> (f64, usize) {
    let of = |size: usize| {
        let SetSize { topics, load: most } = sizes[size];
        (1.0 - prices[size] * most) / topics + prices[size] * load
    };
    let last = together.min(sizes.len());
    let least = (0..last).map(|size| (of(size), size)).min_by(|a, b| a.0.total_cmp(&b.0));
    least.unwrap_or((0.0, 0))
}

/// Prices of load, by size, with a large sum of weights: it is concave in them, and climbed by its slope.
fn fitted(sizes: &[SetSize], topics: &[(f64, usize)]) -> Vec<f64> {
    let sum = |prices: &[f64], slope: &mut Vec<f64>| -> f64 {
        slope.clear();
        slope.resize(sizes.len(), 0.0);
        let mut sum = 0.0;
        for &topic in topics {
            let (weight, size) = weighed(sizes, prices, topic);
            sum += weight;
            if topic.1 > 0 {
                slope[size] += topic.0 - sizes[size].load / sizes[size].topics;
            }
        }
        sum
    };
    let mut slope = Vec::new();
    // By count alone, by load alone, and between.
    let starts = [0.0, 0.25, 0.5, 0.75, 1.0]
        .map(|part| sizes.iter().map(|size| part / size.load.max(1e-9)).collect::<Vec<f64>>());
    let mut best = (f64::NEG_INFINITY, Vec::new());
    for prices in starts {
        let value = sum(&prices, &mut slope);
        if value > best.0 {
            best = (value, prices);
        }
    }
    let mut prices = best.1.clone();
    let mut aim = 0.1;
    for _ in 0..STEPS {
        let value = sum(&prices, &mut slope);
        if value > best.0 {
            best = (value, prices.clone());
        } else {
            aim *= 0.97;
        }
        let steep: f64 = slope.iter().map(|part| part * part).sum();
        if steep <= 1e-18 {
            break;
        }
        let stride = (best.0 * (1.0 + aim) - value) / steep;
        for ((price, part), size) in prices.iter_mut().zip(&slope).zip(sizes) {
            // Beyond this a topic without load would make room.
            *price = (*price + stride * part).clamp(0.0, 1.0 / size.load.max(1e-9));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{MACHINE, problem, topic, topics};
    use super::super::{Machines, first_fit};
    use super::*;

    #[test]
    fn equal_topics_have_the_bound_of_the_load_that_they_leave_each_other() {
        // A load of 0.5 each: seven together take 3.5 of 3.92 / 1.18 = 3.32, six take 3.0 of 3.41.
        let topics = vec![topic(10, 50.0); 60];
        let machines = Machines::Any(MACHINE);
        let mut feasible = FeasibilityOracle::new(problem(&topics, &machines, 32));
        let found = lower_bound(&mut feasible);
        let order = feasible.by_latency_alone();
        assert!((9..=10).contains(&found.nodes), "{}", found.nodes);
        assert_eq!(first_fit(&mut feasible, &order).used(), 10);
        assert!(found.nodes > 60 / 32 && found.nodes as f64 > 60.0 * 0.5 / 4.0);
    }

    #[test]
    fn topics_that_bear_few_others_count_for_more() {
        // A serial topic of 0.9 bears one or two beside it, whatever they do.
        let serial = Topic { is_serial: true, ..topic(10, 90.0) };
        let (topics, machines) = (vec![serial; 12], Machines::Any(MACHINE));
        let mut feasible = FeasibilityOracle::new(problem(&topics, &machines, 6));
        let found = lower_bound(&mut feasible);
        assert!(found.together[0] < 4, "{}", found.together[0]);
        assert_eq!(found.nodes, 12 / found.together[0]);
    }

    proptest! {
        #[test]
        fn no_feasible_set_weighs_more_than_a_node(seed in any::<u64>(), together_max in 2..40usize) {
            let (topics, machines) = (topics(40, seed), Machines::Any(MACHINE));
            let mut feasible = FeasibilityOracle::new(problem(&topics, &machines, together_max));
            let found = lower_bound(&mut feasible);
            let order = feasible.by_latency_alone();
            let plan = first_fit(&mut feasible, &order);
            prop_assert!(found.nodes <= plan.used());
            for node in &plan.nodes {
                let weight: f64 = node.iter().map(|topic| found.weights[topic.index()]).sum();
                prop_assert!(weight <= 1.0 + 1e-9, "{weight}");
                prop_assert!(node.iter().all(|topic| node.len() <= found.together[topic.index()]));
            }
        }
    }
}
