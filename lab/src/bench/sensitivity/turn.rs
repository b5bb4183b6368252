//! One point: a node, its publishers and its subscribers, for a while.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::broker::subscriber::Subscriber;
use crate::bench::ingest::server::{Server, free_address};
use crate::load::raw;
use crate::load::{Arrivals, Share};

/// Payload of every message (topic placement, section VI-A).
const PAYLOAD: usize = 4096;
/// Keys of a topic with many publishers.
const KEYS: u64 = 16;
/// Part of the messages at the beginning that do not count: connections and caches are cold.
const COLD: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Pool,
    Threads,
}

impl Mode {
    pub(super) const ALL: [Mode; 2] = [Mode::Pool, Mode::Threads];

    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Pool => "edf",
            Mode::Threads => "thread_per_topic",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Mode::Pool => "edf",
            Mode::Threads => "thread-per-topic",
        }
    }

    /// Where a message is published. The paper's broker has one thread for a topic with many publishers; the pool
    /// keeps the order of each publisher.
    fn topic(self, name: &str, number: u64) -> String {
        match self {
            Mode::Pool => format!("raw/{name}/{}", number % KEYS),
            Mode::Threads => format!("raw/{name}"),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Of each message, on a processor.
    pub(super) cost_ms: u64,
    /// Subscribers of the foreground.
    pub(super) subscribers: usize,
    /// Messages a second of the foreground.
    pub(super) rate: f64,
    /// Background topics, each with a cost of 4 ms and one subscriber for all.
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
}

/// Cost of a message of the background.
const BACKGROUND_MS: u64 = 4;

fn config(point: &Point, mode: Mode, address: SocketAddr) -> String {
    let mut text = format!(
        "[node]\nname = \"bench\"\npool = \"{}\"\n[http]\nlisten = []\n[[input]]\nmqtt = {{ listen = \"{address}\" }}\n\
         [[stream]]\nlatency = \"1s\"\nto = []\n",
        mode.key()
    );
    let topics =
        (0..point.background).map(|number| (format!("back{number}"), "back", BACKGROUND_MS));
    for (name, to, cost) in topics.chain([("front".to_owned(), "bench", point.cost_ms)]) {
        let _ = write!(
            text,
            "[[operator]]\nname = \"{name}\"\nfrom = [\"raw/{name}/#\"]\nto = \"{to}/{name}\"\nkey = 3\n\
             do = [{{ spin = \"{cost}ms\" }}]\n"
        );
    }
    text
}

/// When which message is due: the time, the topic's name, and its number there.
fn agenda(point: &Point) -> io::Result<Vec<(Duration, String, u64)>> {
    let mut all = Vec::new();
    for place in 0..=point.background {
        let (name, per_second) = match place {
            0 => ("front".to_owned(), point.rate),
            place => (format!("back{}", place - 1), point.background_rate),
        };
        // Topics of one rate must not beat together.
        let seed = point.seed.wrapping_mul(1000) + place as u64;
        let share = Share { per_second, place: 0, publishers: 1, seed };
        let schedule = point.arrivals.schedule(share).map_err(io::Error::other)?;
        let offset =
            Duration::from_secs_f64(place as f64 / (point.background + 1) as f64 / per_second);
        let due = schedule.map(|at| at + offset).take_while(|at| *at < point.time);
        all.extend(due.enumerate().map(|(number, at)| (at, name.clone(), number as u64)));
    }
    all.sort();
    Ok(all)
}

/// Measures a point.
pub(super) fn measure(point: &Point, mode: Mode, tidegate: &Path) -> io::Result<Turn> {
    let address = free_address()?;
    let text = config(point, mode, address);
    let server = Server::launch_with((tidegate, &["run"]), "-c", address, &text, false)?;
    let origin = Instant::now();
    let name = |number| format!("subscriber-{number}");
    let subscribers: Vec<Subscriber> = (0..point.subscribers)
        .map(|number| Subscriber::to(server.address, &name(number), "bench/#", 0, origin))
        .collect::<io::Result<_>>()?;
    let _back = Subscriber::to(server.address, "subscriber-back", "back/#", 0, origin)?;
    let agenda = agenda(point)?;
    let count = agenda.iter().filter(|(_, name, _)| name == "front").count() as u64;
    let mut stream = raw::log_in(server.address, "publisher")?;
    let start = Instant::now();
    let mut payload = vec![0; PAYLOAD];
    for (at, name, number) in &agenda {
        thread::sleep(at.saturating_sub(start.elapsed()));
        payload[..8].copy_from_slice(&(origin.elapsed().as_nanos() as u64).to_be_bytes());
        stream.write_all(&raw::publish_packet(&mode.topic(name, *number), None, &payload))?;
    }
    let mut delays = Vec::new();
    let mut came = 0;
    for subscriber in &subscribers {
        came += subscriber.wait_for(count);
        let own = subscriber.delays();
        let cold = (own.len() as f64 * COLD) as usize;
        delays.extend(own.into_iter().skip(cold));
    }
    delays.sort_unstable();
    let p90 = delays.get(delays.len() * 9 / 10).copied().unwrap_or_default();
    let all = count * point.subscribers as u64;
    Ok(Turn { p90_ms: p90 as f64 / 1e6, arrived: came as f64 / all.max(1) as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_a_node_that_is_right() {
        let point = Point {
            cost_ms: 2,
            subscribers: 1,
            rate: 10.0,
            background: 2,
            background_rate: 20.0,
            arrivals: Arrivals::Constant,
            seed: 1,
            time: Duration::from_secs(1),
        };
        for mode in Mode::ALL {
            let text = config(&point, mode, ([127, 0, 0, 1], 1883).into());
            assert_eq!(tidegate::config::read(&text).render("node.toml", &text), "");
        }
        let agenda = agenda(&point).unwrap();
        let of = |wanted: &str| agenda.iter().filter(|(_, name, _)| name == wanted).count();
        assert_eq!((of("front"), of("back0"), of("back1")), (10, 20, 20));
        assert!(agenda.is_sorted_by_key(|(at, ..)| *at));
    }
}
