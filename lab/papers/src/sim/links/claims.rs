//! FD-MVQS in its own world, and what the paper claims of it, each claim beside what came of it.
//! Source: papers/fd-mvqs.txt, §5.1 and §5.2.
//!
//! MPTCP's coupled windows, which every loss halves; nine tenths of what others send are TCP's; neither repairs nor copies; the
//! paper's scheduler with its prediction beside DPSAF and LowRTT. All of a seed play the same world, so ratios are of pairs.

use std::ops::Range;
use std::time::Duration;

use tidegate_link::LinkOptions;
use tidegate_link::path_scheduler::PathSchedulerName;
use tidegate_types::units::{Rate, Size};

use super::paper::{BUFFERS, CROSS, LOSSES, Played, watch};
use super::scene::{HEAVY, PATHS, crossed};
use super::statistics::{Estimate, mean};
use super::world::{Route, World};
use crate::progress::Progress;
use crate::report::{Figure, figure};
use crate::sim::parallel;
use tidegate_lab_engine::sim::links::neighbour::Neighbour;

/// The paper's, and whom it beats.
const CONTESTANTS: [PathSchedulerName; 3] =
    [PathSchedulerName::FdMvqsPaper, PathSchedulerName::DpsafLike, PathSchedulerName::LowRtt];
/// Part of what others send that TCP carries.
const TCP: f64 = 0.9;
/// Receive buffer where nothing else is said, KiB.
const BUFFER: u64 = 128;
/// A second that is fast as Fig. 6 has it, Mbit/s, and a round trip that is short as Fig. 7 has it, ms.
const FAST: f64 = 80.0;
const SHORT: f64 = 190.0;
/// Fig. 10 and 11 as the text prints them, by buffer and by loss of path A: what is saved of DPSAF's and of LowRTT's.
const TRIPS_SAVED: [[f64; 4]; 2] =
    [[0.0559, 0.0488, 0.0549, 0.0565], [0.0921, 0.0925, 0.0975, 0.1016]];
const REPEATS_SAVED: [[f64; 6]; 2] = [
    [0.5361, 0.5458, 0.5705, 0.5807, 0.5784, 0.5807],
    [0.8331, 0.8201, 0.8216, 0.8168, 0.8148, 0.8154],
];

/// What is the same for all contestants.
#[derive(Clone, Copy, Debug)]
struct Place {
    first_loss: f64,
    buffer: u64,
    cross: f64,
}

impl Default for Place {
    fn default() -> Self {
        Place { first_loss: HEAVY[0], buffer: BUFFER, cross: CROSS[1] }
    }
}

/// Places that are played: the usual one, buffers, losses, and other parts that others take.
pub(super) const STEPS: usize = 1 + BUFFERS.len() + LOSSES.len() + CROSS.len() - 1;

/// Runs of each contestant, by seed.
type Runs = [Vec<Played>; 3];

/// The paths, where others send this part of what each carries: a connection a path with CUBIC sends nine tenths of it at most.
fn crossed_by_tcp(options: &LinkOptions, loss: [f64; 3], part: f64, seed: u64) -> World {
    let mut world = crossed(options, loss, part * (1.0 - TCP), seed);
    for (path, (mbit, delay, _)) in PATHS.into_iter().enumerate().filter(|_| part > 0.0) {
        let there = Route { way: 2 * path, beyond: Duration::ZERO };
        let others = Neighbour::cubic(there, Duration::from_millis(delay), world.now);
        let most = Rate::from_bits(mbit as f64 * 1e6 * part * TCP);
        world.neighbours.push(others.at_most(most));
    }
    world
}

fn play(place: Place, seeds: &[u64], progress: &Progress) -> Runs {
    progress.step("the paper's world", None);
    CONTESTANTS.map(|schedule| {
        parallel::map(seeds, |&seed| {
            let receive_window = Size::from_kib(place.buffer);
            let options = LinkOptions { schedule, receive_window, ..LinkOptions::of_paper(1, 1) };
            let loss = [place.first_loss, HEAVY[1], HEAVY[2]];
            watch(crossed_by_tcp(&options, loss, place.cross, seed), seed)
        })
    })
}

