//! What the runs of all contestants say: figures, plots, the target, and what is broken.

use std::time::Duration;

use super::{ALARM, BULK, Contestant, OURS, Outcome};
use crate::load::{self, Account, Tally};
use crate::report::{Figure, Findings, Plot, Target, figure};

/// The target: alarm p99 of Tidegate in milliseconds, and as a part of the best rival's that loses nothing.
const P99_MAX: f64 = 250.0;
const PART_MAX: f64 = 1.0 / 8.0;

/// A contestant and its runs.
pub(super) type Runs = (Contestant, Vec<Outcome>);

/// Everything that is printed and kept; who has no run did not take part.
pub(super) fn findings(mut all: Vec<Runs>) -> Findings {
    all.retain(|(_, runs)| !runs.is_empty());
    let mut found = Findings::default();
    found.lines.push(format!(
        "{:<20}{:>11}{:>11}{:>11}{:>11}{:>12}{:>12}{:>9}",
        "median of the runs", "alarm p50", "alarm p99", "alarms", "lost", "bulk", "lost", "goodput"
    ));
    found.lines.extend(all.iter().map(|(one, runs)| row(&one.name, runs)));
    for (Contestant { name, .. }, runs) in &all {
        for outcome in runs {
            found.lines.push(format!("{name}: slowest alarms:{}", slowest(outcome)));
            found.lines.extend(windows(outcome).map(|line| format!("{name}: {line}")));
        }
    }
    let (line, beside_rivals) = target(&all).unzip();
    found.lines.extend(line);
    for (contestant, runs) in &all {
        found.figures.extend(figures(&contestant.name, runs));
        found.versions.extend(contestant.versions());
        if contestant.is_ours {
            found.broken.extend(broken(&contestant.name, runs));
        }
    }
    found.figures.extend(beside_rivals.into_iter().flatten());
    found.plots = plots(&all);
    found
}

/// A record that a node of ours accepted and that did not come, or came though it was refused.
fn broken(name: &str, outcomes: &[Outcome]) -> Vec<String> {
    let mut lines = Vec::new();
    for (run, outcome) in outcomes.iter().enumerate() {
        let Account { lost, refused_and_came, .. } = outcome.book.account("");
        if lost + refused_and_came > 0 {
            lines.push(format!(
                "{name}, run {}: {lost} accepted records did not come, {refused_and_came} refused ones did",
                run + 1
            ));
        }
        let wrong = [ALARM.0, BULK.0].map(|group| outcome.book.judged(group).broken(group));
        let named = |what: String| format!("{name}, run {}: {what}", run + 1);
        lines.extend(wrong.into_iter().flatten().map(named));
    }
    lines
}

/// The best rival that loses nothing in any run, and how Tidegate stands beside it.
fn target(all: &[Runs]) -> Option<(String, [Figure; 2])> {
    let p99 = |(_, runs): &Runs| median(runs, &|run| ms(&alarm(run), 0.99));
    let keeps_all = |(_, runs): &&Runs| runs.iter().all(|run| run.book.account("").lost == 0);
    let rivals = all.iter().filter(|(one, _)| !one.is_ours).filter(keeps_all);
    let best = rivals.min_by(|a, b| p99(a).total_cmp(&p99(b)))?;
    let ours = all.iter().find(|(one, _)| one.name == OURS)?;
    let (best_p99, p99) = (p99(best), p99(ours));
    let part = p99 / best_p99;
    let verdict = if p99 <= P99_MAX && part <= PART_MAX { "kept" } else { "MISSED" };
    let line = format!(
        "target {verdict}: alarm p99 {p99:.0} ms (at most {P99_MAX:.0}), {part:.4} of {}'s \
         {best_p99:.0} ms (at most {PART_MAX}), the best rival that loses nothing",
        best.0.name
    );
    let part = figure("hol_alarm_p99_of_best_rival", part, "1");
    let part = Figure { target: Some(Target::AtMost(PART_MAX)), ..part };
    Some((line, [figure("hol_best_rival_alarm_p99", best_p99, "ms"), part]))
}

