//! The node's part in its fleet, in the status.

use serde::{Deserialize, Serialize};
use tidegate_types::class::ClassId;

use super::Snapshot;
use crate::services::fleet::FleetFigures;

/// What neighbours carry for the node, and what it carries for them. Counts begin with the start of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetView {
    /// Whether it is connected to the orchestrator that leads; where not, it goes on alone.
    pub has_leader: bool,
    /// Neighbours that it knows.
    pub peers: usize,
    /// Those whose link is up.
    pub peers_up: usize,
    /// What of its uplink neighbours may use now.
    pub lent_bytes_per_second: u64,
    /// What of neighbours' uplinks it may use now.
    pub borrowed_bytes_per_second: u64,
    /// Its records that went by a neighbour.
    pub redirected_records: u64,
    /// Bytes of these.
    pub redirected_bytes: u64,
    /// Bytes of neighbours' records that it has carried, confirmed by the far end.
    pub relayed_bytes: u64,
    /// Heartbeats sent to orchestrators.
    pub beats: u64,
    /// Directives of leaders that it obeyed.
    pub obeyed_directives: u64,
    /// Directives that were old, or of a leader that leads no more.
    pub refused_directives: u64,
    /// How often it found a leader.
    pub leaders_found: u64,
    /// Each grant that is in force.
    pub grants: Vec<GrantView>,
}

/// A grant: how much of an uplink another node may use, for one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GrantView {
    /// The neighbour.
    pub peer: String,
    /// `lent` to the neighbour, or `borrowed` from it.
    pub direction: String,
    /// The class whose records it is for.
    pub class: String,
    /// Its amount.
    pub bytes_per_second: u64,
}

/// The view of a node's part; `None` where it is part of no fleet.
pub(super) fn fleet_view(snapshot: &Snapshot) -> Option<FleetView> {
    let figures: &FleetFigures = snapshot.fleet.as_ref()?;
    let (classes, outputs) = (&snapshot.now.classes, &snapshot.now.outputs);
    let grants = figures.grants.iter().map(|((peer, ClassId(class), is_lent), amount)| GrantView {
        peer: peer.to_string(),
        direction: if *is_lent { "lent" } else { "borrowed" }.into(),
        class: classes.get(usize::from(*class)).map_or(String::new(), |one| one.name.to_string()),
        bytes_per_second: *amount,
    });
    Some(FleetView {
        has_leader: figures.has_leader,
        peers: figures.peers,
        peers_up: figures.peers_up,
        lent_bytes_per_second: figures.lent,
        borrowed_bytes_per_second: figures.borrowed,
        redirected_records: outputs.iter().map(|output| output.redirected_records).sum(),
        redirected_bytes: outputs.iter().map(|output| output.redirected.0).sum(),
        relayed_bytes: figures.relayed,
        beats: figures.beats,
        obeyed_directives: figures.obeyed,
        refused_directives: figures.refused,
        leaders_found: figures.takeovers,
        grants: grants.collect(),
    })
}
