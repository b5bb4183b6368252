//! The reference file: every key with its default and what it does. `tidegate config` prints it, and
//! `docs/reference.toml` is a copy that a test holds equal.
//!
//! Defaults are written from the default values themselves, so that the text cannot drift from them.

use std::fmt::Write;

use super::{Config, HttpConfig, LimitsConfig, LogConfig, NodeConfig, SinkConfig, StreamConfig};

/// The whole file. It is a right configuration.
pub fn render() -> String {
    let mut file = File(String::new());
    file.prose(
        "Tidegate: every key of a configuration, with its default where it has one.\n\
         A section that is left out has a default that works; an empty file is a node on loopback.\n\
         Units stand in the values: \"50ms\" (ns us ms s m h d), \"18mbit\" (bit kbit mbit gbit, per\n\
         second), \"16MiB\" (B KiB MiB GiB, or kB MB GB).\n\
         Check a file with: tidegate check FILE",
    );
    node(&mut file);
    inputs(&mut file);
    classes(&mut file);
    streams(&mut file);
    outputs(&mut file);
    http_and_limits(&mut file);
    log(&mut file);
    file.0
}

fn node(file: &mut File) {
    let NodeConfig { scheduler: _, stop_timeout, .. } = NodeConfig::default();
    file.section("[node]", "The node itself.");
    file.key(
        "name",
        "\"gate-7\"",
        "Its name in every record's identity. Default: the host's name.",
    );
    file.key(
        "scheduler",
        "\"tidegate\"",
        "Who picks the next record: \"tidegate\" (urgent first, with minimum shares), \"native\"\n\
         (one queue for everything, first come first served), or for comparison \"janus\" and\n\
         \"janus-paper\" (docs/algorithms-janus.md).",
    );
    file.key(
        "stop_timeout",
        &quoted(stop_timeout),
        "How long a stop waits for the outputs to deliver what is held; the rest is then dropped.",
    );
}

fn inputs(file: &mut File) {
    file.section(
        "[[input]]",
        "Where records come from: any number of these, each of exactly one kind.\n\
         Default: an MQTT listener on 127.0.0.1:1883 and [::1]:1883.",
    );
    file.table("mqtt", "Clients of MQTT 3.1.1 and 5.");
    file.key(
        "mqtt.listen",
        "[\"127.0.0.1:1883\", \"[::1]:1883\"]",
        "One address or a list. There is no TLS and no password yet: beyond loopback, keep it in a\n\
         network that you trust.",
    );
    file.key(
        "mqtt.refused",
        "\"close\"",
        "What a client before MQTT 5 hears of a publish that is refused, for there are no words for\n\
         it: \"close\" (no acknowledgement; the connection is closed) or \"drop\" (acknowledged, and\n\
         counted in tidegate_input_dropped_records_total).",
    );
    file.key(
        "mqtt.session_expiry",
        &quoted(super::MqttInputConfig::default().session_expiry()),
        "How long the session of a client that is away is kept, if it asks for that long: what is\n\
         known of its QoS 2 publishes. Whole seconds; \"0s\" keeps none.",
    );
    mqtt_client(file);
    file.section("[[input]]", "");
    file.table("replay", "A file that is played as if its records came now.");
    file.key("replay.file", "\"readings.csv\"", "The file. Required.");
    file.key(
        "replay.format",
        "\"csv\"",
        "\"csv\" (with a head line), \"jsonl\" (one object a line) or \"senml\" (RFC 8428, one pack a\n\
         line). Default: by the file's ending (.csv, .jsonl, .ndjson, .senml).",
    );
    file.key(
        "replay.topic",
        "\"replay/readings\"",
        "Topic of its records. Default: replay/<file name>.",
    );
    file.key("replay.time", "\"timestamp\"", "Column or field that says when a record was made.");
    file.key("replay.speed", "1.0", "Multiple of the recorded speed. Default: 1.");
    file.note("replay.records_per_second", "100.0", "A steady rate, in place of speed.");
    file.key("replay.repeat", "false", "Begin again at the end.");
}

