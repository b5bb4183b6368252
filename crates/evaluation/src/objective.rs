//! What a matching is worth to the whole network: the objective that JANUS states for it.
//!
//! JANUS §IV-B.2, Eq. 15-21. Its Φ(q, p) is what queue q of a node sends by node p; p may be the node
//! itself. As printed, Eq. 19-21 ask for at least what there is to send and no equation charges Φ to
//! p's capacity; here no more is carried than there is (`<=`), and V of Eq. 18 is all that leaves
//! a node, whosever it is (docs/algorithms-fleet.md#network).

use std::time::Duration;

use tidegate_types::amount::Amount;
use tidegate_types::units::Rate;

use crate::optimum::Part;
use tidegate_fleet::Redirection;

/// A node as the network's objective sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkNode {
    /// C_out.
    pub capacity: Rate,
    /// Its classes, most urgent first.
    pub parts: Vec<Part>,
    /// Bytes/s of its own uplink that each class uses: Φ(q, own).
    pub own: Vec<Rate>,
}

/// The objective, and the constraints that it is subject to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkObjective {
    /// Bytes/s that each class carries over all nodes; TP of Eq. 15 is their sum.
    pub throughput: Vec<f64>,
    /// Classes of nodes whose delay is above its bound (Eq. 17).
    pub late: usize,
    /// Nodes that send more than they can (Eq. 18).
    pub overfull: usize,
    /// TP less what the excess delays cost: Eq. 17 relaxed as Eq. 7 relaxes Eq. 5. Minus infinity where a
    /// class with a cost waits and gets nothing.
    pub relaxed: f64,
}

impl NetworkObjective {
    /// TP of Eq. 15, bytes/s.
    pub fn total(&self) -> f64 {
        self.throughput.iter().sum()
    }
}

/// Eq. 15 of what nodes send themselves and what is redirected, and where it breaks Eq. 17 and 18.
/// interval: Δt of Eq. 3, above zero; processing: ε of Eq. 1.
///
/// # Panics
/// Where nodes have different numbers of classes, or a redirection names none of them.
pub fn network_objective(
    nodes: &[NetworkNode],
    redirections: &[Redirection],
    interval: Duration,
    processing: Duration,
) -> NetworkObjective {
    /// Sums of floats are not exact.
    const TOLERANCE: f64 = 1e-9;
    let classes = nodes.first().map_or(0, |node| node.parts.len());
    let mut rates: Vec<f64> = Vec::with_capacity(nodes.len() * classes);
    for node in nodes {
        assert!(node.parts.len() == classes && node.own.len() == classes, "one row a node");
        rates.extend(node.own.iter().map(|rate| rate.as_f64()));
    }
    let own = |node: &NetworkNode| node.own.iter().map(|rate| rate.as_f64()).sum::<f64>();
    let mut leaves: Vec<f64> = nodes.iter().map(own).collect();
    for &Redirection { receiver, class, provider, amount: Amount(amount) } in redirections {
        rates[receiver as usize * classes + usize::from(class)] += amount as f64;
        leaves[provider as usize] += amount as f64;
    }
    let mut objective = NetworkObjective { throughput: vec![0.0; classes], ..Default::default() };
    for (place, node) in nodes.iter().enumerate() {
        let is_overfull = leaves[place] > node.capacity.as_f64() * (1.0 + TOLERANCE);
        objective.overfull += usize::from(is_overfull);
        for (class, part) in node.parts.iter().enumerate() {
            let rate = rates[place * classes + class];
            let carried = part.backlog.as_f64() / interval.as_secs_f64() + part.input.as_f64();
            let throughput = rate.min(carried);
            objective.throughput[class] += throughput;
            let delay = if part.backlog.0 > 0 { part.backlog.as_f64() / rate } else { 0.0 };
            let excess = delay + processing.as_secs_f64() - part.bound.as_secs_f64();
            objective.relaxed += throughput;
            if excess > TOLERANCE {
                objective.late += 1;
                objective.relaxed -= if part.weight > 0.0 { part.weight * excess } else { 0.0 };
            }
        }
    }
    objective
}

#[cfg(test)]
mod tests {
    use tidegate_types::units::Size;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// 30 units of uplink; the inputs of Fig. 4, and so much of the last class waits as comes in a second.
    fn node(input: [f64; 3], own: [f64; 3], waits: u64) -> NetworkNode {
        let part = |(class, input): (usize, f64)| Part {
            backlog: Size(if class == 2 { waits } else { 0 }),
            input: Rate::new(input),
            bound: SECOND,
            weight: 2.0,
        };
        NetworkNode {
            capacity: Rate::new(30.0),
            parts: input.into_iter().enumerate().map(part).collect(),
            own: own.map(Rate::new).to_vec(),
        }
    }

    #[test]
    fn a_redirection_carries_what_the_own_uplink_cannot() {
        // E_1 and E_2 of Fig. 4. 15 units wait in E_1's last queue: at 10 units/s they take 1.5 s.
        let nodes = [node([10.0; 3], [10.0; 3], 15), node([10.0, 10.0, 2.0], [10.0, 10.0, 2.0], 0)];
        let alone = network_objective(&nodes, &[], SECOND, Duration::ZERO);
        assert_eq!((alone.throughput.clone(), alone.late), (vec![20.0, 20.0, 12.0], 1));
        assert_eq!((alone.total(), alone.relaxed), (52.0, 51.0));
        let lent = |amount| Redirection { receiver: 0, class: 2, provider: 1, amount };
        let together = network_objective(&nodes, &[lent(Amount(5))], SECOND, Duration::ZERO);
        assert_eq!((together.total(), together.relaxed, together.late), (57.0, 57.0, 0));
        assert_eq!(together.overfull, 0);
        // 8 units are free in E_2, and not one more.
        let at = |amount| network_objective(&nodes, &[lent(amount)], SECOND, Duration::ZERO);
        assert_eq!((at(Amount(8)).overfull, at(Amount(9)).overfull), (0, 1));
    }

    #[test]
    fn no_more_is_carried_than_there_is() {
        let nodes = [node([1.0; 3], [30.0, 0.0, 0.0], 0)];
        let objective = network_objective(&nodes, &[], SECOND, Duration::ZERO);
        assert_eq!((objective.total(), objective.late), (1.0, 0));
    }
}
