//! The loop's end of each output.

use std::sync::Arc;

use tidegate_node::io::OutputId;

use crate::node::contract::{Feedback, Orders, OutputPort};

/// See the file's header.
#[derive(Debug)]
pub(super) struct OutputEnd {
    pub(super) orders: Orders,
    /// How often each lane went down: an order given before the node knew is void.
    pub(super) downs: Vec<u64>,
}

/// Begins an output: the next one, or one that has ended. What its lanes said before that came before this, and counts.
pub(super) fn begin(
    all: &mut Vec<OutputEnd>,
    (id, name): (OutputId, Arc<str>),
    lanes: u8,
    feedback: Feedback,
) -> OutputPort {
    let (orders, port) = OutputPort::new(id, name, lanes, feedback);
    let end = OutputEnd { orders, downs: vec![0; usize::from(lanes)] };
    match all.get_mut(usize::from(id.0)) {
        Some(known) => *known = end,
        None => all.push(end),
    }
    port
}
