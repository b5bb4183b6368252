//! Tests of the reference.

use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde::de::{Deserializer, IntoDeserializer, Visitor};

use super::super::{
    AllowConfig, ClassConfig, GroupConfig, HttpConfig, InputConfig, LimitsConfig, LinkInputConfig,
    MqttClientConfig, MqttInputConfig, OperatorConfig, OutputConfig, PlacedConfig,
    ProxyListenerConfig, QuotaConfig, ReplayConfig, RouteConfig, ScriptConfig, TlsConfig,
    UpstreamConfig, read,
};
use super::*;
use crate::input::kind::InputKind;
use crate::output::kind::OutputKind;

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

/// The keys of a kind of output: what an `[[output]]` asks for as the value of the kind's own key.
fn fields_of_output(kind: &'static str) -> Vec<&'static str> {
    let mut fields = Fields::default();
    let table = std::iter::once((kind, Value(&mut fields)));
    assert!(OutputConfig::deserialize(MapDeserializer::new(table)).is_err());
    fields.0
}

/// A value that wants to know of which fields it should be.
struct Value<'f>(&'f mut Fields);

impl<'de> IntoDeserializer<'de> for Value<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self.0)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
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
    let outputs = OutputConfig::of_every_kind();
    let outputs: Vec<&str> = outputs.kinds().map(OutputKind::name).collect();
    let common = ["name", "rate", "law", "uplink", "unconfirmed_max"];
    let own = fields::<OutputConfig>().into_iter().filter(|field| !common.contains(field));
    assert_eq!(own.collect::<Vec<_>>(), outputs, "every kind is in the lists");
    let inputs = InputConfig::of_every_kind();
    let inputs: Vec<&str> = inputs.kinds().map(InputKind::name).collect();
    let kinds = [inputs, outputs.clone()].concat();
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
    let inputs = [
        ("mqtt", fields::<MqttInputConfig>()),
        ("mqtt_client", fields::<MqttClientConfig>()),
        ("link", fields::<LinkInputConfig>()),
        ("replay", fields::<ReplayConfig>()),
    ];
    let outputs = outputs.into_iter().map(|kind| (kind, fields_of_output(kind)));
    for (kind, keys) in inputs.into_iter().chain(outputs) {
        assert!(!keys.is_empty());
        for key in keys {
            assert!(stands(format!("{kind}.{key} = ")), "{kind}.{key} is not explained");
        }
    }
}

#[test]
fn commented_keys_are_right_where_they_may_stand() {
    for (key, value) in commented_keys() {
        if let Some((kind, own)) = key.split_once('.')
            && is_of_output(kind, own)
        {
            assert!(stands_in_an_output(kind, &key, &value), "{key} = {value} is never right");
            continue;
        }
        let lone = beside(&key);
        let text = format!("{lone}{key} = {value}\n");
        assert_eq!(read(&text).render("reference.toml", &text), "");
    }
    let mut group = File::new(Samples::InForce);
    group::group(&mut group);
    assert_eq!(commented_keys().len() + group.notes(), write(Samples::InForce).notes());
}

/// Whether a kind of output has the key, and no input of that name.
fn is_of_output(kind: &str, key: &str) -> bool {
    let every = OutputConfig::of_every_kind();
    let kind = every.kinds().map(OutputKind::name).find(|name| *name == kind);
    let is_of_input = match kind {
        Some("mqtt") => fields::<MqttInputConfig>().contains(&key),
        Some("link") => fields::<LinkInputConfig>().contains(&key),
        _ => false,
    };
    kind.is_some_and(|kind| fields_of_output(kind).contains(&key)) && !is_of_input
}

/// Whether a commented key of an output is right beside its url, with TLS or without, and at most two other
/// commented keys of its kind.
fn stands_in_an_output(kind: &str, key: &str, value: &str) -> bool {
    let all = commented_keys();
    let mut others: Vec<String> = vec![String::new()];
    let is_other =
        |other: &&(String, String)| other.0 != key && other.0.split('.').next() == Some(kind);
    others.extend(all.iter().filter(is_other).map(|(key, value)| format!("{key} = {value}\n")));
    let is_right = |scheme: &str, one: &str, two: &str| {
        let url = format!("[[output]]\n{kind}.url = \"{scheme}://h\"\n");
        let text = format!("{url}{one}{two}{key} = {value}\n");
        read(&text).diagnostics.is_empty()
    };
    let secure = format!("{kind}s");
    let schemes = [kind, secure.as_str()].into_iter();
    schemes.flat_map(|scheme| others.iter().map(move |one| (scheme, one))).any(|(scheme, one)| {
        others.iter().any(|two| is_right(scheme, one, if one == two { "" } else { two }))
    })
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
            format!("[[input]]\n{kind}.url = \"mqtts://h\"\n{others}")
        }
        Some((_, "user")) => client(""),
        Some(_) => client("mqtt_client.user = \"gate\"\n"),
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
