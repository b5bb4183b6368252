//! What a run of four nodes showed: of the busy node's records by whatever uplink, and of the lenders.

use std::time::Duration;

use tidegate_core::units::Time;

use super::case::Case;
use crate::sim::ledger::{Account, Received};
use crate::sim::world::Outcome;

/// Bounds on residence of the three classes, seconds.
const BOUNDS: [f64; 3] = [0.05, 0.5, 1.0];

/// A class of the busy node.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sim) struct ClassMeasured {
    /// Seconds from the node to the far end, of what came.
    pub(in crate::sim) mean: f64,
    pub(in crate::sim) p99: f64,
    /// The part whose residence, wherever, was longer than its bound.
    pub(in crate::sim) late: f64,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Measured {
    pub(in crate::sim) classes: [ClassMeasured; 3],
    /// Records/s of all nodes that came to the far end.
    pub(in crate::sim) all: f64,
    /// Records/s that neighbours carried.
    pub(in crate::sim) redirected: f64,
    /// Of the idle nodes' own most urgent records, the worst node's, seconds.
    pub(in crate::sim) lender_p99: f64,
    pub(in crate::sim) broken: Vec<String>,
}

fn p99(took: &mut [f64]) -> f64 {
    took.sort_unstable_by(f64::total_cmp);
    took.get((took.len() as f64 * 0.99) as usize).or(took.last()).copied().unwrap_or_default()
}

fn seconds(received: &Received) -> f64 {
    received.took.as_secs_f64()
}

/// Measures the outcomes of the nodes, the busy one first. Figures count from `from` on.
pub(super) fn measure(case: &Case, outcomes: &[Outcome], from: Duration) -> Measured {
    let from = Time::ZERO + from;
    let all = || outcomes.iter().flat_map(|outcome| &outcome.ledger.accounts);
    let came = |account: &Account| {
        account.received.iter().filter(|one| one.arrived + one.took >= from).count()
    };
    let relayed = |outcome: &Outcome| outcome.ledger.accounts[3..].iter().map(came).sum::<usize>();
    let mut broken: Vec<String> = Vec::new();
    for (at, outcome) in outcomes.iter().enumerate() {
        let label = format!("{} at {}, node {at}", case.system.name(), case.rate);
        broken.extend(outcome.ledger.broken.iter().map(|what| format!("{label}: {what}")));
        let lost = outcome.status.counts.lost(outcome.status.held);
        if lost != 0 {
            broken.push(format!("{label}: {lost} accepted records have no fate"));
        }
    }
    broken.extend(twice(case, outcomes));
    let lenders = outcomes[1..].iter().map(|outcome| {
        let own = outcome.ledger.accounts[0].received.iter().filter(|one| one.arrived >= from);
        p99(&mut own.map(seconds).collect::<Vec<f64>>())
    });
    Measured {
        classes: [0, 1, 2].map(|class| class_of(case, outcomes, class, from)),
        all: all().map(came).sum::<usize>() as f64 / case.length,
        redirected: outcomes.iter().map(relayed).sum::<usize>() as f64 / case.length,
        lender_p99: lenders.fold(0.0, f64::max),
        broken,
    }
}

/// The busy node's records of a class, by its own uplink and by others'.
fn of_busy(outcomes: &[Outcome], class: usize) -> impl Iterator<Item = &Received> {
    let own = outcomes[0].ledger.accounts[class].received.iter();
    let by_others = outcomes[1..].iter().filter_map(move |outcome| {
        outcome.ledger.accounts.get(3 + class).map(|account| &account.received)
    });
    own.chain(by_others.flatten())
}

fn class_of(case: &Case, outcomes: &[Outcome], class: usize, from: Time) -> ClassMeasured {
    let mut took: Vec<f64> =
        of_busy(outcomes, class).filter(|one| one.arrived >= from).map(seconds).collect();
    let count = took.len().max(1) as f64;
    let bound = BOUNDS[class] + case.network.delay();
    let late = took.iter().filter(|took| **took > bound + 1e-3).count() as f64;
    ClassMeasured {
        mean: took.iter().sum::<f64>() / count,
        late: late / count,
        p99: p99(&mut took),
    }
}

/// In a world without faults no record of the busy node comes to the far end twice.
fn twice(case: &Case, outcomes: &[Outcome]) -> Vec<String> {
    let mut broken = Vec::new();
    for class in 0..3 {
        let mut seqs: Vec<u64> = of_busy(outcomes, class).map(|one| one.seq).collect();
        let all = seqs.len();
        seqs.sort_unstable();
        seqs.dedup();
        if seqs.len() < all {
            let times = all - seqs.len();
            let label = format!("{} at {}", case.system.name(), case.rate);
            broken.push(format!("{label}: {times} records of class {class} came twice"));
        }
    }
    broken
}
