//! Metrics of uplinks and outputs.

use tidegate_node::status::{NodeStatus, OutputStatus, UplinkStatus};

use super::Metric;
use super::text::Text;

pub(super) const CAPACITY: Metric = Metric::gauge(
    "tidegate_uplink_capacity_bytes_per_second",
    "Estimated capacity; 0 while nothing is known.",
);
pub(super) const WINDOW: Metric =
    Metric::gauge("tidegate_uplink_window_bytes", "Bytes that may be below the scheduler.");
pub(super) const IN_FLIGHT: Metric =
    Metric::gauge("tidegate_uplink_in_flight_bytes", "Bytes that are below the scheduler.");
pub(super) const RTT: Metric =
    Metric::gauge("tidegate_uplink_rtt_seconds", "Newest round trip; absent before the first.");
pub(super) const MIN_RTT: Metric = Metric::gauge(
    "tidegate_uplink_rtt_min_seconds",
    "Smallest round trip of the present path; absent before the first.",
);
pub(super) const LANES: Metric =
    Metric::gauge("tidegate_output_lanes", "Connections that the output may use.");
pub(super) const LANES_UP: Metric =
    Metric::gauge("tidegate_output_up_lanes", "Connections that are up.");
pub(super) const UNCONFIRMED: Metric =
    Metric::gauge("tidegate_output_unconfirmed_records", "Records sent and not confirmed.");

/// Adds all of them.
pub(super) fn encode(status: &NodeStatus, text: &mut Text) {
    uplinks(status, text);
    outputs(status, text);
}

fn uplinks(status: &NodeStatus, text: &mut Text) {
    type Read = fn(&UplinkStatus) -> Option<f64>;
    let gauges: [(Metric, Read); 5] = [
        (CAPACITY, |uplink| Some(uplink.capacity.as_f64())),
        (WINDOW, |uplink| Some(uplink.window.as_f64())),
        (IN_FLIGHT, |uplink| Some(uplink.in_flight.as_f64())),
        (RTT, |uplink| uplink.rtt.map(|rtt| rtt.as_secs_f64())),
        (MIN_RTT, |uplink| uplink.min_rtt.map(|rtt| rtt.as_secs_f64())),
    ];
    for (metric, read) in gauges {
        text.head(metric);
        for uplink in &status.uplinks {
            if let Some(value) = read(uplink) {
                text.sample(metric.name, &[("uplink", &uplink.name)], value);
            }
        }
    }
}

fn outputs(status: &NodeStatus, text: &mut Text) {
    type Read = fn(&OutputStatus) -> u64;
    let gauges: [(Metric, Read); 3] = [
        (LANES, |output| output.lanes as u64),
        (LANES_UP, |output| output.lanes_up as u64),
        (UNCONFIRMED, |output| output.unconfirmed),
    ];
    for (metric, read) in gauges {
        text.head(metric);
        for output in &status.outputs {
            text.sample(metric.name, &[("output", &output.name)], read(output) as f64);
        }
    }
}
