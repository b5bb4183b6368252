//! Tests of the reference.

use serde::de::{Deserializer, Visitor};

use super::super::{
    AllowConfig, AmqpConfig, ClassConfig, GroupConfig, HttpConfig, InputConfig, LimitsConfig,
    LinkInputConfig, LinkOutputConfig, MqttClientConfig, MqttInputConfig, MqttOutputConfig,
    OperatorConfig, OutputConfig, PlacedConfig, ProxyListenerConfig, QuotaConfig, ReplayConfig,
    RouteConfig, ScriptConfig, SinkConfig, TlsConfig, UpstreamConfig, read,
};
use super::*;

#[test]
fn the_reference_is_a_right_configuration() {
    for text in [with_samples(), render(), MINIMAL.to_owned()] {
        let told = read(&text).render("reference.toml", &text);
        assert_eq!(told, "");
    }
}

#[test]
fn the_printed_file_means_what_an_empty_one_means() {
    let mut empty = read("").config;
    // Times of a listener are known by what is left out, too.
    for mqtt in empty.input.iter_mut().filter_map(|input| input.mqtt.as_mut()) {
        mqtt.session_expiry = Some(mqtt.session_expiry());
        mqtt.connect_timeout = Some(mqtt.connect_timeout());
        mqtt.idle_timeout = Some(mqtt.idle_timeout());
        mqtt.packet_timeout = Some(mqtt.packet_timeout());
        mqtt.write_timeout = Some(mqtt.write_timeout());
    }
    assert_eq!(read(&render()).config, empty);
}

#[test]
fn every_sample_comes_into_force_without_its_mark() {
    let is_toml = |line: &&str| line.starts_with('[') || line.contains(" = ");
    let printed = render();
    let bare = |line: &str| line.strip_prefix('#').unwrap_or(line).trim_start().to_owned();
    let lines = |text: &str| -> Vec<String> { text.lines().map(bare).collect() };
    assert_eq!(lines(&printed), lines(&with_samples()), "only marks differ");
    let marked = printed.lines().filter_map(|line| line.strip_prefix('#'));
    let samples: Vec<&str> = marked.filter(|line| !line.starts_with(' ')).collect();
    assert!(samples.len() > 100 && samples.iter().all(is_toml), "{samples:#?}");
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
    let text = with_samples();
    let lines: Vec<&str> = text.lines().map(|line| line.trim_start_matches("# ")).collect();
    let stands = |start: String| lines.iter().any(|line| line.starts_with(&start));
    for section in fields::<Config>() {
        let is_there = stands(format!("[{section}]")) || stands(format!("[[{section}]]"));
        assert!(is_there, "[{section}] is not explained");
    }
    let kinds = ["mqtt", "mqtt_client", "link", "replay", "amqp", "sink"];
    let plain = [
        fields::<NodeConfig>(),
        fields::<InputConfig>(),
        fields::<ClassConfig>(),
        fields::<StreamConfig>(),
        fields::<OutputConfig>(),
        fields::<HttpConfig>(),
        fields::<LimitsConfig>(),
        fields::<LogConfig>(),
        fields::<QuotaConfig>(),
        fields::<ScriptConfig>(),
        fields::<OperatorConfig>(),
        fields::<GroupConfig>(),
        fields::<PlacedConfig>(),
        fields::<ProxyListenerConfig>(),
        fields::<UpstreamConfig>(),
        fields::<RouteConfig>(),
    ];
    for key in plain.concat().into_iter().filter(|key| !kinds.contains(key)) {
        assert!(stands(format!("{key} = ")), "{key} is not explained");
    }
    for key in [fields::<TlsConfig>(), fields::<AllowConfig>()].concat() {
        assert!(text.contains(&format!("{key} = ")), "{key} is not explained");
    }
    let inner = [
        ("mqtt", fields::<MqttInputConfig>()),
        ("mqtt_client", fields::<MqttClientConfig>()),
        ("link", fields::<LinkInputConfig>()),
        ("link", fields::<LinkOutputConfig>()),
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
        let lone = beside(&key);
        let text = format!("{lone}{key} = {value}\n");
        assert_eq!(read(&text).render("reference.toml", &text), "");
    }
    assert_eq!(commented_keys().len(), 59);
}

