//! Links to neighbours that the leader names: which place is whose, and where it dials.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_fleet::{Neighbours, NodeId};
use tidegate_node::io::OutputId;
use tidegate_types::units::Time;

use super::member::Place;
use super::node_id;
use super::wire::LenderMessage;
use crate::keys::url::host_and_port;
use crate::link::Links;

/// The places of a node.
#[derive(Debug)]
pub(super) struct Found {
    places: Vec<Place>,
    neighbours: Neighbours,
    links: Links,
    /// Names of those that have a place.
    names: BTreeMap<NodeId, String>,
}

impl Found {
    pub(super) fn new(places: Vec<Place>, links: Links) -> Self {
        let neighbours = Neighbours::new(places.len());
        Found { places, neighbours, links, names: BTreeMap::new() }
    }

    /// Whether the leader is to be asked for lenders.
    pub(super) fn ask(&mut self, now: Time, is_short: bool) -> bool {
        self.neighbours.ask(now, is_short)
    }

    /// The leader names lenders; `knows` those that have a link of their own.
    pub(super) fn named(
        &mut self,
        now: Time,
        lenders: Vec<LenderMessage>,
        knows: impl Fn(NodeId) -> bool,
    ) {
        let nodes: Vec<NodeId> = lenders.iter().map(|one| node_id(&one.name)).collect();
        for (place, node) in self.neighbours.named(now, &nodes, knows) {
            let Some(lender) = lenders.iter().find(|one| node_id(&one.name) == node) else {
                continue;
            };
            let Some((host, Some(port))) = host_and_port(&lender.address) else {
                tracing::warn!(neighbour = %lender.name, address = %lender.address, "no address");
                continue;
            };
            let label = &self.places[place].label;
            tracing::info!(neighbour = %lender.name, address = %lender.address, by = %label, "found");
            self.names.insert(node, lender.name.clone());
            self.links.dial(label, Some((Arc::from(host), port)));
        }
    }

    /// Time passes; `uses` is true of nodes with which there is a grant.
    pub(super) fn pass(&mut self, now: Time, uses: impl Fn(NodeId) -> bool) {
        let closing = self.neighbours.pass(now, uses);
        if closing.is_empty() {
            return;
        }
        let links = self.links.read();
        for place in closing {
            let label = &self.places[place].label;
            self.links.dial(label, None);
            let link = links.iter().find(|link| link.is_output && link.name == *label);
            if !link.is_some_and(|link| link.paths.iter().any(|path| path.state_name() == "up")) {
                tracing::info!(by = %label, "the link to a neighbour is closed: it was of no use for long");
                self.neighbours.closed(place);
            }
        }
        let neighbours = &self.neighbours;
        self.names.retain(|node, _| neighbours.place_of(*node).is_some());
    }

    /// Those that are reached; `is_up` says so of a link by its name.
    pub(super) fn up(&self, is_up: impl Fn(&str) -> bool) -> Vec<NodeId> {
        let taken = self.neighbours.taken();
        taken.filter(|(place, _)| is_up(&self.places[*place].label)).map(|(_, node)| node).collect()
    }

    /// The output by which a node is reached.
    pub(super) fn output_of(&self, node: NodeId) -> Option<OutputId> {
        self.neighbours.place_of(node).map(|place| self.places[place].output)
    }

    /// The name of a node that has a place.
    pub(super) fn name_of(&self, node: NodeId) -> Option<String> {
        self.names.get(&node).cloned()
    }

    /// Places that are taken.
    pub(super) fn count(&self) -> usize {
        self.neighbours.taken().count()
    }
}
