//! `lab bench lte-traces`: recorded LTE and UMTS links with real processes, each law in turn.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::play;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};
use crate::sim::{Span, traces};
use crate::world::World;

/// The world: as `lab sim lte-traces` has it, with a real node and a real broker.
const WORLD: &str = include_str!("../../worlds/lte-traces.toml");
/// Bulk over the mean of the link.
const DEMAND: f64 = 2.2;
/// Who takes part: the name, the node's scheduler, its law.
const SENDERS: [(&str, &str, &str); 3] =
    [("native", "native", "unlimited"), ("bbr", "tidegate", "bbr"), ("tide", "tidegate", "tide")];

/// What waits at the end may take so long, and a node and a broker to come up.
const DRAIN: Duration = Duration::from_secs(20);
const UP: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Folder of the recordings, above net/mahimahi
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// How much of each recording is played
    #[arg(long, default_value_t = 120)]
    pub seconds: u64,
    /// Only recordings whose name contains this
    #[arg(long, default_value = "")]
    pub only: String,
    /// Only this sender (may be given again): native, bbr, tide
    #[arg(long, value_parser = sender)]
    pub sender: Vec<&'static str>,
    /// Adds the scores to this file, and shows all that are in it: so the whole can be run in parts
    #[arg(long, value_name = "FILE")]
    pub scores: Option<PathBuf>,
}

fn sender(name: &str) -> Result<&'static str, String> {
    let found = SENDERS.into_iter().map(|(known, ..)| known).find(|known| *known == name);
    found.ok_or_else(|| format!("no sender is called {name}: there are native, bbr and tide"))
}

/// What a sender showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Score {
    recording: String,
    sender: String,
    /// How much of the recording was played.
    seconds: u64,
    /// Of alarms, milliseconds.
    p50: f64,
    p99: f64,
    /// Bytes on the link over what it could carry, headers included.
    share: f64,
}

/// All scores so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Scores(Vec<Score>);

impl Scores {
    fn read(file: Option<&Path>) -> anyhow::Result<Scores> {
        let Some(file) = file.filter(|file| file.exists()) else { return Ok(Scores::default()) };
        let reading = || format!("reading the scores in {}", file.display());
        let text = std::fs::read_to_string(file).with_context(reading)?;
        serde_json::from_str(&text).with_context(reading)
    }

    /// Adds one in the place of an earlier one of the same sender on the same recording.
    fn add(&mut self, score: Score) {
        let is_same =
            |one: &Score| (&one.recording, &one.sender) == (&score.recording, &score.sender);
        self.0.retain(|one| !is_same(one));
        self.0.push(score);
        let place = |one: &Score| SENDERS.iter().position(|(name, ..)| *name == one.sender);
        self.0.sort_by(|a, b| (&a.recording, place(a)).cmp(&(&b.recording, place(b))));
    }

    fn write(&self, file: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
    }

    fn findings(&self) -> Findings {
        let mut lines = vec![format!(
            "{:<28} {:>5} {:<8} {:>10} {:>10} {:>7} {:>8}",
            "recording", "s", "sender", "p50 ms", "p99 ms", "share", "of bbr"
        )];
        for one in self.0.chunk_by(|a, b| a.recording == b.recording) {
            lines.extend(rows(one));
        }
        let figures: Vec<Figure> = self.0.iter().flat_map(named).collect();
        (lines, figures).into()
    }
}

fn world(
    (_, scheduler, law): (&str, &str, &str),
    file: &Path,
    mean: f64,
    length: Duration,
) -> anyhow::Result<World> {
    let mut world = World::varied(WORLD, &[("scheduler", scheduler), ("law", law)])?;
    world.link[0].uplink.trace = Some(file.display().to_string());
    world.length = Some(Span(length));
    let bulk = &mut world.source[1];
    bulk.per_second = DEMAND * mean / bulk.size.range().0.0 as f64;
    Ok(world)
}

