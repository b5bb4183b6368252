//! The metrics of links that the node has an output on. Those that come to an input stand in the status: the
//! names of other nodes are no labels.

use tidegate_link::PathHealth;

use super::Metric;
use super::text::Text;
use crate::link::{LinkFigures, PathFigures};

pub(super) const UP: Metric = Metric::gauge(
    "tidegate_link_path_up",
    "1 while the path carries records; 0 while it is silent, dead or not connected.",
);
pub(super) const RATE: Metric = Metric::gauge(
    "tidegate_link_path_rate_bytes_per_second",
    "What the path carries, as far as it was used; 0 while nothing is known.",
);
pub(super) const RTT: Metric = Metric::gauge(
    "tidegate_link_path_rtt_seconds",
    "Smoothed round trip of the path; absent before the first.",
);
pub(super) const LOSS: Metric = Metric::gauge(
    "tidegate_link_path_loss_ratio",
    "Part of the path's packets that are lost, 0 to 1.",
);
pub(super) const SENT: Metric = Metric::counter(
    "tidegate_link_path_sent_bytes_total",
    "Grows by each packet that goes by the path, acknowledgements not counted; from 0 when a link begins anew.",
);
pub(super) const LOST: Metric = Metric::counter(
    "tidegate_link_path_lost_packets_total",
    "Counts a packet of the path when it is found lost; from 0 when a link begins anew.",
);
pub(super) const MARKED: Metric = Metric::counter(
    "tidegate_link_path_marked_packets_total",
    "Counts a packet of the path that a queue marked (ECN), when the far end says so; from 0 when a link begins anew.",
);
pub(super) const REPEATED: Metric = Metric::counter(
    "tidegate_link_resent_pieces_total",
    "Counts a piece of a record when it goes again; from 0 when a link begins anew.",
);

/// Writes them.
pub(super) fn encode(links: &[LinkFigures], text: &mut Text) {
    type Read = fn(&PathFigures) -> Option<f64>;
    let of_paths: [(Metric, Read); 7] = [
        (UP, |path| Some(f64::from(u8::from(path.state == PathHealth::Up)))),
        (RATE, |path| Some(path.rate.as_f64())),
        (RTT, |path| path.srtt.map(|srtt| srtt.as_secs_f64())),
        (LOSS, |path| Some(path.loss)),
        (SENT, |path| Some(path.counts.bytes.as_f64())),
        (LOST, |path| Some(path.counts.lost as f64)),
        (MARKED, |path| Some(path.counts.marked as f64)),
    ];
    let outputs = || links.iter().filter(|link| link.is_output);
    for (metric, read) in of_paths {
        text.head(metric);
        for link in outputs() {
            for path in &link.paths {
                if let Some(value) = read(path) {
                    text.sample(metric.name, &[("link", &link.name), ("path", &path.name)], value);
                }
            }
        }
    }
    text.head(REPEATED);
    for link in outputs() {
        text.sample(REPEATED.name, &[("link", &link.name)], link.repeated as f64);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_link::PathCounts;
    use tidegate_types::units::Rate;

    use super::*;
    use crate::observe::status::links::LinkView;

    #[test]
    fn lost_and_marked_packets_are_told_by_path_in_the_metrics_and_in_the_status() {
        let path = PathFigures {
            name: "lte".into(),
            transport: Some("quic"),
            state: PathHealth::Up,
            rate: Rate::new(250_000.0),
            srtt: None,
            queue_delay: Duration::ZERO,
            loss: 0.03,
            counts: PathCounts { packets: 100, lost: 3, marked: 7, ..PathCounts::default() },
        };
        let link = LinkFigures {
            name: "hq".into(),
            is_output: true,
            paths: vec![path],
            repeated: 0,
            duplicates: 0,
            strange: 0,
        };
        let view = LinkView::from(&link);
        assert_eq!((view.paths[0].lost_packets, view.paths[0].marked_packets), (3, 7));
        let mut text = Text::default();
        encode(&[link], &mut text);
        let text = text.finish();
        for (name, count) in [("lost", 3), ("marked", 7)] {
            let line = format!(
                "tidegate_link_path_{name}_packets_total{{link=\"hq\",path=\"lte\"}} {count}\n"
            );
            assert!(text.contains(&line), "{text}");
        }
    }
}
