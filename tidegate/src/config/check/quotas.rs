//! Mistakes in `[[quota]]`.

use tidegate_types::limits::STREAMS_MAX;
use tidegate_types::shares::alone;
use tidegate_types::units::Size;

use super::{Findings, Place};
use crate::config::units::ByteSize;
use crate::config::{Config, QuotaConfig};

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let mut everybody = None;
    for (index, quota) in config.quota.iter().enumerate() {
        let place = Place::section("quota").to(index);
        let QuotaConfig { user, session_expiry, log, .. } = quota;
        if let Some(earlier) = everybody {
            let text = format!(
                "never used: quota {earlier} has no user and so holds for everybody; put it last"
            );
            findings.error(place.clone(), text);
        } else if user.is_none() {
            everybody = Some(index + 1);
        }
        if *quota == (QuotaConfig { user: user.clone(), ..QuotaConfig::default() }) {
            findings
                .warning(place.clone(), "it bounds nothing: give connections = 10, for example");
        }
        if session_expiry.is_some_and(|time| time.0.subsec_nanos() > 0) {
            findings.error(place.to("session_expiry"), "clients are told whole seconds");
        }
        let record = config.limits.record_max;
        if log.is_some_and(|log| log.0 < record.0) {
            let text = format!("less than one record of limits.record_max, which is {record}");
            findings.error(place.to("log"), text);
        }
        if log.is_some() && config.log.directory.is_none() {
            findings.warning(place.to("log"), "there is no [log] of which it could be a part");
        }
        beyond_shares(config, quota, &place, findings);
    }
}

/// Quotas that are more than one user ever gets, whose share holds as well.
fn beyond_shares(config: &Config, quota: &QuotaConfig, place: &Place, findings: &mut Findings) {
    let beyond =
        |most: String| format!("one user alone gets {most} at most, so this changes nothing");
    let listeners = config.input.iter().filter(|input| input.mqtt.is_some()).count() as u64;
    let connections = alone(config.limits.connections.into()) * listeners.max(1);
    if quota.connections.is_some_and(|most| u64::from(most) > connections) {
        let most = format!("61 % of limits.connections on each listener, {connections} in all,");
        findings.warning(place.clone().to("connections"), beyond(most));
    }
    let streams = alone(STREAMS_MAX as u64);
    if quota.streams.is_some_and(|most| u64::from(most) > streams) {
        let most = format!("61 % of all streams, which is {streams},");
        findings.warning(place.clone().to("streams"), beyond(most));
    }
    let log = Size(alone(config.log.bound.0.0 / 8 * 7));
    if quota.log.is_some_and(|most| most.0 > log) {
        let most = format!("61 % of 7/8 of log.bound, which is {},", ByteSize(log));
        findings.warning(place.clone().to("log"), beyond(most));
    }
}

#[cfg(test)]
mod tests {
    use crate::config::read;

    #[test]
    fn quotas_that_cannot_hold_are_told() {
        let text = "[[quota]]\nconnections = 0\nstreams = 0\nsession_expiry = \"1500ms\"\n\
                    [[quota]]\nuser = \"plc-*\"\nlog = \"1KiB\"\n";
        let told = read(text).render("node.toml", text);
        for word in [
            "nobody could",
            "nothing could be published",
            "whole seconds",
            "never used",
            "less than one record",
        ] {
            assert!(told.contains(word), "{word}: {told}");
        }
        let text = "[[quota]]\nconnections = 1000000\nstreams = 1000000\nlog = \"54MiB\"\n\
                    [log]\ndirectory = \"log\"\nbound = \"100MiB\"\n";
        let told = read(text).render("node.toml", text);
        assert_eq!(told.matches("so this changes nothing").count(), 3, "{told}");
        let text = text.replace("54MiB", "53MiB");
        let told = read(&text).render("node.toml", &text);
        assert_eq!(told.matches("so this changes nothing").count(), 2, "{told}");
        let text = "[[quota]]\nuser = \"plc-*\"\nconnections = 2\n[[quota]]\nlog = \"10MiB\"\n\
                    [log]\ndirectory = \"log\"\n";
        assert_eq!(read(text).render("node.toml", text), "");
    }
}
