//! `lab bench adapt-browser`: the third case once with everything real: hls.js with its defaults in headless Chromium, a
//! live stream by nginx, an uplink that falls to a twelfth for 20 s, and `tidegate proxy` beside the browser, without a
//! script and with the `player.luau` of `adapt-hls`. `scripts/film.sh` makes the film.

mod stage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use self::stage::Browser;
use super::Verdict;
use crate::progress::Progress;
use crate::report::{Archive, Findings};
use crate::rig::versions::Program;
use crate::sim::adapt::hls::HLS;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// hls.js and the film (scripts/film.sh makes them); browser in cargo's target folder otherwise
    #[arg(long, value_name = "FOLDER")]
    pub(crate) film: Option<PathBuf>,
    /// How long it is watched, in seconds
    #[arg(long, default_value_t = 90)]
    pub(crate) seconds: u32,
}

/// What the page tells.
#[derive(Clone, Debug, Default, Deserialize)]
struct Seen {
    /// Seconds without movement after the first picture.
    stalled: f64,
    /// Seconds until the first picture.
    begun: Option<f64>,
    /// Seconds shown, by lines of the picture.
    played: BTreeMap<u32, f64>,
    errors: Vec<String>,
}

/// Runs it and returns what was found.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let folder = options.film.unwrap_or_else(|| {
        let results = Archive::folder_of_target();
        results.parent().map_or_else(|| "browser".into(), |target| target.join("browser"))
    });
    let browser = match Browser::find(&folder) {
        Ok(browser) => browser,
        Err(missing) => return Ok(vec![format!("skipped: needs {missing}")].into()),
    };
    let mut verdict = Verdict::new("adapt_browser");
    verdict.say(format!(
        "hls.js in {}, {} s, 6 Mbit/s, from 40 s on 0.5 Mbit/s for 20 s",
        browser.version(),
        options.seconds
    ));
    let progress = Progress::new("adapt-browser", 2);
    for (name, script) in [("player", None), ("script", Some(HLS))] {
        progress.step(name, None);
        let text = browser.watch(&folder, script, options.seconds).await?;
        let seen: Seen = serde_json::from_str(&text)?;
        tell(name, &seen, &mut verdict);
    }
    Ok(verdict.findings(&[Program::Tidegate]))
}

fn tell(name: &str, seen: &Seen, verdict: &mut Verdict) {
    let played: Vec<String> =
        seen.played.iter().map(|(lines, seconds)| format!("{lines}p {seconds:.1} s")).collect();
    verdict.say(format!(
        "  {name:<8} first picture after {:.1} s, {:.1} s stalled, shown: {}; {}",
        seen.begun.unwrap_or(f64::NAN),
        seen.stalled,
        played.join(", "),
        match &seen.errors[..] {
            [] => "no errors".to_owned(),
            errors => format!("what hls.js told: {}", errors.join(", ")),
        }
    ));
    verdict.figure(&format!("{name}_stalled"), seen.stalled, "s");
    if seen.begun.is_none() || seen.played.is_empty() {
        verdict.breaks(format!("{name}: nothing was shown"));
    }
}

/// Whether a file is there; its path in words if not.
fn there(path: &Path, cure: &str) -> Result<PathBuf, String> {
    let is_there = path.exists();
    is_there
        .then(|| path.to_owned())
        .ok_or_else(|| format!("{}, not found: {cure}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_page_tells_is_read() {
        let text = r#"{"stalled":1.5,"played":{"240":3.2,"720":60},"errors":["bufferStalledError"],"begun":0.9}"#;
        let mut verdict = Verdict::new("b");
        tell("player", &serde_json::from_str(text).unwrap(), &mut verdict);
        tell("script", &Seen::default(), &mut verdict);
        let (lines, broken) = verdict.parts();
        assert!(
            lines[0].contains("240p 3.2 s, 720p 60.0 s; what hls.js told: bufferStalledError"),
            "{lines:?}"
        );
        assert_eq!(broken, ["script: nothing was shown"]);
    }

    #[tokio::test]
    async fn without_a_film_it_is_skipped() {
        let options = Options { film: Some("no/such".into()), seconds: 1 };
        let found = run(options).await.unwrap();
        assert!(found.lines[0].starts_with("skipped: needs no/such/"), "{:?}", found.lines);
    }
}
