//! Scenarios of one node, and worlds in files: what is played, and which figures that gives.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tidegate_schedule::SchedulerName;
use tidegate_types::units::Time;

use super::catalogue;
use super::command::Options;
use super::file;
use super::quantity::Span;
use super::report::{self, Alarm, Row};
use super::scenario::{Feedback, Scenario};
use super::seeds;
use super::world::{Outcome, World};
use crate::report::{Figure, Findings, figure};
use crate::world;

/// Random worlds of `node-seeds`.
const SEEDS: u64 = 100;

/// What has been played so far.
#[derive(Debug, Default)]
pub(super) struct Lab {
    rows: Vec<Row>,
    lost: i128,
    /// Promises that were broken.
    pub(super) broken: Vec<String>,
    pub(super) simulated: Duration,
}

impl Lab {
    /// Runs a scenario; answers with its rows, which are kept for the table.
    fn play(&mut self, scenario: &Scenario, seed: u64) -> anyhow::Result<Vec<Row>> {
        let outcome = World::new(scenario, seed)?.run();
        let rows = report::rows(scenario, &outcome);
        self.keep(scenario, &outcome);
        self.rows.extend(rows.iter().cloned());
        Ok(rows)
    }

    fn keep(&mut self, scenario: &Scenario, outcome: &Outcome) {
        let (lost, broken) = report::audit(scenario, outcome);
        self.lost += lost;
        let named = |what: String| format!("broken promise in {}: {what}", scenario.name);
        self.broken.extend(broken.into_iter().map(named));
        self.simulated += outcome.ended.since(Time::ZERO);
    }

    pub(super) fn hol(&mut self, options: &Options) -> anyhow::Result<Findings> {
        let seed = options.seed();
        let base = catalogue::hol().with_law(options.law());
        let mut figures = Vec::new();
        let schedulers = match options.scheduler() {
            Some(one) => vec![one],
            None => SchedulerName::ALL.into_iter().rev().collect(),
        };
        for scheduler in schedulers {
            let rows = self.play(&base.clone().with_scheduler(scheduler), seed)?;
            let Some(Alarm { p50, p99, .. }) = rows[0].alarm else { continue };
            let name = scheduler.name();
            figures.push(figure(&format!("alarm_p50_{name}"), p50, "ms"));
            figures.push(figure(&format!("alarm_p99_{name}"), p99, "ms"));
            let ratio = match scheduler {
                SchedulerName::Tidegate => "bulk_goodput_ratio".into(),
                other => format!("bulk_goodput_ratio_{}", other.name()),
            };
            figures.push(figure(&ratio, rows[0].bulk, "1"));
        }
        let mut polled = base.clone();
        polled.name = "polled each 5 ms".into();
        polled.connection.feedback = Feedback::Polled(Span::millis(5));
        let rows = self.play(&polled, seed)?;
        if let Some(alarm) = rows[0].alarm {
            figures.push(figure("alarm_p99_polled", alarm.p99, "ms"));
            figures.push(figure("bulk_goodput_ratio_polled", rows[0].bulk, "1"));
        }
        for law in options.laws().into_iter().skip(1) {
            self.play(&catalogue::hol().with_law(law), seed)?;
        }
        figures.push(figure("lost_accepted", self.lost as f64, "records"));
        Ok(self.findings(figures))
    }

    pub(super) fn steps(&mut self, options: &Options) -> anyhow::Result<Findings> {
        let mut worst = Worst::default();
        // The law looks for a shorter path now and then; a step may fall into that or not.
        for offset in [0, 1700, 3300] {
            for law in options.laws() {
                let mut scenario = catalogue::steps(offset).with_law(law);
                if offset > 0 {
                    scenario.name = format!("steps, {offset} ms later");
                }
                let rows = self.play(&scenario, options.seed())?;
                if law == options.law() {
                    worst.take(&rows);
                }
            }
        }
        let mut figures = worst.figures();
        for disturbance in catalogue::disturbances() {
            for law in options.laws() {
                let rows = self.play(&disturbance.clone().with_law(law), options.seed())?;
                if law == options.law() {
                    rows.iter().for_each(|row| figures.extend(row_figures(row)));
                }
            }
        }
        figures.push(figure("lost_accepted", self.lost as f64, "records"));
        Ok(self.findings(figures))
    }

