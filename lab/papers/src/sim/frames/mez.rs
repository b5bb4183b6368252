//! `lab sim frames-mez`: the Mez paper's knobs on the paper's channel: its controller beside ours.
//!
//! The ladder is `ladder = "mez"`. Its top rung is what the paper's unmodified frame is: the channel carries it in the time
//! that Table 1 of papers/mez.txt prints for one camera and for five (complex scenes), so rates are the paper's for frames
//! of another size. A channel has cameras that all come and go every 20 s (Fig. 11), or a number of others that is drawn
//! anew every 2 s.

use std::ops::Range;
use std::time::Duration;

use tidegate_frames::{Gains, Ladder};
use tidegate_types::random::SplitMix;

use super::channel::Channel;
use super::play::DELAY_MS;
use super::recordings::{Group, SECONDS};
use super::{RATES, Row, print, table, tune};
use crate::link::{Profile, Service};
use crate::report::{Findings, figure};

/// Table 1, complex scenes: data set, milliseconds of a frame with one camera and with five.
const SITES: [(&str, f64, f64); 2] = [("JAAD", 46.09, 262.43), ("Duke", 72.72, 617.16)];
/// Groups of both kinds: their names, and how long a number of cameras stays.
const GROUPS: [[(&str, u64); 2]; 2] =
    [[("JAAD, step", 20), ("JAAD, drawn", 2)], [("Duke, step", 20), ("Duke, drawn", 2)]];
/// Cameras beside the one that is looked at, at most.
const OTHERS: u64 = 4;
/// Bytes of the top rung for which the gains that are tried were chosen.
const TOP: f64 = 76_000.0;
/// Added to the seed of channels on which gains are tuned.
const TUNED: u64 = 1_000_000;

/// The channels, one of each seed in a group.
fn groups(ladder: &Ladder, seeds: &Range<u64>) -> anyhow::Result<Vec<Group>> {
    let top = ladder.rungs()[ladder.rungs().len() - 1].bytes;
    let mut groups = Vec::new();
    for ((_, one, five), kinds) in SITES.into_iter().zip(GROUPS) {
        for (kind, (name, stays)) in kinds.into_iter().enumerate() {
            let is_drawn = kind == 1;
            let channel = |seed: u64| channel(top, (one, five), stays, is_drawn.then_some(seed));
            let channels = seeds.clone().map(channel).collect::<anyhow::Result<_>>()?;
            groups.push(Group { name, channels });
        }
    }
    Ok(groups)
}

/// What carries `top` bytes in so many milliseconds. The number of others is drawn, or all come and go by turns.
fn channel(
    top: f64,
    (one, five): (f64, f64),
    stays: u64,
    drawn: Option<u64>,
) -> anyhow::Result<Channel> {
    let mut random = drawn.map(SplitMix);
    let way = DELAY_MS as f64;
    let step = |at: u64| {
        let others = match &mut random {
            Some(random) => (random.share() * (OTHERS + 1) as f64).floor(),
            None => (at % 2 * OTHERS) as f64,
        };
        // The time grows evenly with each camera.
        let millis = one + (five - one) * others / OTHERS as f64 - way;
        (Duration::from_secs(at * stays), (top * 8e3 / millis) as u64)
    };
    let service = Service::Rate(Profile::new((0..SECONDS / stays).map(step).collect(), None)?);
    Ok(Channel::new(&service, Duration::from_secs(SECONDS)))
}

/// The lines to print.
///
/// # Errors
/// The ladder cannot be read.
pub(super) fn run(seeds: &Range<u64>) -> anyhow::Result<Findings> {
    let ladder = tidegate::services::cameras::load_ladder(Some("mez".as_ref()), false)?.ladder;
    let tuning = groups(&ladder, &(seeds.start + TUNED..seeds.end + TUNED))?;
    let judged = groups(&ladder, seeds)?;
    let rungs = ladder.rungs();
    let scale = rungs[rungs.len() - 1].bytes / TOP;
    let mut lines = vec![format!(
        "the paper's knobs, {} rungs of {:.1} to {:.1} kB; {} channels of each kind, tuned on as many others",
        rungs.len(),
        rungs[0].bytes / 1e3,
        rungs[rungs.len() - 1].bytes / 1e3,
        seeds.clone().count()
    )];
    let mut figures = Vec::new();
    for fps in RATES {
        let gains = tune(&tuning, &ladder, fps, seeds.start + TUNED, scale);
        let Gains { gain_p, gain_i, .. } = gains;
        lines.push(String::new());
        lines.push(format!("{fps} frames/s; pi tuned to {gain_p:.1} and {gain_i:.1} B/ms"));
        let rows = table(&judged, &ladder, fps, seeds.start, gains);
        lines.extend(print(&judged, &rows));
        for row in &rows {
            let name = row.name.replace([' ', '-', ','], "_").replace("__", "_");
            let key = |what: &str| format!("frames_mez_{fps}fps_{name}_{what}");
            figures.push(figure(&key("in_time"), row.all.hits, "1"));
            figures.push(figure(&key("accuracy"), row.all.effective, "1"));
        }
        lines.push(beside(&rows));
    }
    Ok((lines, figures).into())
}

/// Ours over the paper's controller as it is, and with ours' habits.
fn beside(rows: &[Row]) -> String {
    let of =
        |name: &str| rows.iter().find(|row| row.name == name).map_or(0.0, |row| row.all.effective);
    let ours = of("feed-forward");
    format!(
        "accuracy in time of feed-forward: {:.3} of the paper's controller's, {:.3} of that which skips and cancels, too, \
         {:.3} of the oracle's",
        ours / of("pi"),
        ours / of("pi, skip, cancel"),
        ours / of("oracle")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_rung_takes_what_the_paper_prints() {
        let channel = channel(9800.0, (46.09, 262.43), 20, None).unwrap();
        // With the way; to the millisecond.
        let took = |from: usize| channel.finish(from, 9800.0).unwrap() - from + DELAY_MS;
        assert_eq!((took(1000), took(21_000)), (47, 263));
    }

    #[test]
    fn drawn_channels_are_of_their_seed_and_within_the_printed_ones() {
        let drawn = |seed| channel(9800.0, (46.09, 262.43), 2, Some(seed)).unwrap();
        let rooms = |channel: Channel| {
            (0..60).map(|at| channel.room(at * 2000 + 500).round()).collect::<Vec<_>>()
        };
        let (one, same, other) = (rooms(drawn(1)), rooms(drawn(1)), rooms(drawn(2)));
        assert!(one == same && one != other);
        assert!(one.iter().all(|room| (38.0..=272.0).contains(room)), "{one:?}");
    }
}
