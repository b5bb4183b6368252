//! One point: a node, its publishers and its subscribers, for a while.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::bench::topics::{self, Load, Mode, Setup};
use crate::load::Arrivals;

#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Of each message, on a processor.
    pub(super) cost_ms: u64,
    /// Subscribers of the foreground.
    pub(super) subscribers: usize,
    /// Messages a second of the foreground.
    pub(super) rate: f64,
    /// Background topics, each with a cost of 4 ms and one subscriber.
    pub(super) background: usize,
    /// Messages a second of each.
    pub(super) background_rate: f64,
    pub(super) arrivals: Arrivals,
    pub(super) seed: u64,
    pub(super) time: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) p90_ms: f64,
    /// Part of the foreground's deliveries that came.
    pub(super) arrived: f64,
    /// Part of them that lived while a processor stood still.
    pub(super) left_out: f64,
}

/// Cost of a message of the background.
const BACKGROUND_MS: u64 = 4;
/// Bound of every topic.
const BOUND: Duration = Duration::from_secs(1);

fn loads(point: &Point) -> Vec<Load> {
    let load = |name: String, cost_ms, rate, subscribers| Load {
        name,
        cost: Duration::from_millis(cost_ms),
        rate,
        arrivals: point.arrivals.clone(),
        subscribers,
        bound: BOUND,
    };
    let front = load("front".to_owned(), point.cost_ms, point.rate, point.subscribers);
    let back = (0..point.background)
        .map(|number| load(format!("back{number}"), BACKGROUND_MS, point.background_rate, 1));
    std::iter::once(front).chain(back).collect()
}

pub(super) fn measure(point: &Point, mode: Mode, tidegate: &Path) -> io::Result<Turn> {
    let setup = Setup { tidegate, mode, seed: point.seed, time: point.time, is_alone: false };
    let mut answer = topics::measure(&loads(point), &setup)?;
    let front = answer.topics.swap_remove(0);
    let all = (front.left_out + front.delays.len()).max(1);
    Ok(Turn {
        p90_ms: front.quantile_ms(0.9),
        arrived: front.arrived,
        left_out: front.left_out as f64 / all as f64,
    })
}
