//! `lab sim capacity`: where on the curve of share and latency each sender stands, over the recordings of every source.
//!
//! The sources are split: constants of the rate controller were chosen on some, and `--held-out` plays the others.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_capacity::RateControllerName;

use super::scores::{Key, Scores};
use super::sources::{SOURCES, Source, traces};
use super::{Score, Sender, Trace};
use crate::bench::median;
use crate::progress::Progress;
use crate::report::{Findings, figure};
use crate::sim::parallel;

/// What nobody can beat, and what knowing the next milliseconds would give.
const ORACLES: [Sender; 4] =
    [Sender::Oracle, Sender::Ahead(20), Sender::Ahead(50), Sender::Ahead(100)];
/// Fixed target queues, milliseconds: the curve.
const QUEUES: [u64; 7] = [3, 10, 20, 35, 50, 70, 100];
/// What the share must be of BBR's, in nearly all recordings and in the median.
const OF_BBR: [f64; 2] = [0.9, 0.96];
/// What p50 may be beyond that of the oracle, milliseconds.
const BEYOND: f64 = 50.0;

/// What p99 outside of silences may be beyond that of the oracle, milliseconds.
const BEYOND_CALM: f64 = 15.0;
/// The part of the recordings in which a target must be kept.
const NEARLY_ALL: f64 = 0.95;

/// Scores of one recording, in the order of the senders.
type Row = Vec<Score>;

/// Which part is played, and how.
#[derive(Clone, Debug, Default, Args)]
pub struct Part {
    /// The sources on which nothing was tuned
    #[arg(long)]
    pub held_out: bool,
    /// Also a fixed target queue of 3 to 100 ms: the curve
    #[arg(long)]
    pub curve: bool,
    /// A link, under the law and under BBR's, in place of a node over one connection
    #[arg(long)]
    pub link: bool,
    /// Only these sources, by their names, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = source)]
    pub sources: Vec<String>,
    /// Recordings at once; as many as there are processors, without
    #[arg(long)]
    pub jobs: Option<NonZero<usize>>,
    /// Adds each score to this file, and plays only what it has not: a run that was ended goes on
    #[arg(long, value_name = "FILE")]
    pub scores: Option<PathBuf>,
}

fn source(name: &str) -> Result<String, String> {
    let names: Vec<&str> = SOURCES.iter().map(|source| source.name).collect();
    let is_one = names.contains(&name);
    is_one.then(|| name.into()).ok_or_else(|| format!("the sources are {}", names.join(", ")))
}

/// One recording from where a seed says.
struct Play {
    source: &'static Source,
    trace: Trace,
    seed: u64,
}

impl Play {
    fn key(&self, sender: Sender) -> Key {
        Key {
            source: self.source.name.into(),
            recording: self.trace.name.clone(),
            seed: self.seed,
            sender: sender.name(),
        }
    }

    /// What it takes to play it, in bytes.
    fn cost(&self) -> f64 {
        self.trace.mean * self.trace.length.as_secs_f64()
    }
}

/// Several threads play, and each says what is done.
struct Run {
    senders: Vec<Sender>,
    scores: Mutex<Scores>,
    progress: Progress,
    began: Instant,
    /// Cost of what is played already, and of all that is to be played.
    done: Mutex<f64>,
    total: f64,
}

fn lock<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    /// Plays what is not known of it, and says how the law under test stands to BBR.
    fn play(&self, play: &Play) -> anyhow::Result<()> {
        for &sender in &self.senders {
            let key = play.key(sender);
            if lock(&self.scores).get(&key).is_none() {
                let score = play.trace.play(sender, play.seed)?;
                lock(&self.scores).add(key, score)?;
            }
        }
        let row = self.row(play);
        let mut done = lock(&self.done);
        *done += play.cost();
        let left = self.began.elapsed().mul_f64((self.total / *done - 1.0).max(0.0));
        let place = ORACLES.len();
        let versus = row.get(place + 1).map(|law| {
            let bbr = &row[place];
            let ratios = [law.share / bbr.share, law.p50 / bbr.p50, law.p99 / bbr.p99];
            format!(": share, p50, p99 {:.2} {:.2} {:.2} of bbr's", ratios[0], ratios[1], ratios[2])
        });
        let what = format!(
            "{} {} from {}{}; {} left",
            play.source.name,
            play.trace.name,
            play.seed,
            versus.unwrap_or_default(),
            minutes(left)
        );
        self.progress.step(&what, None);
        Ok(())
    }

    fn row(&self, play: &Play) -> Row {
        let scores = lock(&self.scores);
        self.senders.iter().filter_map(|&sender| scores.get(&play.key(sender))).collect()
    }
}

