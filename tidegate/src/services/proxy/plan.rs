//! From configuration to the node behind the proxy: rules, outputs and routes.
//!
//! Outputs are the upstreams in their order, then each listener's clients; those that come while the proxy runs stand
//! behind them. Rules are one for each route's requests, then one for each route's responses to each listener.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_capacity::RateControllerName;
use tidegate_node::io::{OutputId, UplinkId};
use tidegate_node::options::{NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{FullPolicy, Rule, RuleId, Rules};
use tidegate_types::class::{ClassId, Classes};
use tidegate_types::limits::OUTPUTS_MAX;
use tidegate_types::record::AcceptMode;
use tidegate_types::units::Size;

use super::routes::Route;
use super::run::ProxyPlan;
use crate::config::{Config, ProxyConfig, RouteConfig, UpstreamConfig};
use crate::script::spec::Dialect;
use crate::script::{Script, ScriptSpec, Side};
use crate::support::time::incarnation;

/// Room for a message's head beside its body.
const HEAD: Size = Size::from_kib(64);
/// Responses that clients may be taking at once.
const RESPONSES_MAX: usize = 1 << 20;

/// Which sides a script has a function for, in the order of scripts.
pub(super) type Sides = Vec<(Arc<str>, [bool; 2])>;

/// Those of scripts.
pub(super) fn sides<'a>(scripts: impl Iterator<Item = &'a Script>) -> Sides {
    let of = |script: &Script| [Side::Request, Side::Response].map(|side| script.has(side));
    scripts.map(|script| (script.spec().name.clone(), of(script))).collect()
}

/// Which place upstreams and listeners have among the node's outputs. While the process lives a place is never another's.
#[derive(Clone, Debug, Default)]
pub(super) struct Outputs(Vec<(Kind, String)>);

/// What stands behind an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Upstream,
    /// The clients of a listener.
    Listener,
}

impl Outputs {
    /// With places for all of a configuration.
    pub(super) fn with(mut self, proxy: &ProxyConfig) -> Outputs {
        let upstreams = proxy.upstream.iter().map(|one| (Kind::Upstream, one.label()));
        let listeners = proxy.listener.iter().map(|one| (Kind::Listener, one.label()));
        for (kind, name) in upstreams.chain(listeners) {
            if self.find(kind, name).is_none() {
                self.0.push((kind, name.to_owned()));
            }
        }
        self
    }

    fn find(&self, kind: Kind, name: &str) -> Option<OutputId> {
        let place = self.0.iter().position(|(of, known)| *of == kind && known == name);
        place.map(|place| OutputId(place as u16))
    }

    pub(super) fn upstream(&self, name: &str) -> anyhow::Result<OutputId> {
        self.find(Kind::Upstream, name).with_context(|| format!("no upstream {name:?}"))
    }

