//! A configuration that is put in force while the node runs.

use std::time::Duration;

use anyhow::Context;
use tidegate_node::io::OutputId;

use super::Assembled;
use super::drivers::{build_output, run_output};
use super::reload::Change;
use crate::config::LimitsConfig;
use crate::output::kind::Driver;

/// How long an output may take to end before it begins anew.
const OUTPUT_END: Duration = Duration::from_secs(10);

impl Assembled {
    /// Puts a new configuration in force, as far as a node can change while it runs; `around` as
    /// `Inputs::prepare` has it.
    ///
    /// # Errors
    /// An address or a file of it cannot be used: nothing has changed then.
    pub async fn change(&mut self, change: Change) -> anyhow::Result<()> {
        let Change { config, around, anew, governed, rules, scopes, scripts, operators } = change;
        let prepared = self.served.prepare(&config.with_peers(), around).await?;
        let links = self.boards.links.clone();
        let build = |place: &usize| {
            let output = &config.output[*place];
            let driver = build_output(output, &config, &links);
            driver.with_context(|| format!("[[output]] {:?}", output.label()))
        };
        let drivers = anew.iter().map(build).collect::<anyhow::Result<Vec<_>>>()?;
        let LimitsConfig { memory, record_max, .. } = config.limits;
        self.running.limit(memory.0, record_max.0).await;
        self.served.apply(prepared, &mut self.inputs);
        for (place, driver) in anew.into_iter().zip(drivers) {
            self.begin_anew(place, config.output[place].label(), driver).await;
        }
        for (uplink, options) in governed {
            self.running.govern(uplink, options).await;
        }
        self.running.intake.hub().set_scopes(scopes);
        self.running.adapt(scripts, rules).await;
        if let Err(error) = self.operators.change(&operators).await {
            tracing::error!("the operators stay as they are: {error:#}");
        }
        Ok(())
    }

    /// Ends an output and begins it with this driver. What was under way is sent again.
    async fn begin_anew(&mut self, place: usize, name: &str, driver: Box<dyn Driver>) {
        let id = OutputId(place as u16);
        let Some(ended) = self.ended.get_mut(place).and_then(Option::take) else { return };
        self.running.end_output(id).await;
        // An error means that it has ended by a panic.
        if tokio::time::timeout(OUTPUT_END, ended).await.is_err() {
            return tracing::error!("output {name:?} does not end: it needs a new start");
        }
        let Some(port) = self.running.begin_output(id, name.into()).await else { return };
        tracing::info!("output {name:?} begins anew");
        self.ended[place] = Some(run_output(driver, port, &mut self.outputs));
    }
}
