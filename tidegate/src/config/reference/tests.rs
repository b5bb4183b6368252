//! Tests of the reference.

use super::super::{
    LinkInputConfig, MqttInputConfig, OperatorConfig, OutputConfig, ScriptConfig, read,
};
use super::*;
use crate::keys::key::Reload;
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
    assert_eq!(read(&render()).config, read("").config);
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

/// Names of the keys of a table.
fn fields<T: Table>() -> Vec<&'static str> {
    T::keys().into_iter().map(|key| key.name).collect()
}

/// The kinds of output.
fn kinds() -> Vec<Key> {
    let keys = OutputConfig::keys().into_iter();
    keys.filter(|key| key.shape().table().is_some()).collect()
}

/// Names of the keys of a kind of output.
fn fields_of_output(kind: &str) -> Vec<&'static str> {
    let kind = kinds().into_iter().find(|key| key.name == kind).unwrap();
    kind.shape().table().unwrap().into_iter().map(|key| key.name).collect()
}

/// Every key in a table and in the tables in it, by its way from the section.
fn walk(
    before: &str,
    keys: &[Key],
    reload: Option<Reload>,
    see: &mut dyn FnMut(&str, &Key, Option<Reload>),
) {
    fn inside(
        way: &str,
        shape: &Shape,
        reload: Option<Reload>,
        see: &mut dyn FnMut(&str, &Key, Option<Reload>),
    ) {
        match shape {
            Shape::Table(keys) => walk(way, &keys(), reload, see),
            Shape::List(inner) => inside(way, inner, reload, see),
            Shape::Choice(choices) => {
                choices
                    .iter()
                    .filter_map(|choice| choice.inner)
                    .for_each(|of| inside(way, &of(), reload, see));
            }
            _ => {}
        }
    }
    for key in keys {
        let (way, reload) = (format!("{before}.{}", key.name), key.reload.or(reload));
        see(&way, key, reload);
        inside(&way, &key.shape(), reload, see);
    }
}

#[test]
fn every_key_has_a_sentence_and_says_when_a_change_counts() {
    let mut seen = 0;
    for kind in [FileKind::Node, FileKind::Orchestrator] {
        walk("", &sections(kind), None, &mut |way, key, reload| {
            let about = key.about();
            assert!(about.ends_with('.') && about.len() > 6, "{way}: {about:?} is no sentence");
            assert!(reload.is_some(), "{way} does not say when a change counts");
            if let Shape::Choice(choices) = key.shape() {
                let all: usize =
                    choices.iter().map(|choice| usize::from(choice.about.ends_with('.'))).sum();
                assert!(all == 0 || all == choices.len(), "{way}: a choice has no sentence");
            }
            seen += 1;
        });
    }
    assert!(seen > 300, "{seen} keys");
}

#[test]
fn a_reload_applies_what_says_so() {
    let applies =
        sections(FileKind::Node).into_iter().filter(|key| key.reload == Some(Reload::Applies));
    let applies: Vec<&str> = applies.map(|key| key.name).collect();
    assert_eq!(applies, ["input", "stream", "script", "operator", "limits", "quota", "proxy"]);
    // A node leaves the last one aside.
    for name in &applies[..6] {
        assert!(crate::assembly::reload::APPLIES.contains(name), "{name}");
    }
}

#[test]
fn every_kind_of_output_is_listed() {
    for kind in kinds() {
        let text = format!("[[output]]\n{} = {{}}\n", kind.name);
        let config = read(&text).config;
        let given: Vec<&str> = config.output[0].kinds().map(OutputKind::name).collect();
        assert_eq!(given, [kind.name]);
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
    let all = Config::keys();
    let group: Vec<Key> =
        all.iter().filter(|key| ["group", "placed"].contains(&key.name)).cloned().collect();
    let notes = |sections: &[Key]| write(Samples::InForce, sections).notes();
    assert_eq!(commented_keys().len() + notes(&group), notes(&all));
}

/// Whether a kind of output has the key, and no input of that name.
fn is_of_output(kind: &str, key: &str) -> bool {
    let kind = kinds().into_iter().map(|key| key.name).find(|name| *name == kind);
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
    if key == "other" {
        return "[[proxy.route]]\nto = \"app\"\n[[proxy.upstream]]\nname = \"app\"\nto = [\"10.0.0.7:80\"]\n\
                [[proxy.listener]]\nlisten = \"127.0.0.1:8080\"\n"
            .into();
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
        Some((_, "alpn")) => "[[input]]\nmqtt_client.url = \"mqtts://h\"\n".into(),
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

#[test]
fn the_page_of_keys_is_equal() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/configuration.md");
    let copy = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        copy == crate::config::page::page(),
        "write it anew: cargo run -p tidegate -- config --markdown > docs/reference/configuration.md"
    );
}