fn minutes(span: Duration) -> String {
    format!("{}:{:02} min", span.as_secs() / 60, span.as_secs() % 60)
}

/// Plays the recordings for each seed; answers with the split and a table for each source.
///
/// # Errors
/// A file that is no recording, or a broken promise.
pub fn run(
    data: &Path,
    part: &Part,
    laws: &[RateControllerName],
    seeds: Range<u64>,
) -> anyhow::Result<Findings> {
    let mut lines: Vec<String> = SOURCES.iter().map(side).collect();
    let mut plays = Vec::new();
    for source in SOURCES.iter().filter(|source| part.has(source)) {
        let before = plays.len();
        for seed in seeds.clone() {
            let traces = traces(data, source, seed)?.unwrap_or_default();
            plays.extend(traces.into_iter().map(|trace| Play { source, trace, seed }));
        }
        if plays.len() == before {
            lines.push(format!("skipped: {} is not below {}", source.name, data.display()));
        }
    }
    let run = Run {
        senders: senders(laws, part),
        scores: Mutex::new(Scores::open(part.scores.as_deref())?),
        progress: Progress::new("capacity", 0),
        began: Instant::now(),
        done: Mutex::new(0.0),
        total: 0.0,
    };
    let is_played = |play: &&Play| run.row(play).len() == run.senders.len();
    let mut to_play: Vec<&Play> = plays.iter().filter(|play| !is_played(play)).collect();
    // One seed after the other, and something of each source soon.
    to_play.sort_by_key(|play| play.seed);
    let total = to_play.iter().map(|play| play.cost()).sum();
    let run = Run { progress: Progress::new("capacity", to_play.len()), total, ..run };
    let jobs = part.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    parallel::map_on(jobs, &to_play, |play| run.play(play))
        .into_iter()
        .collect::<anyhow::Result<()>>()?;
    let mut rows: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for play in &plays {
        rows.entry(play.source.name).or_default().push(run.row(play));
    }
    for (source, rows) in &rows {
        lines.extend(table(source, &run.senders, rows));
    }
    let all: Vec<Row> = rows.into_values().flatten().collect();
    let mut figures = Vec::new();
    if !all.is_empty() {
        lines.extend(table("all", &run.senders, &all));
        let law = run.senders[ORACLES.len() + 1];
        lines.extend(Summary::of(&all, ORACLES.len() + 1).verdicts(&law.name()));
        for (place, sender) in run.senders.iter().enumerate().skip(ORACLES.len() + 1) {
            let summary = Summary::of(&all, place);
            let side = if part.held_out { "held_out" } else { "tuned_on" };
            let name = |what: &str| format!("capacity_{side}_{}_{what}", sender.name());
            figures.push(figure(&name("share_of_bbr_p50"), summary.share_of_bbr[0], "1"));
            figures.push(figure(&name("share_of_bbr_p5"), summary.share_of_bbr[1], "1"));
            figures.push(figure(&name("p50_of_bbr"), summary.p50_of_bbr, "1"));
            figures.push(figure(&name("p99_of_bbr"), summary.p99_of_bbr, "1"));
            figures.push(figure(&name("p99_kept"), summary.kept[3], "1"));
        }
    }
    Ok((lines, figures).into())
}

impl Part {
    fn has(&self, source: &Source) -> bool {
        source.is_tuned_on != self.held_out
            && (self.sources.is_empty() || self.sources.iter().any(|name| name == source.name))
    }
}

