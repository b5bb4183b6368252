//! What a run showed: rows of a table for people, from which the figures are taken.

use tidegate_schedule::SchedulerName;
use tidegate_types::units::Time;

use super::quantity::Span;
use super::scenario::{Phase, Scenario};
use super::world::Outcome;

/// Name of the load whose latency counts.
pub const ALARM: &str = "alarm";

/// One phase of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Scenario, or what was varied of it.
    pub case: String,
    pub law: String,
    pub phase: String,
    /// Milliseconds from arrival at the node to the far end; `None` without an alarm.
    pub alarm: Option<Alarm>,
    /// Bytes that reached the far end over what the link could carry: bulk, and all loads together.
    pub bulk: f64,
    pub all: f64,
}

/// Latency of alarms, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alarm {
    pub p50: f64,
    pub p99: f64,
    pub worst: f64,
}

/// A row for each phase of a run.
pub fn rows(scenario: &Scenario, outcome: &Outcome) -> Vec<Row> {
    let whole =
        Phase { name: "whole".into(), from: Span::default(), until: scenario.length, rate: None };
    let phases =
        if scenario.phase.is_empty() { std::slice::from_ref(&whole) } else { &scenario.phase };
    phases.iter().map(|phase| row(scenario, outcome, phase)).collect()
}

fn row(scenario: &Scenario, outcome: &Outcome, phase: &Phase) -> Row {
    let (from, until) = (Time::ZERO + phase.from.0, Time::ZERO + phase.until.0);
    let is_alarm = |place: usize| scenario.load[place].name == ALARM;
    let accounts = || outcome.ledger.accounts.iter().enumerate();
    let alarm = accounts().find(|(place, _)| is_alarm(*place)).and_then(|(_, account)| {
        let quantile = |share| account.quantile(share, from, until);
        let millis = |share| quantile(share).map(|took| took.as_secs_f64() * 1e3);
        Some(Alarm { p50: millis(0.5)?, p99: millis(0.99)?, worst: millis(1.0)? })
    });
    let room = scenario.link.room(phase);
    let share = |wanted: &dyn Fn(usize) -> bool| {
        let own = accounts().filter(|(place, _)| wanted(*place));
        let bytes: u64 = own.map(|(_, account)| account.bytes(from, until)).sum();
        if room > 0.0 { bytes as f64 / room } else { 0.0 }
    };
    Row {
        case: scenario.name.clone(),
        law: label(scenario),
        phase: phase.name.clone(),
        alarm,
        bulk: share(&|place| !is_alarm(place)),
        all: share(&|_| true),
    }
}

/// What decides in a scenario's node: the law, and the scheduler where it is not ours.
fn label(scenario: &Scenario) -> String {
    let (law, scheduler) = (scenario.node.law.name(), scenario.node.scheduler);
    match scheduler {
        SchedulerName::Tidegate => law.into(),
        other => format!("{law}/{}", other.name()),
    }
}

/// The table, with a heading.
pub fn table(rows: &[Row]) -> Vec<String> {
    let width = |text: fn(&Row) -> &str, least: usize| {
        rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0).max(least)
    };
    let (case, law, phase) =
        (width(|row| &row.case, 4), width(|row| &row.law, 3), width(|row| &row.phase, 5));
    let mut lines = vec![format!(
        "{:case$}  {:law$}  {:phase$}  {:>9}  {:>9}  {:>9}  {:>6}  {:>6}",
        "case", "law", "phase", "p50 ms", "p99 ms", "worst ms", "bulk", "all"
    )];
    let mut before = "";
    for row in rows {
        let name = if row.case == before { "" } else { &row.case };
        before = &row.case;
        let [p50, p99, worst] = match row.alarm {
            Some(Alarm { p50, p99, worst }) => [p50, p99, worst].map(|value| format!("{value:.0}")),
            None => ["-", "-", "-"].map(String::from),
        };
        lines.push(format!(
            "{name:case$}  {:law$}  {:phase$}  {p50:>9}  {p99:>9}  {worst:>9}  {:>6.3}  {:>6.3}",
            row.law, row.phase, row.bulk, row.all
        ));
    }
    lines
}

/// The audit of a run: accepted records without a fate, and broken promises in words.
pub fn audit(scenario: &Scenario, outcome: &Outcome) -> (i128, Vec<String>) {
    let mut broken = outcome.ledger.broken.clone();
    let counts = &outcome.status.counts;
    let lost = counts.lost(outcome.status.held);
    let accepted: u64 = outcome.answers.iter().map(|answer| answer.0).sum();
    // Answers that a busy processor has not given yet are none.
    let is_busy = !scenario.node.cost.0.is_zero();
    if accepted > counts.records || (accepted < counts.records && !is_busy) {
        broken.push(format!("{accepted} offers were accepted, the node counts {}", counts.records));
    }
    let received: u64 = (0..scenario.load.len()).map(|load| outcome.ledger.distinct(load)).sum();
    if received < counts.confirmed {
        broken.push(format!("{} confirmed, {received} received", counts.confirmed));
    }
    (lost, broken)
}
