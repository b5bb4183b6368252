//! `lab sim held-out`: recordings that nobody looked at while the law was tuned, split by file.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tidegate_capacity::RateControllerName;

use super::{LENGTH_MAX, Score, Sender, Trace, keeps};
use crate::bench::median;
use crate::link::trace;
use crate::report::{Findings, figure};
use crate::sim::parallel;

/// A folder of tables of seconds and Mbit/s, of which every so many-th file is played, from one on. The
/// first of each was looked at.
const FOLDERS: [(&str, usize, usize); 2] = [("norway_hsdpa", 3, 1), ("zhuge_wifi_4g_5g", 8, 3)];
/// Faster recordings take long to play and are no bottleneck, in Mbit/s on average; shorter ones say little.
const FASTEST: f64 = 40.0;
const SHORTEST: Duration = Duration::from_secs(30);

/// Plays them with BBR and with the law; answers with the lines to print.
///
/// # Errors
/// A file that is no recording, or a broken promise.
pub fn run(data: &Path, seed: u64, law: RateControllerName) -> anyhow::Result<Findings> {
    let mut lines = Vec::new();
    let mut figures = Vec::new();
    for (folder, every, from) in FOLDERS {
        let path = data.join("net").join(folder);
        if !path.is_dir() {
            let path = path.display();
            lines.push(format!("skipped: needs {path} (recorded links), not found: give --data"));
            continue;
        }
        let traces = tables(&path, every, from)?;
        lines.push(format!(
            "{folder:<30} {:>17} {:>17} {:>15} {:>7}",
            "p50 ms, bbr", "p99 ms, bbr", "share, bbr", "of bbr"
        ));
        let play = |trace: &Trace| -> anyhow::Result<[Score; 2]> {
            Ok([
                trace.play(Sender::Law(law), seed)?,
                trace.play(Sender::Law(RateControllerName::Bbr), seed)?,
            ])
        };
        let scores = parallel::map(&traces, play);
        let scores = scores.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        for (trace, [ours, bbr]) in traces.iter().zip(&scores) {
            lines.push(format!(
                "{:<30} {:>17} {:>17} {:>15} {:>7.3}{}",
                trace.name,
                format!("{:.0} {:.0}", ours.p50, bbr.p50),
                format!("{:.0} {:.0}", ours.p99, bbr.p99),
                format!("{:.3} {:.3}", ours.share, bbr.share),
                ours.share / bbr.share,
                if keeps(ours, bbr) { "" } else { " MISSES" }
            ));
        }
        let kept = scores.iter().filter(|[ours, bbr]| keeps(ours, bbr)).count();
        let of = |ratio: fn(&[Score; 2]) -> f64| median(scores.iter().map(ratio).collect());
        let name = |what: &str| format!("held_out_{folder}_{}_{what}", law.name());
        figures.push(figure(&name("recordings"), scores.len() as f64, "1"));
        figures.push(figure(&name("kept"), kept as f64, "1"));
        figures.push(figure(&name("share_of_bbr"), of(|[a, b]| a.share / b.share), "1"));
        figures.push(figure(&name("p50_of_bbr"), of(|[a, b]| a.p50 / b.p50), "1"));
        figures.push(figure(&name("p99_of_bbr"), of(|[a, b]| a.p99 / b.p99), "1"));
    }
    Ok((lines, figures).into())
}

fn tables(folder: &Path, every: usize, from: usize) -> anyhow::Result<Vec<Trace>> {
    let entries = folder.read_dir().with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    let mut traces = Vec::new();
    for file in files.into_iter().skip(from).step_by(every) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        traces.extend(table(&name, &text)?);
    }
    Ok(traces)
}

/// A table as a recording; `None` for one that is too short or too fast.
fn table(name: &str, text: &str) -> anyhow::Result<Option<Trace>> {
    let service = trace::parse(text).with_context(|| format!("trace {name}"))?;
    let seconds = |line: &str| line.split_whitespace().next()?.parse::<f64>().ok();
    let mut times = text.lines().filter_map(seconds);
    let first = times.next().unwrap_or_default();
    let length = Duration::from_secs_f64((times.next_back().unwrap_or(first) - first).max(0.0));
    let trace = Trace { name: name.into(), service, length: length.min(LENGTH_MAX) };
    let fits = SHORTEST <= length && trace.mean() * 8e-6 <= FASTEST;
    Ok(fits.then_some(trace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_lasts_from_its_first_to_its_last_second() {
        let rows = |rate: f64, last: u32| -> String {
            (0..=last).map(|second| format!("{} {rate}\n", 1000 + second)).collect()
        };
        let trace = table("one", &rows(8.0, 60)).unwrap().unwrap();
        assert_eq!(trace.length, Duration::from_secs(60));
        assert!((trace.mean() - 1e6).abs() < 2e4, "{}", trace.mean());
        assert!(table("short", &rows(8.0, 20)).unwrap().is_none());
        assert!(table("fast", &rows(80.0, 60)).unwrap().is_none());
    }

    #[test]
    fn what_is_absent_is_told() {
        let lines = run(Path::new("no/such"), 1, RateControllerName::Tide).unwrap().lines;
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("skipped: needs no/such/net/norway_hsdpa"), "{lines:?}");
    }
}
