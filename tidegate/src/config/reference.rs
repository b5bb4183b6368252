//! The reference file: every key with its default and what it does. `tidegate config` prints it, and
//! `docs/reference.toml` is a copy that a test holds equal.
//!
//! Defaults are written from the default values themselves, so that the text cannot drift from them.

mod frames;
mod group;
mod http;
mod inputs;
mod limits;
mod operators;
mod outputs;
mod proxy;
mod scripts;

use tidegate_schedule::SchedulerName;

use super::{Config, LogConfig, MirrorConfig, NodeConfig, StreamConfig};
use crate::keys::reference::{File, Samples, quoted};

/// A node to begin with: `tidegate config --minimal` prints it.
pub const MINIMAL: &str = "\
# A node: MQTT clients of this machine publish, alarms go before all else, and every record ends in a file.
# All keys: tidegate config. What is wrong with a file: tidegate check FILE. Run it: tidegate run FILE.
[node]
name = \"gate-7\"

[[input]]
mqtt.listen = \"127.0.0.1:1883\"

[[stream]]
topics = [\"alarms/#\"]
latency = \"50ms\"

# What no [[stream]] matches goes to the first output, within a second.
[[output]]
name = \"files\"
sink.directory = \"tidegate-data\"
";

/// The file as it is printed: it means what an empty one means, and samples are commented out.
pub fn render() -> String {
    write(Samples::Commented).text()
}

/// The file with its samples in force. It is a right configuration, too.
pub fn with_samples() -> String {
    write(Samples::InForce).text()
}

fn write(samples: Samples) -> File {
    let mut file = File::new(samples);
    file.prose(
        "Tidegate: every key of a configuration, with its default where it has one.\n\
         What is in force by default stands as it is. What begins with # and no blank is a sample: take the # away,\n\
         and that of its section's head. What is left out has a default that works; an empty file is a node.\n\
         Units stand in the values: \"50ms\" (ns us ms s m h d), \"18mbit\" (bit kbit mbit gbit, per\n\
         second), \"16MiB\" (B KiB MiB GiB, or kB MB GB).\n\
         Check a file with: tidegate check FILE",
    );
    node(&mut file);
    inputs::inputs(&mut file);
    classes(&mut file);
    streams(&mut file);
    outputs::outputs(&mut file);
    scripts::scripts(&mut file);
    operators::operators(&mut file);
    http::http(&mut file);
    limits::limits(&mut file);
    limits::quotas(&mut file);
    log(&mut file);
    mirror(&mut file);
    group::group(&mut file);
    fleet(&mut file);
    proxy::proxy(&mut file);
    frames::frames(&mut file);
    file
}

/// What can be chosen, one line for each.
fn choices<const N: usize>(names: [(&str, &str); N]) -> String {
    names.map(|(name, about)| format!("\n  {}: {about}", quoted(name))).concat()
}

fn node(file: &mut File) {
    let NodeConfig { scheduler, stop_timeout, .. } = NodeConfig::default();
    file.standing("[node]", "The node itself.");
    file.example(
        "name",
        "\"gate-7\"",
        "Its name in every record's identity. Default: the host's name.",
    );
    file.key(
        "scheduler",
        &quoted(scheduler.name()),
        &format!(
            "Who picks the next record (docs/algorithms-janus.md):{}",
            choices(SchedulerName::ALL.map(|one| (one.name(), one.about())))
        ),
    );
    file.key(
        "pool",
        "\"edf\"",
        "Which waiting record the threads of operators take: \"edf\" (the earliest deadline first), \"fifo\", or\n\
         for comparison \"thread-per-topic\".",
    );
    file.note("pool_threads", "4", "Threads of operators. Default: one for each processor.");
    file.key(
        "stop_timeout",
        &quoted(stop_timeout),
        "How long a stop waits for the outputs to deliver what is held; the rest is then dropped.",
    );
}

fn classes(file: &mut File) {
    file.standing(
        "[[class]]",
        "A named latency bound, most urgent first; streams with a bound up to it belong to it.\n\
         Default: these three.",
    );
    let defaults = Config::default().completed().class;
    for (index, class) in defaults.iter().enumerate() {
        let (name, latency) = (class.name.clone(), class.latency);
        if index > 0 {
            file.standing("[[class]]", "");
        }
        let help = |text: &'static str| if index == 0 { text } else { "" };
        file.key(
            "name",
            &quoted(name.unwrap_or_default()),
            help("As in class = \"ls\". Required."),
        );
        file.key(
            "latency",
            &quoted(latency.unwrap_or_default()),
            help("Bound on residence: arrival to the last byte on the wire. Required."),
        );
        let share = |share: Option<f64>| share.unwrap_or_default().to_string();
        file.key(
            "min_share",
            &share(class.min_share),
            help("Part of the uplink that is its own while it has a backlog. Together at most 1."),
        );
        file.key(
            "late_share",
            &share(class.late_share),
            help("Part of its service that late records get while live ones wait too."),
        );
        if index == 0 {
            file.note("cap", "\"10mbit\"", "Never more than this. Default: no cap.");
        }
    }
}

fn streams(file: &mut File) {
    let StreamConfig { block_max, memory, .. } = StreamConfig::default();
    file.section(
        "[[stream]]",
        "Which records matter within which time. The first one whose topics match wins; what none\n\
         matches goes to the first output in the last class.",
    );
    file.key("name", "\"plc\"", "Label in status and metrics. Default: the first topic filter.");
    file.key("topics", "[\"factory/+/plc/#\"]", "MQTT topic filters. Default: everything.");
    file.key("latency", "\"50ms\"", "Bound on residence. This or class; default: the last class.");
    file.note("class", "\"ls\"", "The class whose bound it has, in place of latency.");
    file.key(
        "to",
        "[\"cloud\"]",
        "Outputs; a record goes to each of them, and [] is none: only to clients that have subscribed\n\
         here, who get it in any case. Default: the first output.",
    );
    file.key(
        "order",
        "\"fifo\"",
        "Which waiting record goes next: \"fifo\", \"lifo\", or \"newest-only\" (the newest of each topic;\n\
         older ones are dropped).",
    );
    file.key(
        "strict_order",
        "false",
        "Keep order even across late records: after an outage nothing overtakes inside a stream.",
    );
    file.key(
        "full",
        "\"block\"",
        "What happens to a record that does not fit: \"block\" (its connection is not read until there\n\
         is room), \"drop-oldest\", \"drop-newest\" or \"reject\" (the sender is told).",
    );
    file.key(
        "block_max",
        &quoted(block_max),
        "How long \"block\" holds up a connection; then the stream's records are rejected until it has\n\
         room again, so that other streams of the connection wait once and no longer.",
    );
    file.key(
        "memory",
        &quoted(memory),
        "Bound on the bytes of each client's stream in memory. What is durable and does not fit waits\n\
         in the log.",
    );
    file.note(
        "stored",
        "\"256MiB\"",
        "Bound on those in memory and in the log, where it is durable. Default: that of the log.",
    );
    file.key("ttl", "\"10m\"", "How long its records are worth sending. Default: for ever.");
    file.key(
        "accept",
        "\"durable\"",
        "When a sender is told that its record is accepted: \"memory\" (it is queued), \"durable\" (it is\n\
         safe in the log) or \"confirmed\" (every output's far end has it). Default: \"durable\" with a\n\
         [log], else \"memory\".",
    );
    file.note(
        "script",
        "\"shed\"",
        "The [[script]] that looks at each of its records before it may go. Default: none.",
    );
}

fn log(file: &mut File) {
    let LogConfig { bound, segment, commit_max, commit_delay, standby, .. } = LogConfig::default();
    file.section(
        "[log]",
        "The log, which keeps accepted records over a crash. Without a directory there is none.",
    );
    file.key(
        "directory",
        "\"/var/lib/tidegate/log\"",
        "Folder of its segments, for this node alone.",
    );
    file.key(
        "bound",
        &quoted(bound),
        "Bytes of all segments: records fill seven eighths of it, the rest is for what makes room again.",
    );
    file.key(
        "segment",
        &quoted(segment),
        "Bytes at which a segment is finished; a quarter of bound at most.",
    );
    file.key("commit_max", &commit_max.to_string(), "Records that one commit takes at most.");
    file.key(
        "commit_delay",
        &quoted(commit_delay),
        "How long a commit waits for more than its first entry. What comes while the disk is busy\n\
         goes together in any case.",
    );
    file.key(
        "backlog",
        "\"oldest-first\"",
        "What is sent first of a backlog on disk: \"oldest-first\", or \"newest-first\" (by segment).\n\
         Fresh records go before it in any case.",
    );
    file.note(
        "key_file",
        "\"/etc/tidegate/log.key\"",
        "A key of 64 hexadecimal digits that seals every entry. Default: nothing is sealed.",
    );
    file.note(
        "key_env",
        "\"TIDEGATE_LOG_KEY\"",
        "An environment variable with it, in place of the file.",
    );
    file.note(
        "old_key_files",
        "[\"/etc/tidegate/log.old\"]",
        "Keys of earlier segments: to change the key, name the old one here until its segments are gone.",
    );
    file.key(
        "standby",
        &standby.to_string(),
        "Whether to wait while another process uses the log, and to take over when it ends.",
    );
}

fn mirror(file: &mut File) {
    let MirrorConfig { after, bound, .. } = MirrorConfig::default();
    file.section(
        "[mirror]",
        "This node's log at a neighbour, which sends what is owed when this node is gone; and neighbours'\n\
         logs here. Without to and listen there is none.",
    );
    file.key(
        "to",
        "\"gate-8.example:7445\"",
        "Host and port of the [mirror] listen that keeps this node's log. Default: none.",
    );
    file.key("listen", "\"0.0.0.0:7445\"", "Where other nodes bring their logs. Default: nowhere.");
    file.key("from", "[\"gate-8\"]", "Names of nodes that may. Default: all with a certificate.");
    file.key(
        "directory",
        "\"/var/lib/tidegate/mirror\"",
        "Folder of their logs. A sealed log stays sealed: give its key to [log] old_key_files, or this node\n\
         can keep it and not send it. Required where something is listened on.",
    );
    file.key(
        "after",
        &quoted(after),
        "How long a node may be away before its records are sent from here, marked as records that may\n\
         have arrived. Longer than its restart takes.",
    );
    file.key("bound", &quoted(bound), "Bytes of all their logs together.");
    file.key(
        "ca",
        "\"/etc/tidegate/pki/ca.pem\"",
        "Authorities of all certificates. Default: that of [fleet], as for the next two.",
    );
    file.key(
        "certificate",
        "\"/etc/tidegate/pki/gate-7.pem\"",
        "The certificate of this node; its common name is the node's name.",
    );
    file.key("key", "\"/etc/tidegate/pki/gate-7.key\"", "Its private key.");
}

fn fleet(file: &mut File) {
    file.section(
        "[fleet]",
        "Neighbours carry what the uplink cannot, and the other way round. Without an orchestrator named\n\
         here, and without a standing permit of a neighbour, the node is part of no fleet; while none answers\n\
         it goes on with standing permits alone.",
    );
    file.key(
        "orchestrators",
        "[\"orch-1.example:7400\"]",
        "Host and port of every orchestrator. Default: none, and no fleet.",
    );
    file.key(
        "output",
        "\"cloud\"",
        "The output whose records neighbours may carry, and to which theirs go. Default: the first.",
    );
    file.key("listen", "\"0.0.0.0:7444\"", "Where neighbours dial, by UDP and TCP. Required.");
    file.key("ca", "\"/etc/tidegate/pki/ca.pem\"", "Authorities of all certificates. Required.");
    file.key(
        "certificate",
        "\"/etc/tidegate/pki/gate-7.pem\"",
        "The certificate of this node; its common name is the node's name. Required.",
    );
    file.key("key", "\"/etc/tidegate/pki/gate-7.key\"", "Its private key. Required.");
    file.key(
        "advertise",
        "\"gate-7.example:7444\"",
        "Host and port by which neighbours find `listen`: with it neighbours are found by themselves, and\n\
         every node whose certificate is good may be one. Default: none, only those named below.",
    );
    file.key(
        "site",
        "\"hall-3\"",
        "Only nodes of the same site are named to each other: those that reach each other. Default: one\n\
         site for all that name none.",
    );
    file.key(
        "places",
        "4",
        "How many neighbours that were found it keeps links to at once; a link is opened when the uplink\n\
         is short, and closed a minute after its last use.",
    );
    file.section("[[fleet.peer]]", "A neighbour: it may carry records for us, and we for it.");
    file.key("name", "\"gate-8\"", "Its name, as in its certificate. Required.");
    file.key("to", "\"gate-8.example:7444\"", "Host and port of its [fleet] listen. Required.");
    file.key(
        "standing",
        "\"200kbit\"",
        "What the two may always send by each other, of all classes but the last, whoever leads: the same at\n\
         both. A node honours a tenth of what its uplink carries, all neighbours together. Default: what the\n\
         leader gives.",
    );
}

#[cfg(test)]
mod tests;
