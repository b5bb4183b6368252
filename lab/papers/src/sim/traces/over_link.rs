//! A link in place of the node's connection: one path of a recording, the link's own scheduler, and a law for the path's rate.

use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_link::LinkOptions;

use super::{ALARMS, BULK, DRAIN, QUEUE, Score, Trace};
use crate::link::{Change, Options};
use crate::sim::links::load::{ALARM, MEDIA};
use crate::sim::links::way::Way;
use crate::sim::links::world::{Job, OVERHEAD, Route, World};

/// Bits a second of the way back, on which nothing waits.
const BACK: u64 = 10_000_000_000;
/// An alarm may take so long, and bulk so long that an alarm is more urgent however long bulk has waited: as a node's classes.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(3600));
/// Streams of bulk, so that one lost packet does not hold up all of it.
const STREAMS: u64 = 64;
/// What of a packet on the wire is a record's: the share is one of payload, as that of a connection without headers.
const PAYLOAD: f64 = 1330.0 / (1350.0 + OVERHEAD as f64);
/// Time between two looks at the end whether all alarms have come.
const LOOK: Duration = Duration::from_millis(100);

enum Event {
    Alarm,
    Bulk,
    Delay(Duration),
}

/// What happens while the recording lasts, by time.
fn agenda(trace: &Trace) -> Vec<(Duration, Event)> {
    let times = |per_second: f64| {
        let at = move |place: u32| Duration::from_secs_f64(f64::from(place) / per_second);
        (0..).map(at).take_while(|at| *at < trace.length)
    };
    let delays = trace.delays.iter().skip(1).filter(|(at, _)| *at < trace.length);
    let mut all: Vec<_> = delays.map(|&(at, delay)| (at, Event::Delay(delay))).collect();
    all.extend(times(ALARMS.0).map(|at| (at, Event::Alarm)));
    all.extend(times(trace.mean * BULK.0 / BULK.1 as f64).map(|at| (at, Event::Bulk)));
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Plays the loads that a node has on the other senders.
pub(super) fn play(trace: &Trace, law: RateControllerName, seed: u64) -> Score {
    let options = LinkOptions { controller: law, ..LinkOptions::new(1, 1) };
    let there = Options::new(1, trace.delay(Duration::ZERO), QUEUE);
    let ways = [there, Options::new(BACK, trace.back(), u64::MAX)];
    let ways = ways.map(|options| Way::emulated(options, seed)).into();
    let route = |way| Route { way, beyond: Duration::ZERO };
    let mut world = World::new(&options, ways, vec![[route(0), route(1)]]);
    let from = world.now;
    let end = from + trace.length;
    world.ways[0].change(from, Change::Service(trace.service.clone()));
    let (mut bulk, mut alarms) = (0, 0);
    for (at, event) in agenda(trace) {
        world.run_until(from + at);
        match event {
            Event::Delay(delay) => {
                world.ways[0].change(world.now, Change::Delay(delay, Duration::ZERO));
            }
            Event::Alarm => {
                alarms += 1;
                let (size, bound) = (ALARMS.1 as usize, BOUNDS.0);
                world.submit(Job { stream: STREAMS, size, bound, kind: ALARM });
            }
            Event::Bulk => {
                bulk += 1;
                let (size, bound) = (BULK.1 as usize, BOUNDS.1);
                world.submit(Job { stream: bulk % STREAMS, size, bound, kind: MEDIA });
            }
        }
    }
    world.run_until(end);
    let is_there = |world: &World| world.came.iter().filter(|one| one.kind == ALARM).count();
    while is_there(&world) < alarms && world.now < end + DRAIN.0 {
        world.run_for(LOOK);
    }
    let in_time = world.came.iter().filter(|one| one.at <= end).map(|one| one.size);
    let share = in_time.sum::<usize>() as f64 / PAYLOAD;
    let of_alarms = world.came.iter().filter(|one| one.kind == ALARM);
    let took = of_alarms.map(|one| ((one.at - one.latency).since(from), one.latency)).collect();
    Score::of(trace, took, share / trace.service.room(Duration::ZERO, trace.length))
}
