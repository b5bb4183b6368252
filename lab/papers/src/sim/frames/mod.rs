//! `lab sim frames-traces`: cameras over recorded channels: who gets how much accuracy there in time.
//!
//! A frame has 100 ms from capture to its last byte at the far end: 10 of them on the path, 6 to be encoded. Gains are
//! tuned on every other recording, and all is reported on the others. What kernels and modems would hold is left out:
//! bytes leave when the channel carries them.

pub(super) mod channel;
mod mez;
mod oracle;
mod play;
mod recordings;
mod step;

use std::ops::Range;
use std::path::Path;

use tidegate_frames::{ControllerName, Gains, Ladder};

use self::channel::Channel;
use self::oracle::oracle;
use self::play::{Camera, Habit, Score, Sender, play};
use self::recordings::{Group, SECONDS};
use crate::report::{Figure, Findings, figure};
use crate::sim::parallel;

/// `lab sim frames-step`, with the ladder that the program brings.
pub fn step(traces: bool) -> anyhow::Result<Findings> {
    Ok(step::run(&tidegate::services::cameras::load_ladder(None, false)?.ladder, traces))
}

/// `lab sim frames-mez`.
pub fn mez(seeds: &Range<u64>) -> anyhow::Result<Findings> {
    mez::run(seeds)
}

/// Frames a second.
const RATES: [usize; 2] = [5, 15];
/// What the feed-forward controller must reach of the oracle's frames in time, and of its accuracy.
const TARGETS: (f64, f64) = (0.93, 0.86);
/// Gains that are tried for the PI controller.
const GAINS_P: [f64; 4] = [0.0, 50.0, 100.0, 200.0];
const GAINS_I: [f64; 5] = [5.0, 10.0, 20.0, 40.0, 80.0];

/// A sender over all recordings: the mean of each group counts once.
#[derive(Clone, Debug)]
struct Row {
    name: &'static str,
    groups: Vec<Score>,
    all: Score,
    /// The longest p95 of a recording.
    worst_p95: f64,
}

/// The lines to print.
pub fn run(data: &Path, seed: u64) -> anyhow::Result<Findings> {
    let Some(ladder) = recordings::ladder(data)? else {
        return Ok(vec![recordings::absent(data)].into());
    };
    let tuning = recordings::groups(data, 0)?;
    let judged = recordings::groups(data, 1)?;
    let count = |groups: &[Group]| groups.iter().map(|group| group.channels.len()).sum::<usize>();
    let mut lines = vec![format!(
        "tuned on {} recordings, reported on {} others, up to {SECONDS} s of each; {} rungs, colour only",
        count(&tuning),
        count(&judged),
        ladder.rungs().len()
    )];
    let mut figures = Vec::new();
    for fps in RATES {
        let gains = tune(&tuning, &ladder, fps, seed, 1.0);
        lines.push(String::new());
        let Gains { gain_p, gain_i, .. } = gains;
        lines.push(format!("{fps} frames/s; pi tuned to {gain_p:.0} and {gain_i:.0} B/ms"));
        let rows = table(&judged, &ladder, fps, seed, gains);
        lines.extend(print(&judged, &rows));
        figures.extend(verdict(&rows, fps, &mut lines));
    }
    Ok((lines, figures).into())
}

/// The gains that bring the PI controller most accuracy in time, of those that are tried times `scale`.
fn tune(groups: &[Group], ladder: &Ladder, fps: usize, seed: u64, scale: f64) -> Gains {
    let gains = |gain_p: f64, gain_i: f64| Gains {
        gain_p: gain_p * scale,
        gain_i: gain_i * scale,
        ..Gains::default()
    };
    let grid: Vec<Gains> = GAINS_P
        .into_iter()
        .flat_map(|gain_p| GAINS_I.map(|gain_i| gains(gain_p, gain_i)))
        .collect();
    let scores = parallel::map(&grid, |gains| {
        let sender = pi("pi", *gains, Habit::Cancel);
        score(groups, ladder, fps, seed, sender.name, |channel, camera| {
            play(channel, camera, &sender)
        })
    });
    let best =
        scores.iter().zip(&grid).max_by(|a, b| a.0.all.effective.total_cmp(&b.0.all.effective));
    best.map_or_else(Gains::default, |(_, gains)| *gains)
}

fn pi(name: &'static str, gains: Gains, habit: Habit) -> Sender {
    Sender { name, controller: ControllerName::Pi, gains, habit }
}

/// The oracle first, the feed-forward controller last.
fn table(groups: &[Group], ladder: &Ladder, fps: usize, seed: u64, tuned: Gains) -> Vec<Row> {
    let plain = |name, controller, habit| Sender { name, controller, gains: tuned, habit };
    let senders = [
        plain("fixed", ControllerName::Fixed, Habit::All),
        plain("newest", ControllerName::Fixed, Habit::Newest),
        pi("pi", tuned, Habit::All),
        pi("pi, skip", tuned, Habit::Skip),
        pi("pi, skip, cancel", tuned, Habit::Cancel),
        plain("feed-forward, skip", ControllerName::FeedForward, Habit::Skip),
        plain("feed-forward", ControllerName::FeedForward, Habit::Cancel),
    ];
    let mut rows = vec![score(groups, ladder, fps, seed, "oracle", oracle)];
    rows.extend(parallel::map(&senders, |sender| {
        score(groups, ladder, fps, seed, sender.name, |channel, camera| {
            play(channel, camera, sender)
        })
    }));
    rows
}

