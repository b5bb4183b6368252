//! Another configuration while the proxy runs.
//!
//! All that can be refused is tried first: then nothing has changed. A request goes to its end by what was in force when
//! it came; connections of clients stay, but for those of listeners that go.

use std::sync::{Arc, Weak};

use tidegate_node::io::OutputId;
use tidegate_node::rules::{RuleId, ScriptId};
use tokio::task::spawn_blocking;

use super::plan::{plan, sides, specs};
use super::run::{ProxyPlan, Running, WatchedUpstream};
use super::upstream::Shared;
use super::worker::Table;
use crate::config::{Config, ProxyConfig};
use crate::keys::key::Reload;
use crate::keys::table::Table as _;
use crate::script::{Script, ScriptSpec};

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
    pub(crate) async fn change(&mut self, new: Config) -> anyhow::Result<Vec<String>> {
        let old = &self.config;
        let sections = old.differences(&new).into_iter();
        let sections = sections.filter(|key| LASTING.contains(&key.name)).map(|key| key.header(""));
        let keys = old.proxy.differences(&new.proxy).into_iter();
        let keys = keys.filter(|key| key.reload == Some(Reload::Restart));
        let waiting = sections.chain(keys.map(|key| format!("proxy.{}", key.name))).collect();
        let ProxyConfig { access_log, access_format, threads, .. } = old.proxy.clone();
        let config = Config {
            proxy: ProxyConfig { access_log, access_format, threads, ..new.proxy },
            script: new.script,
            ..old.clone()
        };
        let scripts = self.scripts(specs(&config)?).await?;
        let (sides, places) = (sides(scripts.iter()), self.outputs.clone().with(&config.proxy));
        let present = self.hall.options();
        let options = plan(&config, &sides, &places, Some(&present))?;
        let (hall, counts, tables) = (&self.hall, &self.counts, &self.tables);
        let (sides, places) = (&sides, &places);
        let made = ProxyPlan { config: &config, sides, places, hall, counts, tables };
        let before = self.tended(places.len());
        let upstreams = made.upstreams(&before)?;
        let mut sockets = self.sockets.prepare(&config.proxy, places)?;
        hall.check(&options)?;
        sockets.listen()?;
        let routes = self.worker.routes_now().table.routes.clone();
        let publish = |rules: &[RuleId]| {
            let table = made.table(&options, rules, &routes, made.tend(&upstreams, &before))?;
            anyhow::Ok(self.newest.send_replace(table))
        };
        let is_new = |place: &usize| {
            let known = before[*place].as_ref();
            let is_same = |new: &Arc<_>| known.is_some_and(|known| Arc::ptr_eq(&known.shared, new));
            let was_there = present.outputs.get(*place).is_some_and(|output| !output.is_gone);
            let is_there = !options.outputs[*place].is_gone;
            is_there && upstreams[*place].as_ref().map_or(!was_there, |new| !is_same(new))
        };
        let come: Vec<usize> = (0..places.len()).filter(is_new).collect();
        // Nothing is refused from here on but what was tried. No thread finds a new one down before it is published.
        come.iter().for_each(|place| self.retire(*place, upstreams[*place].as_ref()));
        let come: Vec<OutputId> = come.iter().map(|place| OutputId(*place as u16)).collect();
        let _before = hall.change(scripts, options.clone(), &come, publish)?;
        self.sockets.apply(sockets);
        self.outputs = places.clone();
        self.config = config;
        Ok(waiting)
    }

    /// Scripts, each loaded and tried on what waits: on a thread of its own, so that requests go on meanwhile.
    async fn scripts(&self, specs: Vec<Arc<ScriptSpec>>) -> anyhow::Result<Vec<Script>> {
        let hall = self.hall.clone();
        let try_on = move |(place, spec)| {
            let mut script = Script::load(spec, ScriptId(place as u16))?;
            hall.try_on(&mut script).map(|()| script)
        };
        let all = move || specs.into_iter().enumerate().map(try_on).collect::<Result<_, _>>();
        Ok(spawn_blocking(all).await??)
    }

    /// The upstreams by which exchanges go, as the newest table has them that has them.
    fn tended(&self, places: usize) -> Vec<Option<Arc<WatchedUpstream>>> {
        let tables = self.tables.borrow();
        let tables: Vec<Arc<Table>> = tables.iter().rev().filter_map(Weak::upgrade).collect();
        let of = |place: usize| {
            tables.iter().find_map(|table| table.upstreams.get(place).cloned().flatten())
        };
        (0..places).map(of).collect()
    }

    /// The hall hears no more of those that were at a place.
    fn retire(&self, place: usize, new: Option<&Arc<Shared>>) {
        let tables = self.tables.borrow();
        for table in tables.iter().filter_map(Weak::upgrade) {
            if let Some(Some(old)) = table.upstreams.get(place)
                && new.is_none_or(|new| !Arc::ptr_eq(&old.shared, new))
            {
                old.shared.retire();
                // The new one has its sockets as well.
                old.watch(None);
            }
        }
    }
}
