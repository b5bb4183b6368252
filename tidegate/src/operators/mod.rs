//! Operators at work: threads that take what was published, and publish what they made of it.
//!
//! What a step does, and which record is next, is decided in [`tidegate_stream`]. A
//! [`crate::broker::Publisher`] hands a record to each [`Operator`] whose filters cover its topic; an
//! [`Engine`] has the threads; what comes out goes to subscribers at once, and to the node by an outlet, a task
//! of each operator. [`Operators`] is all of it, and changes it while the node runs.

mod build;
mod engine;
mod luau;
pub(crate) mod memory;
mod meter;
mod outlet;
mod process;
mod spin;
mod threads;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tidegate_broker::Message;
use tidegate_cluster::handover::UnitId;
use tidegate_stream::pool::OperatorLimits;
use tidegate_stream::{Chain, OperatorId, PartitionKey, Template};
use tidegate_types::record::SourceId;
use tidegate_types::topic::Filter;

pub use self::build::chain;
pub use self::engine::{Engine, Mode};
pub use self::meter::{DropWhy, Figures, Meter, MeterStatus, Meters, Placed};
use crate::broker::Hub;
use crate::config::{Config, OperatorConfig};
use crate::group::Busy;
use crate::port::Intake;

/// Operators of one node.
pub const OPERATORS_MAX: usize = 256;

/// One operator.
#[derive(Debug)]
pub struct Operator {
    id: OperatorId,
    config: OperatorConfig,
    files: Files,
    from: Vec<Filter>,
    to: Template,
    key: PartitionKey,
    bound: Option<Duration>,
    chain: Chain,
    /// The same for those that do the same.
    definition: u64,
    engine: Engine,
    outlet: outlet::Outlet,
}

/// When each file of an operator was changed, and its length.
type Files = Vec<Option<(SystemTime, u64)>>;

impl Operator {
    /// Whether it takes the records of a topic.
    pub fn covers(&self, topic: &str) -> bool {
        self.from.iter().any(|filter| filter.matches(topic))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.config.label()
    }

    /// Whether it works on one record at a time.
    pub(crate) fn is_serial(&self) -> bool {
        self.key == PartitionKey::Nothing
    }

    /// The connection that its results come by.
    fn source(&self) -> SourceId {
        self.outlet.source
    }

    /// Takes a record, which is counted by `meter`, and by `busy` where its topic moves between nodes. Never waits.
    pub(crate) fn take(
        self: &Arc<Self>,
        message: &Arc<Message>,
        meter: &Arc<Meter>,
        busy: Option<Busy>,
    ) {
        let came = self.engine.now();
        let bound = self.bound.unwrap_or_else(|| message.deadline.since(message.arrived));
        let deadline = message.arrived + bound;
        meter.came(bound);
        let key = self.key.of(&message.topic);
        let job = engine::Job {
            operator: self.clone(),
            message: message.clone(),
            meter: meter.clone(),
            came,
            busy,
        };
        self.engine.offer(key, deadline, job);
    }

    /// Works on what waits of a unit, by this operator and all others, before anything else.
    pub(crate) fn hurry(&self, unit: UnitId) {
        self.engine.hurry(unit);
    }

    fn limits(&self) -> OperatorLimits {
        OperatorLimits { waiting: self.config.queue as usize, idle: self.config.keys as usize }
    }

    fn fill(&self, topic: &[u8]) -> Bytes {
        self.to.fill(std::str::from_utf8(topic).unwrap_or_default())
    }
}

/// All operators of a node.
#[derive(Debug)]
pub struct Operators {
    engine: Engine,
    hub: Hub,
    intake: Intake,
    all: Vec<Arc<Operator>>,
    given: u32,
}

impl Operators {
    /// Starts those of a configuration.
    ///
    /// # Errors
    /// An operator cannot be built, there is no thread, or the node is gone.
    pub async fn start(config: &Config, hub: Hub, intake: Intake) -> anyhow::Result<Operators> {
        let mode = config.node.pool.into();
        let engine = Engine::new(mode, config.node.pool_threads(), hub.clone(), intake.clock());
        let mut operators = Operators { engine, hub, intake, all: Vec::new(), given: 0 };
        operators.change(&config.operator).await?;
        Ok(operators)
    }

    /// From now on these: one that has not changed goes on as it is, with all that it remembers.
    ///
    /// # Errors
    /// One cannot be built: then nothing changes.
    pub async fn change(&mut self, configs: &[OperatorConfig]) -> anyhow::Result<()> {
        let mut all = Vec::new();
        for config in configs {
            let files = stamps(config);
            let same = |old: &&Arc<Operator>| old.config == *config && old.files == files;
            all.push(match self.all.iter().find(same) {
                Some(old) => old.clone(),
                None => Arc::new(self.build(config, files).await?),
            });
        }
        if !all.is_empty() {
            self.engine.start_workers()?;
        }
        for operator in &all {
            self.engine.begin(operator.id, operator.limits());
        }
        let old = std::mem::replace(&mut self.all, all);
        self.hub.meters().keep(|name| self.all.iter().any(|operator| operator.name() == name));
        self.hub.set_operators(self.all.clone());
        for gone in old.iter().filter(|old| self.all.iter().all(|new| new.id != old.id)) {
            self.engine.end(gone.id);
        }
        Ok(())
    }

    async fn build(&mut self, config: &OperatorConfig, files: Files) -> anyhow::Result<Operator> {
        let wrong = |text: String| anyhow::anyhow!("[[operator]] {:?}: {text}", config.label());
        let chain = chain(config).map_err(wrong)?;
        let from = config.from.iter().map(|text| Filter::new(text));
        let from: Vec<Filter> = from.collect::<Result<_, _>>()?;
        let to = Template::new(config.to.as_deref().unwrap_or_default())?;
        self.given += 1;
        let name = format!("operator {}", config.label());
        Ok(Operator {
            id: OperatorId(self.given),
            from,
            to,
            key: config.key(),
            bound: config.bound.map(|bound| bound.0),
            chain,
            definition: config.definition(),
            files,
            engine: self.engine.clone(),
            outlet: outlet::start(self.intake.open(name.into()).await?),
            config: config.clone(),
        })
    }

    /// Takes no more records, and works on those that wait for at most `patience`.
    pub async fn stop(self, patience: Duration) {
        self.hub.set_operators(Vec::new());
        let _ = tokio::time::timeout(patience, self.engine.idle()).await;
    }
}

impl Drop for Operators {
    fn drop(&mut self) {
        self.hub.set_operators(Vec::new());
        let left = self.engine.stop();
        if left > 0 {
            tracing::warn!(records = left, "operators ended before they had worked on all records");
        }
    }
}

fn stamps(config: &OperatorConfig) -> Files {
    let of = |file: &std::path::Path| {
        let metadata = file.metadata().ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    config.files().map(of).collect()
}

#[cfg(test)]
mod tests;
