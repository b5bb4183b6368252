//! The keys of outputs.

use tidegate_capacity::RateControllerName;
use tidegate_link::path_scheduler::PathSchedulerName;
use tidegate_link::{GUARD_SHARE, RedundancyName};

use super::{File, choices, quoted};
use crate::config::SinkConfig;

pub(super) fn outputs(file: &mut File) {
    file.section(
        "[[output]]",
        "Where records go: any number of these, each of exactly one kind.\n\
         Default: a sink in ./tidegate-data.",
    );
    file.key("name", "\"cloud\"", "As in to = [\"cloud\"]. Default: its kind.");
    file.key(
        "rate",
        "\"auto\"",
        "\"auto\": the capacity is measured. Or a cap on what is measured, such as \"18mbit\". It counts\n\
         records with framing and TLS; TCP and IP headers (3 to 4 % of full packets) are not counted.",
    );
    file.key(
        "law",
        &quoted(RateControllerName::default().name()),
        &format!(
            "How the capacity is found. Default: tide; for a sink unlimited.{}",
            choices(RateControllerName::ALL.map(|one| (one.name(), one.about())))
        ),
    );
    file.key(
        "uplink",
        "\"uplink\"",
        "Outputs that name the same uplink share its capacity. Default: one for all, and for each\n\
         sink its own.",
    );
    file.key(
        "unconfirmed_max",
        &crate::config::outputs::UNCONFIRMED_MAX.to_string(),
        "Records sent and not confirmed at once: what a lost connection sends twice at most.",
    );
    amqp(file);
    file.section("[[output]]", "");
    file.key("name", "\"site\"", "");
    mqtt(file);
    file.section("[[output]]", "");
    file.key("name", "\"hq\"", "");
    link(file);
    file.standing("[[output]]", "");
    file.example("name", "\"archive\"", "");
    sink(file);
}

fn amqp(file: &mut File) {
    file.table("amqp", "An AMQP 0-9-1 broker such as RabbitMQ.");
    file.key(
        "amqp.url",
        "\"amqp://10.0.0.1\"",
        "amqp://host, amqp://host:port/vhost; amqps:// with TLS. Required.",
    );
    tls(file, "amqp");
    file.key("amqp.exchange", "\"amq.topic\"", "Exchange that it publishes to; it must exist.");
    file.key("amqp.routing_key", "\"{topic}\"", "{topic} is the record's topic, with . for /.");
    file.key("amqp.persistent", "true", "Whether the broker keeps records across its restart.");
    file.note(
        "amqp.user",
        "\"gate\"",
        "User name. Default: guest with its well-known password, which RabbitMQ takes from its own\n\
         machine only.",
    );
    file.note("amqp.password_env", "\"CLOUD_PASSWORD\"", "Environment variable with the password.");
    file.note(
        "amqp.password_file",
        "\"/etc/tidegate/cloud\"",
        "File with it. Passwords are never in this file.",
    );
}

fn mqtt(file: &mut File) {
    file.table("mqtt", "An MQTT broker, or another node of Tidegate.");
    file.key(
        "mqtt.url",
        "\"mqtt://10.0.0.2\"",
        "mqtt://host, mqtt://host:port; mqtts:// with TLS. Required.",
    );
    tls(file, "mqtt");
    file.key(
        "mqtt.client_id",
        "\"gate-7-site\"",
        "Prefix of its client ids. Default: node and output.",
    );
    file.key(
        "mqtt.retain",
        "false",
        "Ask the broker to retain records that came with the retain flag.",
    );
    file.note("mqtt.user", "\"gate\"", "User name. Default: none.");
    file.note("mqtt.password_env", "\"SITE_PASSWORD\"", "Environment variable with the password.");
    file.note("mqtt.password_file", "\"/etc/tidegate/site\"", "File with the password.");
}

fn link(file: &mut File) {
    file.table("link", "Another node of Tidegate, by several paths at once: it has a link input.");
    file.key("link.to", "\"hq.example:7443\"", "host:port of its link input. Required.");
    link_files(file);
    file.key(
        "link.paths",
        "[\"wlan0\", \"wwan0\"]",
        "Interfaces, which may come and go, or addresses of them. Default: one path by the routing\n\
         table (\"auto\").",
    );
    file.key(
        "link.schedule",
        &quoted(PathSchedulerName::default().name()),
        &format!(
            "Which path takes the next packet: {}.",
            PathSchedulerName::ALL.map(|name| quoted(name.name())).join(", ")
        ),
    );
    file.key(
        "link.guard",
        &quoted(RedundancyName::default().name()),
        &format!(
            "How records for whose repeat their bound leaves no time are sent: {} (repairs, as many as\n\
             the paths lose; a second path; as all others).",
            RedundancyName::ALL.into_iter().rev().map(|name| quoted(name.name())).collect::<Vec<_>>().join(", ")
        ),
    );
    file.key(
        "link.guard_share",
        &GUARD_SHARE.to_string(),
        "What that may cost at most, for each byte of a record.",
    );
    file.key(
        "link.tcp",
        "\"auto\"",
        "TCP in place of UDP: \"auto\" (where UDP is blocked), \"never\" or \"always\".",
    );
}

/// Keys of what both ends of a link prove.
pub(super) fn link_files(file: &mut File) {
    file.key("link.ca", "\"ca.pem\"", "Authorities of the other end's certificate. Required.");
    file.key("link.certificate", "\"node.pem\"", "The certificate of this node. Required.");
    file.key("link.key", "\"node.key\"", "Its private key. Required.");
}

fn sink(file: &mut File) {
    let SinkConfig { directory, file_max, files, sync, discard } = SinkConfig::default();
    file.table("sink", "JSON lines files on this machine: sink = {} has all defaults.");
    file.key("sink.directory", &quoted(directory.display()), "Folder of the files.");
    file.key(
        "sink.file_max",
        &quoted(file_max),
        "A file of this size is closed and a new one begun.",
    );
    file.key("sink.files", &files.to_string(), "Files kept; the oldest goes.");
    file.key(
        "sink.sync",
        &sync.to_string(),
        "Make lines safe on disk before their records are confirmed, all that wait by one sync. false:\n\
         confirmed is what the kernel has, and a power cut loses it.",
    );
    file.key("sink.discard", &discard.to_string(), "Write nothing: confirm and forget.");
}

/// Keys of TLS towards a far end.
pub(super) fn tls(file: &mut File, kind: &str) {
    let mut note = |key: &str, value, help| file.note(&format!("{kind}.{key}"), value, help);
    note(
        "ca",
        "\"ca.pem\"",
        "With TLS: authorities of the far end's certificate. Default: those that this system trusts.",
    );
    note("certificate", "\"gate.pem\"", "A certificate of our own, where the far end wants one.");
    note("key", "\"gate.key\"", "Its private key.");
}
