//! How long what waits now will wait under `tidegate`, as a fluid.
//! Source: own.
//! Inputs: an instance, the classes' minimum shares. Outputs: seconds of each class. O(classes²) events.
//! Deviations: none.
//! Limits: `EVENTS_MAX`; records are infinitely small, arrivals steady; late lists are left out.
//!
//! Eq. 1 divides a backlog by one rate, as if the class kept it for as long as it has a backlog. Under a
//! scheduler that decides at each pick the rates change whenever a class runs empty. Between two such
//! events they are constant: a class that has a backlog takes its minimum share, one that has none takes
//! what comes, and the rest goes to the most urgent ones.

use tidegate_types::class::Classes;
use tidegate_types::limits::CLASSES_MAX;

use super::Instance;

/// A class runs empty and gathers again a few times at most, as those above it do.
const EVENTS_MAX: usize = 4 * CLASSES_MAX * CLASSES_MAX;
/// Backlogs below this part of a second of the uplink are none: floats leave crumbs.
const CRUMB: f64 = 1e-9;

/// One class, in bytes and seconds.
#[derive(Clone, Copy, Debug)]
struct Flow {
    input: f64,
    floor: f64,
    backlog: f64,
    /// What is left of the bytes that waited at first.
    left: f64,
    rate: f64,
}

/// Seconds until all that waits now has gone, of each class, without ε; without end for a class that gets
/// nothing.
pub(super) fn delays(instance: &Instance, classes: &Classes) -> Vec<f64> {
    let capacity = instance.capacity.as_f64();
    let crumb = CRUMB * capacity;
    let flow = |((_, spec), part): ((_, &tidegate_types::class::ClassSpec), &super::Part)| Flow {
        input: part.input.as_f64(),
        floor: spec.min_share.as_f64() * capacity,
        backlog: part.backlog.as_f64(),
        left: part.backlog.as_f64(),
        rate: 0.0,
    };
    let mut flows: Vec<Flow> = classes.iter().zip(&instance.parts).map(flow).collect();
    let gone = |flow: &Flow| if flow.left > crumb { f64::INFINITY } else { 0.0 };
    let mut delays: Vec<f64> = flows.iter().map(gone).collect();
    let mut now = 0.0;
    for _ in 0..EVENTS_MAX {
        divide(&mut flows, capacity, crumb);
        let Some(step) = next_event(&flows, crumb) else { break };
        now += step;
        for (flow, delay) in flows.iter_mut().zip(&mut delays) {
            flow.backlog = (flow.backlog + (flow.input - flow.rate) * step).max(0.0);
            flow.left -= flow.rate * step;
            if flow.left <= crumb && delay.is_infinite() {
                *delay = now;
            }
        }
        if delays.iter().all(|delay| delay.is_finite()) {
            break;
        }
    }
    delays
}

/// The rates of this moment.
fn divide(flows: &mut [Flow], capacity: f64, crumb: f64) {
    let wants = |flow: &Flow| if flow.backlog > crumb { f64::INFINITY } else { flow.input };
    let mut free = capacity;
    for flow in flows.iter_mut() {
        flow.rate = flow.floor.min(wants(flow));
        free -= flow.rate;
    }
    for flow in flows.iter_mut() {
        let more = (wants(flow) - flow.rate).min(free.max(0.0));
        flow.rate += more;
        free -= more;
    }
}

/// Seconds until a class runs empty, or has sent what waited at first.
fn next_event(flows: &[Flow], crumb: f64) -> Option<f64> {
    let of = |flow: &Flow| {
        let drains = flow.backlog > crumb && flow.rate > flow.input;
        let empty = drains.then(|| flow.backlog / (flow.rate - flow.input));
        let sent = (flow.left > crumb && flow.rate > 0.0).then(|| flow.left / flow.rate);
        [empty, sent]
    };
    flows.iter().flat_map(of).flatten().min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_types::class::ClassSpec;
    use tidegate_types::units::{Rate, Ratio, Size};

    use super::*;
    use crate::optimum::Part;

    fn delays_of(capacity: f64, share: f64, loads: &[(u64, f64)]) -> Vec<f64> {
        let bound = |place: usize| Duration::from_millis(100 * (place as u64 + 1));
        let part = |(place, &(backlog, input)): (usize, &(u64, f64))| Part {
            backlog: Size(backlog),
            input: Rate::new(input),
            bound: bound(place),
            weight: 1.0,
        };
        let spec = |place: usize| ClassSpec {
            min_share: Ratio::new(share),
            ..ClassSpec::new(&place.to_string(), bound(place))
        };
        let instance = Instance {
            capacity: Rate::new(capacity),
            interval: Duration::from_millis(50),
            processing: Duration::ZERO,
            parts: loads.iter().enumerate().map(part).collect(),
        };
        let delays =
            delays(&instance, &Classes::new((0..loads.len()).map(spec).collect()).unwrap());
        delays.into_iter().map(|delay| (delay * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn one_after_the_other() {
        // 100/s carry 50, then 100, then 30.
        assert_eq!(delays_of(100.0, 0.0, &[(50, 0.0), (100, 0.0), (30, 0.0)]), [0.5, 1.5, 1.8]);
        assert_eq!(delays_of(100.0, 0.0, &[(0, 0.0), (0, 0.0)]), [0.0, 0.0]);
    }

    #[test]
    fn what_comes_meanwhile_goes_first_too() {
        // The first class: 50 in 0.5 s, in which 10 more come, gone 0.1 s later with 2 more, and so on:
        // empty after 50 / (100 - 20). Then 80/s are left for the second.
        let empty = 50.0 / 80.0;
        let delays = delays_of(100.0, 0.0, &[(50, 20.0), (40, 0.0)]);
        assert_eq!(delays, [0.5, empty + 0.5]);
    }

    #[test]
    fn a_minimum_share_is_what_the_last_one_lives_on() {
        let delays = delays_of(100.0, 0.1, &[(0, 0.0), (100, 200.0), (100, 5.0)]);
        assert_eq!(delays[0], 0.0);
        assert_eq!(delays[2], 10.0);
        // Nobody's share is lost while nobody wants it.
        assert!((delays[1] - 100.0 / 90.0).abs() < 1e-6, "{delays:?}");
        let without = delays_of(100.0, 0.0, &[(0, 0.0), (100, 200.0), (100, 5.0)]);
        assert!(without[2].is_infinite());
    }
}