fn score(
    groups: &[Group],
    ladder: &Ladder,
    fps: usize,
    seed: u64,
    name: &'static str,
    play: impl Fn(&Channel, &Camera<'_>) -> Score,
) -> Row {
    let mut row = Row { name, groups: Vec::new(), all: Score::default(), worst_p95: 0.0 };
    for group in groups {
        let mut mean = Score::default();
        for (at, channel) in group.channels.iter().enumerate() {
            let camera = Camera::new(ladder, fps, SECONDS, seed + at as u64);
            let one = play(channel, &camera);
            mean.add(&one, group.channels.len());
            row.worst_p95 = row.worst_p95.max(one.p95);
        }
        row.all.add(&mean, groups.len());
        row.groups.push(mean);
    }
    row
}

impl Score {
    /// Adds one of so many to a mean.
    fn add(&mut self, one: &Score, of: usize) {
        self.hits += one.hits / of as f64;
        self.effective += one.effective / of as f64;
    }
}

fn print(groups: &[Group], rows: &[Row]) -> Vec<String> {
    let names: String = groups.iter().map(|group| format!("{:>13}", group.name)).collect();
    let mut lines =
        vec![format!("{:<20}{names}{:>13}{:>13}", "in time / accuracy", "all", "worst p95")];
    for row in rows {
        let cell =
            |score: &Score| format!("{:>13}", format!("{:.3}/{:.3}", score.hits, score.effective));
        let cells: String = row.groups.iter().chain([&row.all]).map(cell).collect();
        let p95 =
            if row.worst_p95 > 0.0 { format!("{:.0} ms", row.worst_p95) } else { String::new() };
        lines.push(format!("{:<20}{cells}{p95:>13}", row.name));
    }
    lines
}

/// What ours is beside the oracle and beside the best of the others.
fn verdict(rows: &[Row], fps: usize, lines: &mut Vec<String>) -> Vec<Figure> {
    let [best, others @ .., ours] = rows else { return Vec::new() };
    let hits = ours.all.hits / best.all.hits;
    let effective = ours.all.effective / best.all.effective;
    let rivals = others.iter().filter(|row| !row.name.starts_with(ours.name));
    let rival = rivals.map(|row| row.all.effective).fold(0.0, f64::max);
    let keeps = hits >= TARGETS.0 && effective >= TARGETS.1 && ours.all.effective > rival;
    let word = if keeps && ours.worst_p95 <= 100.0 { "keeps" } else { "MISSES" };
    lines.push(format!(
        "feed-forward {word} {} of the oracle's frames, {} of its accuracy, more than any other, p95 of 100 ms",
        TARGETS.0, TARGETS.1
    ));
    let name = |what: &str| format!("frames_{fps}fps_{what}");
    vec![
        figure(&name("in_time_of_oracle"), hits, "1"),
        figure(&name("accuracy_of_oracle"), effective, "1"),
        figure(&name("accuracy_of_best_other"), ours.all.effective / rival, "1"),
        figure(&name("worst_p95"), ours.worst_p95, "ms"),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::recordings::tests::ladder;
    use super::*;
    use crate::link::{Profile, Service};

    /// 40 Mbit/s that falls to 2 and returns.
    fn fading() -> Group {
        let steps = [(0, 40_000_000), (10, 2_000_000), (20, 40_000_000)];
        let steps = steps.map(|(second, bits)| (Duration::from_secs(second), bits)).to_vec();
        let service = Service::Rate(Profile::new(steps, None).unwrap());
        let channels = vec![Channel::new(&service, Duration::from_secs(30))];
        Group { name: "fading", channels }
    }

    #[test]
    fn nobody_beats_the_oracle_and_ours_beats_what_does_not_look() {
        let (groups, ladder) = ([fading()], ladder());
        let rows = table(&groups, &ladder, 15, 1, Gains::default());
        let oracle = rows[0].all;
        for row in &rows {
            assert!(row.all.effective <= oracle.effective + 1e-9, "{row:?} {oracle:?}");
        }
        let ours = &rows[rows.len() - 1];
        assert!(ours.all.hits > 0.9 && ours.worst_p95 <= 100.0, "{ours:?}");
        let fixed = rows[1].all.effective;
        assert!(ours.all.effective > 1.5 * fixed, "{} {fixed}", ours.all.effective);
    }

    #[test]
    fn absent_recordings_are_told() {
        let lines = run(Path::new("no/such"), 1).unwrap().lines;
        assert!(lines[0].starts_with("skipped: needs no/such/vision"), "{lines:?}");
    }
}
