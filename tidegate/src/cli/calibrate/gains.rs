//! `tidegate calibrate gains`: finds gains and aim of the controller `pi` for a ladder, over recordings of channels.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use tidegate_frames::tune::{
    MILLIS_MAX, RecordedChannel, TuneScore, TunedCamera, score_gains, tune_gains,
};
use tidegate_frames::{FrameTarget, Gains, InfeasiblePolicy};

use crate::cli::calibrate::GainsArguments;
use crate::services::cameras::load_ladder;

/// Bytes a millisecond of a megabit a second.
const MEGABIT: f64 = 125.0;

/// Finds them, and judges them by what they were not found with.
pub(super) fn gains(arguments: &GainsArguments) -> anyhow::Result<()> {
    let (rate, accuracy) = (arguments.rate, arguments.accuracy);
    ensure!((0.01..=1000.0).contains(&rate), "--rate {rate}: 0.01 to 1,000 frames a second");
    ensure!((0.0..=1.0).contains(&accuracy), "--accuracy {accuracy}: 0 to 1");
    let way = arguments.way.0;
    let mut channels = Vec::new();
    for file in &arguments.recordings {
        channels.push(read(file, way).with_context(|| file.display().to_string())?);
    }
    let (known, held) = parted(channels);
    let target =
        FrameTarget { latency: arguments.latency.0, accuracy, policy: InfeasiblePolicy::Degrade };
    let ladder = load_ladder(arguments.ladder.as_deref(), false)?.ladder;
    let camera = TunedCamera { rate, ladder, target };
    let mut tried = 0;
    let found = tune_gains(&camera, &known, |_, _| tried += 1);
    let mut out = io::stderr();
    writeln!(out, "{tried} gains tried on one half, judged on the other half")?;
    writeln!(out, "{:<26}{:>8}{:>10}", "", "in time", "accuracy")?;
    for (name, gains) in [("as found", found), ("as usual", Gains::default())] {
        let TuneScore { in_time, effective } = score_gains(&camera, &held, gains);
        let Gains { gain_p, gain_i, aim } = gains;
        let gains = format!("{name} ({gain_p}, {gain_i}, {aim})");
        writeln!(out, "{gains:<26}{in_time:>8.3}{effective:>10.3}")?;
    }
    let Gains { gain_p, gain_i, aim } = found;
    let text = format!(
        "[frames]\ncontroller = \"pi\"\ngain_p = {gain_p:?}\ngain_i = {gain_i:?}\naim = {aim:?}\n"
    );
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Every other recording; of a single one each half.
fn parted(mut channels: Vec<RecordedChannel>) -> (Vec<RecordedChannel>, Vec<RecordedChannel>) {
    if let [only] = &mut channels[..] {
        let way = only.way;
        let rest = only.carries.split_off(only.carries.len() / 2);
        let rest = RecordedChannel { carries: rest, way };
        return (channels, vec![rest]);
    }
    let (mut known, mut held) = (Vec::new(), Vec::new());
    for (at, channel) in channels.into_iter().enumerate() {
        if at % 2 == 0 { known.push(channel) } else { held.push(channel) }
    }
    (known, held)
}

/// Lines of a time in seconds, rising, and Mbit/s from then on.
fn read(file: &Path, way: Duration) -> anyhow::Result<RecordedChannel> {
    let text = std::fs::read_to_string(file)?;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let words: Vec<Option<f64>> = line
            .split([' ', '\t', ','])
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().ok())
            .collect();
        let [Some(at), Some(rate)] = words[..] else {
            anyhow::bail!("line {}: a time in seconds and Mbit/s, as in \"0.2 31.5\"", number + 1);
        };
        let is_after = points.last().is_none_or(|(before, _)| at > *before);
        ensure!(
            is_after && rate >= 0.0 && rate.is_finite() && at.is_finite(),
            "line {}: times rise, and rates are 0 or more",
            number + 1
        );
        points.push((at, rate));
    }
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        anyhow::bail!("it is empty");
    };
    let millis = ((last.0 - first.0) * 1e3) as usize;
    ensure!((1000..=MILLIS_MAX).contains(&millis), "a second to an hour of a channel");
    let begun = first.0;
    let mut next = 0;
    let carries = (0..millis).map(|milli| {
        while points.get(next + 1).is_some_and(|(at, _)| (at - begun) * 1e3 <= milli as f64) {
            next += 1;
        }
        points[next].1 * MEGABIT
    });
    Ok(RecordedChannel { carries: carries.collect(), way })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_read_millisecond_by_millisecond_and_mistakes_are_named() {
        let file = std::env::temp_dir().join(format!("tidegate-gains-{}", std::process::id()));
        let of = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&file, Duration::ZERO)
        };
        let channel = of("300.0 8\n300.5,16\n\n302 0\n").unwrap();
        assert_eq!(channel.carries.len(), 2000);
        assert_eq!([0, 499, 500, 1999].map(|milli| channel.carries[milli]), [1e3, 1e3, 2e3, 2e3]);
        let error = |text| format!("{:#}", of(text).unwrap_err());
        assert!(error("0 1\nx 2").starts_with("line 2: a time in seconds and Mbit/s"));
        assert!(error("0 1\n0 2").starts_with("line 2: times rise"));
        assert_eq!(
            [error(""), error("0 1\n0.5 2")],
            ["it is empty", "a second to an hour of a channel"]
        );
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn nothing_is_judged_by_what_it_was_found_with() {
        let one =
            |millis: usize| RecordedChannel { carries: vec![1.0; millis], way: Duration::ZERO };
        let lengths =
            |all: &[RecordedChannel]| all.iter().map(|one| one.carries.len()).collect::<Vec<_>>();
        let (known, held) = parted(vec![one(10)]);
        assert_eq!((lengths(&known), lengths(&held)), (vec![5], vec![5]));
        let (known, held) = parted(vec![one(1), one(2), one(3)]);
        assert_eq!((lengths(&known), lengths(&held)), (vec![1, 3], vec![2]));
    }
}
