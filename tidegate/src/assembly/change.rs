//! A configuration that is put in force while the node runs.

use std::time::Duration;

use anyhow::Context;
use tidegate_node::io::OutputId;
use tokio::sync::oneshot::error::TryRecvError;

use super::Assembled;
use super::drivers::{build_output, run_output};
use super::reload::{Change, OutputChanges};
use crate::config::{Config, LimitsConfig};
use crate::output::kind::Driver;

/// How long an output may take to end before it begins anew.
const OUTPUT_END: Duration = Duration::from_secs(10);

impl Assembled {
    /// Puts a new configuration in force, as far as a node can change while it runs; `around` as
    /// `Inputs::prepare` has it.
    ///
    /// # Errors
    /// An address or a file of it cannot be used, the node does not take its rules or scripts, or an output that comes
    /// back has not ended yet: nothing has changed then.
    pub async fn change(&mut self, change: Change) -> anyhow::Result<()> {
        let Change { config, around, outputs, governed, rules, scopes, scripts, operators } =
            change;
        let OutputChanges { anew, come, go } = outputs;
        let all = config.with_peers();
        for &place in &come {
            let is_free = !self.stuck.contains(&place) || self.has_ended(place);
            let name = config.output[place].label();
            anyhow::ensure!(is_free, "output {name:?} has not ended: it cannot come back yet");
        }
        let prepared = self.served.prepare(&all, around).await?;
        let links = self.boards.links.clone();
        let build = |place: &usize| {
            let output = &config.output[*place];
            let driver = build_output(output, &config, &links);
            driver.with_context(|| format!("[[output]] {:?}", output.label()))
        };
        let drivers = anew.iter().map(build).collect::<anyhow::Result<Vec<_>>>()?;
        let coming = come.iter().map(build).collect::<anyhow::Result<Vec<_>>>()?;
        let outputs = super::all_outputs(&all.output);
        let adaptation = self.running.try_on(scripts, rules, outputs).await?;
        // Nothing is refused from here on.
        let LimitsConfig { memory, record_max, .. } = config.limits;
        self.running.limit(memory.0, record_max.0).await;
        self.served.apply(prepared, &mut self.inputs);
        let is_less = self.end_all(&go, &config).await;
        for (place, driver) in anew.into_iter().zip(drivers) {
            self.begin_anew(place, config.output[place].label(), driver).await;
        }
        if !come.is_empty() {
            // The rules of now name those that go.
            self.set_outputs(&config, &go).await;
            self.ended.resize_with(config.output.len(), || None);
        }
        for (place, driver) in come.into_iter().zip(coming) {
            let output = &config.output[place];
            tracing::info!("records go to {}", output.destination());
            self.begin(place, output.label(), driver).await;
        }
        for (uplink, options) in governed {
            self.running.govern(uplink, options).await;
        }
        self.running.intake.hub().set_scopes(scopes);
        // In one order with what has ended before and what is gone after it: no record waits where nothing is left.
        self.running.adapt(adaptation).await;
        if is_less {
            self.set_outputs(&config, &[]).await;
        }
        self.running.status.say_what_confirms(super::what_confirms(&all));
        if let Err(error) = self.operators.change(&operators).await {
            tracing::error!("the operators stay as they are: {error:#}");
        }
        Ok(())
    }

    /// Ends an output and begins it with this driver. What was under way is sent again.
    async fn begin_anew(&mut self, place: usize, name: &str, driver: Box<dyn Driver>) {
        if self.end(place, name).await {
            tracing::info!("output {name:?} begins anew");
            self.begin(place, name, driver).await;
        }
    }

    /// Ends outputs, also those that were to end before and have by now; true where any has. What they had waits for
    /// new rules. One that does not end is stuck: it stays.
    async fn end_all(&mut self, places: &[usize], config: &Config) -> bool {
        let mut ended: Vec<usize> = std::mem::take(&mut self.stuck).into_iter().collect();
        let still = ended.extract_if(.., |place| !self.has_ended(*place)).collect();
        self.stuck = still;
        for &place in places {
            let name = config.output[place].label();
            if self.end(place, name).await {
                tracing::info!("output {name:?} has ended");
                ended.push(place);
            } else {
                self.stuck.insert(place);
            }
        }
        for &place in &ended {
            self.ended[place] = None;
            self.running.output_is_down(OutputId(place as u16)).await;
        }
        !ended.is_empty()
    }

    /// Tells the node which outputs there are: those of a configuration, and some that have gone there; stuck ones too.
    async fn set_outputs(&self, config: &Config, still: &[usize]) {
        let (mut outputs, uplinks) = super::all_outputs(&config.output);
        still.iter().chain(&self.stuck).for_each(|place| outputs[*place].is_gone = false);
        self.running.set_outputs(outputs, uplinks).await;
    }

    /// Ends an output; false where it does not end.
    async fn end(&mut self, place: usize, name: &str) -> bool {
        let Some(ended) = self.ended.get_mut(place).and_then(Option::as_mut) else { return false };
        self.running.end_output(OutputId(place as u16)).await;
        // An error means that it has ended by a panic.
        let has_ended = tokio::time::timeout(OUTPUT_END, ended).await.is_ok();
        if !has_ended {
            tracing::error!("output {name:?} does not end: it needs a new start");
        }
        has_ended
    }

    /// Whether an output that was to end has.
    fn has_ended(&mut self, place: usize) -> bool {
        let ended = self.ended.get_mut(place).and_then(Option::as_mut);
        ended.is_some_and(|ended| !matches!(ended.try_recv(), Err(TryRecvError::Empty)))
    }

    async fn begin(&mut self, place: usize, name: &str, driver: Box<dyn Driver>) {
        let id = OutputId(place as u16);
        let Some(port) = self.running.begin_output(id, name.into()).await else { return };
        self.ended[place] = Some(run_output(driver, port, &mut self.outputs));
    }
}
