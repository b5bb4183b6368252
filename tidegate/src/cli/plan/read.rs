//! Topics, nodes and plans in force, from files.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use tidegate_cluster::place::model::TrainedModel;
use tidegate_cluster::place::{Machine, Topic};

use crate::config::units::{Period, Quantity};
use crate::support::files;

/// Longest file: of more topics than there may be.
const FILE_MAX: u64 = 64 << 20;
/// Topics of a file at most, and nodes.
const TOPICS_MAX: usize = 100_000;
const NODES_MAX: usize = 100_000;

/// A file of topics and nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fleet {
    #[serde(default)]
    pub(super) topic: Vec<TopicSpec>,
    #[serde(default)]
    pub(super) node: Vec<NodeSpec>,
}

/// A topic of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopicSpec {
    pub(super) name: String,
    rate: f64,
    work: Period,
    bound: Period,
    #[serde(default = "one")]
    subscribers: u32,
    #[serde(default = "usual_variation")]
    work_cv: f64,
    #[serde(default = "one")]
    pub(super) keys: u32,
    #[serde(default)]
    serial: bool,
}

/// A node of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeSpec {
    pub(super) name: String,
    cores: f64,
    #[serde(default = "same")]
    speed: f64,
    contention: Option<f64>,
    bias: Option<f64>,
}

fn one() -> u32 {
    1
}

fn same() -> f64 {
    1.0
}

/// Of operators that do the same for each record, as the simulations assume.
fn usual_variation() -> f64 {
    0.15
}

/// As the simulations assume; a calibrated node has its own.
pub(super) fn usual_contention() -> f64 {
    0.03
}

impl TopicSpec {
    /// What placement knows of it.
    pub(super) fn topic(&self) -> Topic {
        Topic {
            work: self.work.0,
            work_cv: self.work_cv,
            rate: self.rate,
            subscribers: self.subscribers,
            bound: self.bound.0,
            is_serial: self.serial,
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let name = &self.name;
        let is_amount = |value: f64, most: f64| (0.0..=most).contains(&value);
        ensure!(is_amount(self.rate, 1e7), "topic {name:?}: rate is 0 to 10000000 records/s");
        ensure!(is_amount(self.work_cv, 10.0), "topic {name:?}: work_cv is 0 to 10");
        ensure!(self.bound.0 > Duration::ZERO, "topic {name:?}: a bound of 0 is kept by none");
        ensure!(self.keys > 0, "topic {name:?}: keys is at least 1");
        Ok(())
    }
}

impl NodeSpec {
    /// What placement knows of it; what the file does not say is as on the usual machine.
    pub(super) fn machine(&self, usual: &Machine) -> Machine {
        let NodeSpec { cores, speed, contention, bias, .. } = *self;
        let contention = contention.unwrap_or(usual.contention);
        Machine { cores, speed, contention, bias: bias.unwrap_or(usual.bias) }
    }

    fn check(&self) -> anyhow::Result<()> {
        let name = &self.name;
        let within = |value: f64, least: f64, most: f64| (least..=most).contains(&value);
        ensure!(within(self.cores, 0.1, 1024.0), "node {name:?}: cores is 0.1 to 1024");
        ensure!(within(self.speed, 0.01, 100.0), "node {name:?}: speed is 0.01 to 100");
        let (contention, bias) = (self.contention.unwrap_or(0.0), self.bias.unwrap_or(1.0));
        ensure!(within(contention, 0.0, 1.0), "node {name:?}: contention is 0 to 1");
        ensure!(within(bias, 0.1, 100.0), "node {name:?}: bias is 0.1 to 100");
        Ok(())
    }
}

/// Reads a machine's model.
///
/// # Errors
/// It cannot be read, or is none of this version.
pub(super) fn learned(file: &Path) -> anyhow::Result<TrainedModel> {
    TrainedModel::read(&text_of(file)?).with_context(|| file.display().to_string())
}

fn text_of(file: &Path) -> anyhow::Result<String> {
    files::hear_text(file, FILE_MAX).with_context(|| file.display().to_string())
}

/// Reads a file by its ending.
///
/// # Errors
/// It cannot be read, or names what is wrong with it and where.
pub(super) fn fleet(file: &Path) -> anyhow::Result<Fleet> {
    let text = text_of(file)?;
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let fleet: Fleet = match ending {
        "toml" => toml::from_str(&text).map_err(anyhow::Error::from),
        "json" => serde_json::from_str(&text).map_err(anyhow::Error::from),
        "csv" => table(&text),
        _ => bail!("{}: name it .toml, .json or .csv, by what is in it", file.display()),
    }
    .with_context(|| file.display().to_string())?;
    check(&fleet).with_context(|| file.display().to_string())?;
    Ok(fleet)
}

fn check(fleet: &Fleet) -> anyhow::Result<()> {
    ensure!(
        !fleet.topic.is_empty(),
        "it has no topic: write [[topic]] with name, rate, work, bound"
    );
    ensure!(fleet.topic.len() <= TOPICS_MAX, "more than {TOPICS_MAX} topics: plan regions apart");
    ensure!(fleet.node.len() <= NODES_MAX, "more than {NODES_MAX} nodes: plan regions apart");
    let mut names = BTreeSet::new();
    for topic in &fleet.topic {
        topic.check()?;
        ensure!(names.insert(&topic.name), "topic {:?} is there twice", topic.name);
    }
    names.clear();
    for node in &fleet.node {
        node.check()?;
        ensure!(names.insert(&node.name), "node {:?} is there twice", node.name);
    }
    Ok(())
}

/// Topics as lines of values under a line of names.
fn table(text: &str) -> anyhow::Result<Fleet> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, head)) = lines.next() else { return Ok(Fleet::default()) };
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let mut fleet = Fleet::default();
    for (number, line) in lines {
        let values: Vec<&str> = line.split(',').map(str::trim).collect();
        let place = format!("line {}", number + 1);
        ensure!(
            values.len() == names.len(),
            "{place}: {} values under {} names",
            values.len(),
            names.len()
        );
        fleet.topic.push(row(&names, &values).context(place)?);
    }
    Ok(fleet)
}

fn row(names: &[&str], values: &[&str]) -> anyhow::Result<TopicSpec> {
    let mut object = serde_json::Map::new();
    for (&name, &value) in names.iter().zip(values) {
        let value = match name {
            // Left out.
            _ if value.is_empty() => continue,
            "rate" | "work_cv" => value.parse::<f64>().map(Into::into).ok(),
            "subscribers" | "keys" => value.parse::<u32>().map(Into::into).ok(),
            "serial" => value.parse::<bool>().map(Into::into).ok(),
            "work" | "bound" => Some(Period::parse(value).map(|_| value)?.into()),
            _ => Some(value.into()),
        };
        let value = value.with_context(|| format!("{name}: {:?} does not belong there", values))?;
        object.insert(name.to_owned(), value);
    }
    Ok(serde_json::from_value(object.into())?)
}

/// A plan in force: which topics each node hosts, by name; what `--json` prints has more.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct InForce {
    pub(super) nodes: Vec<Hosted>,
}

/// A node of a plan in force.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Hosted {
    pub(super) name: String,
    pub(super) topics: Vec<HostedTopic>,
}

/// A topic of a plan in force.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct HostedTopic {
    pub(super) name: String,
}

/// Reads a plan in force.
///
/// # Errors
/// It cannot be read, or is no plan.
pub(super) fn in_force(file: &Path) -> anyhow::Result<InForce> {
    let text = text_of(file)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{}: no plan as `tidegate plan --json` prints it", file.display()))
}
