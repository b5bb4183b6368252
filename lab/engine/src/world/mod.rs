//! A world: hosts, the links between them, what runs there, what goes wrong, and what must hold.
//!
//! It is data, read from a TOML file. `net` brings it up with namespaces and real processes, `sim` plays
//! its node, its sources and their link in virtual time; each says what it cannot play.

mod check;
mod fault;
mod link;
mod load;
mod process;
mod report;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::sim::Span;

pub use self::check::{Check, Fate};
pub use self::fault::{ChangeSpec, Fault, Target, WayName};
pub use self::link::bits;
pub use self::link::{BurstSpec, CrossSpec, LinkSpec, RedSpec, WaySpec};
pub use self::load::Load;
pub use self::process::{Broker, Process, Program, fill};
pub use self::report::{Came, Delivered, Records, Violated, broken, figures, table};
pub use self::source::{Arrivals, Sizes, Source};

/// Everything that a run is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct World {
    /// Label in tables and figures.
    pub name: String,
    /// How long it lasts; without it until its command ends, or somebody ends it.
    #[serde(default)]
    pub length: Option<Span>,
    /// How long it goes on afterwards for what is still under way.
    #[serde(default = "second")]
    pub drain: Span,
    /// Of everything random: the same seed, the same losses of the same packets.
    #[serde(default)]
    pub seed: u64,
    /// What can be varied: `{NAME}` in a text stands for the value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// The hosts, by name.
    pub hosts: Vec<String>,
    /// What joins them.
    #[serde(default)]
    pub link: Vec<LinkSpec>,
    /// What runs on them, in the order of their start.
    #[serde(default)]
    pub process: Vec<Process>,
    /// Datagrams that are sent.
    #[serde(default)]
    pub load: Vec<Load>,
    /// Records that are published.
    #[serde(default)]
    pub source: Vec<Source>,
    /// Parts of it with figures of their own.
    #[serde(default)]
    pub phase: Vec<Phase>,
    /// What happens, and when.
    #[serde(default)]
    pub fault: Vec<Fault>,
    /// What must hold at the end.
    #[serde(default)]
    pub check: Vec<Check>,
}

/// A part of a world, by when records were due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Phase {
    /// Its name in tables and figures.
    pub name: String,
    /// From when.
    pub from: Span,
    /// Until when.
    pub until: Span,
}

fn second() -> Span {
    Span::seconds(1)
}

impl World {
    /// Reads a world and checks that all that it names exists.
    ///
    /// # Errors
    /// Not TOML, a field that is unknown or missing, a name of nothing, and what cannot be.
    pub fn parse(text: &str) -> anyhow::Result<World> {
        World::varied(text, &[])
    }

    /// The same world with other values of these names.
    ///
    /// # Errors
    /// As [`World::parse`], and a name that the world has no value of.
    pub fn varied(text: &str, given: &[(&str, &str)]) -> anyhow::Result<World> {
        let world = spelled(text, given)?;
        world.validate()?;
        Ok(world)
    }

    /// Reads the file of a world; answers with the folder from which on its traces are named.
    ///
    /// # Errors
    /// It cannot be read, or is no world.
    pub fn read(file: &Path) -> anyhow::Result<(World, PathBuf)> {
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        let world = World::parse(&text).with_context(|| file.display().to_string())?;
        Ok((world, file.parent().unwrap_or(Path::new("")).to_owned()))
    }

    /// The link of a name.
    pub fn link(&self, name: &str) -> Option<&LinkSpec> {
        self.link.iter().find(|link| link.name == name)
    }

