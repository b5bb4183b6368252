//! The channels and the ladder of `frames-traces`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tidegate_frames::knobs::Knobs;
use tidegate_frames::{Ladder, Rung};

use super::channel::Channel;
use crate::link::{Profile, Service, trace};

/// Seconds of each recording.
pub(super) const SECONDS: u64 = 120;
/// A measured ladder: bytes, accuracy, and how it was made.
const LADDER: &str = "vision/jpeg_ladder_measured.json";
/// Recordings by technology: folder, first letters of their names, and every how many-th is taken, so that
/// those of which there are many do not take all the time.
const FOLDERS: [(&str, &str, &str, usize); 9] = [
    ("wifi", "zhuge_wifi_4g_5g", "office-wifi", 2),
    ("wifi", "zhuge_wifi_4g_5g", "rest-wifi", 2),
    ("lte", "mahimahi", "ATT", 1),
    ("lte", "mahimahi", "Verizon", 1),
    ("lte", "zhuge_wifi_4g_5g", "abc4g", 4),
    ("lte", "zhuge_wifi_4g_5g", "pitree4g", 6),
    ("5g", "zhuge_wifi_4g_5g", "xu5g", 1),
    ("umts", "mahimahi", "TMobile", 1),
    ("umts", "norway_hsdpa", "norway", 4),
];
/// Rates of the group that is not recorded, Mbit/s, and for how long each.
const STEP: (u64, u64, u64) = (40, 4, 20);

/// Channels of one technology.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) channels: Vec<Channel>,
}

/// What is said where there are none.
pub(super) fn absent(data: &Path) -> String {
    let ladder = data.join(LADDER);
    let what = "a measured ladder, and the recorded channels beside it";
    format!("skipped: needs {} ({what}), not found: give --data", ladder.display())
}

/// The measured rungs that keep their colours; `None` where they are not there.
pub(super) fn ladder(data: &Path) -> anyhow::Result<Option<Ladder>> {
    let path = data.join(LADDER);
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is no ladder", path.display())).map(Some)
}

fn parse(text: &str) -> anyhow::Result<Ladder> {
    // Scale, colours, blur, codec, quality.
    type Setting = (f64, String, u32, String, u8);
    let rows: Vec<(f64, f64, Setting)> = serde_json::from_str(text)?;
    let coloured = rows.into_iter().filter(|(.., setting)| setting.1 != "gray");
    let rung = |(bytes, accuracy, (scale, .., quality)): (f64, f64, Setting)| Rung {
        eighths: (scale * 8.0).round() as u8,
        quality,
        is_gray: false,
        knobs: Knobs::default(),
        bytes,
        accuracy,
        accuracy_low: accuracy,
        cost: Duration::ZERO,
    };
    Ok(Ladder::new(coloured.map(rung).collect())?)
}

/// Every other recording of each group, from this one on, and the step.
pub(super) fn groups(data: &Path, from: usize) -> anyhow::Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for (name, folder, prefix, every) in FOLDERS {
        let files = files(&data.join("net").join(folder), prefix)?;
        let mut channels = Vec::new();
        for file in files.iter().step_by(every).skip(from).step_by(2) {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("cannot read {}", file.display()))?;
            let service = trace::parse(&text);
            let service = service.with_context(|| format!("{} is no trace", file.display()))?;
            channels.push(Channel::new(&service, Duration::from_secs(SECONDS)));
        }
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.channels.extend(channels),
            None if channels.is_empty() => {}
            None => groups.push(Group { name, channels }),
        }
    }
    groups.push(Group { name: "step", channels: vec![step()?] });
    Ok(groups)
}

/// What is there, by name.
fn files(folder: &Path, prefix: &str) -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = folder.read_dir() else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn step() -> anyhow::Result<Channel> {
    let (high, low, seconds) = STEP;
    let rate = |at: u64| if at.is_multiple_of(2) { high } else { low };
    let steps = 0..SECONDS / seconds;
    let steps = steps.map(|at| (Duration::from_secs(at * seconds), rate(at) * 1_000_000)).collect();
    let service = Service::Rate(Profile::new(steps, None)?);
    Ok(Channel::new(&service, Duration::from_secs(SECONDS)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const TEXT: &str = r#"[[2000, 0.70, [0.25, "gray", 1, "jpg", 12]], [8000, 0.90, [0.375, "bgr", 1, "jpg", 30]],
        [25000, 0.96, [0.75, "bgr", 1, "jpg", 30]], [76000, 0.99, [1, "bgr", 1, "jpg", 75]]]"#;

    pub(in crate::sim::frames) fn ladder() -> Ladder {
        parse(TEXT).unwrap()
    }

    #[test]
    fn gray_rungs_are_left_out() {
        let ladder = ladder();
        let rungs: Vec<(u8, u8, f64)> =
            ladder.rungs().iter().map(|rung| (rung.eighths, rung.quality, rung.bytes)).collect();
        assert_eq!(rungs, [(3, 30, 8000.0), (6, 30, 25_000.0), (8, 75, 76_000.0)]);
        assert!(parse("[[1]]").is_err());
    }

    #[test]
    fn the_step_falls_and_rises() {
        let channel = step().unwrap();
        let bytes = [10_000, 30_000, 50_000].map(|milli| channel.room(milli).round() as u64);
        assert_eq!(bytes, [5000, 500, 5000]);
    }
}