/// Plays them with each sender; says what happens meanwhile, and at first how long it will take.
///
/// # Errors
/// A file that is no recording, or a world that cannot be brought up.
pub async fn run(options: &Options, say: fn(&str)) -> anyhow::Result<Findings> {
    let Some(mut links) = traces::traces(&options.data)? else {
        return Ok(vec![traces::absent(&options.data)].into());
    };
    links.retain(|link| link.name.contains(&options.only));
    let is_wanted = |name: &str| options.sender.is_empty() || options.sender.contains(&name);
    let senders: Vec<_> = SENDERS.into_iter().filter(|(name, ..)| is_wanted(name)).collect();
    let played = |link: &traces::Trace| {
        Duration::from_secs(link.length.as_secs().clamp(1, options.seconds.max(1)))
    };
    let all: Duration = links.iter().map(|link| played(link) + DRAIN + UP).sum();
    say(&format!(
        "{} recordings, {} senders: at most {:.0} minutes",
        links.len(),
        senders.len(),
        (all * senders.len() as u32).as_secs_f64() / 60.0
    ));
    let mut scores = Scores::read(options.scores.as_deref())?;
    let progress = Progress::new("lte-traces", links.len() * senders.len());
    for link in &links {
        let length = played(link);
        let room = link.service.room(Duration::ZERO, length);
        for &sender in &senders {
            progress.step(&format!("{} {}", link.name, sender.0), Some(length + DRAIN));
            let file = options.data.join(traces::FOLDER).join(&link.name).canonicalize()?;
            let world = world(sender, &file, room / length.as_secs_f64(), length)?;
            let played = play::play(&world, Path::new(""), None, say).await?;
            let alarms = played.records.get("alarm").cloned().unwrap_or_default();
            let ms = |part| alarms.quantile(part).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3);
            let carried = played.carried.get("lte").map_or(0.0, |[up, _]| *up);
            let share = carried * 1e6 / 8.0 * length.as_secs_f64() / room;
            scores.add(Score {
                recording: link.name.clone(),
                sender: sender.0.into(),
                seconds: length.as_secs(),
                p50: ms(0.5),
                p99: ms(0.99),
                share,
            });
            // Now, not at the end: what has been played stays played.
            options.scores.as_deref().map_or(Ok(()), |file| scores.write(file))?;
        }
    }
    drop(progress);
    Ok(scores.findings())
}

/// A row for each sender on one recording, and how tide stands to BBR.
fn rows(scores: &[Score]) -> Vec<String> {
    let of = |name: &str| scores.iter().find(|score| score.sender == name);
    let bbr = of("bbr").map_or(f64::NAN, |score| score.share);
    let row = |(place, score): (usize, &Score)| {
        let Score { recording, sender, seconds, p50, p99, share } = score;
        let name = if place == 0 { recording } else { "" };
        let part = share / bbr;
        format!(
            "{name:<28} {seconds:>5} {sender:<8} {p50:>10.0} {p99:>10.0} {share:>7.3} {part:>8.3}"
        )
    };
    let mut lines: Vec<String> = scores.iter().enumerate().map(row).collect();
    if let (Some(bbr), Some(tide)) = (of("bbr"), of("tide")) {
        let keeps = traces::keeps_beside_bbr(
            [tide.p50, tide.p99, tide.share],
            [bbr.p50, bbr.p99, bbr.share],
        );
        lines.push(format!(
            "{:<34} tide {} 0.9 of bbr's share at lower p50 and p99",
            "",
            if keeps { "keeps" } else { "MISSES" }
        ));
    }
    lines
}

fn named(score: &Score) -> [Figure; 3] {
    let plain = score.recording.to_lowercase().replace(['-', '.'], "_");
    let name = |what: &str| format!("lte_real_{plain}_{}_{what}", score.sender);
    [
        figure(&name("p50"), score.p50, "ms"),
        figure(&name("p99"), score.p99, "ms"),
        figure(&name("share"), score.share, "1"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::scratch::Scratch;

    fn score(recording: &str, sender: &str, share: f64) -> Score {
        let (recording, sender) = (recording.into(), sender.into());
        Score { recording, sender, seconds: 120, p50: 90.0 * share, p99: 900.0 * share, share }
    }

    #[test]
    fn each_sender_has_a_world_of_the_links_own_load() {
        let length = Duration::from_secs(10);
        for sender in SENDERS {
            let world = world(sender, Path::new("some.up"), 1e6, length).unwrap();
            assert_eq!(world.link[0].uplink.trace.as_deref(), Some("some.up"));
            assert!((world.source[1].per_second - 440.0).abs() < 1e-9);
            assert_eq!(world.drain, Span(DRAIN));
            let text = format!("{:?}", world.process("gate").unwrap().program());
            assert!(text.contains(sender.1) && text.contains(sender.2), "{text}");
        }
    }

    #[test]
    fn parts_add_up_to_one_table() {
        let scratch = Scratch::new().unwrap();
        let file = scratch.path().join("scores.json");
        for one in [
            score("some.up", "tide", 0.7),
            score("other.up", "tide", 0.5),
            score("some.up", "bbr", 0.8),
            score("some.up", "tide", 0.76),
        ] {
            let mut scores = Scores::read(Some(&file)).unwrap();
            scores.add(one);
            scores.write(&file).unwrap();
        }
        let scores = Scores::read(Some(&file)).unwrap();
        assert_eq!(scores.0.len(), 3, "{scores:?}");
        let text = scores.findings().printed().join("\n");
        assert!(text.contains("0.950") && text.contains("tide keeps 0.9"), "{text}");
        assert_eq!(text.matches("FIGURE").count(), 9);
        assert_eq!(text.matches("keeps").count(), 1, "the other recording has no BBR yet");
        assert!(Scores::read(None).unwrap().0.is_empty());
        std::fs::write(&file, "none").unwrap();
        assert!(Scores::read(Some(&file)).is_err());
    }

    #[test]
    fn a_sender_has_a_name() {
        assert_eq!(sender("tide"), Ok("tide"));
        assert!(sender("tied").unwrap_err().contains("native, bbr and tide"));
    }
}
