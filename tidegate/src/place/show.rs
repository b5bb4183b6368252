//! What a round saw and did, for people and for machines.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_cluster::place::rebalance::{NodeView, RebalanceRemark, UnitView};

use super::Done;

/// One JSON object.
pub(super) fn json(done: &Done) -> Value {
    let node = |node: &NodeView| {
        json!({ "name": &*node.name, "is_here": node.is_here, "is_draining": node.is_draining,
            "cores": node.cores, "load": node.load.max(0.0), "bias": node.bias })
    };
    let unit = |unit: &UnitView| {
        let topic = unit.topic.as_ref();
        let predicted = unit.predicted.is_finite().then_some(unit.predicted);
        json!({ "name": &*unit.name, "node": &*unit.node,
            "rate": topic.map(|topic| topic.rate),
            "work_seconds": topic.map(|topic| topic.work.as_secs_f64()),
            "work_cv": topic.map(|topic| topic.work_cv),
            "subscribers": topic.map(|topic| topic.subscribers),
            "bound_seconds": topic.filter(|topic| has_bound(topic)).map(|topic| topic.bound.as_secs_f64()),
            "p90_seconds": unit.p90, "late": unit.late, "predicted_seconds": predicted })
    };
    let steps = done.round.steps.iter().map(|step| {
        let made = done.moves.iter().find(|(made, _)| made == step);
        let error = made.and_then(|(_, result)| result.as_ref().err());
        json!({ "topic": &*step.unit, "from": &*step.from, "to": &*step.to, "seize": step.seizes,
            "reason": step.reason.name(), "why": step.reason.to_string(),
            "moved": made.is_some_and(|(_, result)| result.is_ok()), "error": error })
    });
    let remark =
        |remark: &RebalanceRemark| json!({ "kind": remark.name(), "what": remark.to_string() });
    let unasked = done.unasked.iter().map(|(node, why)| json!({ "node": &**node, "why": why }));
    json!({
        "version": 1,
        "nodes": done.round.nodes.iter().map(node).collect::<Vec<_>>(),
        "topics": done.round.units.iter().map(unit).collect::<Vec<_>>(),
        "moves": steps.collect::<Vec<_>>(),
        "wrong": done.round.remarks.iter().map(remark).collect::<Vec<_>>(),
        "unasked": unasked.collect::<Vec<_>>(),
    })
}

fn has_bound(topic: &tidegate_cluster::place::Topic) -> bool {
    topic.bound != std::time::Duration::MAX
}

/// In words: what moves, what is wrong and was not `told` before; all that was seen where it is the last time.
pub(super) fn words(done: &Done, told: &mut BTreeSet<String>, is_last: bool) -> String {
    let mut text = String::new();
    if is_last {
        text.push_str(&table(done));
    }
    text.push_str(&moves(done));
    let mut keys = BTreeSet::new();
    let mut say = |key: String, what: String| {
        if is_last || !told.contains(&key) {
            let _ = writeln!(text, "{what}");
        }
        keys.insert(key);
    };
    for (node, why) in &done.unasked {
        say(format!("unasked {node}"), why.clone());
    }
    for remark in &done.round.remarks {
        say(remark.key(), remark.to_string());
    }
    // What is over is told again when it comes again.
    *told = keys;
    text
}

/// What moved, or would.
pub(super) fn moves(done: &Done) -> String {
    let mut text = String::new();
    for (step, result) in &done.moves {
        let (unit, from, to) = (&step.unit, &step.from, &step.to);
        let reason = &step.reason;
        let _ = match result {
            Ok(()) => writeln!(text, "{unit} moved from {from} to {to}: {reason}"),
            Err(why) => writeln!(
                text,
                "{unit} should move from {from} to {to} ({reason}), and stays: {why}"
            ),
        };
    }
    for step in done.round.steps.iter().filter(|_| done.is_dry) {
        let (unit, from, to) = (&step.unit, &step.from, &step.to);
        let _ = writeln!(text, "{unit} would move from {from} to {to}: {}", step.reason);
    }
    text
}

fn table(done: &Done) -> String {
    let mut text = String::new();
    let width = done.round.nodes.iter().map(|node| node.name.len()).max().unwrap_or(0).max(4);
    let _ = writeln!(text, "{:<width$}  {:>5}  {:>5}  {:>5}", "node", "cores", "load", "bias");
    for node in &done.round.nodes {
        let load = 100.0 * node.load.max(0.0) / node.cores;
        let state = match (node.is_here, node.is_draining) {
            (false, _) => "  does not answer",
            (true, true) => "  drains",
            (true, false) => "",
        };
        let name = &node.name;
        let _ = writeln!(
            text,
            "{name:<width$}  {:>5.1}  {load:>4.0}%  {:>5.2}{state}",
            node.cores, node.bias
        );
    }
    let units = &done.round.units;
    let wide = units.iter().map(|unit| unit.name.len()).max().unwrap_or(0).max(6);
    let _ = writeln!(
        text,
        "{:<wide$}  {:<width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>5}",
        "topics", "node", "records/s", "work ms", "bound ms", "p90 ms", "model ms", "late"
    );
    for unit in units {
        let number = |value: Option<f64>| match value {
            Some(value) if value.is_finite() => format!("{value:.1}"),
            Some(_) => "too much".into(),
            None => "-".into(),
        };
        let topic = unit.topic.as_ref();
        let _ = writeln!(
            text,
            "{:<wide$}  {:<width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>5}",
            unit.name,
            unit.node,
            number(topic.map(|topic| topic.rate)),
            number(topic.map(|topic| 1e3 * topic.work.as_secs_f64())),
            number(
                topic.filter(|topic| has_bound(topic)).map(|topic| 1e3 * topic.bound.as_secs_f64())
            ),
            number(unit.p90.map(|p90| 1e3 * p90)),
            number(topic.map(|_| 1e3 * unit.predicted)),
            unit.late.map_or("-".into(), |late| format!("{:.0}%", 100.0 * late)),
        );
    }
    text
}

/// What stays at a node that should own nothing, and why.
pub(super) fn left(done: &Done, node: &str, units: &[Arc<str>]) -> String {
    let mut text = String::new();
    for unit in units {
        let failed = done.moves.iter().find(|(step, _)| step.unit == *unit);
        let failed = failed.and_then(|(_, result)| result.as_ref().err().cloned());
        let remark = done.round.remarks.iter().find(
            |remark| matches!(remark, RebalanceRemark::Left { unit: known, .. } if known == unit),
        );
        let why = match (failed, remark) {
            (Some(why), _) => format!("{unit} stays at {node}: {why}"),
            (None, Some(remark)) => remark.to_string(),
            (None, None) => format!("{unit} stays at {node}: its owner takes no records now"),
        };
        let _ = writeln!(text, "tidegate: {why}");
    }
    let _ = writeln!(
        text,
        "tidegate: {node} drains, and gets no other topics; --force moves these where bounds are missed, --undo ends it"
    );
    text
}
