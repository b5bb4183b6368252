//! From configuration to the node behind the proxy: rules, outputs and routes.
//!
//! Outputs are the upstreams in their order, then each listener's clients. Rules are one for each route's
//! requests, then one for each route's responses to each listener.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_capacity::RateControllerName;
use tidegate_node::io::{OutputId, UplinkId};
use tidegate_node::options::{NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{FullPolicy, Rule, RuleId, Rules};
use tidegate_types::class::{ClassId, Classes};
use tidegate_types::record::AcceptMode;
use tidegate_types::units::Size;

use super::routes::Route;
use crate::config::{Config, ProxyConfig, RouteConfig};
use crate::script::spec::Dialect;
use crate::script::{ScriptSpec, Scripts, Side};
use crate::support::time::incarnation;

/// Room for a message's head beside its body.
const HEAD: Size = Size::from_kib(64);
/// Responses that clients may be taking at once.
const RESPONSES_MAX: usize = 1 << 20;

/// What the proxy is made of.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) options: NodeOptions,
    pub(super) routes: Vec<Route>,
}

/// Of a configuration that was checked.
///
/// # Errors
/// It was not checked.
pub(super) fn plan(config: &Config, scripts: &Scripts) -> anyhow::Result<Plan> {
    let proxy = &config.proxy;
    proxy.check_counts().map_err(anyhow::Error::msg)?;
    let classes = config.classes()?;
    // Without a route everything goes to the first upstream.
    let everything = [RouteConfig::default()];
    let routes = if proxy.route.is_empty() { &everything } else { &proxy.route[..] };
    let (mut all, mut requests, mut responses) = (Vec::new(), Vec::new(), Vec::new());
    for config in routes {
        let first = (routes.len() + all.len() * proxy.listener.len()) as u16;
        let ids = (RuleId(all.len() as u16), RuleId(first));
        let sides = sides_of(config, scripts)?;
        let rate = proxy.listener.iter().any(|listener| listener.rate.is_some());
        let route = route(config, proxy, ids, sides, rate)?;
        let request =
            rule(config, &classes, route.to, sides[0].map(|place| Side::Request.of(place)))?;
        requests.push(request);
        for listener in 0..proxy.listener.len() {
            let to = OutputId((proxy.upstream.len() + listener) as u16);
            let script = sides[1].map(|place| Side::Response.of(place));
            let rule = rule(config, &classes, to, script)?;
            let name = format!("{}-responses", config.label()).into();
            responses.push(Rule { name, ..rule });
        }
        all.push(route);
    }
    requests.append(&mut responses);
    let (uplinks, outputs) = outputs(proxy);
    let record_max = all.iter().map(|route| Size(route.message_max) + HEAD).max();
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
        record_max: record_max.unwrap_or(HEAD),
        log: None,
        fleet: None,
    };
    options.check().context("[proxy]")?;
    Ok(Plan { options, routes: all })
}

/// What scripts are loaded from: each sees HTTP.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn specs(config: &Config) -> anyhow::Result<Vec<Arc<ScriptSpec>>> {
    let specs = config.script_specs().map_err(anyhow::Error::msg)?;
    let as_http =
        |spec: Arc<ScriptSpec>| Arc::new(ScriptSpec { dialect: Dialect::Http, ..(*spec).clone() });
    Ok(specs.into_iter().map(as_http).collect())
}

/// The place of a route's script, for each side that it has a function for.
fn sides_of(route: &RouteConfig, scripts: &Scripts) -> anyhow::Result<[Option<usize>; 2]> {
    let Some(name) = &route.script else { return Ok([None; 2]) };
    let place = scripts.place(name).with_context(|| format!("no script {name:?}"))?;
    let script = scripts.get(Side::Request.of(place)).context("a script has a place")?;
    Ok([Side::Request, Side::Response].map(|side| script.has(side).then_some(place)))
}

fn route(
    config: &RouteConfig,
    proxy: &ProxyConfig,
    (requests, responses): (RuleId, RuleId),
    sides: [Option<usize>; 2],
    has_rate: bool,
) -> anyhow::Result<Route> {
    let to = match &config.to {
        None => 0,
        Some(to) => {
            let place = proxy.upstream.iter().position(|upstream| upstream.label() == to);
            place.with_context(|| format!("no upstream {to:?}"))?
        }
    };
    let listener = |name: &String| {
        let place = proxy.listener.iter().position(|listener| listener.label() == name);
        place.with_context(|| format!("no listener {name:?}"))
    };
    let scripts = sides.map(|side| side.is_some());
    Ok(Route {
        name: config.label().to_owned(),
        listeners: config.listener.iter().map(listener).collect::<anyhow::Result<_>>()?,
        hosts: config.host.clone(),
        path: config.path.clone().unwrap_or_default(),
        to: OutputId(to as u16),
        requests,
        responses,
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
    })
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
        ..plain
    })
}

fn outputs(proxy: &ProxyConfig) -> (Vec<UplinkOptions>, Vec<OutputOptions>) {
    let (mut uplinks, mut outputs) = (Vec::new(), Vec::new());
    let mut add = |name: &str, controller: RateControllerName, cap, unconfirmed_max| {
        let uplink = UplinkId(uplinks.len() as u16);
        uplinks.push(UplinkOptions {
            name: name.into(),
            controller,
            cap,
            ..UplinkOptions::default()
        });
        let overhead = Size::ZERO;
        let (name, one_lane) = (name.into(), false);
        let is_gone = false;
        outputs.push(OutputOptions { name, uplink, overhead, unconfirmed_max, one_lane, is_gone });
    };
    for upstream in &proxy.upstream {
        let controller = match (&upstream.rate, upstream.cap()) {
            (None, _) => RateControllerName::Unlimited,
            (Some(_), None) => RateControllerName::Tide,
            (Some(_), Some(_)) => RateControllerName::Known,
        };
        add(upstream.label(), controller, upstream.cap(), upstream.in_flight.max(1) as usize);
    }
    for listener in &proxy.listener {
        let cap = listener.rate.map(|rate| rate.0);
        let controller =
            if cap.is_some() { RateControllerName::Known } else { RateControllerName::Unlimited };
        add(listener.label(), controller, cap, RESPONSES_MAX);
    }
    (uplinks, outputs)
}