    pub(super) fn listener(&self, name: &str) -> anyhow::Result<OutputId> {
        self.find(Kind::Listener, name).with_context(|| format!("no listener {name:?}"))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Listeners whose clients may wait for responses: those that are not gone, in the order of their places.
    fn listening(&self, outputs: &[OutputOptions]) -> Vec<OutputId> {
        let all = (0..).map(OutputId).zip(self.0.iter().zip(outputs));
        let listening =
            all.filter(|(_, ((kind, _), options))| *kind == Kind::Listener && !options.is_gone);
        listening.map(|(place, _)| place).collect()
    }
}

/// The node behind the proxy, by a configuration that was checked, with the outputs of `before` at their places.
///
/// # Errors
/// It was not checked, or is more than fits beside what there was.
pub(super) fn plan(
    config: &Config,
    sides: &Sides,
    places: &Outputs,
    before: Option<&NodeOptions>,
) -> anyhow::Result<NodeOptions> {
    let proxy = &config.proxy;
    proxy.check_counts().map_err(anyhow::Error::msg)?;
    let count = places.len();
    anyhow::ensure!(
        count <= OUTPUTS_MAX,
        "{count} upstreams and listeners, with those that are gone: a new start takes them"
    );
    let classes = config.classes()?;
    let (outputs, uplinks) = outputs(proxy, places, before)?;
    let (mut requests, mut responses) = (Vec::new(), Vec::new());
    for route in routes_of(proxy).iter() {
        let [asked, answered] = sides_of(route, sides)?;
        let to = to_of(route, proxy, places)?;
        let request = rule(route, &classes, to, asked.map(|place| Side::Request.of(place)))?;
        requests.push(request);
        for to in places.listening(&outputs) {
            let script = answered.map(|place| Side::Response.of(place));
            let rule = rule(route, &classes, to, script)?;
            let name = format!("{}-responses", route.label()).into();
            responses.push(Rule { name, ..rule });
        }
    }
    requests.append(&mut responses);
    let record_max = routes_of(proxy).iter().map(|route| route.message_max.0 + HEAD).max();
    // What is on its way still may be as long as it might be before.
    let record_max = record_max.max(before.map(|before| before.record_max)).unwrap_or(HEAD);
    let options = NodeOptions {
        name: config.node.name().into(),
        incarnation: incarnation(),
        classes,
        rules: Rules::new(requests)?,
        uplinks,
        outputs,
        scheduler: config.node.scheduler,
        memory: config.limits.memory.0,
        inbound: None,
        record_max,
        log: None,
        fleet: None,
    };
    options.check().context("[proxy]")?;
    Ok(options)
}

/// The routes of a configuration whose rules are at these places of the node, in the order of [`plan`].
///
/// # Errors
/// It was not checked.
pub(super) fn routes(
    made: &ProxyPlan<'_>,
    outputs: &[OutputOptions],
    rules: &[RuleId],
    before: &[Arc<Route>],
) -> anyhow::Result<Vec<Arc<Route>>> {
    let ProxyPlan { config, sides, places, counts, .. } = *made;
    let proxy = &config.proxy;
    let configs = routes_of(proxy);
    let listening = places.listening(outputs);
    let has_rate = proxy.listener.iter().any(|listener| listener.rate.is_some());
    let mut all = Vec::new();
    let (requests, responses) = rules.split_at(configs.len());
    for (place, config) in configs.iter().enumerate() {
        let scripts = sides_of(config, sides)?.map(|side| side.is_some());
        let listener = |name: &String| places.listener(name);
        let responses = &responses[place * listening.len()..];
        let name = config.label().to_owned();
        // What waited before waits still.
        let known = before.iter().find(|route| route.name == name);
        let route = Route {
            counts: counts.route(&name),
            waits: known.map_or_else(Arc::default, |route| route.waits.clone()),
            name,
            listeners: config.listener.iter().map(listener).collect::<anyhow::Result<_>>()?,
            hosts: config.host.clone(),
            path: config.path.clone().unwrap_or_default(),
            to: to_of(config, proxy, places)?,
            requests: requests[place],
            responses: listening.iter().copied().zip(responses.iter().copied()).collect(),
            // Responses that nothing can hold up need not stand anywhere.
            queues: [config.queue, config.queue && (scripts[1] || has_rate)],
            scripts,
            timeout: config.timeout.0,
            waiting: config.waiting,
            message_max: config.message_max.0.0,
            body: config.body,
            down: config.down,
            dropped: config.dropped,
            upgrades: config.upgrades.clone(),
        };
        all.push(Arc::new(route));
    }
    Ok(all)
}

/// Without a route everything goes to the first upstream.
pub(super) fn routes_of(proxy: &ProxyConfig) -> Cow<'_, [RouteConfig]> {
    match proxy.route.is_empty() {
        true => Cow::Owned(vec![RouteConfig::default()]),
        false => Cow::Borrowed(&proxy.route),
    }
}

/// Where a route leads to: without a word to the first upstream.
fn to_of(route: &RouteConfig, proxy: &ProxyConfig, places: &Outputs) -> anyhow::Result<OutputId> {
    let first = || proxy.upstream.first().map(UpstreamConfig::label);
    places.upstream(route.to.as_deref().or_else(first).unwrap_or_default())
}

