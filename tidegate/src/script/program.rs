//! One script: its machine, its entry point, and what became of its calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mlua::{AnyUserData, Function, Value};
use tidegate_node::adapt::QueueFacts;
use tidegate_node::io::{Input, Otherwise, QueueId};
use tidegate_node::rules::ScriptId;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::Time;

use super::Side;
use super::api::{self, Root};
use super::board::ScriptCounts;
use super::budget::Budget;
use super::effects::ScriptNotice;
use super::runs::Runs;
use super::seat::{Moment, Seat};
use super::spec::{Dialect, ScriptSpec};
use super::stage::{self, Stage, Timer, Watched};
use super::vm::{Failure, Vm};
use crate::link::Links;
use crate::support::http::endpoint::Endpoint;
use crate::support::tls::ClientTls;

/// Functions that see what comes, the first that there is: ours, then that of the paper.
const REQUEST: [&str; 2] = ["on_message", "envoy_on_request"];
/// Functions that see answers. A node has no answers of its own, so a script for answers alone (Fig. 9)
/// sees what comes there.
const RESPONSE: [&str; 2] = ["on_response", "envoy_on_response"];
/// Time of a script's own text and of `on_load`: nothing waits for it.
const LOAD_TIME: Duration = Duration::from_millis(200);
/// Queues whose changes are looked for.
const WATCHED_MAX: usize = 1024;

/// Why a script cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Its text is wrong, or failed while it was loaded.
    #[error("script {0:?}: {1}")]
    Text(Arc<str>, Failure),
    /// It has no entry point.
    #[error("script {0:?} has no function on_message(h) or envoy_on_request(h): nothing would run")]
    NoEntry(Arc<str>),
    /// An address that it would post to is none.
    #[error("script {0:?}: {1}")]
    Endpoint(Arc<str>, String),
    /// It failed on what waits.
    #[error("script {0:?} fails on a message that waits: {1}")]
    DryRun(Arc<str>, Failure),
}

/// Which function of a script to call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// The entry point, for a record that came.
    Message(QueueId, DeliveryId),
    /// A timer.
    Timer(usize),
    /// A watch, for a queue that changed.
    Change(usize, QueueId),
}

/// What a call wants done.
#[derive(Debug, Default)]
pub struct Ran {
    /// How long it ran.
    pub took: Duration,
    /// For the node.
    pub inputs: Vec<Input>,
    /// For the endpoints of `notify`, with the script.
    pub notices: Vec<(ScriptId, ScriptNotice)>,
}

/// What a watch saw last of a queue.
type Seen = BTreeMap<(usize, QueueId), QueueFacts>;

/// A script.
#[derive(Debug)]
pub struct Script {
    pub(super) spec: Arc<ScriptSpec>,
    pub(super) id: ScriptId,
    pub(super) otherwise: Otherwise,
    pub(super) vm: Vm,
    pub(super) root: AnyUserData,
    /// Of requests and of responses.
    entries: [Option<Function>; 2],
    pub(super) timers: Vec<Timer>,
    pub(super) watches: Vec<(Watched, Function)>,
    seen: Seen,
    pub(super) budget: Budget,
    pub(super) counts: ScriptCounts,
    pub(super) last_failure: Option<Failure>,
    /// Whether a call is about the queues, and serves all that came: none has asked for the one that did.
    pub(super) is_for_all: bool,
    pub(super) runs: Runs,
    pub(super) transform: Vec<Endpoint>,
    notify: Vec<Endpoint>,
    /// By the places of their names.
    notifications: Vec<Vec<Endpoint>>,
}

