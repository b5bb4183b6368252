//! `lab sim adapt-hls`, `lab bench adapt-hls`: BumbleBee's third case, a live stream over recorded paths: stalls and
//! resolution with a player's own choice, with the paper's Fig. 13, and with a script of the lab's own, `player.luau`.
//!
//! Recorded: sizes of chunks, bandwidth. Modelled: the player (hls.js with its defaults), a path that carries what the
//! recording says after a round trip of 50 ms. Of the product: the engine and the scripts, over requests and answers.

mod bound;
mod estimate;
mod ladder;
mod middle;
mod player;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tidegate::script::ScriptSpec;
use tidegate::script::spec::{Dialect, Parameter};

use self::ladder::{Ladder, RUNGS};
use self::middle::Middle;
use self::player::{Player, RTT_MS, Watched};
use super::stage::spec;
use crate::bench::adapt::Verdict;
use crate::bench::median;
use crate::link::{Profile, Service, trace};
use crate::report::Findings;
use crate::sim::frames::channel::Channel;
use crate::sim::parallel;

/// The lab's script for a player.
pub(crate) const HLS: &str = include_str!("player.luau");
const FIG_13: &str = include_str!("../../../../../../tidegate/lua/paper/fig13.luau");
/// What the paper leaves to the configuration: the best resolution that the estimate carries.
const FIND_RESOLUTION: &str = "function find_resolution(bw)
  local best = renditions[1][1]
  for _, one in renditions do
    if one[2] <= (tonumber(bw) or 0) then best = one[1] end
  end
  return best
end";
/// Recordings of viewers' paths. Every other one is for tuning.
const RECORDINGS: &str = "net/puffer_2022-02-18";
/// Of each recording, as the paper has it.
const SECONDS: u64 = 600;
/// Recordings that are judged: as many as the paper has, those on which the player alone stalls longest.
const WORST: usize = 9;
/// A recording on which the lowest quality alone stalls for more than this part says nothing about choosing.
const HOPELESS: f64 = 0.05;
/// Of the player's own stalls: the promise.
const STALLED_MAX: f64 = 1.0 / 3.0;
/// Part of the time on the worst recording: the paper's figure.
const WORST_MAX: f64 = 0.05;
/// Steps that the median resolution may be lower.
const LOWER_MAX: f64 = 1.0;
/// The paper's stalls with its script, in seconds: a sudden drop, a gradual one.
const PAPER: [(&str, f64, f64); 2] = [("sudden", 13.0, 9.0), ("gradual", 11.0, 5.0)];

/// What to play, and how.
#[derive(Clone, Debug, Default, Args)]
pub struct Options {
    /// Folder of sizes of chunks and of recordings
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// Play the recordings that are for tuning instead of those to be reported
    #[arg(long)]
    pub(crate) tuning: bool,
    /// A parameter of player.luau, as in part=0.5 (may be given again)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) set: Vec<(String, f64)>,
}

fn parameter(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.parse().map_err(|_| format!("{value:?} is no number"))?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chooser {
    Player,
    Fig13,
    Hls,
    /// Always the lowest quality.
    Lowest,
}

impl Chooser {
    const ALL: [Chooser; 3] = [Chooser::Player, Chooser::Fig13, Chooser::Hls];

    fn name(self) -> &'static str {
        match self {
            Chooser::Player => "player",
            Chooser::Fig13 => "fig. 13",
            Chooser::Hls => "player.luau",
            Chooser::Lowest => "lowest",
        }
    }

    fn middle(self, set: &[(String, f64)]) -> anyhow::Result<Middle> {
        match self {
            Chooser::Player => Ok(Middle::none()),
            Chooser::Fig13 => Middle::with(script("fig13", FIG_13, FIND_RESOLUTION, &[])),
            Chooser::Hls => Middle::with(script("hls", HLS, "", set)),
            Chooser::Lowest => {
                let text = "function on_message(h)
                    local _, chunk = h:header():get('path')
                    h:header():replace('path', '/240/' .. chunk)
                end";
                Middle::with(script("lowest", text, "", &[]))
            }
        }
    }
}

/// A script over requests for chunks.
fn script(name: &str, text: &str, helper: &str, set: &[(String, f64)]) -> ScriptSpec {
    let pair = |(lines, bits): &(u32, f64)| {
        Parameter::List(vec![Parameter::Number(f64::from(*lines)), Parameter::Number(*bits)])
    };
    let renditions = Parameter::List(RUNGS.iter().map(pair).collect());
    let mut plain = spec(name, text, &[("renditions", renditions)]);
    let set = set.iter().map(|(name, value)| (name.clone(), Parameter::Number(*value)));
    plain.parameters.extend(set);
    let mut texts = plain.texts.clone();
    texts.insert(0, ("helper".into(), helper.into()));
    let path = Some("^/?(%d+)/(.+)$".into());
    ScriptSpec { texts, path, dialect: Dialect::Http, ..plain }
}

