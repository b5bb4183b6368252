//! The links of a node: as JSON in its status, and as a table for a terminal.

use serde::{Deserialize, Serialize};

use super::table::{align, rate, span};
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
    }
}

/// A line a path, below a head; nothing where there is no link.
pub(super) fn render(links: &[LinkView]) -> String {
    let head = ["link", "path", "state", "by", "rate", "rtt", "queue", "loss", "share"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for link in links {
        for path in &link.paths {
            let known = |number: f64, text: String| if number > 0.0 { text } else { "-".into() };
            rows.push(vec![
                if link.direction == "in" {
                    format!("from {}", link.name)
                } else {
                    link.name.clone()
                },
                path.name.clone(),
                path.state.clone(),
                path.transport.clone().unwrap_or_else(|| "-".into()),
                known(path.rate_bytes_per_second, rate(path.rate_bytes_per_second)),
                path.rtt_seconds.map_or_else(|| "-".into(), span),
                known(path.queue_delay_seconds, span(path.queue_delay_seconds)),
                format!("{:.1} %", path.loss * 100.0),
                format!("{:.0} %", path.share * 100.0),
            ]);
        }
    }
    if rows.len() == 1 { String::new() } else { format!("\n{}", align(&rows)) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_link::{PathCounts, PathHealth};
    use tidegate_types::units::{Rate, Size};

    use super::*;

    #[test]
    fn paths_stand_below_each_other_with_their_shares() {
        let path = |name: &str, state, bytes| PathFigures {
            name: name.into(),
            transport: Some("quic"),
            state,
            rate: Rate::from_bits(36e6),
            srtt: Some(Duration::from_millis(141)),
            queue_delay: Duration::from_millis(3),
            loss: 0.098,
            counts: PathCounts { packets: 9, bytes: Size(bytes), lost: 1, timeouts: 0 },
        };
        let absent = PathFigures {
            transport: None,
            rate: Rate::ZERO,
            srtt: None,
            queue_delay: Duration::ZERO,
            loss: 0.0,
            ..path("eth0", PathHealth::Absent, 0)
        };
        let figures = LinkFigures {
            name: "hq".into(),
            is_output: true,
            paths: vec![
                path("wlan0", PathHealth::Up, 3000),
                path("wwan0", PathHealth::Dead, 1000),
                absent,
            ],
            repeated: 4,
            duplicates: 1,
            strange: 0,
        };
        let view = LinkView::from(&figures);
        assert_eq!(
            render(&[view]),
            "\nlink   path   state    by          rate     rtt   queue   loss  share\n\
             hq    wlan0      up  quic  36.00 Mbit/s  141 ms  3.0 ms  9.8 %  75 %\n\
             hq    wwan0    dead  quic  36.00 Mbit/s  141 ms  3.0 ms  9.8 %  25 %\n\
             hq     eth0  absent     -             -       -       -  0.0 %  0 %\n"
        );
        assert_eq!(render(&[]), "");
    }
}
