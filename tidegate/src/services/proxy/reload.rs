//! Another configuration while the proxy runs.
//!
//! All that can be refused is tried first: then nothing has changed. A request goes to its end by what was in force when
//! it came; connections of clients stay, but for those of listeners that go.

use std::sync::Arc;

use tidegate_node::io::OutputId;
use tidegate_node::rules::ScriptId;

use super::plan::{plan, sides, specs};
use super::run::{Made, Running};
use super::way::Table;
use crate::config::{Config, ProxyConfig};
use crate::keys::key::Reload;
use crate::keys::table::Table as _;
use crate::script::Script;

/// Sections that a proxy reads at its start.
const LASTING: [&str; 4] = ["node", "class", "http", "limits"];

impl Running {
    /// What is in force.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Puts another configuration in force, which has no error and in which scripts are at the places that they have.
    /// Returns what of it needs a new start.
    ///
    /// # Errors
    /// It cannot be used: nothing has changed.
    pub(crate) fn change(&mut self, new: Config) -> anyhow::Result<Vec<String>> {
        let before = &self.config;
        let sections = before.differences(&new).into_iter();
        let sections = sections.filter(|key| LASTING.contains(&key.name)).map(|key| key.header(""));
        let keys = before.proxy.differences(&new.proxy).into_iter();
        let keys = keys.filter(|key| key.reload == Some(Reload::Restart));
        let waiting = sections.chain(keys.map(|key| format!("proxy.{}", key.name))).collect();
        let ProxyConfig { access_log, access_format, threads, .. } = before.proxy.clone();
        let config = Config {
            proxy: ProxyConfig { access_log, access_format, threads, ..new.proxy },
            script: new.script,
            ..before.clone()
        };
        let load = |(place, spec)| Script::load(spec, ScriptId(place as u16));
        let scripts = specs(&config)?.into_iter().enumerate().map(load);
        let scripts = scripts.collect::<Result<Vec<_>, _>>()?;
        let (sides, places) = (sides(scripts.iter()), self.outputs.clone().with(&config.proxy));
        let present = self.hall.options();
        let options = plan(&config, &sides, (&places, Some(&present)))?;
        let made = Made { config: &config, sides: &sides, places: &places };
        let upstreams = made.upstreams(&self.hall, &self.counts, &self.upstreams)?;
        let doors = self.doors.prepare(&config.proxy, &places)?;
        let rules = self.hall.change(scripts, options.clone())?;
        // Nothing is refused from here on but what was tried.
        let is_new = |place: &usize| {
            let known = self.upstreams.get(*place).and_then(Option::as_ref);
            let is_same = |new: &Arc<_>| known.is_some_and(|known| Arc::ptr_eq(&known.shared, new));
            let was_there = present.outputs.get(*place).is_some_and(|output| !output.is_gone);
            let is_there = !options.outputs[*place].is_gone;
            is_there && upstreams[*place].as_ref().map_or(!was_there, |new| !is_same(new))
        };
        let anew: Vec<usize> = (0..places.len()).filter(is_new).collect();
        for &place in &anew {
            if let Some(Some(old)) = self.upstreams.get(place) {
                old.shared.retire();
            }
            self.hall.set_up(OutputId(place as u16), true);
        }
        let before = self.gate.way();
        let known = (&self.counts, &before.table.routes[..]);
        let table = made.table(&options, &rules, known, (&upstreams, &self.tables, &self.hall))?;
        self.gate.adopt(table.clone());
        self.workers.adopt(&table);
        self.doors.apply(doors)?;
        self.upstreams = Vec::new();
        self.upstreams = made.tend(upstreams);
        self.outputs = places;
        self.config = config;
        Ok(waiting)
    }
}

impl Table {
    /// The outputs that it has.
    pub(super) fn outputs(&self) -> std::collections::BTreeSet<OutputId> {
        let all = (0..).map(OutputId).zip(&self.upstreams);
        let upstreams = all.filter(|(_, upstream)| upstream.is_some()).map(|(output, _)| output);
        upstreams.chain(self.listeners.iter().copied()).collect()
    }
}