    /// The process of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn process(&self, name: &str) -> anyhow::Result<&Process> {
        let found = self.process.iter().find(|process| process.name == name);
        found.with_context(|| format!("no process {name:?}"))
    }

    fn validate(&self) -> anyhow::Result<()> {
        let links = self.link.iter().map(|link| &link.name);
        let processes = self.process.iter().map(|process| &process.name);
        let loads = self.load.iter().map(|load| &load.name);
        unique("host", self.hosts.iter())?;
        unique("link", links)?;
        unique("process", processes)?;
        unique("load or source", loads.chain(self.source.iter().map(|source| &source.name)))?;
        unique("phase", self.phase.iter().map(|phase| &phase.name))?;
        ensure!(!self.hosts.is_empty(), "a world needs at least one host");
        for link in &self.link {
            let place = || format!("link {}", link.name);
            link.validate(self).with_context(place)?;
        }
        for process in &self.process {
            let place = || format!("process {}", process.name);
            process.validate(self).with_context(place)?;
        }
        for load in &self.load {
            load.validate(self).with_context(|| format!("load {}", load.name))?;
        }
        for source in &self.source {
            source.validate(self).with_context(|| format!("source {}", source.name))?;
        }
        for phase in &self.phase {
            ensure!(phase.from < phase.until, "phase {}: it ends before it begins", phase.name);
        }
        for (number, fault) in self.fault.iter().enumerate() {
            fault.validate(self).with_context(|| format!("fault {}", number + 1))?;
        }
        for (number, check) in self.check.iter().enumerate() {
            check.validate(self).with_context(|| format!("check {}", number + 1))?;
        }
        Ok(())
    }

    /// A name of a host.
    fn has_host(&self, name: &str) -> anyhow::Result<()> {
        let known = self.hosts.join(", ");
        ensure!(self.hosts.iter().any(|host| host == name), "no host {name:?}, only {known}");
        Ok(())
    }
}

/// A world with its values in their places, and each entry with `for` as often as that says.
fn spelled(text: &str, given: &[(&str, &str)]) -> anyhow::Result<World> {
    let mut world: Table = toml::from_str(text)?;
    let mut values = match world.get("values") {
        Some(values) => values.clone().try_into::<BTreeMap<String, String>>()?,
        None => BTreeMap::new(),
    };
    for (name, value) in given {
        let known: Vec<&String> = values.keys().collect();
        ensure!(values.contains_key(*name), "no value {name:?}, only {known:?}");
        values.insert((*name).into(), (*value).into());
    }
    let is_repeated = |value: &Value| value.get("for").is_some();
    let lists = || world.values().filter_map(Value::as_array);
    if values.is_empty() && !lists().flatten().any(is_repeated) {
        // As it is, so that a mistake is told with its line.
        return Ok(toml::from_str(text)?);
    }
    for (key, part) in &mut world {
        // Twice: a value may name another.
        for (name, value) in values.iter().chain(&values).filter(|_| key != "values") {
            replace(part, name, value);
        }
        if let Some(list) = part.as_array_mut() {
            *list = list.drain(..).map(repeated).collect::<anyhow::Result<Vec<_>>>()?.concat();
        }
    }
    Ok(world.try_into()?)
}

fn replace(part: &mut Value, name: &str, value: &str) {
    match part {
        Value::String(text) => *text = text.replace(&format!("{{{name}}}"), value),
        Value::Array(all) => all.iter_mut().for_each(|one| replace(one, name, value)),
        Value::Table(all) => all.iter_mut().for_each(|(_, one)| replace(one, name, value)),
        _ => {}
    }
}

/// An entry once for each value of each name of its `for`; the first name varies slowest.
fn repeated(mut entry: Value) -> anyhow::Result<Vec<Value>> {
    let names = entry.as_table_mut().and_then(|table| table.remove("for"));
    let Some(names) = names else { return Ok(vec![entry]) };
    let names: BTreeMap<String, Vec<String>> = names.try_into().context("for")?;
    let mut all = vec![entry];
    for (name, values) in names {
        let one = |entry: &Value, value: &String| {
            let mut entry = entry.clone();
            replace(&mut entry, &name, value);
            entry
        };
        all = all
            .iter()
            .flat_map(|entry| values.iter().map(move |value| one(entry, value)))
            .collect();
    }
    Ok(all)
}

