//! A plan as a table for people and as JSON for machines.

use std::fmt::Write;

use serde_json::{Value, json};
use tidegate_cluster::place::{SplitAdvice, Topic, TopicId, TopicMove};

use super::Planned;
use crate::config::units::Period;

/// The plan as one JSON object.
pub(super) fn json(planned: &Planned) -> Value {
    let nodes = planned.nodes.iter().map(|(name, _, topics)| {
        let topics: Vec<Value> = topics
            .iter()
            .map(|(id, p90)| {
                let part = &planned.parts[id.index()];
                let bound = part.topic.bound.as_secs_f64();
                let p90 = p90.is_finite().then_some(*p90);
                json!({ "name": part.name, "p90_seconds": p90, "bound_seconds": bound,
                    "load": part.topic.load() })
            })
            .collect();
        json!({ "name": name, "topics": topics })
    });
    let moves = planned.moves.iter().map(|change| {
        let (topic, from, to) = named(planned, change);
        json!({ "topic": topic, "from": from, "to": to })
    });
    let unplaced = planned.unplaced.iter().map(|(id, help)| {
        let bound = help.bound.map(|bound| bound.as_secs_f64());
        json!({ "topic": planned.parts[id.index()].name, "split": help.split,
            "replicas": help.replicas, "bound_seconds": bound, "rate": help.rate })
    });
    let broken = planned.broken.iter().map(|&place| planned.node_name(place));
    json!({
        "version": 1,
        "method": planned.method,
        "nodes": nodes.collect::<Vec<_>>(),
        "moves": moves.collect::<Vec<_>>(),
        "unplaced": unplaced.collect::<Vec<_>>(),
        "divided": planned.divided.iter().map(|(name, how)| json!({ "topic": name, "into": how })).collect::<Vec<_>>(),
        "missed": broken.collect::<Vec<_>>(),
        "nodes_min": (planned.least > 0).then_some(planned.least),
        "margin": planned.margin,
        "questions": planned.questions,
    })
}

fn named<'a>(planned: &'a Planned, change: &TopicMove) -> (&'a str, Option<&'a str>, &'a str) {
    let topic = planned.parts[change.topic.index()].name.as_str();
    (topic, change.from.map(|from| planned.node_name(from)), planned.node_name(change.to))
}

/// The plan for people: a line for each node, or with `explain` one for each topic as well.
pub(super) fn table(planned: &Planned, explain: bool) -> String {
    let mut told = String::new();
    let width = planned.nodes.iter().map(|(name, ..)| name.len()).max().unwrap_or(0).max(4);
    let _ = writeln!(told, "{:<width$}  {:>6}  {:>5}  tightest topic", "node", "topics", "load");
    for (name, machine, topics) in planned.nodes.iter().filter(|(_, _, topics)| !topics.is_empty())
    {
        let load: f64 = topics.iter().map(|(id, _)| planned.parts[id.index()].topic.load()).sum();
        let load = 100.0 * load / (machine.cores * machine.speed);
        let used = |(id, p90): &(TopicId, f64)| p90 / bound(&planned.parts[id.index()].topic);
        let tightest = topics.iter().max_by(|a, b| used(a).total_cmp(&used(b)));
        let tightest = tightest.map(|topic| line(planned, topic)).unwrap_or_default();
        let _ = writeln!(told, "{name:<width$}  {:>6}  {load:>4.0}%  {tightest}", topics.len());
        if explain {
            for topic in topics {
                let _ = writeln!(told, "{:<width$}    {}", "", line(planned, topic));
            }
        }
    }
    for change in &planned.moves {
        let _ = match named(planned, change) {
            (topic, Some(from), to) => writeln!(told, "move {topic} from {from} to {to}"),
            (topic, None, to) => writeln!(told, "new  {topic} on {to}"),
        };
    }
    for (name, how) in &planned.divided {
        let _ = writeln!(told, "{name} fits no node whole: {how}");
    }
    for (id, help) in &planned.unplaced {
        let _ = writeln!(told, "{} has no node: {}", planned.parts[id.index()].name, advice(help));
    }
    for &place in &planned.broken {
        let name = planned.node_name(place);
        let _ = writeln!(told, "{name} misses a bound: allow more --max-moves, or add a node");
    }
    told + &summary(planned)
}

fn summary(planned: &Planned) -> String {
    let used = planned.nodes.iter().filter(|(_, _, topics)| !topics.is_empty()).count();
    let placed: usize = planned.nodes.iter().map(|(_, _, topics)| topics.len()).sum();
    let least = match planned.least {
        0 => String::new(),
        least if least == used && planned.unplaced.is_empty() => ", and no plan has fewer".into(),
        least => format!(", no plan has fewer than {least}"),
    };
    let margin = 100.0 * planned.margin;
    format!(
        "{} on {} by {}{least}; {margin:.0} % of each bound kept free\n",
        count(placed, "topic"),
        count(used, "node"),
        planned.method
    )
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn bound(topic: &Topic) -> f64 {
    topic.bound.as_secs_f64()
}

/// A topic, what it will need and what it may.
fn line(planned: &Planned, (id, p90): &(TopicId, f64)) -> String {
    let part = &planned.parts[id.index()];
    let latency = if p90.is_finite() { format!("{:.1} ms", p90 * 1e3) } else { "no end".into() };
    let share = 100.0 * p90 / bound(&part.topic);
    let share = if share.is_finite() { format!("{share:.0} %") } else { "overload".into() };
    format!("{}: p90 {latency} of {} ({share})", part.name, Period(part.topic.bound))
}

/// What would help a topic that fits nowhere.
fn advice(help: &SplitAdvice) -> String {
    let mut ways = Vec::new();
    if let Some(parts) = help.split {
        ways.push(format!("{parts} parts by key"));
    }
    if let Some(copies) = help.replicas {
        ways.push(format!("{copies} copies with a part of the subscribers each"));
    }
    if let Some(bound) = help.bound {
        ways.push(format!("a bound of at least {:.1} ms", bound.as_secs_f64() * 1e3));
    }
    if help.rate > 0.0 {
        ways.push(format!("at most {:.1} records/s", help.rate));
    }
    if help.split.is_none() {
        ways.push("keys = N, if order per key is enough".into());
    }
    ways.push("a larger machine, or another one".into());
    format!("what would help: {}", ways.join("; "))
}
