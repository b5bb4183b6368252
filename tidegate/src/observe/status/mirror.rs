//! Mirrors in the status: the copy of the node's own log, and the logs of others that it keeps.

use serde::{Deserialize, Serialize};

use crate::services::standby::MirrorFigures;

/// Mirrors that the node has to do with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MirrorView {
    /// The copy of its own log; `None` where its log is not mirrored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<CopyView>,
    /// Logs of other nodes that are kept here, by node and incarnation.
    pub kept: Vec<KeptView>,
}

/// The copy of the node's log at its neighbour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopyView {
    /// Whether the neighbour is connected and keeps it.
    pub is_up: bool,
    /// Bytes of the log that the neighbour does not have safe yet; `None` while it is away.
    pub behind_bytes: Option<u64>,
}

/// A log of another node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptView {
    /// Whose log it is.
    pub node: String,
    /// The incarnation of that log, in hexadecimal as in identities.
    pub incarnation: String,
    /// Bytes of it.
    pub bytes: u64,
    /// Whether its node is connected.
    pub is_connected: bool,
    /// Whether its node was away for so long that its records are sent from here.
    pub is_inherited: bool,
    /// Records of it that this node has taken over.
    pub inherited_records: u64,
}

pub(super) fn mirror_view(figures: &MirrorFigures) -> MirrorView {
    let kept = figures.kept.iter().map(|((node, incarnation), kept)| KeptView {
        node: node.to_string(),
        incarnation: format!("{incarnation:016x}"),
        bytes: kept.bytes,
        is_connected: kept.is_connected,
        is_inherited: kept.is_inherited,
        inherited_records: kept.records,
    });
    let (is_up, behind_bytes) = (figures.behind.is_some(), figures.behind);
    MirrorView {
        own: figures.has_mirror.then_some(CopyView { is_up, behind_bytes }),
        kept: kept.collect(),
    }
}
