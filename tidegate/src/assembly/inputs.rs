//! The inputs of a node: started, and changed while it runs.
//!
//! An input whose keys stay is left alone. One that listens where it did before goes on with its new keys, and its clients
//! stay. Any other is ended or started.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::task::AbortHandle;

use super::drivers::Wiring;
use crate::config::{Config, InputConfig};
use crate::input::kind::{Change, Control, InputKind, Opened};
use crate::support::tasks::Tasks;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Inputs {
    wiring: Wiring,
    serving: Vec<Serving>,
}

/// An input that serves.
#[derive(Debug)]
struct Serving {
    config: InputConfig,
    addresses: Vec<SocketAddr>,
    for_nodes: bool,
    control: Control,
    task: AbortHandle,
}

/// What becomes of one input.
enum Step {
    /// It goes on as it is.
    Stay(usize),
    /// It does too, though it has other keys: they count from the next start on.
    Wait(usize),
    /// It goes on with other keys.
    Change(usize, InputConfig, Change),
    /// It starts.
    Start(InputConfig, Opened),
}

/// A change that is prepared: nothing of it can fail.
pub(crate) struct Prepared(Vec<Step>);

impl Inputs {
    /// None yet.
    pub(crate) fn new(wiring: Wiring) -> Inputs {
        Inputs { wiring, serving: Vec::new() }
    }

    /// Starts all inputs of a configuration.
    ///
    /// # Errors
    /// An address cannot be bound, or a file cannot be opened.
    pub(crate) async fn start(&mut self, config: &Config, tasks: &mut Tasks) -> anyhow::Result<()> {
        for input in &config.input {
            let opened = self.open(input, config).await?;
            self.serve(input.clone(), opened, tasks);
        }
        Ok(())
    }

    /// Where clients can connect, or other nodes.
    pub(crate) fn addresses(&self, for_nodes: bool) -> Vec<SocketAddr> {
        let those = self.serving.iter().filter(|input| input.for_nodes == for_nodes);
        those.flat_map(|input| &input.addresses).copied().collect()
    }

    /// Prepares the change to the inputs of a configuration. `around` tells that what all inputs are told of their node
    /// has changed too.
    ///
    /// # Errors
    /// An address cannot be bound, or a file cannot be used. Nothing has changed then.
    pub(crate) async fn prepare(&self, config: &Config, around: bool) -> anyhow::Result<Prepared> {
        let mut left: Vec<usize> = (0..self.serving.len()).collect();
        let mut take = |fits: &dyn Fn(&Serving) -> bool| {
            let place = left.iter().position(|&index| fits(&self.serving[index]))?;
            Some(left.remove(place))
        };
        let mut steps = Vec::new();
        for input in &config.input {
            let same = take(&|serving| serving.config == *input);
            let near = same.or_else(|| take(&|serving| listen_together(&serving.config, input)));
            let changed = near.filter(|_| around || same.is_none());
            let change = match changed.map(|index| &self.serving[index]) {
                Some(serving) => self.change(serving, input, config)?,
                None => None,
            };
            steps.push(match (near, same, change) {
                (Some(index), _, Some(change)) => Step::Change(index, input.clone(), change),
                (_, Some(index), None) => Step::Stay(index),
                (Some(index), None, None) => Step::Wait(index),
                (None, ..) => Step::Start(input.clone(), self.open(input, config).await?),
            });
        }
        Ok(Prepared(steps))
    }

    /// Makes a change.
    pub(crate) fn apply(&mut self, Prepared(steps): Prepared, tasks: &mut Tasks) {
        let mut before: Vec<Option<Serving>> = self.serving.drain(..).map(Some).collect();
        let mut take = |index: usize| before.get_mut(index).and_then(Option::take);
        let mut started = Vec::new();
        for step in steps {
            match step {
                Step::Stay(index) => self.serving.extend(take(index)),
                Step::Wait(index) => {
                    let serving = take(index);
                    if let Some(Serving { config, addresses, .. }) = &serving {
                        let name = config.kind().map(InputKind::name).unwrap_or_default();
                        tracing::warn!("changes of {name} at {addresses:?} need a new start");
                    }
                    self.serving.extend(serving);
                }
                Step::Change(index, config, change) => {
                    change();
                    self.serving.extend(take(index).map(|serving| Serving { config, ..serving }));
                }
                Step::Start(config, opened) => started.push((config, opened)),
            }
        }
        before.into_iter().flatten().for_each(Serving::end);
        for (config, opened) in started {
            opened.addresses.iter().for_each(|address| tracing::info!("listening at {address}"));
            self.serve(config, opened, tasks);
        }
    }

    fn change(
        &self,
        serving: &Serving,
        input: &InputConfig,
        config: &Config,
    ) -> anyhow::Result<Option<Change>> {
        let (kind, before) = (kind(input)?, kind(&serving.config)?);
        kind.change(before, &serving.control, &self.wiring.around_inputs(config))
    }

    async fn open(&self, input: &InputConfig, config: &Config) -> anyhow::Result<Opened> {
        let driver = kind(input)?.build(&self.wiring.around_inputs(config))?;
        driver.open(self.wiring.intake.clone()).await
    }

    fn serve(&mut self, config: InputConfig, opened: Opened, tasks: &mut Tasks) {
        let Opened { addresses, serve, control } = opened;
        let task = tasks.spawn(serve);
        let for_nodes =
            config.kind().and_then(InputKind::ports).is_some_and(|ports| ports.for_nodes);
        self.serving.push(Serving { config, addresses, for_nodes, control, task });
    }
}

impl Serving {
    fn end(self) {
        match self.control {
            Control::Mqtt(control) => control.remove(),
            Control::Nothing => self.task.abort(),
        }
    }
}

fn kind(input: &InputConfig) -> anyhow::Result<&dyn InputKind> {
    input.kind().context("an [[input]] has no kind")
}

/// Whether two inputs of one kind have an address in common.
fn listen_together(one: &InputConfig, other: &InputConfig) -> bool {
    let (Some(one), Some(other)) = (one.kind(), other.kind()) else { return false };
    let (Some(ports), Some(others)) = (one.ports(), other.ports()) else { return false };
    one.name() == other.name() && ports.listen.iter().any(|one| others.listen.contains(one))
}
