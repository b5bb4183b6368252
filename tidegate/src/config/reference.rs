//! The reference file: every key with its default and what it does. `tidegate config` prints it, and
//! `docs/reference.toml` is a copy that a test holds equal.
//!
//! It is written from the declarations of the keys (`crate::keys::table`), section by section in their order. A key is
//! shown with its sample, or else with its default.

mod file;

use self::file::{File, Samples};
use super::{ClassConfig, Config, FileKind, OrchestrateConfig};
use crate::keys::key::Key;
use crate::keys::table::Table;
use crate::keys::values::{Choice, Shape, Value, quoted};

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
    write(Samples::Commented, &Config::keys()).text()
}

/// The file with its samples in force. It is a right configuration, too.
pub fn with_samples() -> String {
    write(Samples::InForce, &Config::keys()).text()
}

/// The file of an orchestrator, as it is printed.
pub fn orchestrator() -> String {
    let mut file = File::new(Samples::Commented);
    file.prose(
        "Tidegate: every key of an orchestrator's file, with its default where it has one.\n\
         What begins with # and no blank is a sample: take the # away. Check a file with: tidegate check FILE",
    );
    OrchestrateConfig::keys().iter().for_each(|key| section(&mut file, "", key));
    file.text()
}

/// The sections of a kind of file. What is no orchestrator's is a node's.
pub fn sections(kind: FileKind) -> Vec<Key> {
    match kind {
        FileKind::Orchestrator => OrchestrateConfig::keys(),
        _ => Config::keys(),
    }
}

fn write(samples: Samples, sections: &[Key]) -> File {
    let mut file = File::new(samples);
    file.prose(
        "Tidegate: every key of a configuration, with its default where it has one.\n\
         What is in force by default stands as it is. What begins with # and no blank is a sample: take the # away, \
         and that of its section's head. What is left out has a default that works; an empty file is a node.\n\
         Units stand in the values: \"50ms\" (ns us ms s m h d), \"18mbit\" (bit kbit mbit gbit, per second), \
         \"16MiB\" (B KiB MiB GiB, or kB MB GB).\n\
         Check a file with: tidegate check FILE",
    );
    sections.iter().for_each(|key| section(&mut file, "", key));
    file
}

/// Whether a key of a section is a table of its own: it has no sample of one line.
fn is_table(key: &Key) -> bool {
    key.shape().table().is_some() && key.sample.is_none()
}

/// Whether the tables in a section are its kinds, of which each stands in a section of its own.
fn has_kinds(section: &Key, inner: &Key) -> bool {
    matches!(section.shape(), Shape::List(_)) && matches!(inner.shape(), Shape::Table(_))
}

fn section(file: &mut File, above: &str, key: &Key) {
    let header = key.header(above);
    match (key.is_standing, key.is_apart) {
        (true, _) => file.standing(&header, &key.about()),
        (false, true) => file.commented_section(&header, &key.about()),
        (false, false) => file.section(&header, &key.about()),
    }
    let (tables, keys): (Vec<Key>, Vec<Key>) =
        key.shape().table().unwrap_or_default().into_iter().partition(is_table);
    match key.name {
        "class" => classes(file, &header, &keys),
        _ => keys.iter().for_each(|one| line(file, "", one, key.is_apart)),
    }
    let (kinds, sections): (Vec<Key>, Vec<Key>) =
        tables.into_iter().partition(|inner| has_kinds(key, inner));
    for (index, kind) in kinds.iter().enumerate() {
        match (index, kind.is_standing) {
            (0, _) => {}
            (_, true) => file.standing(&header, ""),
            (_, false) => file.section(&header, ""),
        }
        if let Some(name) = kind.called {
            file.example("name", &quoted(name), "");
        }
        file.table(kind.name, &kind.about());
        let before = format!("{}.", kind.name);
        kind.shape().table().iter().flatten().for_each(|one| line(file, &before, one, false));
    }
    sections.iter().for_each(|inner| section(file, &format!("{above}{}.", key.name), inner));
}

/// The classes that a node has by default, each with its values; the first explains the keys.
fn classes(file: &mut File, header: &str, keys: &[Key]) {
    for (index, class) in Config::default().completed().class.iter().enumerate() {
        if index > 0 {
            file.standing(header, "");
        }
        let ClassConfig { name, latency, min_share, late_share, cap } = class;
        let values = [
            name.written(),
            latency.written(),
            min_share.written(),
            late_share.written(),
            cap.written(),
        ];
        for (key, value) in keys.iter().zip(values) {
            match value {
                Some(value) => file.key(
                    key.name,
                    &value,
                    if index == 0 { help(key) } else { String::new() }.as_str(),
                ),
                None if index == 0 => line(file, "", key, false),
                None => {}
            }
        }
    }
}

/// A key with what it does; `before` stands before its name.
fn line(file: &mut File, before: &str, key: &Key, is_apart: bool) {
    let name = format!("{before}{}", key.name);
    let value = key.sample.clone().or_else(|| key.default());
    let value = value.unwrap_or_else(|| panic!("{name} has neither a default nor a sample"));
    match (key.is_apart || is_apart, key.sample.is_some() && !key.is_standing) {
        (true, _) => file.note(&name, &value, &help(key)),
        (false, true) => file.example(&name, &value, &help(key)),
        (false, false) => file.key(&name, &value, &help(key)),
    }
}

/// What a key does, what can be chosen, and whether it must be there.
fn help(key: &Key) -> String {
    let mut help = key.about();
    if let (Some(_), Some(default)) = (&key.sample, key.default()) {
        help.push_str(&format!(" Default: {default}."));
    }
    if key.is_required {
        help.push_str(" Required.");
    }
    match key.shape() {
        Shape::Choice(choices) => help + &listed(&choices),
        Shape::List(inner) => match *inner {
            Shape::Choice(choices) => help + &listed(&choices),
            _ => help,
        },
        _ => help,
    }
}

/// What can be chosen, a line for each, or one line where nothing is said of them.
fn listed(choices: &[Choice]) -> String {
    let name = |choice: &Choice| match choice.inner {
        Some(_) => choice.name.to_owned(),
        None => quoted(choice.name),
    };
    if choices.iter().all(|choice| choice.about.is_empty()) {
        let names: Vec<String> = choices.iter().map(name).collect();
        return format!(" One of {}.", names.join(", "));
    }
    let line = |choice: &Choice| format!("\n  {}: {}", name(choice), choice.about);
    choices.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
