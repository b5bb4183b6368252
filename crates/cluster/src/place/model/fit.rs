//! Fits the parameters of a machine to what was measured on it.
//! Source: Nelder and Mead, A simplex method for function minimization, 1965; least squares of the logarithm, the far ones by their absolute
//! value (Huber, 1964).
//! Inputs: measurements of one machine. Outputs: parameters, and how far measurements are from them. O(steps x topics).
//! Deviations: what is known of no machine holds a parameter that the measurements say nothing of (docs/algorithms-place.md#fit).
//! Limits: [`STEPS`].

use super::super::Topic;
use super::broker::{Dispatch, Foreseen, MachineParameters, foresee};
use super::measurement::{MeasuredTopic, Measurement};

/// Steps of the search.
const STEPS: usize = 1500;
/// An error of the logarithm from which on it counts by its size and not by its square.
const FAR: f64 = 0.3;
/// What a parameter costs that is one unit (as [`UNITS`] has them) from where it began, in squared errors of a topic.
const PRIOR: f64 = 0.5;
/// How far each parameter's logarithm may well be from where it begins.
const UNITS: [f64; N] = [0.4, 1.0, 0.4, 1.5, 1.5, 1.5];
/// Parameters.
const N: usize = 6;
/// Fewer deliveries say little of a 90th percentile.
const COUNT_MIN: u64 = 20;
/// A run in which more than this part of the records was lost says little of latency.
const ARRIVED_MIN: f64 = 0.98;

/// What a machine with so many processors probably is.
pub fn usual(processors: u32) -> MachineParameters {
    MachineParameters {
        cores: f64::from(processors.max(1)) * 0.9,
        contention: 0.01,
        bias: 1.0,
        overhead_seconds: 60e-6,
        copy_seconds: 15e-6,
        latency_seconds: 300e-6,
    }
}

/// Runs as the fit knows them.
struct MeasuredRun {
    seconds: f64,
    topics: Vec<Topic>,
    /// By place: what counts, in seconds.
    measured: Vec<Option<f64>>,
}

fn runs(measurements: &[Measurement]) -> Vec<MeasuredRun> {
    let counts = |topic: &MeasuredTopic| {
        let is_enough = topic.count >= COUNT_MIN && topic.arrived >= ARRIVED_MIN;
        is_enough.then_some(topic.p90_seconds)
    };
    let run = |one: &Measurement| MeasuredRun {
        seconds: one.seconds,
        topics: one.topics(),
        measured: one.topics.iter().map(counts).collect(),
    };
    measurements.iter().map(run).collect()
}

/// The parameters with which the physics are nearest to what was measured, and the errors of the logarithm that are left over, measured over
/// predicted, in their order.
pub fn fit(scheduler: Dispatch, measurements: &[Measurement]) -> (MachineParameters, Vec<f64>) {
    let runs = runs(measurements);
    let begin = usual(measurements.first().map_or(1, |one| one.processors));
    let start = logs(&begin);
    let cost = |point: &[f64; N]| {
        let parameters = of(point);
        let mut cost = 0.0;
        errors(scheduler, &parameters, &runs, |error, _| {
            let error = error.abs();
            cost += if error > FAR { FAR * (2.0 * error - FAR) } else { error * error };
        });
        let afar = (0..N).map(|place| ((point[place] - start[place]) / UNITS[place]).powi(2));
        cost + PRIOR * afar.sum::<f64>()
    };
    let point = lowest(start, cost);
    let parameters = of(&point);
    let mut left = Vec::new();
    errors(scheduler, &parameters, &runs, |error, is_kept_up| {
        // How late overload makes records says nothing of those that are in time.
        if is_kept_up {
            left.push(error);
        }
    });
    left.sort_by(f64::total_cmp);
    (parameters, left)
}

/// Tells the error of the logarithm of each topic, and whether its records kept up: beyond half of a run all latencies are alike.
fn errors(
    scheduler: Dispatch,
    by: &MachineParameters,
    runs: &[MeasuredRun],
    mut tell: impl FnMut(f64, bool),
) {
    let mut foreseen: Vec<Foreseen> = Vec::new();
    for run in runs {
        let topics: Vec<&Topic> = run.topics.iter().collect();
        foresee(scheduler, by, (1.0, run.seconds), &topics, &mut foreseen);
        for (measured, one) in run.measured.iter().zip(&foreseen) {
            let Some(measured) = measured else { continue };
            let most = run.seconds / 2.0;
            tell((measured.min(most) / one.p90.min(most)).ln(), one.p90 < most && *measured < most);
        }
    }
}

fn logs(of: &MachineParameters) -> [f64; N] {
    let MachineParameters {
        cores,
        contention,
        bias,
        overhead_seconds,
        copy_seconds,
        latency_seconds,
    } = of;
    [*cores, *contention, *bias, *overhead_seconds, *copy_seconds, *latency_seconds].map(f64::ln)
}

