//! Who could lend to whom: the peers that each node reaches over a link.

use std::ops::Range;

use super::{CANDIDATES_MAX, NODES_MAX};

/// A peer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its place among the nodes.
    pub place: u32,
    /// How far it is: microseconds of round trip, or any other measure that adds up.
    pub distance: u32,
}

/// Rows of peers, one a node, one behind the other: a matching walks them without a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// Where each node's row begins, and the end of the last.
    starts: Vec<u32>,
    peers: Vec<Peer>,
}

impl Default for Candidates {
    fn default() -> Self {
        Candidates { starts: vec![0], peers: Vec::new() }
    }
}

impl Candidates {
    /// Adds the next node. A node is no peer of its own: its place is skipped, as are repeated ones.
    ///
    /// # Panics
    /// Beyond `NODES_MAX` nodes or `CANDIDATES_MAX` peers.
    pub fn push(&mut self, peers: &[Peer]) {
        assert!(self.nodes() < NODES_MAX, "a fleet has at most {NODES_MAX} nodes");
        assert!(peers.len() <= CANDIDATES_MAX, "a node has at most {CANDIDATES_MAX} candidates");
        let own = self.nodes() as u32;
        let begin = self.peers.len();
        for peer in peers {
            let is_known = self.peers[begin..].iter().any(|known| known.place == peer.place);
            if peer.place != own && !is_known {
                self.peers.push(*peer);
            }
        }
        self.starts.push(self.peers.len() as u32);
    }

    /// How many nodes.
    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many pairs of a node and a peer: ways.
    pub fn ways(&self) -> usize {
        self.peers.len()
    }

    /// The ways of a node, by number.
    pub fn of(&self, node: usize) -> Range<usize> {
        self.starts[node] as usize..self.starts[node + 1] as usize
    }

    /// The peer at the end of a way.
    pub fn peer(&self, way: usize) -> Peer {
        self.peers[way]
    }

    /// The peers of a node.
    pub fn peers(&self, node: usize) -> &[Peer] {
        &self.peers[self.of(node)]
    }

    /// The way from a node to a peer.
    pub fn way(&self, node: usize, peer: usize) -> Option<usize> {
        self.of(node).find(|&way| self.peers[way].place as usize == peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(place: u32) -> Peer {
        Peer { place, distance: 1 }
    }

    #[test]
    fn rows_stand_behind_each_other() {
        let mut candidates = Candidates::default();
        candidates.push(&[peer(1), peer(0), peer(2), peer(1)]);
        candidates.push(&[]);
        candidates.push(&[peer(0)]);
        assert_eq!((candidates.nodes(), candidates.ways()), (3, 3));
        assert_eq!(candidates.peers(0), [peer(1), peer(2)]);
        assert_eq!((candidates.way(2, 0), candidates.way(1, 0)), (Some(2), None));
    }
}
