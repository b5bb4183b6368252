//! From the outputs of a configuration to those of a node, each at its place, with the uplinks that they are on.

use std::sync::Arc;

use tidegate_node::io::UplinkId;
use tidegate_node::options::{OutputOptions, UplinkOptions};
use tidegate_types::units::Size;

use crate::config::{Config, OutputConfig};
use crate::output::kind::OutputKind;

/// When each output confirms a record, at its place.
pub(super) fn what_confirms(config: &Config) -> Arc<[&'static str]> {
    config.output.iter().map(OutputConfig::confirms).collect()
}

/// Outputs with their uplinks. Those that share one have the rate and law of the first of them that is not gone.
pub(crate) fn all_outputs(outputs: &[OutputConfig]) -> (Vec<OutputOptions>, Vec<UplinkOptions>) {
    let mut uplinks = Vec::new();
    let all = outputs.iter().map(|spec| output(spec, &mut uplinks)).collect();
    for uplink in &mut uplinks {
        let is_on_it = |spec: &&OutputConfig| !spec.is_gone && *spec.uplink() == *uplink.name;
        if let Some(first) = outputs.iter().find(is_on_it) {
            (uplink.controller, uplink.cap) = (first.controller(), first.rate.cap());
        }
    }
    (all, uplinks)
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
            ..UplinkOptions::default()
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

#[cfg(test)]
mod tests {
    use tidegate_types::units::Rate;

    use super::*;
    use crate::config::read;

    #[test]
    fn an_uplink_has_the_rate_of_the_first_output_that_is_not_gone() {
        let text = "[[output]]\nname = \"a\"\nrate = \"18mbit\"\nmqtt = { url = \"mqtt://10.0.0.1\" }\n\
                    [[output]]\nname = \"b\"\nrate = \"6mbit\"\nmqtt = { url = \"mqtt://10.0.0.2\" }\n";
        let mut config = read(text).config;
        let cap = |config: &Config| all_outputs(&config.output).1[0].cap;
        assert_eq!(cap(&config), Some(Rate::from_bits(18e6)));
        config.output[0].is_gone = true;
        assert_eq!(cap(&config), Some(Rate::from_bits(6e6)));
        assert_eq!(what_confirms(&config).len(), 2, "each is told at its place");
    }
}
