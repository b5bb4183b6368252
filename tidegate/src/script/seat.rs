//! Where the node of a loop sits: scripts have it for the length of a call.

use std::ops::{Deref, DerefMut};

use tidegate_node::node::Node;
use tidegate_types::units::Time;

/// The place of a node in the loop that owns it: empty only while a script has it.
#[derive(Debug)]
pub struct Seat(pub(super) Option<Box<Node>>);

impl Seat {
    /// With a node in it.
    pub fn new(node: Node) -> Seat {
        Seat(Some(Box::new(node)))
    }
}

impl Deref for Seat {
    type Target = Node;

    fn deref(&self) -> &Node {
        self.0.as_ref().expect("a script gives the node back before its call ends")
    }
}

impl DerefMut for Seat {
    fn deref_mut(&mut self) -> &mut Node {
        self.0.as_mut().expect("a script gives the node back before its call ends")
    }
}

/// When a script runs.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// By the node's clock.
    pub now: Time,
    /// In the world: nanoseconds since the Unix epoch.
    pub unix_ns: u64,
}
