//! `tidegate explain --frame`: a frame's life, from its camera's folder.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::files::config_of;
use crate::assembly::drivers::log_keys;
use crate::cli::log::FrameName;
use crate::config::Config;
use crate::config::frames::LATENCY;
use crate::observe::status::table::{size, span};
use crate::services::cameras::ways::{FrameLife, FrameWay, RungName, life};
use crate::support::time::Moment;

/// Tells the life of a frame; the exit code says whether its folder knows it.
pub(super) fn explain(asked: &FrameName, file: &Path) -> anyhow::Result<ExitCode> {
    let config = config_of(file, "")?;
    let FrameName { camera, number } = asked;
    let name = file.display();
    let missing = || format!("{name}: has no [frames] directory: nothing is kept of frames");
    let directory = config.frames.directory.as_deref().with_context(missing)?;
    if !config.camera.iter().any(|one| one.name.as_ref() == Some(camera)) {
        anyhow::bail!("{name}: has no [[camera]] {camera:?}");
    }
    let folder = directory.join(camera);
    let found = life(&folder, &log_keys(&config.log)?, *number)
        .with_context(|| folder.display().to_string())?;
    let is_known = found != FrameLife::default();
    io::stdout().lock().write_all(in_words(&config, asked, &found).as_bytes())?;
    Ok(if is_known { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn in_words(config: &Config, asked: &FrameName, life: &FrameLife) -> String {
    let FrameName { camera, number } = asked;
    let mut text = format!("{camera}/{number}\n");
    let mut say = |what: &str, words: String| {
        let _ = writeln!(text, "  {what:<10} {words}");
    };
    if *life == FrameLife::default() {
        say("unknown", "it was never taken, or its room was needed for newer frames".into());
        return text;
    }
    let kept = match life.taken {
        Some(bytes) => format!("{} are kept", size(bytes)),
        None => "its bytes made room for newer frames".into(),
    };
    say("taken", format!("{} by the camera's clock; {kept}", Moment(*number)));
    let class = match &config.frames.class {
        Some(class) => class.clone(),
        None => format!("the one for {}", span(LATENCY.0.as_secs_f64())),
    };
    say("class", format!("{class}; pieces by output {}", config.frames.to()));
    if life.ways.is_empty() {
        say("flows", "nobody was sent it, or its end is not known yet".into());
    }
    for FrameWay { flow, rung, bytes, left_us, ended_us, result, .. } in &life.ways {
        let after = |micros: u64| span(Duration::from_micros(micros).as_secs_f64());
        say("flow", format!("{flow:016x}"));
        let rung = match rung {
            Some(RungName { eighths, quality, is_gray, accuracy }) => {
                let gray = if *is_gray { ", grey" } else { "" };
                let accuracy = f64::from(*accuracy) / 1e3;
                format!("{eighths}/8 of the size, quality {quality}{gray}: accuracy {accuracy:.3}")
            }
            None => "as it was taken".into(),
        };
        if *bytes > 0 {
            let left = after(*left_us);
            say("rung", format!("{rung}, {}; left {left} after it was taken", size(*bytes)));
        }
        say("ended", format!("{result}, {} after it was taken", after(*ended_us)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_tells_its_rung_and_its_end() {
        let asked = FrameName { camera: "gate".into(), number: 1_795_255_200_000_000_000 };
        let rung = Some(RungName { eighths: 4, quality: 40, is_gray: true, accuracy: 910 });
        let sent = FrameWay {
            frame: asked.number,
            flow: 7,
            rung,
            bytes: 2048,
            left_us: 5_000,
            ended_us: 41_000,
            result: "delivered".into(),
        };
        let skipped = FrameWay { bytes: 0, rung: None, result: "stale".into(), ..sent.clone() };
        let life = FrameLife { taken: Some(4096), ways: vec![sent, skipped] };
        let told = "gate/1795255200000000000
  taken      2026-11-21T10:00:00.000Z by the camera's clock; 4 KiB are kept
  class      the one for 100 ms; pieces by output subscribers
  flow       0000000000000007
  rung       4/8 of the size, quality 40, grey: accuracy 0.910, 2 KiB; left 5.0 ms after it was taken
  ended      delivered, 41 ms after it was taken
  flow       0000000000000007
  ended      stale, 41 ms after it was taken
";
        assert_eq!(in_words(&Config::default(), &asked, &life), told);
        let unknown = in_words(&Config::default(), &asked, &FrameLife::default());
        assert!(unknown.ends_with("its room was needed for newer frames\n"), "{unknown}");
    }
}