/// The oracles, BBR, the law under test; with several laws also the others. Or links under these laws, and under BBR's.
fn senders(laws: &[RateControllerName], part: &Part) -> Vec<Sender> {
    let is_rival = |law: &&RateControllerName| {
        !matches!(law, RateControllerName::Bbr | RateControllerName::Known)
    };
    let laws_under_test = laws.iter().filter(is_rival).map(|law| Sender::Law(*law));
    let mut senders = ORACLES.to_vec();
    senders.push(Sender::Law(RateControllerName::Bbr));
    if part.link {
        senders.extend(laws.iter().filter(is_rival).map(|law| Sender::Link(*law)));
        senders.push(Sender::Link(RateControllerName::Bbr));
        return senders;
    }
    senders.extend(laws_under_test);
    if laws.len() > 1 {
        senders.extend([Sender::Native, Sender::Cubic]);
    }
    if part.curve {
        senders.extend(QUEUES.map(Sender::Queue));
    }
    senders
}

fn side(source: &Source) -> String {
    let side = if source.is_tuned_on { "tuned on" } else { "held out" };
    format!("source {:<12} {side}", source.name)
}

/// What a sender makes of many recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Summary {
    share: f64,
    /// Its share over BBR's: median, and the 5th percentile.
    share_of_bbr: [f64; 2],
    p50: f64,
    p99: f64,
    p50_of_bbr: f64,
    p99_of_bbr: f64,
    /// Parts of the recordings: share at least 0.9 and 0.96 of BBR's, p50 at most half of it, p99 at most that, p50 at
    /// most the oracle's and 50 ms.
    kept: [f64; 5],
    /// p99 outside of silences beyond that of the oracle, and the part in which that is 15 ms at most.
    calm: [f64; 2],
    /// Part of those in which priority inside the modem has half of BBR's p50 itself, and in which this one has.
    halved: f64,
}

impl Summary {
    fn of(rows: &[Row], place: usize) -> Summary {
        let median_of = |value: &dyn Fn(&Row) -> f64| median(rows.iter().map(value).collect());
        let bbr = |row: &Row| row[ORACLES.len()];
        let mut ratios: Vec<f64> =
            rows.iter().map(|row| row[place].share / bbr(row).share).collect();
        ratios.sort_by(f64::total_cmp);
        let part = |is: &dyn Fn(&Row) -> bool| {
            rows.iter().filter(|row| is(row)).count() as f64 / rows.len() as f64
        };
        let is_halved = |row: &Row, by: usize| row[by].p50 <= bbr(row).p50 / 2.0;
        let can_be_halved = part(&|row| is_halved(row, 0));
        Summary {
            share: median_of(&|row| row[place].share),
            share_of_bbr: [median(ratios.clone()), ratios[ratios.len() / 20]],
            p50: median_of(&|row| row[place].p50),
            p99: median_of(&|row| row[place].p99),
            p50_of_bbr: median_of(&|row| row[place].p50 / bbr(row).p50),
            p99_of_bbr: median_of(&|row| row[place].p99 / bbr(row).p99),
            kept: [
                part(&|row| row[place].share >= OF_BBR[0] * bbr(row).share),
                part(&|row| row[place].share >= OF_BBR[1] * bbr(row).share),
                part(&|row| is_halved(row, place)),
                part(&|row| row[place].p99 <= bbr(row).p99),
                part(&|row| row[place].p50 <= row[0].p50 + BEYOND),
            ],
            calm: [
                median_of(&|row| row[place].calm_p99 - row[0].calm_p99),
                part(&|row| row[place].calm_p99 <= row[0].calm_p99 + BEYOND_CALM),
            ],
            halved: part(&|row| is_halved(row, 0) && is_halved(row, place))
                / can_be_halved.max(f64::MIN_POSITIVE),
        }
    }
}