fn classes(file: &mut File) {
    file.section(
        "[[class]]",
        "A named latency bound, most urgent first; streams with a bound up to it belong to it.\n\
         Default: these three.",
    );
    let defaults = Config::default().completed().class;
    for (index, class) in defaults.iter().enumerate() {
        let (name, latency) = (class.name.clone(), class.latency);
        if index > 0 {
            file.section("[[class]]", "");
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
        if index == 0 {
            let share = |share: Option<f64>| share.unwrap_or_default().to_string();
            file.key(
                "min_share",
                &share(class.min_share),
                "Part of the uplink that is its own while it has a backlog. Together at most 1.",
            );
            file.key(
                "late_share",
                &share(class.late_share),
                "Part of its service that late records get while live ones wait too.",
            );
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
        "Outputs; a record goes to each of them. Default: the first output.",
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
    file.key("memory", &quoted(memory), "Bound on the bytes held of each client's stream.");
    file.key("ttl", "\"10m\"", "How long its records are worth sending. Default: for ever.");
    file.key(
        "accept",
        "\"durable\"",
        "When a sender is told that its record is accepted: \"memory\" (it is queued), \"durable\" (it is\n\
         safe in the log) or \"confirmed\" (every output's far end has it). Default: \"durable\" with a\n\
         [log], else \"memory\".",
    );
}

fn outputs(file: &mut File) {
    let SinkConfig { directory, file_max, files, discard } = SinkConfig::default();
    file.section(
        "[[output]]",
        "Where records go: any number of these, each of exactly one kind.\n\
         Default: a sink in ./tidegate-data.",
    );
    file.key("name", "\"cloud\"", "As in to = [\"cloud\"]. Default: its kind.");
    file.key(
        "rate",
        "\"auto\"",
        "\"auto\": the capacity is measured. Or a cap on what is measured, such as \"18mbit\".",
    );
    file.key(
        "law",
        "\"tide\"",
        "How the capacity is measured: \"tide\", \"bbr\", \"copa\", \"ledbat\"; \"known\" sends at 92 % of a\n\
         given rate, \"unlimited\" has no network below. Default: tide; for a sink unlimited.",
    );
    file.key(
        "uplink",
        "\"uplink\"",
        "Outputs that name the same uplink share its capacity. Default: one for all, and for each\n\
         sink its own.",
    );
    file.key(
        "unconfirmed_max",
        &crate::assemble::UNCONFIRMED_MAX.to_string(),
        "Records sent and not confirmed at once: what a lost connection sends twice at most.",
    );
    file.table("amqp", "An AMQP 0-9-1 broker such as RabbitMQ.");
    file.key("amqp.url", "\"amqp://10.0.0.1\"", "amqp://host, amqp://host:port/vhost. Required.");
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
    mqtt_output(file);
    file.section("[[output]]", "");
    file.key("name", "\"archive\"", "");
    file.table("sink", "JSON lines files on this machine: sink = {} has all defaults.");
    file.key("sink.directory", &quoted(directory.display()), "Folder of the files.");
    file.key(
        "sink.file_max",
        &quoted(file_max),
        "A file of this size is closed and a new one begun.",
    );
    file.key("sink.files", &files.to_string(), "Files kept; the oldest goes.");
    file.key("sink.discard", &discard.to_string(), "Write nothing: confirm and forget.");
}

fn mqtt_client(file: &mut File) {
    file.section("[[input]]", "");
    file.table("mqtt_client", "The topics of an existing broker, as a client of it.");
    file.key("mqtt_client.url", "\"mqtt://10.0.0.3\"", "mqtt://host, mqtt://host:port. Required.");
    file.key("mqtt_client.topics", "[\"#\"]", "Topic filters.");
    file.key(
        "mqtt_client.client_id",
        "\"gate-7-in\"",
        "The broker keeps the session under it. Default: node and broker.",
    );
    file.key(
        "mqtt_client.qos",
        "1",
        "0, 1 or 2. With 0 records are lost while there is no connection.",
    );
    file.key(
        "mqtt_client.version",
        "\"auto\"",
        "\"5\", \"3.1.1\", or \"auto\": 5, and 3.1.1 with a broker that knows no better.",
    );
    file.key(
        "mqtt_client.allow_loop",
        "false",
        "Allow an MQTT output to send the same topics to the same broker.",
    );
    file.note("mqtt_client.user", "\"gate\"", "User name. Default: none.");
    file.note("mqtt_client.password_env", "\"PLANT_PASSWORD\"", "Environment variable with it.");
    file.note("mqtt_client.password_file", "\"/etc/tidegate/plant\"", "File with the password.");
}

fn mqtt_output(file: &mut File) {
    file.section("[[output]]", "");
    file.key("name", "\"site\"", "");
    file.table("mqtt", "An MQTT broker, or another node of Tidegate.");
    file.key("mqtt.url", "\"mqtt://10.0.0.2\"", "mqtt://host, mqtt://host:port. Required.");
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

fn http_and_limits(file: &mut File) {
    let HttpConfig { listen } = HttpConfig::default();
    let LimitsConfig { memory, record_max, connections } = LimitsConfig::default();
    file.section("[http]", "Status page, /status, /metrics, /healthz and /readyz.");
    let listen = listen.0.first().map(ToString::to_string).unwrap_or_default();
    file.key("listen", &quoted(listen), "One address or a list; [] for none.");
    file.section("[limits]", "Bounds of the whole node.");
    file.key("memory", &quoted(memory), "Bytes of records held.");
    file.key("record_max", &quoted(record_max), "One record: topic, properties and payload.");
    file.key("connections", &connections.to_string(), "Client connections.");
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
    file.key("commit_max", &commit_max.to_string(), "Entries that one commit takes at most.");
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

fn quoted(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}

/// The file in the making.
struct File(String);

impl File {
    fn prose(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.is_empty()) {
            let _ = writeln!(self.0, "# {line}");
        }
    }

    fn section(&mut self, header: &str, help: &str) {
        self.0.push('\n');
        self.prose(help);
        let _ = writeln!(self.0, "{header}");
    }

    /// A table inside a section; its keys are dotted.
    fn table(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.0, "# --- {name}: {help}");
    }

    fn key(&mut self, name: &str, value: &str, help: &str) {
        self.prose(help);
        let _ = writeln!(self.0, "{name} = {value}");
    }

    /// A key that cannot stand beside the others, or has no default.
    fn note(&mut self, name: &str, value: &str, help: &str) {
        self.prose(help);
        let _ = writeln!(self.0, "# {name} = {value}");
    }
}

#[cfg(test)]
mod tests {
    use serde::de::{Deserializer, Visitor};

    use super::super::{
        AmqpConfig, ClassConfig, InputConfig, MqttClientConfig, MqttInputConfig, MqttOutputConfig,
        OutputConfig, ReplayConfig, read,
    };
    use super::*;

    #[test]
    fn the_reference_is_a_right_configuration() {
        let text = render();
        let told = read(&text).render("reference.toml", &text);
        assert_eq!(told, "");
    }

    /// What the derived code of a struct says about itself: the names of its fields.
    #[derive(Default)]
    struct Fields(Vec<&'static str>);

    impl<'de> Deserializer<'de> for &mut Fields {
        type Error = serde::de::value::Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _name: &'static str,
            fields: &'static [&'static str],
            _visitor: V,
        ) -> Result<V::Value, Self::Error> {
            self.0 = fields.to_vec();
            Err(serde::de::Error::custom("only the names are wanted"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
            Err(serde::de::Error::custom("not a struct"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
            unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn fields<T: serde::de::DeserializeOwned>() -> Vec<&'static str> {
        let mut fields = Fields::default();
        assert!(T::deserialize(&mut fields).is_err());
        fields.0
    }

    #[test]
    fn every_key_is_explained() {
        let text = render();
        let lines: Vec<&str> = text.lines().map(|line| line.trim_start_matches("# ")).collect();
        let stands = |start: String| lines.iter().any(|line| line.starts_with(&start));
        for section in fields::<Config>() {
            let is_there = stands(format!("[{section}]")) || stands(format!("[[{section}]]"));
            assert!(is_there, "[{section}] is not explained");
        }
        let kinds = ["mqtt", "mqtt_client", "replay", "amqp", "sink"];
        let plain = [
            fields::<NodeConfig>(),
            fields::<InputConfig>(),
            fields::<ClassConfig>(),
            fields::<StreamConfig>(),
            fields::<OutputConfig>(),
            fields::<HttpConfig>(),
            fields::<LimitsConfig>(),
            fields::<LogConfig>(),
        ];
        for key in plain.concat().into_iter().filter(|key| !kinds.contains(key)) {
            assert!(stands(format!("{key} = ")), "{key} is not explained");
        }
        let inner = [
            ("mqtt", fields::<MqttInputConfig>()),
            ("mqtt_client", fields::<MqttClientConfig>()),
            ("replay", fields::<ReplayConfig>()),
            ("amqp", fields::<AmqpConfig>()),
            ("mqtt", fields::<MqttOutputConfig>()),
            ("sink", fields::<SinkConfig>()),
        ];
        for (kind, keys) in inner {
            assert!(!keys.is_empty());
            for key in keys {
                assert!(stands(format!("{kind}.{key} = ")), "{kind}.{key} is not explained");
            }
        }
    }

    #[test]
    fn commented_keys_are_right_where_they_may_stand() {
        for (key, value) in commented_keys() {
            let lone = match key.split_once('.') {
                None if key == "cap" => "[[class]]\nname = \"x\"\nlatency = \"1s\"\n",
                None if key.contains("key_") => "[log]\ndirectory = \"d\"\n",
                None => "[[stream]]\n",
                Some(("replay", _)) => "[[input]]\nreplay.file = \"a.csv\"\n",
                Some(("amqp", "user")) => {
                    "[[output]]\namqp.url = \"amqp://h\"\namqp.password_env = \"P\"\n"
                }
                Some(("amqp", _)) => "[[output]]\namqp.url = \"amqp://h\"\namqp.user = \"gate\"\n",
                Some(("mqtt_client", "user")) => "[[input]]\nmqtt_client.url = \"mqtt://h\"\n",
                Some(("mqtt_client", _)) => {
                    "[[input]]\nmqtt_client.url = \"mqtt://h\"\nmqtt_client.user = \"gate\"\n"
                }
                Some((_, "user")) => "[[output]]\nmqtt.url = \"mqtt://h\"\n",
                Some(_) => "[[output]]\nmqtt.url = \"mqtt://h\"\nmqtt.user = \"gate\"\n",
            };
            let text = format!("{lone}{key} = {value}\n");
            assert_eq!(read(&text).render("reference.toml", &text), "");
        }
        assert_eq!(commented_keys().len(), 15);
    }

    fn commented_keys() -> Vec<(String, String)> {
        let text = render();
        let notes = text.lines().filter_map(|line| line.strip_prefix("# ")?.split_once(" = "));
        let is_key = |key: &str| key.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
        let keys = notes.filter(|(key, _)| is_key(key));
        keys.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn the_copy_in_the_documentation_is_equal() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference.toml");
        let copy = std::fs::read_to_string(path).unwrap();
        assert!(
            copy == render(),
            "write it anew: cargo run -p tidegate -- config > docs/reference.toml"
        );
    }
}
