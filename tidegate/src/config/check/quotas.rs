//! Mistakes in `[[quota]]`.

use super::{Findings, Place};
use crate::config::units::ByteSize;
use crate::config::{Config, QuotaConfig};

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let mut everybody = None;
    for (index, quota) in config.quota.iter().enumerate() {
        let place = Place::section("quota").to(index);
        let QuotaConfig { user, connections, streams, session_expiry, log, .. } = quota;
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
        if *connections == Some(0) {
            let text =
                "nobody could connect: give at least 1, or take the user out of the file of users";
            findings.error(place.to("connections"), text);
        }
        if *streams == Some(0) {
            findings.error(place.to("streams"), "nothing could be published: give at least 1");
        }
        if session_expiry.is_some_and(|time| time.0.subsec_nanos() > 0) {
            findings.error(place.to("session_expiry"), "clients are told whole seconds");
        }
        let record = config.limits.record_max;
        if log.is_some_and(|log| log.0 < record.0) {
            let text = format!("less than one record of limits.record_max, which is {record}");
            findings.error(place.to("log"), text);
        }
        let bound = ByteSize(config.log.bound.0);
        if log.is_some() && config.log.directory.is_none() {
            findings.warning(place.to("log"), "there is no [log] of which it could be a part");
        } else if log.is_some_and(|log| log.0 > bound.0) {
            findings.warning(place.to("log"), format!("more than the whole log, which is {bound}"));
        }
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
        let text = "[[quota]]\nuser = \"plc-*\"\nconnections = 2\n[[quota]]\nlog = \"10MiB\"\n\
                    [log]\ndirectory = \"log\"\n";
        assert_eq!(read(text).render("node.toml", text), "");
    }
}