impl Summary {
    /// Each target, and whether it is kept.
    fn verdicts(&self, law: &str) -> Vec<String> {
        let targets = [
            ("recordings with 0.9 of bbr's share", self.kept[0], NEARLY_ALL),
            ("bbr's share, median", self.share_of_bbr[0], OF_BBR[1]),
            ("recordings with half of bbr's p50", self.kept[2], NEARLY_ALL),
            ("recordings with bbr's p99 or less", self.kept[3], NEARLY_ALL),
            ("recordings with the oracle's p50 and 50 ms", self.kept[4], 0.5),
        ];
        let verdict = |(what, found, least): (&str, f64, f64)| {
            let verdict = if found >= least { "keeps" } else { "MISSES" };
            format!("{law} {verdict} {what}: {found:.3}, asked {least}")
        };
        targets.into_iter().map(verdict).collect()
    }
}

fn table(source: &str, senders: &[Sender], rows: &[Row]) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<17} {:<11} {:>6} {:>13} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7} {:>6}",
        format!("{source} ({})", rows.len()),
        "sender",
        "share",
        "of bbr, p5",
        "p50 ms",
        "p99 ms",
        "p50/b",
        "p99/b",
        ">=.9",
        ">=.96",
        "half",
        "(can)",
        "p99<=",
        "or+50",
        "calm+",
        "<=15"
    )];
    for (place, sender) in senders.iter().enumerate() {
        let Summary { share, share_of_bbr, p50, p99, p50_of_bbr, p99_of_bbr, kept, calm, halved } =
            Summary::of(rows, place);
        lines.push(format!(
            "{:<17} {:<11} {share:>6.3} {:>13} {p50:>7.0} {p99:>7.0} {p50_of_bbr:>6.2} {p99_of_bbr:>6.2} {:>6.2} \
             {:>6.2} {:>6.2} {halved:>6.2} {:>6.2} {:>6.2} {:>7.0} {:>6.2}",
            "",
            sender.name(),
            format!("{:.3}, {:.3}", share_of_bbr[0], share_of_bbr[1]),
            kept[0],
            kept[1],
            kept[2],
            kept[3],
            kept[4],
            calm[0],
            calm[1]
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(p50: f64, p99: f64, share: f64) -> Score {
        Score { p50, p99, calm_p99: p99, share }
    }

    #[test]
    fn a_summary_counts_by_hand() {
        let oracle = score(31.0, 60.0, 1.0);
        let row = |ours: Score, bbr: Score| vec![oracle, oracle, oracle, oracle, bbr, ours];
        let bbr = score(100.0, 400.0, 0.9);
        let rows = [
            row(score(50.0, 200.0, 0.9), bbr),
            row(score(80.0, 400.0, 0.81), bbr),
            // Nobody can halve this.
            row(score(40.0, 500.0, 0.45), score(50.0, 400.0, 0.9)),
        ];
        let found = Summary::of(&rows, ORACLES.len() + 1);
        assert_eq!(found.kept, [2.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]);
        assert_eq!((found.halved, found.share_of_bbr[1], found.p50), (0.5, 0.5, 50.0));
        assert_eq!(found.calm, [340.0, 0.0]);
        let verdicts = found.verdicts("tide");
        assert_eq!(
            verdicts[4],
            "tide keeps recordings with the oracle's p50 and 50 ms: 1.000, asked 0.5"
        );
        assert!(verdicts[..4].iter().all(|line| line.starts_with("tide MISSES")), "{verdicts:?}");
        assert_eq!(
            table("s", &senders(&[RateControllerName::Tide], &Part::default()), &rows).len(),
            7
        );
    }

    #[test]
    fn what_is_absent_is_told_beside_the_split() {
        let laws = [RateControllerName::Tide];
        let part = Part { held_out: true, ..Part::default() };
        let lines = run(Path::new("no/such"), &part, &laws, 1..2).unwrap().lines;
        assert_eq!(lines.iter().filter(|line| line.contains("tuned on")).count(), 4);
        assert_eq!(lines.iter().filter(|line| line.starts_with("skipped: ")).count(), 6);
    }
}