/// The lines to print, and what was broken.
pub fn run(data: &Path, options: &Options) -> anyhow::Result<Findings> {
    let files = recordings(&data.join(RECORDINGS))?;
    let Some(ladder) = Ladder::read(data)?.filter(|_| !files.is_empty()) else {
        return Ok(vec![Ladder::absent(data)].into());
    };
    let mut verdict = Verdict::new("adapt_hls");
    let first = usize::from(!options.tuning);
    let judged: Vec<PathBuf> = files.into_iter().skip(first).step_by(2).collect();
    worst(&ladder, &judged, options, &mut verdict)?;
    for (place, (name, own, with)) in PAPER.into_iter().enumerate() {
        let channel = drop_of(place == 1)?;
        let watched = Chooser::ALL.map(|chooser| watch(&ladder, &channel, chooser, &options.set));
        let watched = watched.into_iter().collect::<anyhow::Result<Vec<Watched>>>()?;
        let stalls: Vec<String> = Chooser::ALL
            .iter()
            .zip(&watched)
            .map(|(chooser, watched)| format!("{} {:.1} s", chooser.name(), watched.stalled))
            .collect();
        let stalls = stalls.join(", ");
        verdict.say(format!(
            "{name} drop: {stalls} stalled (the paper: {own} s, {with} s with its script)"
        ));
        verdict.figure(&format!("{name}_drop_player"), watched[0].stalled, "s");
        verdict.at_most(&format!("{name}_drop_stalled"), watched[2].stalled, with, "s");
    }
    Ok(verdict.findings(&[]))
}

/// One recording and who watched it.
struct Row {
    name: String,
    lowest: Watched,
    /// As `Chooser::ALL`.
    watched: Vec<Watched>,
    /// Seconds that nobody can avoid who begins when the player does.
    bound: f64,
}

impl Row {
    /// Seconds that another choice could have avoided.
    fn avoidable(&self) -> f64 {
        (self.watched[0].stalled - self.bound).max(0.0)
    }
}

/// Recordings on which the player alone stalls longest, and those of them on which choosing could change most.
fn worst(
    ladder: &Ladder,
    files: &[PathBuf],
    options: &Options,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let played = parallel::map(files, |file| {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let service = trace::parse(&text).with_context(|| file.display().to_string())?;
        let channel = Channel::new(&service, Duration::from_secs(SECONDS + 1));
        let lowest = watch(ladder, &channel, Chooser::Lowest, &[])?;
        let watched = Chooser::ALL.map(|chooser| watch(ladder, &channel, chooser, &options.set));
        let watched = watched.into_iter().collect::<anyhow::Result<Vec<Watched>>>()?;
        let end = channel.millis().min(SECONDS as usize * 1000);
        let begun = watched[0].begun.unwrap_or(end);
        let bound = bound::unavoidable(ladder, &channel, begun, end);
        anyhow::Ok(Row { name: name_of(file), lowest, watched, bound })
    });
    let mut rows = played.into_iter().collect::<anyhow::Result<Vec<Row>>>()?;
    let all = rows.len();
    rows.retain(|row| row.lowest.share() <= HOPELESS);
    verdict.say(format!(
        "{} of {all} recordings {} carry the lowest quality ({RTT_MS} ms round trip, {SECONDS} s)",
        rows.len(),
        if options.tuning { "for tuning" } else { "to be reported" },
    ));
    rows.sort_by(|a, b| b.watched[0].stalled.total_cmp(&a.watched[0].stalled));
    verdict.say(format!("the {WORST} of these on which the player alone stalls longest:"));
    judge("", &rows[..rows.len().min(WORST)], verdict);
    rows.sort_by(|a, b| b.avoidable().total_cmp(&a.avoidable()));
    verdict.say(format!("the {WORST} on which most of the player's own stalls can be avoided:"));
    judge("avoidable_", &rows[..rows.len().min(WORST)], verdict);
    Ok(())
}

