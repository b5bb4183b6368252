//! How a topic's latency depends on its subscribers, its rate, what a record costs and its neighbours (topic
//! placement, Fig. 1), with the pool of operators and with a thread for each topic, as the paper's broker has it.
//!
//! A foreground topic is many-to-one or one-to-many; background topics are many-to-one. What a record costs is time
//! on a processor. Latency is that of subscribers, from just before the write to just after the read. The two modes
//! take turns at each point.

mod turn;

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::time::Duration;

use clap::Args;

use self::turn::{Point, Turn, measure};
use super::median;
use super::topics::Mode;
use crate::load::Arrivals;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};

/// What a record of the foreground costs.
const COSTS_MS: [u64; 2] = [2, 4];
/// Subscribers of Fig. 1a.
const SUBSCRIBERS: [usize; 3] = [1, 60, 240];
/// Subscribers of Fig. 1b.
const MANY: usize = 200;
/// Background topics of Fig. 1b and 1d.
const BACKGROUNDS: [usize; 3] = [0, 2, 4];
/// Rates of Fig. 1c, as parts of what one thread can do.
const RATES: [f64; 3] = [0.5, 0.9, 1.4];
/// Steps of the search for the largest rate.
const STEPS: u32 = 5;
/// Bound on p90 by which the largest rate is judged. The paper's is 1 s, for records that cost ten times as much.
const BOUND_MS: f64 = 100.0;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How long each point is measured, in seconds
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Rounds; in each one both modes have a turn at each point, and medians are printed
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: usize,
    /// Of random arrivals
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

struct Bench<'a> {
    options: &'a Options,
    tidegate: &'a Path,
    progress: Progress,
    lines: Vec<String>,
    figures: Vec<Figure>,
}

/// Runs the benchmark; returns what was found.
///
/// # Errors
/// A process that does not start or a connection that breaks.
pub fn run(options: &Options, tidegate: &Path) -> io::Result<Findings> {
    let _awake = Spinners::start().map_err(io::Error::other)?;
    let rates = COSTS_MS.len() * RATES.len() * 2;
    let points = COSTS_MS.len() * SUBSCRIBERS.len() + BACKGROUNDS.len() + rates;
    let searches = BACKGROUNDS.len() * STEPS as usize;
    let turns = (points * options.runs.max(1) + searches) * Mode::ALL.len();
    let progress = Progress::new("sensitivity", turns);
    let lines = vec![format!(
        "p90 in ms at the subscribers, {} s a point, medians of {} rounds: pool (edf), thread a topic, their ratio",
        options.seconds,
        options.runs.max(1)
    )];
    let mut bench = Bench { options, tidegate, progress, lines, figures: Vec::new() };
    bench.subscribers()?;
    bench.neighbours()?;
    bench.rates()?;
    bench.largest_rates()?;
    Ok((bench.lines, bench.figures).into())
}