/// Names become parts of the names of namespaces and devices.
fn unique<'a>(kind: &str, names: impl Iterator<Item = &'a String>) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
        let fits = (1..=15).contains(&name.len()) && name.chars().all(is_plain);
        ensure!(fits, "{kind} {name:?}: a name has 1 to 15 lowercase letters and digits");
        ensure!(seen.insert(name), "two of {kind} {name:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_PATHS: &str = include_str!("../../../worlds/two-paths.toml");

    fn mistake(from: &str, to: &str) -> String {
        assert!(TWO_PATHS.contains(from), "{from} is not in the example");
        let error = World::parse(&TWO_PATHS.replacen(from, to, 1)).unwrap_err();
        format!("{error:#}")
    }

    #[test]
    fn the_example_says_what_it_means() {
        let world = World::parse(TWO_PATHS).unwrap();
        assert_eq!(world.hosts, ["edge", "cloud"]);
        let links: Vec<&str> = world.link.iter().map(|link| &*link.name).collect();
        assert_eq!(links, ["lte", "wifi"]);
        assert_eq!(world.link("lte").unwrap().uplink.delay, Span::millis(40));
        assert_eq!((world.fault.len(), world.load.len()), (3, 2));
        let written = serde_json::to_string(&world).unwrap();
        assert_eq!(serde_json::from_str::<World>(&written).unwrap(), world, "{written}");
    }

    #[test]
    fn the_guides_examples_are_worlds() {
        let guide = include_str!("../../../../docs/LAB.md");
        let examples = guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next());
        let names: Vec<String> =
            examples.map(|text| World::parse(text.unwrap()).unwrap().name).collect();
        assert_eq!(names, ["slow", "van"]);
    }

    #[test]
    fn a_world_is_varied_by_the_values_that_it_names() {
        let text = "name = \"w\"\nhosts = [\"a\"]\nvalues = { law = \"tide\" }\n\
                    [[process]]\nname = \"p\"\nhost = \"a\"\ncommand = [\"run\", \"{law}\", \"{a}\"]\n";
        let words =
            |given: &[(&str, &str)]| World::varied(text, given).unwrap().process[0].command.clone();
        assert_eq!(words(&[]), ["run", "tide", "{a}"], "addresses come later");
        assert_eq!(words(&[("law", "bbr")])[1], "bbr");
        let error = World::varied(text, &[("lore", "bbr")]).unwrap_err().to_string();
        assert_eq!(error, "no value \"lore\", only [\"law\"]");
    }

    #[test]
    fn an_entry_is_repeated_for_each_of_its_names() {
        let text = "name = \"w\"\nhosts = [\"a1\"]\nvalues = { more = \"of {n}\" }\n\
                    [[process]]\nfor = { kind = [\"x\", \"y\"], n = [\"1\", \"2\"] }\n\
                    name = \"{kind}{n}\"\nhost = \"a1\"\ncommand = [\"{more}\", \"{a{n}}\"]\n";
        let world = World::parse(text).unwrap();
        let all: Vec<&str> = world.process.iter().map(|process| &*process.name).collect();
        assert_eq!(all, ["x1", "x2", "y1", "y2"]);
        assert_eq!(world.process[3].command, ["of 2", "{a2}"]);
        assert!(World::parse(&text.replace("[\"1\", \"2\"]", "2")).is_err());
    }

    #[test]
    fn mistakes_name_their_place() {
        let text = mistake("ends = [\"edge\", \"cloud\"]", "ends = [\"edge\", \"moon\"]");
        assert_eq!(text, "link lte: no host \"moon\", only edge, cloud");
        let text = mistake("name = \"wifi\"", "name = \"lte\"");
        assert_eq!(text, "two of link \"lte\"");
        let text = mistake("name = \"wifi\"", "name = \"Wi-Fi\"");
        assert!(text.ends_with("a name has 1 to 15 lowercase letters and digits"), "{text}");
        let text = mistake("link = \"wifi\"\nper", "link = \"dsl\"\nper");
        assert_eq!(text, "load bulk: no link \"dsl\"");
        let text = mistake("change = \"down\"", "change = \"explode\"");
        assert!(text.contains("explode"), "{text}");
    }
}
