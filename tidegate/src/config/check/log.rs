//! Mistakes in `[log]`, and streams that want a log where there is none.

use tidegate_types::limits::LOG_SEGMENT_MAX;

use super::{Findings, Place};
use crate::config::{Accept, Config, LogConfig};

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let section = Place::section("log");
    let LogConfig { directory, bound, segment, key_file, key_env, .. } = &config.log;
    if directory.is_none() {
        if config.log != LogConfig::default() {
            findings.error(section, "no directory: name the folder of the log, or leave [log] out");
        }
        for (place, stream) in config.stream.iter().enumerate() {
            if stream.accept == Some(Accept::Durable) {
                let text = "\"durable\" needs a log: add [log] with a directory, or choose \
                            \"memory\" or \"confirmed\"";
                findings.error(Place::section("stream").to(place).to("accept"), text);
            }
        }
        return;
    }
    if segment.0 <= LOG_SEGMENT_MAX && bound.0.0 / 4 < segment.0.0 {
        let text = format!("less than four segments of {segment}: raise bound or lower segment");
        findings.error(section.to("bound"), text);
    }
    if key_file.is_some() && key_env.is_some() {
        findings
            .error(section.to("key_env"), "a key comes from key_file or from key_env, not both");
    }
}
