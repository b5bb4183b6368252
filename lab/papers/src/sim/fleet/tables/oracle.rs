//! What nobody can beat on recorded uplinks: who knows all of them ahead sends each record by the one that has it at the
//! far end first, the most urgent class first, and nothing but payload.

use std::time::Duration;

use super::case::{Case, IDLE, URGENT};
use super::measure::{BOUNDS, ClassMeasured, Measured, quantile};
use crate::link::Service;
use crate::sim::fleet::nodes::LAN;
use crate::sim::random::Random;

/// What has not gone at the end goes within this, and is late.
const AFTER: Duration = Duration::from_secs(60);

/// A record that is to go: whose it is, and its class.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    came: Duration,
    node: usize,
}

/// An uplink: the bytes that each of its milliseconds still carries.
struct Room(Vec<u64>);

impl Room {
    fn new(service: &Service, length: Duration) -> Self {
        let milli = |at: u64| Duration::from_millis(at);
        Room(
            (0..length.as_millis() as u64)
                .map(|at| service.room(milli(at), milli(at + 1)) as u64)
                .collect(),
        )
    }

    /// The millisecond in which so many bytes are through that want to go from `from` on.
    fn ends(&self, from: usize, bytes: u64) -> Option<usize> {
        let mut left = bytes;
        (from..self.0.len()).find(|at| {
            left = left.saturating_sub(self.0[*at]);
            left == 0
        })
    }

    fn take(&mut self, from: usize, bytes: u64) {
        let mut left = bytes;
        for room in self.0.iter_mut().skip(from) {
            let taken = left.min(*room);
            (*room, left) = (*room - taken, left - taken);
            if left == 0 {
                return;
            }
        }
    }
}

/// Plays a case over recorded uplinks, from `from` on; its arrivals are its own, as many a second as the nodes'.
pub(super) fn play(case: &Case, services: &[Service], from: Duration, seed: u64) -> Measured {
    let length = from + Duration::from_secs_f64(case.length);
    let delay = case.network.delay();
    let mut rooms: Vec<Room> =
        services.iter().map(|service| Room::new(service, length + AFTER)).collect();
    let (mut all, mut classes) = (0, [ClassMeasured::default(); 3]);
    for (class, measured) in classes.iter_mut().enumerate() {
        // Nothing before it is free any more: records of a class go in the order in which they came.
        let mut begin = vec![0; rooms.len()];
        let (mut took, mut late) = (Vec::new(), 0_usize);
        for Waiting { came, node } in arrivals(case, class, length, seed) {
            let ways = (0..rooms.len()).filter_map(|by| {
                let hop = if by == node { Duration::ZERO } else { LAN };
                let first = ((came + hop).as_secs_f64() * 1e3).ceil() as usize;
                let first = first.max(begin[by]);
                Some((rooms[by].ends(first, case.size())?, by != node, by, first))
            });
            let Some((at, _, by, first)) = ways.min() else { continue };
            rooms[by].take(first, case.size());
            begin[by] = rooms[by].0[first..]
                .iter()
                .position(|room| *room > 0)
                .map_or(at, |more| first + more);
            let ends = Duration::from_millis(at as u64 + 1);
            all += usize::from(ends >= from && ends <= length);
            if node == 0 && came >= from {
                let waited = ends.saturating_sub(came).as_secs_f64();
                late += usize::from(waited > BOUNDS[class] + 1e-3);
                took.push(waited + delay);
            }
        }
        let count = took.len().max(1) as f64;
        let mean = took.iter().sum::<f64>() / count;
        *measured = ClassMeasured {
            mean,
            late: late as f64 / count,
            p50: quantile(&mut took, 0.5),
            p99: quantile(&mut took, 0.99),
        };
    }
    Measured { classes, all: all as f64 / case.length, ..Measured::default() }
}

/// Records of a class of all nodes, in the order in which they come.
fn arrivals(case: &Case, class: usize, length: Duration, seed: u64) -> Vec<Waiting> {
    let mut all = Vec::new();
    for node in 0..4 {
        let busy = [URGENT[0], URGENT[1], case.rate];
        let rate = if node == 0 { busy[class] } else { IDLE };
        let mut random = Random::new(seed, 7000 + node as u64 * 10 + class as u64);
        let mut came = random.interval(rate);
        while came < length {
            all.push(Waiting { came, node });
            came += random.interval(rate);
        }
    }
    all.sort_by_key(|one| one.came);
    all
}
