//! The paths of the paper's Table 1, with our own queues, and what may be lost on them.

use std::time::Duration;

use tidegate_link::LinkOptions;
use tidegate_types::units::Rate;

use super::way::Way;
use super::world::{OVERHEAD, Route, World};
use crate::link::{Cross, Loss, Options};

/// Megabits, milliseconds one way, kilobytes of queue.
pub const PATHS: [(u64, u64, u64); 3] = [(40, 70, 500), (40, 90, 500), (80, 130, 1000)];
/// Loss of each path behind its queue.
pub const HEAVY: [f64; 3] = [0.1, 0.1, 0.05];
/// A tenth of that.
pub const LIGHT: [f64; 3] = [0.01, 0.01, 0.005];
pub const NONE: [f64; 3] = [0.0; 3];
/// Shortest round trip of all paths, in seconds.
pub const RTT_MIN: f64 = 0.140;
/// Records that have time for several repeats: nothing is guarded.
pub const PATIENT: Duration = Duration::from_secs(2);
/// Records that have no time for a repeat on any of the paths.
pub const URGENT: Duration = Duration::from_millis(200);

/// The three paths with such losses on the way there, between two ends with these options.
pub fn world(options: &LinkOptions, loss: [f64; 3], seed: u64) -> World {
    crossed(options, loss, 0.0, seed)
}

/// The same, where others send this part of what each path carries on the way there.
pub fn crossed(options: &LinkOptions, loss: [f64; 3], part: f64, seed: u64) -> World {
    let (mut ways, mut routes) = (Vec::new(), Vec::new());
    for (path, (mbit, delay, queue)) in PATHS.into_iter().enumerate() {
        for (loss, part) in [(loss[path], part), (0.0, 0.0)] {
            let delay = Duration::from_millis(delay);
            let options = Options::new(mbit * 1_000_000, delay, queue * 1000);
            let others = Cross::of(Rate::from_bits(mbit as f64 * 1e6 * part));
            let cross = Some(others).filter(|_| part > 0.0);
            let options = Options { loss: Loss::Random(loss), cross, ..options };
            let seed = seed * 100 + ways.len() as u64;
            ways.push(Way::emulated(options, seed));
        }
        let route = |way| Route { way, beyond: Duration::ZERO };
        routes.push([route(2 * path), route(2 * path + 1)]);
    }
    World::new(options, ways, routes)
}

/// What the paths can carry of records after such losses, in Mbit/s: a packet of 1350 bytes has about 20 of its own,
/// and more below it.
pub fn payload(loss: [f64; 3]) -> f64 {
    let share = 1330.0 / (1350.0 + OVERHEAD as f64);
    let each = PATHS.iter().zip(loss);
    each.map(|(&(mbit, ..), loss)| mbit as f64 * (1.0 - loss) * share).sum()
}
