//! What a node's part in its fleet looks like at present, for status and metrics.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_types::class::ClassId;

/// A peer, a class, and whether it is lent.
pub type GrantName = (Arc<str>, ClassId, bool);

/// The figures of a node. Amounts are bytes/s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetFigures {
    /// Whether it has a leader.
    pub has_leader: bool,
    /// Peers that it reaches, and all that it knows.
    pub peers_up: usize,
    /// All peers that it knows.
    pub peers: usize,
    /// What of its uplink others may use now.
    pub lent: u64,
    /// What of others' uplinks it may use now.
    pub borrowed: u64,
    /// Each grant, and its amount.
    pub grants: Vec<(GrantName, u64)>,
    /// Bytes that it has carried for others, confirmed by the far end.
    pub relayed: u64,
    /// Beats sent.
    pub beats: u64,
    /// Directives obeyed.
    pub obeyed: u64,
    /// Directives refused: of a deposed leader, or late.
    pub refused: u64,
    /// How often it found a leader.
    pub takeovers: u64,
}

/// The figures of a node, if it is part of a fleet. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct FleetBoard(Arc<Mutex<Option<FleetFigures>>>);

impl FleetBoard {
    /// What it looks like now.
    pub fn tell(&self, figures: FleetFigures) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(figures);
    }

    /// The figures; `None` where the node is no part of a fleet.
    pub fn read(&self) -> Option<FleetFigures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