/// Whether more of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

/// What a claim came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is better than the other for certain, and the printed ratio, or a better one, is within the interval.
    Reproduced,
    /// It is better than the other for certain, and by less than printed.
    Smaller,
    /// No difference is to be seen.
    Unseen,
    /// It is worse for certain.
    Reversed,
}

impl Verdict {
    /// Of a ratio to the other's, where less than 1 is better.
    fn of(ratio: Estimate, printed: f64) -> Verdict {
        let (low, high) = (ratio.mean - ratio.half, ratio.mean + ratio.half);
        match () {
            () if high < 1.0 && low <= printed => Verdict::Reproduced,
            () if high < 1.0 => Verdict::Smaller,
            () if low > 1.0 => Verdict::Reversed,
            () => Verdict::Unseen,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Smaller => "smaller",
            Verdict::Unseen => "not seen",
            Verdict::Reversed => "REVERSED",
        }
    }
}

/// Lines and figures, claim by claim.
#[derive(Debug, Default)]
struct Claims {
    lines: Vec<String>,
    figures: Vec<Figure>,
    counts: [u32; 4],
}

impl Claims {
    /// The paper's contestant over each of the others, where the paper prints these ratios.
    fn ratio(
        &mut self,
        name: &str,
        better: Better,
        runs: &Runs,
        of: impl Fn(&Played) -> f64,
        printed: [f64; 2],
    ) {
        for (other, printed) in [1, 2].into_iter().zip(printed) {
            let pairs = runs[0].iter().zip(&runs[other]).map(|(ours, theirs)| {
                let ratio = of(ours) / of(theirs).max(1e-9);
                if better == Better::More { 1.0 / ratio.max(1e-9) } else { ratio }
            });
            let estimate = Estimate::of(&pairs.collect::<Vec<f64>>());
            let asked = if better == Better::More { 1.0 / printed } else { printed };
            let verdict = Verdict::of(estimate, asked);
            self.counts[verdict as usize] += 1;
            let shown = |ratio: f64| if better == Better::More { 1.0 / ratio } else { ratio };
            let ends = [estimate.mean - estimate.half, estimate.mean + estimate.half].map(shown);
            let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            let rival = CONTESTANTS[other].name();
            self.lines.push(format!(
                "{name:<36} over {rival:<10} {printed:>8.3} {:>8.3} {low:>8.3} to {high:<8.3} {}",
                shown(estimate.mean),
                verdict.text()
            ));
            let key = format!("link_paper_claim_{}_{}", key_of(name), rival.replace('-', "_"));
            self.figures.push(figure(&key, shown(estimate.mean), "1"));
        }
    }

    /// A part of samples, by contestant, beside what the paper's figure shows.
    fn part(&mut self, name: &str, runs: &Runs, of: impl Fn(&Played) -> f64, printed: [f64; 3]) {
        for ((contestant, runs), printed) in CONTESTANTS.iter().zip(runs).zip(printed) {
            let estimate = Estimate::of(&runs.iter().map(&of).collect::<Vec<f64>>());
            let (name, its) = (format!("{name}, {}", contestant.name()), estimate.text(3));
            self.lines.push(format!("{name:<52} {printed:>8.3} {its:>18}"));
        }
    }
}

