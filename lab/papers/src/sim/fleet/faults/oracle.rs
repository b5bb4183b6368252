//! An oracle for urgent records: it knows every fault ahead, asks nobody, and has nothing but urgent records.
//!
//! Record by record in the order in which they come, it takes the uplink by which the far end has it earliest: the own
//! one, or a neighbour's that is one step away while both live and nothing is cut between them. A second one leaves lenders
//! what is theirs: of a neighbour's uplink it takes what that one's own records of all classes leave, and a tenth at least;
//! and it uses of every uplink what a node does.

use tidegate_testing::fleets::{Party, Plan, Seen};

/// Steps between two nodes: the least that a world has.
const HOP: u64 = 1;
/// Milliseconds from a node to the far end.
const FAR: u64 = 25;
/// After it all is well for ever.
const END: u64 = 100_000;

/// What a node uses of an uplink whose rate it is told.
const USED: f64 = 0.92;
/// What a neighbour lends at least, of what it uses.
const PERMITTED: f64 = 0.1;

/// What an oracle may take of a neighbour's uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// All of it.
    All,
    /// What the neighbour has to spare, and what is permitted in any case.
    Spare,
}

/// Records a second of others that an uplink carries then beside its own.
fn lends(plan: &Plan, by: usize, tick: u64) -> f64 {
    let used = USED * plan.capacity[by];
    (used - plan.level(by, tick).iter().sum::<f64>()).max(PERMITTED * used)
}

/// Ticks at which the far end has each record, which stand in order by node; `None` where no uplink ever carries it.
pub(super) fn times(plan: &Plan, records: &[Seen], takes: Takes) -> Vec<Option<u64>> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|at| records[*at].came);
    let mut free = vec![0.0_f64; plan.nodes];
    // When what others may take of an uplink is free again.
    let mut lent = vec![0.0_f64; plan.nodes];
    let mut times = vec![None; records.len()];
    for at in order {
        let Seen { node, came, .. } = records[at];
        let ways = (0..plan.nodes).filter_map(|by| {
            let there = leaves(plan, node, by, came)?;
            let begins = if by == node || takes == Takes::All { free[by] } else { lent[by] };
            Some((goes(plan, by, begins.max(there as f64))?, by))
        });
        // The own uplink, where others are no sooner.
        let best = ways.min_by(|a, b| {
            a.0.floor().total_cmp(&b.0.floor()).then((a.1 != node).cmp(&(b.1 != node)))
        });
        let Some((start, by)) = best else { continue };
        let span = |rate: f64| 1e3 / (rate * plan.tick as f64);
        if by == node || takes == Takes::All {
            let part = if takes == Takes::All { 1.0 } else { USED };
            free[by] = start + span(part * plan.capacity[by]);
        } else {
            lent[by] = start + span(lends(plan, by, start.floor() as u64));
        }
        times[at] = Some(start.floor() as u64 + plan.ticks(FAR));
    }
    times
}

/// When a record of `node` that came then can be at `by`.
fn leaves(plan: &Plan, node: usize, by: usize, came: u64) -> Option<u64> {
    if node == by {
        return Some(came);
    }
    let (from, to) = (Party::Node(node), Party::Node(by));
    let open = (came..END).find(|&tick| {
        runs(plan, node, tick) && runs(plan, by, tick) && !plan.is_cut(from, to, tick)
    });
    open.map(|tick| tick + HOP)
}

/// When an uplink carries something that waits from `start` on.
fn goes(plan: &Plan, by: usize, start: f64) -> Option<f64> {
    let first = start.floor() as u64;
    let tick =
        (first..END).find(|&tick| runs(plan, by, tick) && plan.uplink(by, tick).carries() > 0.0)?;
    Some(start.max(tick as f64))
}

fn runs(plan: &Plan, node: usize, tick: u64) -> bool {
    !plan.is_killed(Party::Node(node), tick) && !plan.is_stalled(Party::Node(node), tick)
}

#[cfg(test)]
mod tests {
    use tidegate_testing::fleets::{Event, Fault};

    use super::*;
    use crate::sim::fleet::faults::plan::{Mix, plan};

    fn quiet(events: Vec<Event>) -> Plan {
        let mut plan = plan(Mix::Alarms, 1);
        plan.events = events;
        plan.capacity = vec![200.0; plan.nodes];
        plan
    }

    fn seen(node: usize, came: u64) -> Seen {
        Seen { node, class: 0, came, arrived: None }
    }

    #[test]
    fn it_takes_the_own_uplink_and_a_neighbours_while_that_is_down_or_full() {
        let plan = quiet(vec![
            Event { fault: Fault::Silent(0), from: 10, until: 20 },
            Event { fault: Fault::Cut(Party::Node(0), Party::Node(1)), from: 10, until: 20 },
            Event { fault: Fault::Refused(2), from: 10, until: 20 },
        ]);
        let records = [seen(0, 1), seen(0, 1), seen(0, 1), seen(0, 12), seen(3, 13)];
        let expected = [Some(6), Some(7), Some(7), Some(18), Some(19)];
        assert_eq!(times(&plan, &records, Takes::All), expected, "200 records/s are one in a tick");
    }

    #[test]
    fn it_leaves_a_lender_what_is_its_own() {
        let mut plan = quiet(vec![Event { fault: Fault::Refused(0), from: 0, until: 1000 }]);
        plan.nodes = 2;
        plan.levels = vec![vec![(0, [0.0; 3])], vec![(0, [50.0, 50.0, 50.0])]];
        let records = [seen(0, 0), seen(0, 0), seen(0, 0)];
        assert_eq!(times(&plan, &records, Takes::All), [Some(6), Some(7), Some(8)]);
        // 34 of 184 records/s are to spare: one in 5.9 ticks; where nothing is, a tenth.
        assert_eq!(times(&plan, &records, Takes::Spare), [Some(6), Some(11), Some(17)]);
        plan.levels[1] = vec![(0, [50.0, 50.0, 150.0])];
        assert_eq!(times(&plan, &records, Takes::Spare), [Some(6), Some(16), Some(27)]);
    }
}