    pub(super) fn seeds(&mut self, options: &Options) -> anyhow::Result<Findings> {
        let mut lines = Vec::new();
        let mut failed = 0;
        let seeds = options.runs(SEEDS);
        for seed in options.seed()..options.seed() + seeds {
            let scenario = seeds::scenario(seed);
            let outcome = World::new(&scenario, seed)?.strict().run();
            let (lost, broken) = seeds::check(&scenario, &outcome);
            self.lost += lost;
            self.simulated += outcome.ended.since(Time::ZERO);
            if !broken.is_empty() {
                failed += 1;
                lines.push(format!("seed {seed} fails:"));
                lines.extend(broken.iter().map(|what| format!("  {what}")));
                self.broken.push(format!("seed {seed}: {}", broken[0]));
            }
        }
        let figures = vec![
            figure("seeds_run", seeds as f64, "worlds"),
            figure("seeds_failed", f64::from(failed), "worlds"),
            figure("lost_accepted", self.lost as f64, "records"),
        ];
        Ok((lines, figures).into())
    }

    pub(super) fn file(&mut self, options: &Options, path: &Path) -> anyhow::Result<Findings> {
        let (world, folder) = world::World::read(path)?;
        let played = file::play(&world, &folder, options.given_seed());
        let played = played.with_context(|| path.display().to_string())?;
        self.simulated += played.simulated;
        self.broken.extend(played.broken);
        self.broken.extend(world::broken(&world, &played.records));
        let found =
            (world::table(&world, &played.records), world::figures(&world, &played.records));
        Ok(found.into())
    }

    fn findings(&self, figures: Vec<Figure>) -> Findings {
        (report::table(&self.rows), figures).into()
    }
}

/// p50, p99 and share of one row.
fn row_figures(row: &Row) -> Vec<Figure> {
    let name = |what: &str| {
        let text = format!("{} {} {what}", row.case, row.phase);
        let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { ' ' };
        let text: String = text.chars().map(plain).collect();
        text.split_whitespace().collect::<Vec<_>>().join("_").to_lowercase()
    };
    let mut figures = Vec::new();
    if let Some(Alarm { p50, p99, .. }) = row.alarm {
        figures.push(figure(&name("p50"), p50, "ms"));
        figures.push(figure(&name("p99"), p99, "ms"));
    }
    figures.push(figure(&name("share"), row.all, "1"));
    figures
}

/// The worst of several runs of the steps.
#[derive(Debug, Default)]
struct Worst {
    steady_p99: f64,
    drop: f64,
    share: Option<f64>,
}

impl Worst {
    fn take(&mut self, rows: &[Row]) {
        for row in rows {
            let alarm = row.alarm.map_or(0.0, |alarm| alarm.p99);
            match row.phase.as_str() {
                "drop" => {
                    self.drop = self.drop.max(row.alarm.map_or(0.0, |alarm| alarm.worst));
                }
                "from 3 s" => self.share = Some(self.share.unwrap_or(1.0).min(row.all)),
                _ => self.steady_p99 = self.steady_p99.max(alarm),
            }
        }
    }

    fn figures(&self) -> Vec<Figure> {
        /// Old rate over new, round trip and target queue in ms, and what an alarm may always take.
        const BOUND: f64 = 8.0 * (100.0 + 25.0) + 150.0;
        vec![
            figure("steps_alarm_p99", self.steady_p99, "ms"),
            figure("steps_drop_worst", self.drop, "ms"),
            figure("steps_drop_bound", BOUND, "ms"),
            figure("steps_share_from_3_s", self.share.unwrap_or_default(), "1"),
        ]
    }
}