fn row(name: &str, outcomes: &[Outcome]) -> String {
    let of = |value: &dyn Fn(&Outcome) -> f64| median(outcomes, value);
    let lost = |group: &'static str| of(&|outcome| outcome.book.account(group).lost as f64);
    let got =
        |group: &'static str| of(&|outcome| outcome.book.tally(group).map_or(0, Tally::got) as f64);
    format!(
        "{name:<20}{:>8.0} ms{:>8.0} ms{:>11}{:>11}{:>12}{:>12}{:>9.3}",
        of(&|outcome| ms(&alarm(outcome), 0.5)),
        of(&|outcome| ms(&alarm(outcome), 0.99)),
        got(ALARM.0),
        lost(ALARM.0),
        got(BULK.0),
        lost(BULK.0),
        of(&goodput),
    )
}

/// What the query at the far end showed, group by group; nothing where records carried no values.
fn windows(outcome: &Outcome) -> impl Iterator<Item = String> {
    let of = |group: &'static str| (group, outcome.book.judged(group));
    let asked = [ALARM.0, BULK.0].map(of).into_iter().filter(|(_, judged)| judged.asked > 0);
    asked.map(|(group, judged)| format!("{group}, sum and average: {}", judged.line()))
}

/// When the slowest alarms were due, and how late they came: whether a p99 is a start, a stall or the rule.
fn slowest(outcome: &Outcome) -> String {
    let Some(tally) = outcome.book.tally(ALARM.0) else { return " none came".into() };
    let show = |(latency, due_ns): (Duration, u64)| {
        let due = due_ns.saturating_sub(outcome.book.began_ns()) as f64 / 1e9;
        format!(" {} ms (due at {due:.1} s)", latency.as_millis())
    };
    tally.slowest().map(show).collect()
}

/// Every figure of a contestant: the median of its runs.
fn figures(name: &str, outcomes: &[Outcome]) -> Vec<Figure> {
    let name = name.replace('-', "_");
    let mut lines = Vec::new();
    let mut add = |what: &str, unit: &str, value: &dyn Fn(&Outcome) -> f64| {
        lines.push(figure(&format!("hol_{name}_{what}"), median(outcomes, value), unit));
    };
    for group in [ALARM.0, BULK.0] {
        let of = |outcome: &Outcome| outcome.book.tally(group).cloned().unwrap_or_default();
        let count = |outcome: &Outcome, count: fn(Account) -> u64| {
            count(outcome.book.account(group)) as f64
        };
        let records = "records";
        add(&format!("{group}_p50"), "ms", &|outcome| ms(&of(outcome), 0.5));
        add(&format!("{group}_p99"), "ms", &|outcome| ms(&of(outcome), 0.99));
        add(&format!("{group}_sent"), records, &|one| count(one, |account| account.sent));
        add(&format!("{group}_accepted"), records, &|one| count(one, |account| account.accepted));
        add(&format!("{group}_refused"), records, &|one| count(one, |account| account.refused));
        add(&format!("{group}_got"), records, &|outcome| of(outcome).got() as f64);
        add(&format!("{group}_duplicates"), records, &|outcome| of(outcome).duplicates as f64);
        add(&format!("{group}_out_of_order"), records, &|one| of(one).out_of_order as f64);
        add(&format!("{group}_lost_accepted"), records, &|one| count(one, |account| account.lost));
    }
    add("goodput_ratio", "1", &goodput);
    lines
}

/// Payload that came while the load was on, as a part of what the link carries.
fn goodput(outcome: &Outcome) -> f64 {
    let bytes = |name: &str, size: usize| {
        outcome.book.tally(name).map_or(0, |tally| tally.in_time) as f64 * size as f64
    };
    (bytes(ALARM.0, ALARM.1) + bytes(BULK.0, BULK.1)) / outcome.link_bytes
}