impl Script {
    /// Compiles a script and runs its text and its `on_load`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(spec: Arc<ScriptSpec>, id: ScriptId) -> Result<Script, LoadError> {
        let wrong = |failure| LoadError::Text(spec.name.clone(), failure);
        let lua_wrong = |error: mlua::Error| wrong(Failure::Wrong(error.to_string()));
        let no_endpoint = |text: String| LoadError::Endpoint(spec.name.clone(), text);
        let tls = match &spec.tls {
            Some((files, name)) => {
                let tls = ClientTls::new(files.clone());
                Some((tls.map_err(|error| no_endpoint(error.to_string()))?, name.clone()))
            }
            None => None,
        };
        let endpoint = |url: &String| {
            let endpoint = Endpoint::parse(url).map_err(no_endpoint)?;
            Ok(endpoint.with_tls(tls.clone()))
        };
        let transform =
            spec.transform.iter().map(|(_, url)| endpoint(url)).collect::<Result<_, _>>()?;
        let endpoints = |urls: &Vec<String>| urls.iter().map(endpoint).collect::<Result<_, _>>();
        let notify = endpoints(&spec.notify)?;
        let notifications =
            spec.notifications.iter().map(|(_, urls)| endpoints(urls)).collect::<Result<_, _>>()?;
        let stage = Stage::new(spec.clone(), id);
        let vm = Vm::new(spec.limits, |lua| api::open(lua, stage)).map_err(lua_wrong)?;
        for (name, text) in &spec.texts {
            vm.run_text(name, text, LOAD_TIME).map_err(wrong)?;
        }
        let function = |name: &str| match vm.lua().globals().get::<Value>(name) {
            Ok(Value::Function(function)) => Some(function),
            _ => None,
        };
        let entries = [REQUEST, RESPONSE].map(|names| names.into_iter().find_map(function));
        if entries.iter().all(Option::is_none) {
            return Err(LoadError::NoEntry(spec.name.clone()));
        }
        let root = vm.lua().create_userdata(Root).map_err(lua_wrong)?;
        if let Some(load) = function("on_load") {
            vm.call_within::<()>(&load, root.clone(), LOAD_TIME).map_err(wrong)?;
        }
        let mut script = Script {
            root,
            entries,
            timers: Vec::new(),
            watches: Vec::new(),
            seen: Seen::new(),
            budget: Budget::default(),
            counts: ScriptCounts::default(),
            last_failure: None,
            is_for_all: spec.is_for_queues(),
            runs: Runs::default(),
            transform,
            notify,
            notifications,
            otherwise: spec.otherwise(),
            spec,
            id,
            vm,
        };
        let (timers, watches) = script.on_stage(|stage| {
            stage.is_loading = false;
            (std::mem::take(&mut stage.timers), std::mem::take(&mut stage.watches))
        });
        (script.timers, script.watches) = (timers, watches);
        Ok(script)
    }

    pub(super) fn on_stage<T>(&self, act: impl FnOnce(&mut Stage) -> T) -> T {
        let mut stage = self.vm.lua().app_data_mut::<Stage>().expect("set when it was loaded");
        act(&mut stage)
    }

    /// Lets it look at the node's links.
    pub(super) fn see_links(&self, links: &Links) {
        self.on_stage(|stage| stage.links = links.clone());
    }

    /// Rules or places of scripts have changed.
    pub(super) fn sit_at(&mut self, id: ScriptId) {
        self.id = id;
        self.on_stage(|stage| stage.sit_at(id));
    }

    /// Whether it has a function for this side alone.
    pub fn has(&self, side: Side) -> bool {
        self.entries[side as usize].is_some()
    }

    pub(super) fn entry(&self, side: Side) -> Option<&Function> {
        let [request, response] = &self.entries;
        match side {
            Side::Request if self.spec.dialect == Dialect::Http => request.as_ref(),
            Side::Request => request.as_ref().or(response.as_ref()),
            Side::Response => response.as_ref(),
        }
    }

    /// Whether nothing may go without it: then it is not switched off, and what it fails on does not go.
    pub(super) fn is_needed(&self) -> bool {
        self.otherwise != Otherwise::Pass
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        let script = &self.spec.name;
        let count = match failure {
            Failure::Time(_) => &mut self.counts.too_long,
            Failure::Memory(_) => &mut self.counts.too_large,
            Failure::Wrong(_) => &mut self.counts.wrong,
        };
        *count += 1;
        if self.last_failure.as_ref() != Some(&failure) {
            let outcome = match self.otherwise {
                Otherwise::Pass => "goes as it is",
                Otherwise::Drop => "is dropped",
                Otherwise::Hold => "is held until the script is changed",
            };
            tracing::warn!(%script, "a script failed, what it saw {outcome}: {failure}");
        }
        // One that takes long is no worse the next time: it only gets to less.
        let is_error = !matches!(failure, Failure::Time(_));
        if is_error && !self.is_needed() && self.budget.fail() {
            tracing::error!(
                %script,
                "a script keeps failing and is switched off until it is loaded anew: {failure}"
            );
        }
        self.last_failure = Some(failure);
    }

    /// Tries it on the first record that waits for it, and forgets what it decided.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn try_on(&mut self, seat: &mut Seat, moment: Moment) -> Result<(), LoadError> {
        let queues = stage::queues_of(seat, self.id);
        let first = queues.into_iter().find_map(|queue| {
            let id = seat.waiting_after(queue, None)?;
            Some((queue, id))
        });
        let Some((queue, id)) = first else { return Ok(()) };
        let result = self.rehearse(seat, moment, (queue, id));
        result.map_err(|failure| LoadError::DryRun(self.spec.name.clone(), failure))
    }

    /// Whether what it has to do can wait.
    pub(super) fn is_patient(&self) -> bool {
        self.is_for_all || self.runs.is_suspended()
    }

    /// Whether it waits for changes.
    pub(super) fn watches(&self) -> bool {
        !self.watches.is_empty() && !self.budget.is_spent()
    }

    /// Changes since the last look.
    pub(super) fn changes(&mut self, seat: &mut Seat, now: Time) -> Vec<Call> {
        let mut queues = stage::queues_of(seat, self.id);
        queues.truncate(WATCHED_MAX);
        let (mut calls, mut seen) = (Vec::new(), Seen::new());
        for queue in queues {
            let Some(facts) = seat.queue_facts(now, queue) else { continue };
            for (place, (what, _)) in self.watches.iter().enumerate() {
                let before = self.seen.get(&(place, queue)).copied();
                let is_other = before.is_some_and(|before| differs(*what, &before, &facts));
                if is_other {
                    calls.push(Call::Change(place, queue));
                }
                let kept = if is_other { facts } else { before.unwrap_or(facts) };
                seen.insert((place, queue), kept);
            }
        }
        self.seen = seen;
        calls
    }

    /// How its last call failed, if it did.
    pub fn last_failure(&self) -> Option<&Failure> {
        self.last_failure.as_ref()
    }

    /// What it wants of the configuration's endpoints.
    pub fn spec(&self) -> &Arc<ScriptSpec> {
        &self.spec
    }

    /// Its place.
    pub fn id(&self) -> ScriptId {
        self.id
    }

    /// Where a notice goes.
    pub fn notified(&self, notice: &ScriptNotice) -> &[Endpoint] {
        match notice.name {
            Some(place) => self.notifications.get(place).map_or(&[], Vec::as_slice),
            None => &self.notify,
        }
    }

    /// What became of its calls.
    pub fn counts(&self) -> &ScriptCounts {
        &self.counts
    }
}

/// Whether two looks at a queue are so far apart that a script wants to know: another state, a rate or
/// time that is a quarter off.
fn differs(what: Watched, before: &QueueFacts, now: &QueueFacts) -> bool {
    let is_off = |before: f64, now: f64| (before - now).abs() > before.max(now) / 4.0;
    let seconds = |facts: &QueueFacts| facts.latency.unwrap_or_default().as_secs_f64();
    match what {
        Watched::State => before.state != now.state,
        Watched::Bandwidth => match (before.bandwidth, now.bandwidth) {
            (Some(before), Some(now)) => is_off(before.as_f64(), now.as_f64()),
            (before, now) => before != now,
        },
        Watched::Latency => is_off(seconds(before), seconds(now)),
    }
}