/// What scripts are loaded from: each sees HTTP.
///
/// # Errors
/// A file cannot be read.
pub(super) fn specs(config: &Config) -> anyhow::Result<Vec<Arc<ScriptSpec>>> {
    let specs = config.script_specs().map_err(anyhow::Error::msg)?;
    let as_http =
        |spec: Arc<ScriptSpec>| Arc::new(ScriptSpec { dialect: Dialect::Http, ..(*spec).clone() });
    Ok(specs.into_iter().map(as_http).collect())
}

/// The place of a route's script, for each side that it has a function for.
pub(super) fn sides_of(route: &RouteConfig, sides: &Sides) -> anyhow::Result<[Option<usize>; 2]> {
    let Some(name) = &route.script else { return Ok([None; 2]) };
    let place = sides.iter().position(|(known, _)| **known == **name);
    let place = place.with_context(|| format!("no script {name:?}"))?;
    Ok(sides[place].1.map(|has| has.then_some(place)))
}

fn rule(
    route: &RouteConfig,
    classes: &Classes,
    to: OutputId,
    script: Option<tidegate_node::rules::ScriptId>,
) -> anyhow::Result<Rule> {
    let plain = Rule::catch_all(classes, vec![to]);
    let class = match (&route.class, route.latency) {
        (Some(name), _) => {
            let mut ids = (0..classes.len()).map(|place| ClassId(place as u8));
            let known = ids.find(|id| *classes.spec(*id).name == **name);
            known.with_context(|| format!("no class {name:?}"))?
        }
        (None, Some(latency)) => classes.for_latency(latency.0),
        (None, None) => plain.class,
    };
    let latency = route.latency.map_or(classes.spec(class).latency, |latency| latency.0);
    Ok(Rule {
        name: route.label().into(),
        latency,
        class,
        full: FullPolicy::Reject,
        bound: route.memory.0,
        memory: route.memory.0,
        ttl: Some(route.wait.0).filter(|wait| *wait > Duration::ZERO),
        accept: AcceptMode::Confirmed,
        script,
        is_bound: true,
        ..plain
    })
}

type Layout = (Vec<OutputOptions>, Vec<UplinkOptions>);

/// Outputs and uplinks at their places; those that the configuration does not have stay as they were.
fn outputs(
    proxy: &ProxyConfig,
    places: &Outputs,
    before: Option<&NodeOptions>,
) -> anyhow::Result<Layout> {
    let (mut outputs, mut uplinks) = match before {
        None => Layout::default(),
        Some(before) => (before.outputs.clone(), before.uplinks.clone()),
    };
    let mut set = |place: OutputId, name: &str, controller, cap, unconfirmed_max| {
        let output = OutputOptions {
            name: name.into(),
            uplink: UplinkId(place.0),
            overhead: Size::ZERO,
            unconfirmed_max,
            one_lane: false,
            is_gone: false,
        };
        let name = name.into();
        let uplink = UplinkOptions { name, controller, cap, ..UplinkOptions::default() };
        // New ones come in the order of their places.
        match outputs.get_mut(usize::from(place.0)) {
            Some(known) => (*known, uplinks[usize::from(place.0)]) = (output, uplink),
            None => {
                outputs.push(output);
                uplinks.push(uplink);
            }
        }
    };
    for upstream in &proxy.upstream {
        let controller = match (&upstream.rate, upstream.cap()) {
            (None, _) => RateControllerName::Unlimited,
            (Some(_), None) => RateControllerName::Tide,
            (Some(_), Some(_)) => RateControllerName::Known,
        };
        let place = places.upstream(upstream.label())?;
        let most = upstream.in_flight.max(1) as usize;
        set(place, upstream.label(), controller, upstream.cap(), most);
    }
    for listener in &proxy.listener {
        let cap = listener.rate.map(|rate| rate.0);
        let controller =
            if cap.is_some() { RateControllerName::Known } else { RateControllerName::Unlimited };
        let place = places.listener(listener.label())?;
        set(place, listener.label(), controller, cap, RESPONSES_MAX);
    }
    Ok((outputs, uplinks))
}
