//! `[[operator]]`: what a topic's records go through.

mod steps;

use std::path::Path;

use tidegate_cluster::handover::wire::digest;
use tidegate_stream::PartitionKey;

pub use self::steps::{
    AnonymiseConfig, BlockConfig, BloomConfig, CsvConfig, ErrorConfig, FormatConfig,
    InterpolateConfig, JoinConfig, KalmanConfig, LinearConfig, LuauConfig, ProcessConfig,
    RangeConfig, RegressionConfig, StepConfig, StepValue, TreeConfig, WindowConfig, WindowOf,
};
use super::NodeConfig;
use super::units::Period;
use crate::keys::table::{choices, keys};

choices! {
    /// `pool` of `[node]`.
    pub enum PoolMode: Copy, Eq {
        /// The earliest deadline first.
        Edf = "edf",
        /// First come, first served.
        Fifo = "fifo",
        /// A thread for each topic, for comparison.
        ThreadPerTopic = "thread-per-topic",
    }
}

/// Operators of one node.
pub(super) const OPERATORS_MAX: usize = 256;

impl NodeConfig {
    /// Threads of the pool: as given, or one for each processor.
    pub fn pool_threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.pool_threads.map_or_else(all, |threads| threads as usize)
    }
}

choices! {
    /// `order` of an `[[operator]]`.
    pub enum OperatorOrder: Copy, Eq {
        /// Records with one key are worked on one after another, those of different keys side by side.
        PerKey = "per-key",
        /// All are worked on one after another.
        Serial = "serial",
    }
}

keys! {
    /// `[[operator]]`.
    pub struct OperatorConfig {
        /// Label in status and metrics.
        pub name: Option<String>; required() sample("clean"),
        /// Filters of the topics that it takes.
        pub from: Vec<String> = Vec::new(); required() sample(r#"["plant/+/raw"]"#),
        /// Topic of the results: %t is the topic of the record, %1 to %9 are its levels.
        pub to: Option<String>; required() sample("plant/%2/clean"),
        /// Steps, one after another: each is a table of one of these keys.
        pub steps as "do": Vec<StepConfig> = Vec::new();
            required() sample(r#"[{ parse = "json" }, { range = { field = "temperature", min = -40, max = 85 } }]"#),
        /// What waits for what.
        pub order: OperatorOrder = OperatorOrder::PerKey,
        /// Which level of the topic is the key. Default: the whole topic.
        pub key: Option<u32>; sample("2") at_least(1, "levels of a topic count from 1"),
        /// When a result should be there, from the record's arrival. Default: the latency of its stream.
        pub bound: Option<Period>;
            sample("100ms") above_zero("no result is there at once: give at least \"1ms\""),
        /// Records that wait. A full queue drops the oldest with the same key, or the new one where none waits.
        pub queue: u32 = 10_000; above_zero("give at least 1"),
        /// Keys that it remembers while nothing of theirs waits.
        pub keys: u32 = 10_000; above_zero("give at least 1"),
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