/// A table of recordings, and whether the script keeps what is promised of them.
fn judge(prefix: &str, rows: &[Row], verdict: &mut Verdict) {
    let heads: String = Chooser::ALL.iter().map(|one| format!("{:>22}", one.name())).collect();
    verdict.say(format!("{:<14}{heads}{:>10}{:>14}", "recording", "lowest", "unavoidable"));
    for Row { name, lowest, watched, bound } in rows {
        let cell = |watched: &Watched| {
            let lines = RUNGS[watched.median()].0;
            format!("{:>22}", format!("{:.2} s stalled, {lines}p", watched.stalled))
        };
        let cells: String = watched.iter().map(cell).collect();
        verdict.say(format!("{name:<14}{cells}{:>8.2} s{bound:>12.2} s", lowest.stalled));
    }
    let of = |chooser: usize| rows.iter().map(move |row| &row.watched[chooser]);
    let total = |chooser: usize| of(chooser).map(|watched| watched.stalled).sum::<f64>();
    let step =
        |chooser: usize| median(of(chooser).map(|watched| watched.median() as f64).collect());
    let largest = |chooser: usize| of(chooser).map(Watched::share).fold(0.0, f64::max);
    for (place, chooser) in Chooser::ALL.iter().enumerate() {
        let name = chooser.name().replace(". ", "_").replace('.', "_");
        verdict.figure(&format!("{prefix}{name}_stalled"), total(place), "s");
        verdict.figure(&format!("{prefix}{name}_worst"), largest(place), "1");
    }
    let bound: f64 = rows.iter().map(|row| row.bound).sum();
    verdict.figure(&format!("{prefix}unavoidable"), bound, "s");
    let (own, with) = (total(0), total(2));
    let name = format!("{prefix}stalled_of_own");
    if bound <= own * STALLED_MAX {
        verdict.at_most(&name, with / own, STALLED_MAX, "1");
    } else {
        verdict.figure(&name, with / own, "1");
        verdict.say(format!(
            "  nobody can stall for a third of the player's own {own:.2} s: {bound:.2} s are unavoidable; \
             of what is not:"
        ));
        let part = (with - bound) / (own - bound).max(1e-9);
        verdict.at_most(&format!("{prefix}avoidable_of_own"), part, STALLED_MAX, "1");
    }
    verdict.at_most(&format!("{prefix}worst_stalled"), largest(2), WORST_MAX, "1");
    let lower = of(2).zip(of(0)).map(|(with, own)| own.median() as f64 - with.median() as f64);
    let name = format!("{prefix}median_steps_lower");
    verdict.at_most(&name, step(0) - step(2), LOWER_MAX, "steps");
    verdict.figure(&format!("{prefix}most_steps_lower"), lower.fold(0.0, f64::max), "steps");
}

fn watch(
    ladder: &Ladder,
    channel: &Channel,
    chooser: Chooser,
    set: &[(String, f64)],
) -> anyhow::Result<Watched> {
    Player::new(ladder, channel, chooser.middle(set)?)
        .watch(channel.millis().min(SECONDS as usize * 1000))
}

/// What is there, by name.
fn recordings(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = folder.read_dir() else { return Ok(Vec::new()) };
    let files = entries.map(|entry| Ok(entry?.path()));
    let mut files = files.collect::<std::io::Result<Vec<PathBuf>>>()?;
    files.sort();
    Ok(files)
}

/// The first letters of a recording's name, which tell it from others.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_start_matches("trace");
    let number = name.rsplit('_').next().unwrap_or_default();
    format!("{}_{number}", name.chars().take(8).collect::<String>())
}

/// 6 Mbit/s that fall to 0.5: at once for 20 s, or within 50 s and back within 50 s.
fn drop_of(is_gradual: bool) -> anyhow::Result<Channel> {
    const HIGH: f64 = 6e6;
    const LOW: f64 = 0.5e6;
    let steps: Vec<(Duration, u64)> = match is_gradual {
        false => [(0, HIGH), (60, LOW), (80, HIGH)]
            .map(|(at, bits)| (Duration::from_secs(at), bits as u64))
            .to_vec(),
        true => (0..=160)
            .map(|second: u64| {
                let depth = (50.0 - (second as f64 - 90.0).abs()).clamp(0.0, 50.0) / 50.0;
                (Duration::from_secs(second), (HIGH + (LOW - HIGH) * depth) as u64)
            })
            .collect(),
    };
    let service = Service::Rate(Profile::new(steps, None)?);
    Ok(Channel::new(&service, Duration::from_secs(180)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(bits: u64) -> Channel {
        Channel::new(&Service::Rate(Profile::constant(bits)), Duration::from_secs(120))
    }

    #[test]
    fn a_wide_path_shows_the_best_without_stalls() {
        let ladder = Ladder::even();
        for chooser in Chooser::ALL {
            let watched = watch(&ladder, &constant(20_000_000), chooser, &[]).unwrap();
            assert!(watched.stalled < 0.1, "{chooser:?} {watched:?}");
            assert_eq!(watched.median(), 5, "{chooser:?} {watched:?}");
        }
        let lowest = watch(&ladder, &constant(20_000_000), Chooser::Lowest, &[]).unwrap();
        assert!((lowest.played[0] - lowest.played.iter().sum::<f64>()).abs() < 1e-6);
    }

    #[test]
    fn a_sudden_drop_stalls_less_with_the_script() {
        let (ladder, channel) = (Ladder::even(), drop_of(false).unwrap());
        let [own, with] =
            [Chooser::Player, Chooser::Hls].map(|one| watch(&ladder, &channel, one, &[]).unwrap());
        assert!(with.stalled <= own.stalled, "{with:?} {own:?}");
    }

    #[test]
    fn absent_recordings_are_told() {
        let Findings { lines, broken, .. } =
            run(Path::new("no/such"), &Options::default()).unwrap();
        assert!(lines[0].starts_with("skipped: needs no/such/video_sizes"), "{lines:?}");
        assert!(broken.is_empty());
    }
}