/// What must stand before a key for it to be right.
fn beside(key: &str) -> String {
    let script = "[[script]]\nname = \"shed\"\nfile = \"shed.luau\"\n";
    if fields::<ScriptConfig>().contains(&key) {
        let own = format!("{key} = ");
        let others = script.lines().filter(|line| !line.starts_with(&own));
        return others.map(|line| format!("{line}\n")).collect();
    }
    if fields::<OperatorConfig>().contains(&key) {
        let whole =
            "[[operator]]\nname = \"a\"\nfrom = [\"a\"]\nto = \"b\"\ndo = [{ parse = \"json\" }]\n";
        let own = format!("{key} = ");
        let others = whole.lines().filter(|line| !line.starts_with(&own));
        return others.map(|line| format!("{line}\n")).collect();
    }
    if key == "pool_threads" {
        return "[node]\n".into();
    }
    if key == "script" {
        return format!("{script}[[stream]]\n");
    }
    let output =
        |kind: &str, more: &str| format!("[[output]]\n{kind}.url = \"{kind}://h\"\n{more}");
    let client = |more: &str| format!("[[input]]\nmqtt_client.url = \"mqtt://h\"\n{more}");
    match key.split_once('.') {
        None if key == "cap" => "[[class]]\nname = \"x\"\nlatency = \"1s\"\n".into(),
        None if key == "stored" => "[log]\ndirectory = \"d\"\n[[stream]]\n".into(),
        None if key.contains("key_") => "[log]\ndirectory = \"d\"\n".into(),
        None => "[[stream]]\n".into(),
        Some(("link", _)) => "[[input]]\nlink.listen = \"[::]:7443\"\nlink.ca = \"a\"\n\
             link.certificate = \"b\"\nlink.key = \"c\"\n"
            .into(),
        Some(("replay", _)) => "[[input]]\nreplay.file = \"a.csv\"\n".into(),
        Some(("mqtt", "anonymous" | "allow")) => {
            "[[input]]\nmqtt.listen = \"127.0.0.1:1883\"\nmqtt.users = \"users\"\n".into()
        }
        Some(("mqtt", "user_from")) => "[[input]]\nmqtt.listen = \"127.0.0.1:1883\"\n\
             mqtt.tls = { certificate = \"a\", key = \"b\", client_ca = \"c\" }\n"
            .into(),
        Some(("mqtt", key)) if fields::<MqttInputConfig>().contains(&key) => {
            "[[input]]\nmqtt.listen = \"127.0.0.1:1883\"\n".into()
        }
        Some((kind, key @ ("ca" | "certificate" | "key"))) => {
            let others = ["ca", "certificate", "key"].into_iter().filter(|other| *other != key);
            let others: String = others.map(|key| format!("{kind}.{key} = \"x\"\n")).collect();
            match kind {
                "mqtt_client" => format!("[[input]]\n{kind}.url = \"mqtts://h\"\n{others}"),
                _ => format!("[[output]]\n{kind}.url = \"{kind}s://h\"\n{others}"),
            }
        }
        Some(("amqp", "user")) => output("amqp", "amqp.password_env = \"P\"\n"),
        Some(("mqtt_client", "user")) => client(""),
        Some(("mqtt_client", _)) => client("mqtt_client.user = \"gate\"\n"),
        Some((kind, "user")) => output(kind, ""),
        Some((kind, _)) => output(kind, &format!("{kind}.user = \"gate\"\n")),
    }
}

/// The sections of a group, which stand together or not at all, and the text around them.
fn apart(text: &str) -> (String, String) {
    let (before, rest) = text.split_once("# [group]").unwrap();
    let (group, after) = rest.split_once("\n[fleet]").unwrap();
    let lines = group.lines().filter_map(|line| line.strip_prefix("# "));
    let is_toml = |line: &&str| line.starts_with('[') || line.contains(" = ");
    let group: String = lines.filter(is_toml).map(|line| format!("{line}\n")).collect();
    (format!("[node]\nname = \"gate-7\"\n[group]\n{group}"), format!("{before}{after}"))
}

#[test]
fn the_sections_of_a_group_are_right_together() {
    let (text, _) = apart(&with_samples());
    assert_eq!(read(&text).render("reference.toml", &text), "");
}

fn commented_keys() -> Vec<(String, String)> {
    let (_, text) = apart(&with_samples());
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