/// Latency of alarms: all of them as a distribution, and over time.
fn plots<'r>(all: &'r [Runs]) -> Vec<Plot> {
    let none = Tally::default();
    let of = |(one, runs): &'r Runs| {
        let mut sum = Tally::default();
        runs.iter().for_each(|run| sum.add_latencies(&alarm(run)));
        let last = runs.last().map(|run| (run.book.tally(ALARM.0), run.book.began_ns()));
        let (last, began_ns) = last.unwrap_or_default();
        (&*one.name, sum, last.unwrap_or(&none), began_ns)
    };
    let all: Vec<_> = all.iter().map(of).collect();
    let title = "Alarms through 2 Mbit/s at 160 % load";
    load::plots([title.into(), format!("{title}, last run")], "alarm", &all)
}

fn alarm(outcome: &Outcome) -> Tally {
    outcome.book.tally(ALARM.0).cloned().unwrap_or_default()
}

fn ms(tally: &Tally, part: f64) -> f64 {
    tally.quantile(part).as_secs_f64() * 1000.0
}

fn median(outcomes: &[Outcome], value: &dyn Fn(&Outcome) -> f64) -> f64 {
    crate::bench::median(outcomes.iter().map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::hol::contestants;
    use crate::load::{Acked, Book};

    /// An outcome of one alarm that came so late, of two that were accepted where one is lost.
    fn outcome(latency_us: u64, is_lost: bool) -> Outcome {
        let mut book = Book::new(Duration::MAX);
        book.take(&format!("alarm 1 0 {}", latency_us * 1000)).unwrap();
        let accepted = if is_lost { 2 } else { 1 };
        let acked = Acked {
            name: "alarm".into(),
            sent: 3,
            accepted,
            refused: if is_lost { vec![0] } else { vec![0, 2] },
            ..Acked::default()
        };
        book.promise(&serde_json::to_string(&acked).unwrap()).unwrap();
        Outcome { book, link_bytes: 2000.0 }
    }

    fn found(runs: Vec<(&str, Vec<Outcome>)>) -> Findings {
        let of = |name| contestants().into_iter().find(|one| one.name == name).unwrap();
        findings(runs.into_iter().map(|(name, runs)| (of(name), runs)).collect())
    }

    fn has(figures: &[Figure], line: &str) {
        let is_there = figures.iter().any(|figure| figure.to_string() == line);
        assert!(is_there, "{line} is not in {figures:#?}");
    }

    #[test]
    fn figures_are_medians_and_count_what_was_lost() {
        let lines = figures("a-b", &[9, 1, 5].map(|latency| outcome(latency, true)));
        has(&lines, "FIGURE hol_a_b_alarm_p99 0.005 ms");
        has(&lines, "FIGURE hol_a_b_alarm_lost_accepted 1 records");
        has(&lines, "FIGURE hol_a_b_bulk_got 0 records");
        has(&lines, "FIGURE hol_a_b_goodput_ratio 0.1 1");
    }

    #[test]
    fn the_best_rival_is_one_that_loses_nothing() {
        let found = found(vec![
            ("tidegate", vec![outcome(20_000, false)]),
            ("mosquitto-bridge", vec![outcome(9_000_000, false)]),
            ("mosquitto-forwarder", vec![outcome(400_000, false)]),
            ("nats-leaf", vec![outcome(1_000, false), outcome(1_000, true)]),
        ]);
        assert_eq!(found.broken, [""; 0], "a rival's loss is a finding");
        has(&found.figures, "FIGURE hol_alarm_p99_of_best_rival 0.05 1");
        assert!(found.lines.iter().any(|line| line.starts_with("target kept: alarm p99 20 ms")));
        assert_eq!(found.plots[0].curves.len(), 4);
    }

    #[test]
    fn a_record_that_our_node_lost_breaks_the_run() {
        let found = found(vec![("tidegate", vec![outcome(1, false), outcome(1, true)])]);
        assert_eq!(found.broken.len(), 1);
        assert!(found.broken[0].starts_with("tidegate, run 2: 1 accepted"), "{:?}", found.broken);
    }
}
