//! What `frames-nodes` shows: latency and accuracy by cameras and subscribers, and where the time goes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate::services::cameras::shrink;
use tidegate_frames::jpeg::JpegHeader;

use super::film::Film;
use super::nodes::{Turn, Who};
use super::score::Score;
use crate::report::{Figure, Findings, figure};

/// The paper's growth of unmodified frames from one camera to five.
const GROWTH: [f64; 2] = [5.6, 8.4];
/// Targets at five cameras: milliseconds, and a part.
const P95_MS: f64 = 100.0;
const LOSS: f64 = 0.03;
/// Frames that are encoded to learn what a rung costs.
const SAMPLE: usize = 8;

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Who::Tidegate => "tidegate",
            Who::Nats => "nats",
        }
    }
}

/// Tables, what is kept, and figures.
pub(super) fn findings(scores: &BTreeMap<Turn, Score>, film: &Film) -> anyhow::Result<Findings> {
    let mut lines = vec![format!(
        "{:<10} {:>7} {:>11} {:>9} {:>9} {:>9} {:>8} {:>9} {:>6} {:>8}",
        "",
        "cameras",
        "subscribers",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "in time",
        "accuracy",
        "found",
        "kB"
    )];
    let mut figures = Vec::new();
    for (turn, score) in scores {
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|part| score.quantile(part));
        let Turn { who, cameras, subscribers } = *turn;
        lines.push(format!(
            "{:<10} {cameras:>7} {subscribers:>11} {p50:>9.1} {p95:>9.1} {p99:>9.1} {:>8.3} {:>9.3} {:>6} {:>8.0}",
            who.name(),
            score.in_time(),
            score.accuracy(),
            if score.found().is_nan() { "-".into() } else { format!("{:.3}", score.found()) },
            score.bytes() / 1e3
        ));
        let name = |what: &str| {
            let who = who.name();
            format!("frames_nodes_{who}_{cameras}_cameras_{subscribers}_subscribers_{what}")
        };
        figures.extend([
            figure(&name("p50"), p50, "ms"),
            figure(&name("p95"), p95, "ms"),
            figure(&name("p99"), p99, "ms"),
            figure(&name("in_time"), score.in_time(), "1"),
            figure(&name("accuracy"), score.accuracy(), "1"),
        ]);
        if !score.found().is_nan() {
            figures.push(figure(&name("found"), score.found(), "1"));
        }
    }
    lines.extend(kept(scores, &mut figures));
    lines.extend(breakdown(scores, film, &mut figures)?);
    Ok((lines, figures).into())
}

fn kept(scores: &BTreeMap<Turn, Score>, figures: &mut Vec<Figure>) -> Vec<String> {
    let of = |who, cameras| scores.get(&Turn { who, cameras, subscribers: 1 });
    let p95 = |who, cameras| of(who, cameras).map_or(f64::NAN, |score| score.quantile(0.95));
    let growth = |who| p95(who, 5) / p95(who, 1);
    let judged = of(Who::Tidegate, 5).map_or(f64::NAN, Score::found);
    let (kept_part, by) = match judged.is_nan() {
        true => (of(Who::Tidegate, 5).map_or(f64::NAN, Score::accuracy), "the ladder"),
        false => (judged, "the detector"),
    };
    let loss = 1.0 - kept_part;
    let is_calibrated = (GROWTH[0]..=GROWTH[1]).contains(&growth(Who::Nats));
    let keeps = |is_kept: bool| if is_kept { "kept" } else { "MISSED" };
    figures.extend([
        figure("frames_nodes_nats_growth", growth(Who::Nats), "1"),
        figure("frames_nodes_tidegate_growth", growth(Who::Tidegate), "1"),
        figure("frames_nodes_accuracy_loss", loss, "1"),
    ]);
    vec![
        format!(
            "p95 from one camera to five: unmodified frames x {:.1} (the paper: {} to {}{}), tidegate x {:.1}",
            growth(Who::Nats),
            GROWTH[0],
            GROWTH[1],
            if is_calibrated { "" } else { ": the channel is NOT the paper's" },
            growth(Who::Tidegate)
        ),
        format!(
            "five cameras: p95 within {P95_MS:.0} ms: {}; accuracy lost by {by} {loss:.3}, within {LOSS}: {}",
            keeps(p95(Who::Tidegate, 5) <= P95_MS),
            keeps(loss <= LOSS)
        ),
    ]
}

