//! `lab sim capacity`: where on the curve of share and latency each sender stands, over the recordings of every source.
//!
//! The sources are split: constants of the rate controller were chosen on some, and `--held-out` plays the others.

use std::ops::Range;
use std::path::Path;

use tidegate_capacity::RateControllerName;

use super::sources::{SOURCES, Source, traces};
use super::{Score, Sender, Trace};
use crate::bench::median;
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

/// Scores of one recording, in the order of the senders.
type Row = Vec<Score>;

/// Plays the recordings for each seed; answers with the split and a table for each source.
///
/// # Errors
/// A file that is no recording, or a broken promise.
pub fn run(
    data: &Path,
    is_held_out: bool,
    laws: &[RateControllerName],
    seeds: Range<u64>,
) -> anyhow::Result<Findings> {
    let senders = senders(laws);
    let mut lines: Vec<String> = SOURCES.iter().map(side).collect();
    let (mut figures, mut all) = (Vec::new(), Vec::new());
    for source in SOURCES.iter().filter(|source| source.is_tuned_on != is_held_out) {
        let mut played: Vec<(Trace, u64)> = Vec::new();
        for seed in seeds.clone() {
            let traces = traces(data, source, seed)?.unwrap_or_default();
            played.extend(traces.into_iter().map(|trace| (trace, seed)));
        }
        if played.is_empty() {
            lines.push(format!("skipped: {} is not below {}", source.name, data.display()));
            continue;
        }
        let play = |(trace, seed): &(Trace, u64)| -> anyhow::Result<Row> {
            senders.iter().map(|sender| trace.play(*sender, *seed)).collect()
        };
        let rows =
            parallel::map(&played, play).into_iter().collect::<anyhow::Result<Vec<Row>>>()?;
        lines.extend(table(source.name, &senders, &rows));
        all.extend(rows);
    }
    if !all.is_empty() {
        lines.extend(table("all", &senders, &all));
        for (place, sender) in senders.iter().enumerate().skip(ORACLES.len() + 1) {
            let summary = Summary::of(&all, place);
            let side = if is_held_out { "held_out" } else { "tuned_on" };
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

/// The oracles, BBR, the law under test; with several laws also the others and the curve.
fn senders(laws: &[RateControllerName]) -> Vec<Sender> {
    let is_rival = |law: &&RateControllerName| {
        !matches!(law, RateControllerName::Bbr | RateControllerName::Known)
    };
    let laws_under_test = laws.iter().filter(is_rival).map(|law| Sender::Law(*law));
    let mut senders = ORACLES.to_vec();
    senders.push(Sender::Law(RateControllerName::Bbr));
    senders.extend(laws_under_test);
    if laws.len() > 1 {
        senders.extend([Sender::Native, Sender::Cubic]);
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
            halved: part(&|row| is_halved(row, 0) && is_halved(row, place))
                / can_be_halved.max(f64::MIN_POSITIVE),
        }
    }
}

fn table(source: &str, senders: &[Sender], rows: &[Row]) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<14} {:<9} {:>6} {:>13} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}",
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
        "or+50"
    )];
    for (place, sender) in senders.iter().enumerate() {
        let Summary { share, share_of_bbr, p50, p99, p50_of_bbr, p99_of_bbr, kept, halved } =
            Summary::of(rows, place);
        lines.push(format!(
            "{:<14} {:<9} {share:>6.3} {:>13} {p50:>7.0} {p99:>7.0} {p50_of_bbr:>6.2} {p99_of_bbr:>6.2} {:>6.2} \
             {:>6.2} {:>6.2} {halved:>6.2} {:>6.2} {:>6.2}",
            "",
            sender.name(),
            format!("{:.3}, {:.3}", share_of_bbr[0], share_of_bbr[1]),
            kept[0],
            kept[1],
            kept[2],
            kept[3],
            kept[4]
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(p50: f64, p99: f64, share: f64) -> Score {
        Score { p50, p99, share }
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
        assert_eq!(table("s", &senders(&[RateControllerName::Tide]), &rows).len(), 7);
    }

    #[test]
    fn what_is_absent_is_told_beside_the_split() {
        let laws = [RateControllerName::Tide];
        let lines = run(Path::new("no/such"), true, &laws, 1..2).unwrap().lines;
        assert_eq!(lines.iter().filter(|line| line.contains("tuned on")).count(), 4);
        assert_eq!(lines.iter().filter(|line| line.starts_with("skipped: ")).count(), 6);
    }
}