fn key_of(name: &str) -> String {
    let words = name.split(|char: char| !char.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_").to_lowercase()
}

fn share(of: &[f64], is_so: impl Fn(f64) -> bool) -> f64 {
    of.iter().filter(|&&one| is_so(one)).count() as f64 / of.len().max(1) as f64
}

/// All claims, of so many seeds: lines for people, figures for machines.
pub(super) fn claims(seeds: &Range<u64>, progress: &Progress) -> (Vec<String>, Vec<Figure>) {
    let seeds: Vec<u64> = seeds.clone().collect();
    let mut claims = Claims::default();
    claims.lines.push(format!(
        "The paper's world: coupled windows, no repairs, others {} % of each path (9 tenths TCP), {} seeds",
        CROSS[1] * 100.0,
        seeds.len()
    ));
    claims.lines.push(format!("{:<52} {:>8} {:>8} {:>20}", "", "printed", "here", "95 % interval"));
    let usual = play(Place::default(), &seeds, progress);
    let rates = |played: &Played| mean(&played.rates);
    claims.part("Fig. 9: Mbit/s with 128 KiB", &usual, rates, [80.0, 70.0, 55.0]);
    let fast = |played: &Played| share(&played.rates, |rate| rate > FAST);
    claims.part("Fig. 6: seconds above 80 Mbit/s", &usual, fast, [0.5, 0.05, 0.0]);
    let short = |played: &Played| share(&played.trips, |trip| trip < SHORT);
    claims.part("Fig. 7: round trips below 190 ms", &usual, short, [0.80, 0.46, 0.25]);
    let disorder = |played: &Played| mean(&played.disordered) / mean(&played.rates).max(1e-9);
    claims.ratio("Fig. 8: disordered packets a byte", Better::Less, &usual, disorder, [0.4, 0.1]);
    for (place, buffer) in BUFFERS.into_iter().enumerate() {
        let runs = play(Place { buffer, ..Place::default() }, &seeds, progress);
        if buffer == BUFFER {
            claims.ratio("Fig. 9: throughput, 128 KiB", Better::More, &runs, rates, [1.14, 1.45]);
        }
        let printed = TRIPS_SAVED.map(|saved| 1.0 - saved[place]);
        let trips = |played: &Played| mean(&played.trips);
        claims.ratio(
            &format!("Fig. 10: round trip, {buffer} KiB"),
            Better::Less,
            &runs,
            trips,
            printed,
        );
    }
    for (place, first_loss) in LOSSES.into_iter().enumerate() {
        let runs = play(Place { first_loss, ..Place::default() }, &seeds, progress);
        let printed = REPEATS_SAVED.map(|saved| 1.0 - saved[place]);
        let name = format!("Fig. 11: sent again, A loses {first_loss:.2}");
        claims.ratio(&name, Better::Less, &runs, |played| played.repeated, printed);
    }
    for cross in [CROSS[0], CROSS[2]] {
        let runs = play(Place { cross, ..Place::default() }, &seeds, progress);
        let name = format!("Throughput, others {:.0} %", cross * 100.0);
        claims.ratio(&name, Better::More, &runs, rates, [1.14, 1.45]);
    }
    let [reproduced, smaller, unseen, reversed] = claims.counts;
    claims.lines.push(format!(
        "{reproduced} ratios reproduced, {smaller} smaller than printed, {unseen} not seen, {reversed} reversed"
    ));
    (claims.lines, claims.figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_judged_by_its_interval() {
        let ratio = |mean, half| Estimate { mean, half };
        assert_eq!(Verdict::of(ratio(0.45, 0.1), 0.4), Verdict::Reproduced);
        assert_eq!(Verdict::of(ratio(0.7, 0.1), 0.4), Verdict::Smaller);
        assert_eq!(Verdict::of(ratio(0.95, 0.1), 0.4), Verdict::Unseen);
        assert_eq!(Verdict::of(ratio(0.8, 0.5), 0.4), Verdict::Unseen, "it may be anything");
        assert_eq!(Verdict::of(ratio(1.2, 0.1), 0.4), Verdict::Reversed);
    }

    #[test]
    fn windows_that_losses_halve_carry_little_over_paths_that_lose() {
        // 1.22 packets a round trip over the square root of 0.05 to 0.1 of loss are some hundred kbit/s a path.
        let [ours, ..] =
            play(Place { cross: 0.0, ..Place::default() }, &[1], &Progress::new("", 0));
        let rate = mean(&ours[0].rates);
        assert!((0.3..5.0).contains(&rate), "{rate} Mbit/s");
        assert!(ours[0].repeated > 0.03, "{}", ours[0].repeated);
    }
}