fn of(point: &[f64; N]) -> MachineParameters {
    let [cores, contention, bias, overhead_seconds, copy_seconds, latency_seconds] =
        point.map(f64::exp);
    MachineParameters { cores, contention, bias, overhead_seconds, copy_seconds, latency_seconds }
}

/// A point with a low cost, near the start.
fn lowest(start: [f64; N], cost: impl Fn(&[f64; N]) -> f64) -> [f64; N] {
    let mut simplex: Vec<([f64; N], f64)> = vec![(start, cost(&start))];
    for place in 0..N {
        let mut corner = start;
        corner[place] += UNITS[place] / 2.0;
        simplex.push((corner, cost(&corner)));
    }
    for _ in 0..STEPS {
        simplex.sort_by(|one, other| one.1.total_cmp(&other.1));
        let worst = simplex[N];
        let middle: [f64; N] = std::array::from_fn(|place| {
            simplex[..N].iter().map(|(corner, _)| corner[place]).sum::<f64>() / N as f64
        });
        let along = |way: f64| {
            let point =
                std::array::from_fn(|place| middle[place] + way * (worst.0[place] - middle[place]));
            (point, cost(&point))
        };
        let over = along(-1.0);
        if over.1 < simplex[0].1 {
            let further = along(-2.0);
            simplex[N] = if further.1 < over.1 { further } else { over };
        } else if over.1 < simplex[N - 1].1 {
            simplex[N] = over;
        } else {
            let within = along(if over.1 < worst.1 { -0.5 } else { 0.5 });
            if within.1 < worst.1.min(over.1) {
                simplex[N] = within;
            } else {
                shrink(&mut simplex, &cost);
            }
        }
    }
    simplex.sort_by(|one, other| one.1.total_cmp(&other.1));
    simplex[0].0
}

/// Draws all corners to the best one.
fn shrink(simplex: &mut [([f64; N], f64)], cost: impl Fn(&[f64; N]) -> f64) {
    let best = simplex[0].0;
    for (corner, value) in &mut simplex[1..] {
        corner.iter_mut().zip(best).for_each(|(side, best)| *side = f64::midpoint(*side, best));
        *value = cost(corner);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::random::SplitMix;

    use super::super::measurement::tests::measurement;
    use super::*;

    /// What a machine with these parameters measures.
    fn measured(parameters: &MachineParameters, runs: usize, seed: u64) -> Vec<Measurement> {
        let mut random = SplitMix(seed);
        let mut one = |place: usize| {
            let mut run = measurement();
            let topic = run.topics[0].clone();
            let count = 1 + random.below(6);
            let load = 2.2 * random.share();
            run.topics = (0..count)
                .map(|_| {
                    let work_seconds = 0.001 * 8.0_f64.powf(random.share());
                    let rate = load / count as f64 / work_seconds;
                    let bound_seconds = work_seconds * (2.0 + 20.0 * random.share());
                    let subscribers = 1 + random.below(8) as u32;
                    MeasuredTopic {
                        work_seconds,
                        rate,
                        bound_seconds,
                        subscribers,
                        ..topic.clone()
                    }
                })
                .collect();
            run.configuration = place.to_string();
            let topics = run.topics();
            let all: Vec<&Topic> = topics.iter().collect();
            let mut foreseen = Vec::new();
            foresee(Dispatch::Edf, parameters, (1.0, run.seconds), &all, &mut foreseen);
            for (topic, one) in run.topics.iter_mut().zip(foreseen) {
                topic.p90_seconds = one.p90 * (1.0 + 0.1 * (random.share() - 0.5));
            }
            run
        };
        (0..runs).map(&mut one).collect()
    }

    #[test]
    fn the_parameters_of_a_machine_are_found_again() {
        let wanted = MachineParameters {
            cores: 1.5,
            contention: 0.04,
            bias: 1.4,
            overhead_seconds: 120e-6,
            copy_seconds: 30e-6,
            latency_seconds: 600e-6,
        };
        let (found, left) = fit(Dispatch::Edf, &measured(&wanted, 60, 1));
        let near = |found: f64, wanted: f64, part: f64| (found / wanted - 1.0).abs() < part;
        // Near the greatest load many latencies are their bounds, which say little of processors.
        assert!(near(found.cores, wanted.cores, 0.05), "{found:?}");
        assert!(near(found.bias, wanted.bias, 0.1), "{found:?}");
        assert!(near(found.latency_seconds, wanted.latency_seconds, 0.3), "{found:?}");
        assert!(left.iter().all(|error| error.abs() < 0.3), "{left:?}");
    }

    #[test]
    fn nothing_measured_is_what_is_usual() {
        let (found, left) = fit(Dispatch::Edf, &[]);
        assert!((found.cores - usual(1).cores).abs() < 1e-6 && left.is_empty(), "{found:?}");
    }
}
