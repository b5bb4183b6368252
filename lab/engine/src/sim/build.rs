//! From a scenario to the options of its node.

use tidegate_node::io::{OutputId, UplinkId};
use tidegate_node::options::{NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{FullPolicy, Rule, Rules};
use tidegate_types::class::{Classes, default_classes};
use tidegate_types::units::Size;

use super::quantity::Span;
use super::scenario::{Arrivals, LoadSpec, Scenario};

/// Memory of the node: enough that no scenario but the backlogged ones meets a bound. Payloads share theirs.
const MEMORY: Size = Size::from_mib(16 * 1024);
/// What a backlogged stream holds: a few seconds of the fastest link in the scenarios.
const BACKLOG: Size = Size::from_mib(4);

/// The node of a scenario: its own, or the default classes, one output without framing, a rule for each load.
pub(super) fn options(scenario: &Scenario) -> anyhow::Result<NodeOptions> {
    if let Some(options) = &scenario.node.options {
        return Ok((**options).clone());
    }
    let classes = Classes::new(default_classes())?;
    let rule = |load: &LoadSpec| -> anyhow::Result<Rule> {
        let all = Rule::catch_all(&classes, vec![OutputId(0)]);
        let mut rule =
            all.for_topics(&classes, &load.name, &[load.key.as_str()], load.latency.0)?;
        (rule.bound, rule.memory) = (MEMORY, MEMORY);
        if load.arrivals == Arrivals::Backlogged {
            // Its source waits for as long as it takes.
            rule.full = FullPolicy::Block(Span::seconds(1_000_000).0);
            (rule.bound, rule.memory) = (BACKLOG, BACKLOG);
        }
        Ok(rule)
    };
    let rules = scenario.load.iter().map(rule).collect::<anyhow::Result<Vec<Rule>>>()?;
    let uplink = UplinkOptions {
        name: "uplink".into(),
        controller: scenario.node.law,
        cap: scenario.node.rate.map(|speed| speed.0),
        queue: scenario.node.queue,
        ..UplinkOptions::default()
    };
    let output = OutputOptions {
        name: "cloud".into(),
        uplink: UplinkId(0),
        overhead: Size::ZERO,
        unconfirmed_max: 100_000,
        one_lane: false,
        is_gone: false,
    };
    Ok(NodeOptions {
        name: "edge".into(),
        incarnation: 1,
        classes,
        rules: Rules::new(rules)?,
        uplinks: vec![uplink],
        outputs: vec![output],
        scheduler: scenario.node.scheduler,
        memory: MEMORY,
        inbound: None,
        record_max: Size::from_mib(16),
        log: None,
        fleet: None,
    })
}
