//! The links of a node, as JSON in its status.

use serde::{Deserialize, Serialize};

use crate::link::{LinkFigures, PathFigures};

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkView {
    /// Name of the output, or of the node that dials.
    pub name: String,
    /// `out` for an output, `in` for an input.
    pub direction: String,
    /// Pieces of records sent again.
    pub repeated_pieces: u64,
    /// Pieces that came twice.
    pub duplicate_pieces: u64,
    /// Packets that were none of a link's, or did not keep to its rules.
    pub strange_packets: u64,
    /// Its paths; at an input those that were used, by their numbers at the dialing end.
    pub paths: Vec<PathView>,
}

/// One path of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathView {
    /// What it is bound to.
    pub name: String,
    /// `up`, `silent` (no answer in time), `dead` (none to questions either) or `absent` (no connection).
    pub state: String,
    /// `quic` or `tcp`; `None` without a connection.
    pub transport: Option<String>,
    /// What it carries, as far as it was used.
    pub rate_bytes_per_second: f64,
    /// Smoothed round trip.
    pub rtt_seconds: Option<f64>,
    /// How long packets stand in queues on their way to the far end.
    pub queue_delay_seconds: f64,
    /// Part of its packets that are lost, 0 to 1.
    pub loss: f64,
    /// Its part of all bytes that the link has sent, 0 to 1.
    pub share: f64,
    /// Packets sent, acknowledgements not counted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those found lost.
    pub lost_packets: u64,
    /// Those that a queue on the way marked (ECN), by the far end's count.
    #[serde(default)]
    pub marked_packets: u64,
}

impl From<&LinkFigures> for LinkView {
    fn from(link: &LinkFigures) -> Self {
        let all = link.bytes().as_f64().max(1.0);
        LinkView {
            name: link.name.clone(),
            direction: if link.is_output { "out" } else { "in" }.into(),
            repeated_pieces: link.repeated,
            duplicate_pieces: link.duplicates,
            strange_packets: link.strange,
            paths: link.paths.iter().map(|path| path_view(path, all)).collect(),
        }
    }
}

fn path_view(path: &PathFigures, all: f64) -> PathView {
    PathView {
        name: path.name.clone(),
        state: path.state_name().into(),
        transport: path.transport.map(Into::into),
        rate_bytes_per_second: path.rate.as_f64(),
        rtt_seconds: path.srtt.map(|srtt| srtt.as_secs_f64()),
        queue_delay_seconds: path.queue_delay.as_secs_f64(),
        loss: path.loss,
        share: path.counts.bytes.as_f64() / all,
        packets: path.counts.packets,
        bytes: path.counts.bytes.0,
        lost_packets: path.counts.lost,
        marked_packets: path.counts.marked,
    }
}
