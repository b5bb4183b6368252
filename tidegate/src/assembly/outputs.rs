//! From the outputs of a configuration to those of a node, each at its place, with the uplinks that they are on.

use std::sync::Arc;

use tidegate_node::io::UplinkId;
use tidegate_node::options::{OutputOptions, UplinkOptions};
use tidegate_types::units::Size;

use crate::config::{Config, OutputConfig};
use crate::output::kind::OutputKind;

/// When each output confirms a record.
pub(super) fn what_confirms(config: &Config) -> Arc<[&'static str]> {
    let those = config.output.iter().filter(|output| !output.is_gone);
    those.map(OutputConfig::confirms).collect()
}

/// Outputs with their uplinks.
pub(super) fn all_outputs(outputs: &[OutputConfig]) -> (Vec<OutputOptions>, Vec<UplinkOptions>) {
    let mut uplinks = Vec::new();
    let outputs = outputs.iter().map(|spec| output(spec, &mut uplinks)).collect();
    (outputs, uplinks)
}

/// Converts an output; an uplink that no output before it named is added.
fn output(output: &OutputConfig, uplinks: &mut Vec<UplinkOptions>) -> OutputOptions {
    let name: Arc<str> = output.uplink().into();
    let known = uplinks.iter().position(|uplink| uplink.name == name);
    let place = known.unwrap_or_else(|| {
        let controller = output.controller();
        let cap = output.rate.cap();
        uplinks.push(UplinkOptions {
            name,
            controller,
            cap,
            queue: output.queue.below(),
            remembered: None,
        });
        uplinks.len() - 1
    });
    OutputOptions {
        name: output.label().into(),
        uplink: UplinkId(place as u16),
        overhead: output.kind().map_or(Size::ZERO, OutputKind::overhead),
        unconfirmed_max: output.unconfirmed_max(),
        one_lane: output.is_one_connection(),
        is_gone: output.is_gone,
    }
}
