//! Which neighbours a node keeps links to, of those that the leader names: opened when the node is short, kept
//! for a while after the last grant.
//!
//! A node has few places for them, for a link that is open costs a question now and then, and a queue at
//! both ends. The leader names lenders; who is reached is told in beats, and only then can be granted.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_types::units::Time;

use super::NodeId;

/// Time between two questions for lenders.
const ASK: Duration = Duration::from_secs(2);
/// How long a link without a grant is kept.
const KEEP: Duration = Duration::from_secs(60);
/// The same where its place is wanted for another lender: longer than a trial of a pair takes.
const TRY: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    /// A neighbour's, and when a grant with it was last seen, or the link was opened.
    Taken {
        node: NodeId,
        used: Time,
    },
    /// Nobody's, until its link is down.
    Closing,
}

/// The places of a node.
#[derive(Debug)]
pub struct Neighbours {
    places: Vec<Place>,
    asked: Option<Time>,
}

impl Neighbours {
    /// So many places, all free.
    pub fn new(places: usize) -> Self {
        Neighbours { places: vec![Place::Free; places], asked: None }
    }

    /// Whether the leader is to be asked for lenders now; it counts as asked then.
    pub fn ask(&mut self, now: Time, is_short: bool) -> bool {
        let is_free = |place: &Place| match place {
            Place::Free => true,
            Place::Taken { used, .. } => now.since(*used) >= TRY,
            Place::Closing => false,
        };
        let is_due = self.asked.is_none_or(|at| now.since(at) >= ASK);
        let asks = is_short && is_due && self.places.iter().any(is_free);
        if asks {
            self.asked = Some(now);
        }
        asks
    }

    /// The leader names lenders, those that it would take first before others; `knows` those that are reached
    /// anyway. Returns which place is whose from now on.
    pub fn named(
        &mut self,
        now: Time,
        lenders: &[NodeId],
        knows: impl Fn(NodeId) -> bool,
    ) -> Vec<(usize, NodeId)> {
        let mut new = Vec::new();
        for &node in lenders.iter().filter(|node| !knows(**node)) {
            if self.place_of(node).is_some() {
                continue;
            }
            let Some(place) = self.places.iter().position(|place| *place == Place::Free) else {
                self.make_room(now, lenders);
                break;
            };
            self.places[place] = Place::Taken { node, used: now };
            new.push((place, node));
        }
        new
    }

    /// Time passes; `uses` is true of nodes with which there is a grant. Returns the places whose links are to
    /// be closed now.
    pub fn pass(&mut self, now: Time, uses: impl Fn(NodeId) -> bool) -> Vec<usize> {
        for place in &mut self.places {
            let Place::Taken { node, used } = place else { continue };
            if uses(*node) {
                *used = now;
            } else if now.since(*used) >= KEEP {
                *place = Place::Closing;
            }
        }
        let closing = |(index, place): (usize, &Place)| (*place == Place::Closing).then_some(index);
        self.places.iter().enumerate().filter_map(closing).collect()
    }

    /// The link of a place that was to be closed is down.
    pub fn closed(&mut self, place: usize) {
        if self.places[place] == Place::Closing {
            self.places[place] = Place::Free;
        }
    }

    /// Each place that is taken, and whose it is.
    pub fn taken(&self) -> impl Iterator<Item = (usize, NodeId)> + '_ {
        self.places.iter().enumerate().filter_map(|(index, place)| match place {
            Place::Taken { node, .. } => Some((index, *node)),
            Place::Free | Place::Closing => None,
        })
    }

    /// The place of a node.
    pub fn place_of(&self, node: NodeId) -> Option<usize> {
        self.taken().find(|(_, other)| *other == node).map(|(place, _)| place)
    }

    /// Gives up the neighbour that was of no use for longest and whom the leader does not name, or else the
    /// one of no use at all: somebody else may help.
    fn make_room(&mut self, now: Time, lenders: &[NodeId]) {
        let lenders: BTreeSet<NodeId> = lenders.iter().copied().collect();
        let useless = |(index, place): (usize, &Place)| match place {
            Place::Taken { node, used } if now.since(*used) >= TRY => {
                Some((lenders.contains(node), *used, index))
            }
            _ => None,
        };
        let first = self.places.iter().enumerate().filter_map(useless).min();
        if let Some((_, _, index)) = first {
            self.places[index] = Place::Closing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: fn(NodeId) -> bool = |_| false;

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn nodes(numbers: &[u64]) -> Vec<NodeId> {
        numbers.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn a_short_node_opens_links_to_lenders_in_order() {
        let mut neighbours = Neighbours::new(2);
        assert!(!neighbours.ask(at(0), false) && neighbours.ask(at(0), true));
        assert!(!neighbours.ask(at(1), true), "it has just asked");
        let knows = |node| node == NodeId(7);
        let new = neighbours.named(at(1), &nodes(&[7, 3, 5, 4]), knows);
        assert_eq!(new, [(0, NodeId(3)), (1, NodeId(5))]);
        assert_eq!(neighbours.named(at(1), &nodes(&[3, 5]), NOBODY), []);
        assert!(!neighbours.ask(at(3), true), "there is no place for more");
    }

    #[test]
    fn a_link_is_kept_for_a_while_after_its_last_grant() {
        let mut neighbours = Neighbours::new(1);
        neighbours.named(at(0), &nodes(&[3]), NOBODY);
        for second in 1..30 {
            assert!(neighbours.pass(at(second), |node| node == NodeId(3)).is_empty());
        }
        assert!(neighbours.pass(at(88), NOBODY).is_empty());
        assert_eq!(neighbours.pass(at(89), NOBODY), [0]);
        // It is told until the link is down; only then the place is free.
        assert_eq!(neighbours.pass(at(90), NOBODY), [0]);
        assert!(neighbours.named(at(90), &nodes(&[4]), NOBODY).is_empty());
        neighbours.closed(0);
        assert_eq!(neighbours.named(at(91), &nodes(&[4]), NOBODY), [(0, NodeId(4))]);
    }

    #[test]
    fn who_is_of_no_use_makes_room_for_another_lender() {
        let mut neighbours = Neighbours::new(2);
        neighbours.named(at(0), &nodes(&[3, 4]), NOBODY);
        neighbours.pass(at(9), |node| node == NodeId(4));
        assert!(neighbours.ask(at(10), true));
        assert_eq!(neighbours.named(at(10), &nodes(&[3, 4, 5]), NOBODY), []);
        assert_eq!(neighbours.pass(at(10), NOBODY), [0]);
        neighbours.closed(0);
        assert_eq!(neighbours.named(at(12), &nodes(&[5]), NOBODY), [(0, NodeId(5))]);
    }
}
