//! What a run of four nodes showed: of the busy node's records by whatever uplink, and of the lenders.

use std::time::Duration;

use tidegate_types::units::Time;

use super::case::Case;
use crate::sim::fleet::member::name_of;
use crate::sim::ledger::{Account, Received};
use crate::sim::world::Outcome;

/// Bounds on residence of the three classes, seconds.
pub(crate) const BOUNDS: [f64; 3] = [0.05, 0.5, 1.0];

/// A class of the busy node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassMeasured {
    /// Seconds from the node to the far end, of what came.
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    /// The part whose residence, wherever, was longer than its bound.
    pub late: f64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub classes: [ClassMeasured; 3],
    /// Records/s of all nodes that came to the far end.
    pub all: f64,
    /// Records/s that neighbours carried.
    pub redirected: f64,
    /// Records that came to the far end once more, marked.
    pub twice: usize,
    /// Of the idle nodes' own most urgent records, the worst node's, seconds.
    pub lender_p99: f64,
    pub broken: Vec<String>,
}

impl Measured {
    /// The mean of several runs; what is broken in any of them is.
    pub(super) fn mean(runs: &[Measured]) -> Measured {
        let mean =
            |of: &dyn Fn(&Measured) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        Measured {
            classes: [0, 1, 2].map(|class| ClassMeasured {
                mean: mean(&|run| run.classes[class].mean),
                p50: mean(&|run| run.classes[class].p50),
                p99: mean(&|run| run.classes[class].p99),
                late: mean(&|run| run.classes[class].late),
            }),
            all: mean(&|run| run.all),
            redirected: mean(&|run| run.redirected),
            twice: mean(&|run| run.twice as f64).round() as usize,
            lender_p99: mean(&|run| run.lender_p99),
            broken: runs.iter().flat_map(|run| run.broken.clone()).collect(),
        }
    }
}

pub(crate) fn quantile(took: &mut [f64], part: f64) -> f64 {
    took.sort_unstable_by(f64::total_cmp);
    took.get((took.len() as f64 * part) as usize).or(took.last()).copied().unwrap_or_default()
}

fn seconds(received: &Received) -> f64 {
    received.took.as_secs_f64()
}

/// Measures the outcomes of the nodes, the busy one first. Figures count from `from` on.
pub(super) fn measure(case: &Case, outcomes: &[Outcome], from: Duration) -> Measured {
    let from = Time::ZERO + from;
    let is_inside = |one: &&Received| one.arrived + one.took >= from;
    let came = |account: &Account| account.received.iter().filter(is_inside).count();
    let relayed = |outcome: &Outcome| outcome.ledger.relayed().iter().map(came).sum::<usize>();
    let streams = (0..outcomes.len()).flat_map(|node| [0, 1, 2].map(|class| (node, class)));
    let (mut all, mut twice) = (0, 0);
    for (node, class) in streams {
        let (first, further) = arrived(outcomes, node, class);
        all += first.iter().filter(is_inside).count();
        twice += further;
    }
    let broken = broken(&format!("{} at {}", case.system.name(), case.rate), outcomes);
    let lenders = outcomes[1..].iter().map(|outcome| {
        let own = outcome.ledger.accounts[0].received.iter().filter(|one| one.arrived >= from);
        quantile(&mut own.map(seconds).collect::<Vec<f64>>(), 0.99)
    });
    Measured {
        classes: [0, 1, 2].map(|class| class_of(case, outcomes, class, from)),
        all: all as f64 / case.length,
        twice,
        redirected: outcomes.iter().map(relayed).sum::<usize>() as f64 / case.length,
        lender_p99: lenders.fold(0.0, f64::max),
        broken,
    }
}

/// Everybody's books of one node's records of a class: its own, and those of its lenders.
fn books(outcomes: &[Outcome], node: usize, class: usize) -> Vec<&Account> {
    let name = name_of(node);
    let mut books = Vec::new();
    for (at, Outcome { ledger, .. }) in outcomes.iter().enumerate() {
        let own = ledger.accounts.get(class).filter(|_| at == node);
        books.extend(own.or_else(|| ledger.account_of(&name, class)));
    }
    books
}

/// A node's records of a class that are at the far end, by whatever uplink: the first copy of each, and how
/// many others came.
pub(crate) fn arrived(outcomes: &[Outcome], node: usize, class: usize) -> (Vec<Received>, usize) {
    let books = books(outcomes, node, class);
    let copies = books.iter().flat_map(|account| &account.received);
    let mut first: Vec<Received> = copies.copied().collect();
    let all = first.len();
    first.sort_by_key(|one| (one.seq, one.arrived + one.took));
    first.dedup_by_key(|one| one.seq);
    let further = all - first.len();
    (first, further)
}

fn class_of(case: &Case, outcomes: &[Outcome], class: usize, from: Time) -> ClassMeasured {
    let (first, _) = arrived(outcomes, 0, class);
    let mut took: Vec<f64> = first.iter().filter(|one| one.arrived >= from).map(seconds).collect();
    let count = took.len().max(1) as f64;
    let bound = BOUNDS[class] + case.network.delay();
    let late = took.iter().filter(|took| **took > bound + 1e-3).count() as f64;
    ClassMeasured {
        mean: took.iter().sum::<f64>() / count,
        late: late / count,
        p50: quantile(&mut took, 0.5),
        p99: quantile(&mut took, 0.99),
    }
}

/// Promises that nobody may break: every accepted record has a fate or waits, and whoever gets one twice finds a mark on all
/// copies but one.
pub(crate) fn broken(system: &str, outcomes: &[Outcome]) -> Vec<String> {
    let mut broken = Vec::new();
    for (node, outcome) in outcomes.iter().enumerate() {
        let mut tell = |what: String| broken.push(format!("{system}, node {node}: {what}"));
        outcome.ledger.broken.iter().for_each(|what| tell(what.clone()));
        let lost = outcome.status.counts.lost(outcome.status.held);
        if lost != 0 {
            tell(format!("{lost} accepted records have no fate"));
        }
        for class in 0..BOUNDS.len() {
            let (first, _) = arrived(outcomes, node, class);
            let books = books(outcomes, node, class);
            let plain = |seq| books.iter().map(|book| u64::from(book.unmarked(seq))).sum::<u64>();
            let wrong = first.iter().filter(|one| plain(one.seq) > 1).count();
            if wrong > 0 {
                tell(format!("{wrong} records of class {class} came again, unmarked"));
            }
        }
    }
    broken
}
