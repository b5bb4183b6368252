//! How many views were counted how soon, by interval.

use super::events::{Events, INTERVALS, Plan};
use super::worker::Taken;
use crate::bench::adapt::Verdict;

/// Seconds within which a view may be counted.
pub(crate) const DEADLINES: [f64; 6] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0];
/// Part of a second's views that are counted within the first deadline when all is steady.
const STEADY: f64 = 0.9;

/// See the file's header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Score {
    /// Part of each interval's views that were counted within each deadline.
    pub(crate) met: [[f64; DEADLINES.len()]; 4],
    /// Part of each interval's events that never came.
    pub(crate) dropped: [f64; 4],
    /// Seconds from the burst's end until all is steady.
    pub(crate) steady_after: f64,
}

impl Score {
    /// Of what came; `begin_ms` is when the load began, in milliseconds since 1970.
    pub(crate) fn of(plan: &Plan, events: &Events, taken: &[Taken], begin_ms: u64) -> Score {
        let length = plan.seconds.iter().sum::<f64>().ceil() as usize;
        let (mut offered, mut views) = ([0_u64; 4], [0_u64; 4]);
        // Views of each second, and those that were counted within the first deadline.
        let mut by_second = vec![(0_u64, 0_u64); length + 1];
        for (number, (at, interval)) in (0..).map_while(|n| Some((n, plan.due(n)?))) {
            offered[interval] += 1;
            if events.is_view(number) {
                views[interval] += 1;
                by_second[at as usize].0 += 1;
            }
        }
        let (mut came, mut met) = ([0_u64; 4], [[0_u64; DEADLINES.len()]; 4]);
        for one in taken {
            let at = (one.made_ms.saturating_sub(begin_ms)) as f64 / 1e3;
            let interval = plan.interval(at);
            came[interval] += 1;
            let took = (one.done_ms - one.made_ms as f64) / 1e3;
            if !one.is_view {
                continue;
            }
            for (met, deadline) in met[interval].iter_mut().zip(DEADLINES) {
                *met += u64::from(took <= deadline);
            }
            by_second[(at as usize).min(length)].1 += u64::from(took <= DEADLINES[0]);
        }
        let part = |some: u64, all: u64| some as f64 / all.max(1) as f64;
        let is_bad = |second: &usize| {
            let (all, good) = by_second[*second];
            part(good, all) < STEADY
        };
        // The last second may be cut off.
        let end = plan.burst_ends();
        let last_bad = (end as usize..length.saturating_sub(1)).rfind(is_bad);
        Score {
            met: std::array::from_fn(|i| std::array::from_fn(|d| part(met[i][d], views[i]))),
            dropped: std::array::from_fn(|i| 1.0 - part(came[i], offered[i])),
            steady_after: last_bad.map_or(0.0, |second| second as f64 + 1.0 - end),
        }
    }
}

/// The paper's figures (its Fig. 11 and 12).
const DROPPED_IN_BURST: f64 = 0.29;
const DROPPED_AFTER: f64 = 0.06;
const RATIOS: [f64; 2] = [23.0, 1.378];
const COUNTED: f64 = 0.7;
const STEADY_WITHIN: f64 = 10.0;

/// A table of both runs, and the verdict on the adapted one.
pub(crate) fn tell(rows: &[(&str, Score)], verdict: &mut Verdict) {
    let heads: String =
        DEADLINES.iter().map(|seconds| format!("{:>9}", format!("{seconds} s"))).collect();
    verdict.say(format!("{:<26}{heads}{:>10}", "views counted within", "dropped"));
    for (name, score) in rows {
        for (interval, label) in INTERVALS.iter().enumerate() {
            let cells: String =
                score.met[interval].iter().map(|part| format!("{part:>9.3}")).collect();
            let label = format!("{name}, {label}");
            verdict.say(format!("{label:<26}{cells}{:>10.3}", score.dropped[interval]));
        }
        verdict.say(format!("{name}: steady {} s after the burst", score.steady_after));
    }
    let of = |wanted: &str| rows.iter().find(|(name, _)| *name == wanted).map(|(_, score)| score);
    let (Some(plain), Some(shed)) = (of("plain"), of("shed")) else { return };
    verdict.at_least("burst_counted_within_1s", shed.met[2][0], COUNTED, "1");
    verdict.at_most("burst_dropped", shed.dropped[2], DROPPED_IN_BURST, "1");
    let after = "after_dropped";
    verdict.at_most(after, shed.dropped[3], DROPPED_AFTER, "1");
    verdict.at_most("steady_after", shed.steady_after, STEADY_WITHIN, "s");
    let last = DEADLINES.len() - 1;
    for (place, paper) in [0, last].into_iter().zip(RATIOS) {
        let ratio = shed.met[2][place] / plain.met[2][place];
        let deadline = DEADLINES[place];
        verdict.say(format!(
            "  {ratio:.3} times the views within {deadline} s in the burst; the paper {paper}"
        ));
        verdict.figure(&format!("burst_ratio_{deadline}s"), ratio, "1");
    }
    for place in [0, last] {
        let (name, deadline) = ("after_counted_within", DEADLINES[place]);
        verdict.figure(&format!("{name}_{deadline}s"), shed.met[3][place], "1");
        verdict.figure(&format!("{name}_{deadline}s_plain"), plain.met[3][place], "1");
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::tests::events;
    use super::*;

    #[test]
    fn what_never_came_is_dropped_and_what_came_late_is_late() {
        let plan = Plan { base: 3.0, seconds: [1.0, 1.0, 1.0, 4.0] };
        let events = events();
        // All but the burst comes at once; in the burst only views, 3 s late; the first second after it too.
        let taken: Vec<Taken> = (0..)
            .map_while(|number| Some((number, plan.due(number)?)))
            .filter(|(number, (_, interval))| *interval != 2 || events.is_view(*number))
            .map(|(number, (at, interval))| {
                let made_ms = 1000 + (at * 1e3).round() as u64;
                let late = if interval == 2 || (interval == 3 && at < 4.0) { 3000.0 } else { 10.0 };
                Taken { made_ms, done_ms: made_ms as f64 + late, is_view: events.is_view(number) }
            })
            .collect();
        let score = Score::of(&plan, &events, &taken, 1000);
        assert_eq!(score.met[0], [1.0; 6]);
        assert_eq!(score.met[2], [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        assert!((score.dropped[2] - 2.0 / 3.0).abs() < 1e-9, "{:?}", score.dropped);
        assert_eq!(score.met[3][0], 0.75);
        assert_eq!(score.steady_after, 1.0);
    }
}