impl Bench<'_> {
    /// Fig. 1a: subscribers, for each cost.
    fn subscribers(&mut self) -> io::Result<()> {
        self.lines.push("Fig. 1a: subscribers of a lone topic, 20 records/s".into());
        for cost_ms in COSTS_MS {
            for subscribers in SUBSCRIBERS {
                let point = Point { cost_ms, subscribers, rate: 20.0, ..self.point() };
                self.compare(&format!("subscribers_{cost_ms}ms_{subscribers}"), &point)?;
            }
        }
        Ok(())
    }

    /// Fig. 1b: neighbours of a topic with many subscribers.
    fn neighbours(&mut self) -> io::Result<()> {
        self.lines.push(format!(
            "Fig. 1b: background topics (4 ms, 80 records/s each) beside one with {MANY} subscribers, 20 records/s"
        ));
        for background in BACKGROUNDS {
            let point = Point { subscribers: MANY, rate: 20.0, background, ..self.point() };
            self.compare(&format!("neighbours_{background}"), &point)?;
        }
        Ok(())
    }

    /// Fig. 1c: rates of a lone topic, constant and random.
    fn rates(&mut self) -> io::Result<()> {
        self.lines
            .push("Fig. 1c: rate of a lone topic, as a part of what one thread can do".into());
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let kind = if arrivals == Arrivals::Constant { "constant" } else { "poisson" };
            for cost_ms in COSTS_MS {
                for part in RATES {
                    let rate = part * 1000.0 / cost_ms as f64;
                    let arrivals = arrivals.clone();
                    let point = Point { cost_ms, rate, arrivals, ..self.point() };
                    let percent = (part * 100.0).round();
                    self.compare(&format!("rate_{kind}_{cost_ms}ms_{percent}"), &point)?;
                }
            }
        }
        Ok(())
    }

    /// Fig. 1d: the largest rate of a topic that keeps the bound, beside neighbours.
    fn largest_rates(&mut self) -> io::Result<()> {
        self.lines.push(format!(
            "Fig. 1d: largest rate of a topic (4 ms, Poisson) with p90 <= {BOUND_MS} ms, beside background topics (4 ms, 40 records/s each)"
        ));
        for background in BACKGROUNDS {
            let mut line = format!("  {background:>2} topics");
            let mut found = Vec::new();
            for mode in Mode::ALL {
                let rate = self.largest_rate(mode, background)?;
                let name = format!("sensitivity_largest_rate_{background}_{}", mode.name());
                self.figures.push(figure(&name, rate, "per_second"));
                let _ = write!(line, "{:>18} {rate:>6.0}/s", mode.name());
                found.push(rate);
            }
            let _ = write!(line, "{:>8.2} times", found[0] / found[1]);
            self.lines.push(line);
        }
        Ok(())
    }

    /// Halves the interval of rates, as parts of what one thread can do up to three of them.
    fn largest_rate(&mut self, mode: Mode, background: usize) -> io::Result<f64> {
        let cost_ms = 4;
        let (mut low, mut high) = (0.0, 3.0 * 1000.0 / cost_ms as f64);
        for step in 0..STEPS {
            let rate = f64::midpoint(low, high);
            let text = format!("largest rate, {}, {background} beside", mode.name());
            self.progress.step(&text, None);
            let (arrivals, background_rate) = (Arrivals::Poisson, 40.0);
            let seed = self.options.seed + u64::from(step);
            let point = Point {
                cost_ms,
                rate,
                background,
                background_rate,
                arrivals,
                seed,
                ..self.point()
            };
            let turn = measure(&point, mode, self.tidegate)?;
            if turn.p90_ms <= BOUND_MS && turn.arrived > 0.99 {
                low = rate;
            } else {
                high = rate;
            }
        }
        Ok(low)
    }

    fn point(&self) -> Point {
        Point {
            cost_ms: 4,
            subscribers: 1,
            rate: 20.0,
            background: 0,
            background_rate: 80.0,
            arrivals: Arrivals::Constant,
            seed: self.options.seed,
            time: Duration::from_secs_f64(self.options.seconds.max(0.1)),
        }
    }

    /// Both modes in turn at one point.
    fn compare(&mut self, name: &str, point: &Point) -> io::Result<()> {
        let mut turns: [Vec<Turn>; 2] = [Vec::new(), Vec::new()];
        for run in 0..self.options.runs.max(1) {
            for (turns, mode) in turns.iter_mut().zip(Mode::ALL) {
                self.progress.step(&format!("{name}, {}", mode.name()), None);
                let seed = point.seed + run as u64;
                turns.push(measure(&Point { seed, ..point.clone() }, mode, self.tidegate)?);
            }
        }
        let mut line = format!("  {name:<28}");
        let mut p90s = Vec::new();
        for (turns, mode) in turns.iter().zip(Mode::ALL) {
            let p90 = median(turns.iter().map(|turn| turn.p90_ms).collect());
            let arrived = turns.iter().map(|turn| turn.arrived).fold(1.0, f64::min);
            let _ = write!(line, "{p90:>10.2}");
            if arrived < 0.999 {
                let _ = write!(line, " ({:.0} % came)", arrived * 100.0);
            }
            let out = turns.iter().map(|turn| turn.left_out).fold(0.0, f64::max);
            if out > 0.1 {
                let _ = write!(line, " ({:.0} % left out)", out * 100.0);
            }
            let key = format!("sensitivity_{name}_{}", mode.name());
            self.figures.push(figure(&format!("{key}_p90"), p90, "ms"));
            p90s.push(p90);
        }
        let _ = write!(line, "{:>8.2}", p90s[1] / p90s[0]);
        self.lines.push(line);
        Ok(())
    }
}
