//! `lab sim adapt-hls`, `lab bench adapt-hls`: BumbleBee's third case, a live stream over recorded paths: stalls and
//! resolution with a player's own choice, with the paper's Fig. 13, and with a script of the lab's own, `player.luau`.
//!
//! Recorded: sizes of chunks, bandwidth. Modelled: the player (hls.js with its defaults), a path that carries what the
//! recording says after a round trip of 50 ms. Of the product: the engine and the scripts, over requests and answers.

mod estimate;
mod ladder;
mod middle;
mod player;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tidegate::script::ScriptSpec;
use tidegate::script::spec::{Dialect, Parameter};

use self::ladder::{Ladder, RUNGS};
use self::middle::Middle;
use self::player::{Player, RTT_MS, Watched};
use super::stage::spec;
use crate::bench::adapt::Verdict;
use crate::bench::median;
use crate::link::{Profile, Service, trace};
use crate::sim::frames::channel::Channel;
use crate::sim::parallel;

const HLS: &str = include_str!("player.luau");
const FIG_13: &str = include_str!("../../../../../tidegate/lua/paper/fig13.luau");
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

/// Who chooses.
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

    fn middle(self) -> anyhow::Result<Middle> {
        match self {
            Chooser::Player => Ok(Middle::none()),
            Chooser::Fig13 => Middle::with(script("fig13", FIG_13, FIND_RESOLUTION)),
            Chooser::Hls => Middle::with(script("hls", HLS, "")),
            Chooser::Lowest => {
                let text = "function on_message(h)
                    local _, chunk = h:header():get('path')
                    h:header():replace('path', '/240/' .. chunk)
                end";
                Middle::with(script("lowest", text, ""))
            }
        }
    }
}

/// A script over requests for chunks.
fn script(name: &str, text: &str, helper: &str) -> ScriptSpec {
    let pair = |(lines, bits): &(u32, f64)| {
        Parameter::List(vec![Parameter::Number(f64::from(*lines)), Parameter::Number(*bits)])
    };
    let renditions = Parameter::List(RUNGS.iter().map(pair).collect());
    let plain = spec(name, text, &[("renditions", renditions)]);
    let mut texts = plain.texts.clone();
    texts.insert(0, ("helper".into(), helper.into()));
    let path = Some("^/?(%d+)/(.+)$".into());
    ScriptSpec { texts, path, dialect: Dialect::Http, ..plain }
}

/// The lines to print, and what was broken.
///
/// # Errors
/// Data that is none, or a script that fails.
pub(crate) fn run(data: &Path) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let files = recordings(&data.join(RECORDINGS))?;
    let Some(ladder) = Ladder::read(data)?.filter(|_| !files.is_empty()) else {
        return Ok((vec![Ladder::absent(data)], Vec::new()));
    };
    let mut verdict = Verdict::new("adapt_hls");
    let judged: Vec<PathBuf> = files.into_iter().skip(1).step_by(2).collect();
    worst(&ladder, &judged, &mut verdict)?;
    for (place, (name, own, with)) in PAPER.into_iter().enumerate() {
        let channel = drop_of(place == 1)?;
        let watched = Chooser::ALL.map(|chooser| watch(&ladder, &channel, chooser));
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
    Ok(verdict.parts())
}

/// Recordings on which the player alone stalls longest.
fn worst(ladder: &Ladder, files: &[PathBuf], verdict: &mut Verdict) -> anyhow::Result<()> {
    let played = parallel::map(files, |file| {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let service = trace::parse(&text).with_context(|| file.display().to_string())?;
        let channel = Channel::new(&service, Duration::from_secs(SECONDS + 1));
        let lowest = watch(ladder, &channel, Chooser::Lowest)?;
        let watched = Chooser::ALL.map(|chooser| watch(ladder, &channel, chooser));
        anyhow::Ok((lowest, watched.into_iter().collect::<anyhow::Result<Vec<Watched>>>()?))
    });
    let mut rows = Vec::new();
    for (file, played) in files.iter().zip(played) {
        let (lowest, watched) = played?;
        rows.push((name_of(file), lowest, watched));
    }
    let all = rows.len();
    rows.retain(|(_, lowest, _)| lowest.share() <= HOPELESS);
    verdict.say(format!(
        "{} of {all} recordings carry the lowest quality ({RTT_MS} ms round trip, {SECONDS} s); of these the {WORST} on \
         which the player alone stalls longest:",
        rows.len()
    ));
    rows.sort_by(|a, b| b.2[0].stalled.total_cmp(&a.2[0].stalled));
    rows.truncate(WORST);
    let heads: String = Chooser::ALL.iter().map(|one| format!("{:>22}", one.name())).collect();
    verdict.say(format!("{:<14}{heads}{:>12}", "recording", "lowest"));
    for (name, lowest, watched) in &rows {
        let cell = |watched: &Watched| {
            let (share, lines) = (watched.share() * 100.0, RUNGS[watched.median()].0);
            format!("{:>22}", format!("{share:.1} % stalled, {lines}p"))
        };
        let cells: String = watched.iter().map(cell).collect();
        verdict.say(format!("{name:<14}{cells}{:>10.1} %", lowest.share() * 100.0));
    }
    let of = |chooser: usize| rows.iter().map(move |row| &row.2[chooser]);
    let total = |chooser: usize| of(chooser).map(|watched| watched.stalled).sum::<f64>();
    let step =
        |chooser: usize| median(of(chooser).map(|watched| watched.median() as f64).collect());
    let largest = |chooser: usize| of(chooser).map(Watched::share).fold(0.0, f64::max);
    for (place, chooser) in Chooser::ALL.iter().enumerate() {
        let name = chooser.name().replace(". ", "_").replace(".luau", "");
        verdict.figure(&format!("{name}_stalled"), total(place), "s");
        verdict.figure(&format!("{name}_worst"), largest(place), "1");
    }
    verdict.at_most("stalled_of_own", total(2) / total(0), STALLED_MAX, "1");
    verdict.at_most("worst_stalled", largest(2), WORST_MAX, "1");
    let lower = of(2).zip(of(0)).map(|(with, own)| own.median() as f64 - with.median() as f64);
    verdict.at_most("median_steps_lower", step(0) - step(2), LOWER_MAX, "steps");
    verdict.figure("most_steps_lower", lower.fold(0.0, f64::max), "steps");
    Ok(())
}

fn watch(ladder: &Ladder, channel: &Channel, chooser: Chooser) -> anyhow::Result<Watched> {
    Player::new(ladder, channel, chooser.middle()?)
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
            let watched = watch(&ladder, &constant(20_000_000), chooser).unwrap();
            assert!(watched.stalled < 0.1, "{chooser:?} {watched:?}");
            assert_eq!(watched.median(), 5, "{chooser:?} {watched:?}");
        }
        let lowest = watch(&ladder, &constant(20_000_000), Chooser::Lowest).unwrap();
        assert!((lowest.played[0] - lowest.played.iter().sum::<f64>()).abs() < 1e-6);
    }

    #[test]
    fn a_sudden_drop_stalls_less_with_the_script() {
        let (ladder, channel) = (Ladder::even(), drop_of(false).unwrap());
        let [own, with] =
            [Chooser::Player, Chooser::Hls].map(|one| watch(&ladder, &channel, one).unwrap());
        assert!(with.stalled <= own.stalled, "{with:?} {own:?}");
    }

    #[test]
    fn absent_recordings_are_told() {
        let (lines, broken) = run(Path::new("no/such")).unwrap();
        assert!(lines[0].starts_with("skipped: needs no/such/video_sizes"), "{lines:?}");
        assert!(broken.is_empty());
    }
}
