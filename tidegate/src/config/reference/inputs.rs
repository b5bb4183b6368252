//! The keys of inputs.

use super::outputs::{link_files, tls};
use super::{File, quoted};
use crate::config::{LinkInputConfig, MqttInputConfig};

pub(super) fn inputs(file: &mut File) {
    file.standing(
        "[[input]]",
        "Where records come from: any number of these, each of exactly one kind.\n\
         Default: an MQTT listener on 127.0.0.1:1883 and [::1]:1883.",
    );
    mqtt(file);
    file.section("[[input]]", "");
    mqtt_client(file);
    file.section("[[input]]", "");
    link(file);
    file.section("[[input]]", "");
    replay(file);
}

fn link(file: &mut File) {
    let LinkInputConfig { window, tcp, .. } = LinkInputConfig::default();
    file.table("link", "Other nodes of Tidegate, by several paths each: they have a link output.");
    file.key(
        "link.listen",
        "[\"0.0.0.0:7443\", \"[::]:7443\"]",
        "One address or a list, of UDP, and of TCP for those whose UDP is blocked. Required.",
    );
    link_files(file);
    file.note(
        "link.from",
        "[\"gate-7\"]",
        "Names in certificates that may come. Default: all whose certificate is from ca.",
    );
    file.note(
        "link.vouches",
        "{ relay-1 = [\"gate-7\"], hub = [\"*\"] }",
        "Whose records a node may bring under their own names, beside its own: one that relays. \"*\" is\n\
         everybody. Such names count as proven.",
    );
    file.key(
        "link.unproven",
        "\"take\"",
        "What becomes of a record that bears the name of another node than the one whose certificate came,\n\
         without proof: \"take\" (taken, told and counted; it never stands for a rightful one) or \"refuse\"\n\
         (dropped by its sender with the reason refused).",
    );
    file.key(
        "link.window",
        &quoted(window),
        "Bytes of records of one node that are on their way or not accepted yet.",
    );
    file.key("link.tcp", &tcp.to_string(), "Whether to listen on TCP as well.");
}

/// The listener.
fn mqtt(file: &mut File) {
    file.table(
        "mqtt",
        "Clients of MQTT 3.1.1 and 5, which publish and subscribe (docs/BROKER.md).",
    );
    file.key(
        "mqtt.listen",
        "[\"127.0.0.1:1883\", \"[::1]:1883\"]",
        "One address or a list. Without TLS: beyond loopback, in a network that you trust only.",
    );
    file.note(
        "mqtt.tls",
        "{ certificate = \"node.pem\", key = \"node.key\", client_ca = \"ca.pem\" }",
        "TLS 1.2 and 1.3, which every client of this listener must then speak. PEM files: the\n\
         certificate with what leads to its authority, its key, and, where clients must show a\n\
         certificate too, the authorities of theirs. `tidegate keys` makes such files.",
    );
    rights(file);
    file.key(
        "mqtt.refused",
        "\"close\"",
        "What a client before MQTT 5 hears of a publish that is refused, for there are no words for\n\
         it: \"close\" (no acknowledgement; the connection is closed) or \"drop\" (acknowledged, and\n\
         counted in tidegate_input_dropped_records_total).",
    );
    file.key(
        "mqtt.session_expiry",
        &quoted(MqttInputConfig::default().session_expiry()),
        "How long the session of a client that is away is kept, if it asks for that long: what it has\n\
         subscribed to, what waits for it, and what is known of its QoS 2 publishes. Whole seconds;\n\
         \"0s\" keeps none.",
    );
    file.note(
        "mqtt.keepalive_max",
        "\"60s\"",
        "Longest keepalive of MQTT 5 clients, which are told so. Whole seconds. Default: what they ask.",
    );
    timeouts(file);
}

/// How long clients of an MQTT listener may take.
fn timeouts(file: &mut File) {
    let mqtt = MqttInputConfig::default();
    file.key(
        "mqtt.connect_timeout",
        &quoted(mqtt.connect_timeout()),
        "How long a new connection may take until its client is let in: TLS, CONNECT, password.",
    );
    file.key(
        "mqtt.idle_timeout",
        &quoted(mqtt.idle_timeout()),
        "How long a client that asked for no keepalive may be silent; \"0s\" is for ever.",
    );
    file.key(
        "mqtt.packet_timeout",
        &quoted(mqtt.packet_timeout()),
        "How long a packet above 32 KiB may take from then on while others wait for its room.",
    );
    file.key(
        "mqtt.write_timeout",
        &quoted(mqtt.write_timeout()),
        "How long a client may leave unread what it is sent.",
    );
}

/// Users of an MQTT listener, and what they may.
fn rights(file: &mut File) {
    file.note(
        "mqtt.users",
        "\"/etc/tidegate/users\"",
        "File of users and hashed passwords, which `tidegate user` makes; it is read again when it\n\
         changes. Clients without a user name are then refused.",
    );
    file.note("mqtt.anonymous", "true", "Clients without a user name may come in: beside users, or, where no users are given, on an\n\
         address beyond loopback without the warning that anybody can.");
    file.note(
        "mqtt.user_from",
        "\"certificate\"",
        "\"password\", or \"certificate\": the common name of the client's certificate is its user name.\n\
         Default: password.",
    );
    file.note(
        "mqtt.allow",
        "[{ user = \"plc-*\", topics = [\"factory/%u/#\"], subscribe = [\"orders/%u/#\"] }]",
        "Who may publish to what (topics) and subscribe to what (subscribe): user is a pattern (left\n\
         out: everybody), %u the user's own name. A client has the rights of all entries that fit.\n\
         Default: everything for everybody.",
    );
}

fn mqtt_client(file: &mut File) {
    file.table("mqtt_client", "The topics of an existing broker, as a client of it.");
    file.key(
        "mqtt_client.url",
        "\"mqtt://10.0.0.3\"",
        "mqtt://host, mqtt://host:port; mqtts:// with TLS. Required.",
    );
    tls(file, "mqtt_client");
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

fn replay(file: &mut File) {
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
