//! The same recordings, begun a little later each time.
//!
//! One outage of seconds sets the p99 of a recording, and where it meets a sender's window is chance. One play of it says
//! little of a law; several say how often its p99 is above BBR's.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use tidegate_capacity::RateControllerName;

use super::{Sender, Trace, begun};
use crate::report::{Figure, figure};
use crate::sim::parallel;

/// Time between two starts: no multiple of a round trip or of the time between two alarms.
const APART: Duration = Duration::from_millis(137);

/// p99 and share of a law over those of BBR, for each start of each recording.
#[derive(Debug, Default)]
struct Ratios {
    p99: Vec<f64>,
    share: Vec<f64>,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

impl Ratios {
    fn above(&self) -> usize {
        self.p99.iter().filter(|ratio| **ratio > 1.0).count()
    }

    fn line(&self, recording: &str, law: &str) -> String {
        let Ratios { p99, share } = self;
        let least = p99.iter().copied().fold(f64::MAX, f64::min);
        let most = p99.iter().copied().fold(0.0, f64::max);
        format!(
            "{recording:<26} {law:<8} {} starts: p99 {:.2} of bbr's ({least:.2} to {most:.2}), above it in {}; share {:.3} of bbr's",
            p99.len(),
            mean(p99),
            self.above(),
            mean(share)
        )
    }

    fn add(&mut self, other: Ratios) {
        self.p99.extend(other.p99);
        self.share.extend(other.share);
    }
}

/// Plays each recording from several starts under BBR and these laws; answers with a line for each recording and law, and one
/// for all recordings.
///
/// # Errors
/// A file that cannot be read, or is no recording.
pub(super) fn run(
    data: &Path,
    seeds: Range<u64>,
    laws: &[RateControllerName],
) -> anyhow::Result<(Vec<String>, Vec<Figure>)> {
    let mut starts: Vec<Vec<Trace>> = Vec::new();
    for place in 0..seeds.end - seeds.start {
        starts.push(begun(data, APART * place as u32)?.unwrap_or_default());
    }
    let count = starts.first().map_or(0, Vec::len);
    let (mut lines, mut figures) = (Vec::new(), Vec::new());
    for law in laws.iter().filter(|_| count > 0) {
        let mut all = Ratios::default();
        for recording in 0..count {
            let of: Vec<&Trace> = starts.iter().map(|traces| &traces[recording]).collect();
            let ratios = beside_bbr(&of, *law, seeds.start)?;
            lines.push(ratios.line(&of[0].name, law.name()));
            all.add(ratios);
        }
        lines.push(all.line("all", law.name()));
        figures.extend(of_all(&all, law.name()));
    }
    Ok((lines, figures))
}

fn beside_bbr(of: &[&Trace], law: RateControllerName, seed: u64) -> anyhow::Result<Ratios> {
    let senders = [RateControllerName::Bbr, law].map(Sender::Law);
    let play = |trace: &&Trace| -> anyhow::Result<[f64; 2]> {
        let [bbr, ours] = [trace.play(senders[0], seed)?, trace.play(senders[1], seed)?];
        Ok([ours.p99 / bbr.p99, ours.share / bbr.share])
    };
    let mut ratios = Ratios::default();
    for one in parallel::map(of, play) {
        let [p99, share] = one?;
        ratios.p99.push(p99);
        ratios.share.push(share);
    }
    Ok(ratios)
}

fn of_all(all: &Ratios, law: &str) -> [Figure; 2] {
    let part = all.above() as f64 / all.p99.len() as f64;
    [
        figure(&format!("lte_starts_{law}_p99_of_bbr"), mean(&all.p99), "1"),
        figure(&format!("lte_starts_{law}_above_bbr"), part, "1"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::FOLDER;
    use super::*;
    use crate::net::scratch::Scratch;

    #[test]
    fn ratios_by_hand() {
        let mut all = Ratios { p99: vec![0.5, 1.5], share: vec![0.9, 1.0] };
        all.add(Ratios { p99: vec![1.0], share: vec![1.1] });
        assert_eq!(
            all.line("all", "tide"),
            "all                        tide     3 starts: p99 1.00 of bbr's (0.50 to 1.50), above it in 1; share 1.000 of bbr's"
        );
        let [mean, above] = of_all(&all, "tide");
        assert!((mean.value - 1.0).abs() < 1e-9);
        assert!((above.value - 1.0 / 3.0).abs() < 1e-3, "figures have three digits");
    }

    #[test]
    fn each_start_is_later_and_the_first_is_the_recording() {
        let folder = Scratch::new().unwrap();
        let path = folder.path().join(FOLDER);
        std::fs::create_dir_all(&path).unwrap();
        let text: String = (0..30_000).step_by(10).map(|milli| format!("{milli}\n")).collect();
        std::fs::write(path.join("steady"), &text).unwrap();
        let lengths = [0, 1].map(|place| {
            let traces = begun(folder.path(), APART * place).unwrap().unwrap();
            traces[0].length
        });
        assert_eq!(lengths[0], Duration::from_millis(29_990));
        assert_eq!(lengths[1], lengths[0] - APART);
        let laws = [RateControllerName::Tide];
        let (lines, figures) = run(folder.path(), 1..3, &laws).unwrap();
        assert_eq!((lines.len(), figures.len()), (2, 2), "{lines:?}");
        assert!(lines[1].starts_with("all") && lines[1].contains("2 starts"), "{lines:?}");
        assert!(run(Path::new("no/such"), 1..3, &laws).unwrap().0.is_empty());
    }
}
