//! `[[operator]]`: what a topic's records go through.

mod steps;

use std::path::Path;

use serde::Deserialize;
use tidegate_cluster::handover::wire::digest;
use tidegate_stream::PartitionKey;

pub use self::steps::{
    AnonymiseConfig, BlockConfig, BloomConfig, CsvConfig, ErrorConfig, FormatConfig,
    InterpolateConfig, JoinConfig, KalmanConfig, LinearConfig, LuauConfig, ProcessConfig,
    RangeConfig, RegressionConfig, StepConfig, StepValue, TreeConfig, WindowConfig, WindowOf,
};
use super::NodeConfig;
use super::units::Period;
use crate::operators::Mode;

/// `pool` of `[node]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolMode {
    /// The earliest deadline first.
    #[default]
    Edf,
    /// First come, first served.
    Fifo,
    /// A thread for each topic.
    ThreadPerTopic,
}

impl From<PoolMode> for Mode {
    fn from(mode: PoolMode) -> Self {
        match mode {
            PoolMode::Edf => Mode::Edf,
            PoolMode::Fifo => Mode::Fifo,
            PoolMode::ThreadPerTopic => Mode::ThreadPerTopic,
        }
    }
}

impl NodeConfig {
    /// Threads of the pool: as given, or one for each processor.
    pub fn pool_threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.pool_threads.map_or_else(all, |threads| threads as usize)
    }
}

/// `order` of an `[[operator]]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperatorOrder {
    /// Records with one key are worked on one after another.
    #[default]
    PerKey,
    /// All are.
    Serial,
}

/// `[[operator]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperatorConfig {
    /// What it is called in status and metrics.
    pub name: Option<String>,
    /// Filters of the topics that it takes.
    pub from: Vec<String>,
    /// Topic of what comes out.
    pub to: Option<String>,
    /// The steps.
    #[serde(rename = "do")]
    pub steps: Vec<StepConfig>,
    /// What waits for what.
    pub order: OperatorOrder,
    /// Which level of the topic is the key, from 1; the whole topic if left out.
    pub key: Option<u32>,
    /// When a result should be there, counted from the record's arrival; that of its stream if left out.
    pub bound: Option<Period>,
    /// Records that wait.
    pub queue: u32,
    /// Keys that are remembered.
    pub keys: u32,
}

impl Default for OperatorConfig {
    fn default() -> Self {
        OperatorConfig {
            name: None,
            from: Vec::new(),
            to: None,
            steps: Vec::new(),
            order: OperatorOrder::PerKey,
            key: None,
            bound: None,
            queue: 10_000,
            keys: 10_000,
        }
    }
}

impl OperatorConfig {
    /// Its name, or nothing.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// What a record's place in the order depends on.
    pub fn key(&self) -> PartitionKey {
        match (self.order, self.key) {
            (OperatorOrder::Serial, _) => PartitionKey::Nothing,
            (OperatorOrder::PerKey, None) => PartitionKey::Topic,
            (OperatorOrder::PerKey, Some(level)) => {
                PartitionKey::Level((level.max(1) - 1) as usize)
            }
        }
    }

    /// A number that is the same for operators whose steps and keys are the same, wherever their files are.
    pub fn definition(&self) -> u64 {
        let steps = self.steps.iter().map(|step| format!("{:?}", step.without_folder()));
        let texts: Vec<String> = steps.chain([format!("{:?}", self.key())]).collect();
        digest(texts.iter().map(String::as_str))
    }

    /// The files that its steps name.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.steps.iter().filter_map(StepConfig::file)
    }
}
