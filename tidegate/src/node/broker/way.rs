//! Where the messages of one topic go.

use std::sync::Arc;
use std::time::Duration;

use tidegate_broker::Recipient;
use tidegate_cluster::handover::UnitId;
use tidegate_types::class::ClassId;

use super::gate::Gate;
use super::meter::Meter;
use super::operate::Operate;
use super::seat::Seat;

/// Memory of a way and of its place.
const WAY: usize = 384;
/// Memory of a subscriber in a way.
const TARGET: usize = 64;

/// See the file's header.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(super) all: Vec<(Arc<Seat>, Recipient)>,
    pub(super) groups: Vec<Vec<(Arc<Seat>, Recipient)>>,
    pub(super) operators: Vec<(Arc<dyn Operate>, Arc<Meter>)>,
    pub(super) class: ClassId,
    pub(super) latency: Duration,
    pub(super) is_local: bool,
    /// Where the topic is one of those that move between nodes.
    pub(super) unit: Option<(UnitId, Arc<Gate>)>,
}

impl Way {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.groups.is_empty()
    }

    /// Bytes of memory that it takes.
    pub(super) fn footprint(&self) -> usize {
        let groups = self.groups.iter().map(|group| TARGET + group.len() * TARGET).sum::<usize>();
        WAY + self.all.len() * TARGET + groups
    }

    /// Whether nobody takes a message: no subscriber, and no operator.
    pub(super) fn is_idle(&self) -> bool {
        self.is_empty() && self.operators.is_empty() && self.unit.is_none()
    }
}