/// Where the mean latency goes: until a frame leaves its node it waits and is encoded, then it is on its way.
fn breakdown(
    scores: &BTreeMap<Turn, Score>,
    film: &Film,
    figures: &mut Vec<Figure>,
) -> anyhow::Result<Vec<String>> {
    let mut lines = vec![format!(
        "{:<26} {:>10} {:>10} {:>10} {:>10}",
        "mean of tidegate, ms", "encode", "wait", "way", "all"
    )];
    let mut costs: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    let own = scores.iter().filter(|(turn, _)| turn.who == Who::Tidegate && turn.subscribers == 1);
    for (turn, score) in own {
        let (mut encode, mut count) = (0.0, 0.0);
        for (&rung, &frames) in score.rungs() {
            if let std::collections::btree_map::Entry::Vacant(cost) = costs.entry(rung) {
                cost.insert(cost_ms(film, rung)?);
            }
            encode += costs[&rung] * frames as f64;
            count += frames as f64;
        }
        let encode = encode / count;
        // Measured at another time: what is left may be just below nothing.
        let wait = (score.age() - encode).max(0.0);
        let way = score.latency() - score.age();
        lines.push(format!(
            "{:<26} {encode:>10.1} {wait:>10.1} {way:>10.1} {:>10.1}",
            format!("{} cameras", turn.cameras),
            score.latency()
        ));
        let name = |what: &str| format!("frames_nodes_tidegate_{}_cameras_{what}", turn.cameras);
        figures.extend([
            figure(&name("encode"), encode, "ms"),
            figure(&name("wait"), wait, "ms"),
            figure(&name("way"), way, "ms"),
        ]);
    }
    Ok(lines)
}

/// What encoding to a rung takes here, milliseconds: the middle one of some frames.
fn cost_ms(film: &Film, rung: (u32, u32)) -> anyhow::Result<f64> {
    let ladder = tidegate::services::cameras::load_ladder(None, false)?.ladder;
    let is_it = |one: &&tidegate_frames::Rung| (one.eighths.into(), one.quality.into()) == rung;
    // The source itself costs nothing.
    let Some(rung) = ladder.rungs().iter().find(is_it) else { return Ok(0.0) };
    let mut took = Vec::new();
    for number in 0..SAMPLE {
        let jpeg = film.frame(number);
        let head = JpegHeader::read(&jpeg)?;
        let begun = Instant::now();
        shrink(&jpeg, &head, rung)?;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    Ok(took.get(SAMPLE / 2).map_or(0.0, Duration::as_secs_f64) * 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::client::Came;
    use super::super::score::Fate;
    use super::*;

    fn score(latency_ms: u64, rung: (u32, u32), accuracy: f64) -> Score {
        let came = Came {
            due_ns: 0,
            at_ns: latency_ms * 1_000_000,
            age_ns: 10_000_000,
            bytes: 1000,
            rung,
            accuracy,
        };
        let mut score = Score::default();
        let bound = Duration::from_millis(100);
        score.add(&[Fate { due_ns: 0, came: Some(came) }], bound);
        score
    }

    #[test]
    fn growth_and_loss_are_said_to_be_kept_or_not() {
        let of = |who, cameras| Turn { who, cameras, subscribers: 1 };
        let mut scores = BTreeMap::from([
            (of(Who::Tidegate, 1), score(20, (8, 0), 1.0)),
            (of(Who::Nats, 1), score(20, (8, 0), 1.0)),
            (of(Who::Tidegate, 5), score(90, (8, 75), 0.98)),
            (of(Who::Nats, 5), score(140, (8, 0), 1.0)),
        ]);
        let text = kept(&scores, &mut Vec::new()).join("\n");
        assert!(text.contains("x 7.0 (the paper: 5.6 to 8.4), tidegate x 4.5"), "{text}");
        assert_eq!(text.matches("kept").count(), 2, "{text}");
        scores.insert(of(Who::Nats, 5), score(40, (8, 0), 1.0));
        scores.insert(of(Who::Tidegate, 5), score(101, (8, 40), 0.9));
        let text = kept(&scores, &mut Vec::new()).join("\n");
        assert!(text.contains("NOT the paper's"), "{text}");
        assert_eq!(text.matches("MISSED").count(), 2, "{text}");
    }
}
