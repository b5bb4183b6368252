//! Topics with operators of known cost at one node: their publishers, their subscribers, and what they wait.
//!
//! What a record costs is time on a processor. Latency is that of subscribers, from just before the write to just
//! after the read; what lived while a processor of the machine stood still is left out and counted.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_testbed::free_address;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::load::raw;
use crate::load::subscriber::Subscriber;
use crate::load::{Arrivals, Share};
use crate::rig::server::Server;
use crate::watch::Watch;

/// Payload of every message (topic placement, section VI-A).
const PAYLOAD: usize = 4096;
/// Keys of a topic with many publishers.
const KEYS: u64 = 16;
/// Part of the messages at the beginning that do not count: connections and caches are cold.
const COLD: f64 = 0.1;

tidegate_types::named! {
    /// Who works on records.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Mode {
        Pool = "edf",
        Threads = "thread_per_topic",
    }
}

impl Mode {
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

/// A topic and its traffic.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// A level of a topic.
    pub(super) name: String,
    /// Of each message, on a processor.
    pub(super) cost: Duration,
    /// Messages a second.
    pub(super) rate: f64,
    pub(super) arrivals: Arrivals,
    pub(super) subscribers: usize,
    pub(super) bound: Duration,
}

/// How a node is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) tidegate: &'a Path,
    pub(super) mode: Mode,
    pub(super) seed: u64,
    pub(super) time: Duration,
    /// The node has the first processor for itself, and everything else the others.
    pub(super) is_alone: bool,
}

/// What came of a topic.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// Of each delivery that counts, in nanoseconds, sorted.
    pub(super) delays: Vec<u64>,
    /// Part of the deliveries that came.
    pub(super) arrived: f64,
    /// Deliveries that lived while a processor stood still.
    pub(super) left_out: usize,
}

impl Heard {
    /// The time within which this part was there, in milliseconds.
    pub(super) fn quantile_ms(&self, part: f64) -> f64 {
        let place = (self.delays.len() as f64 * part) as usize;
        self.delays.get(place).copied().unwrap_or_default() as f64 / 1e6
    }

    /// Deliveries that took longer.
    pub(super) fn after(&self, bound: Duration) -> usize {
        let bound = bound.as_nanos() as u64;
        self.delays.len() - self.delays.partition_point(|&delay| delay <= bound)
    }
}

/// What came of a node.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// By topic, in the order in which they were given.
    pub(super) topics: Vec<Heard>,
    /// Processors that the node kept busy while it was published to.
    pub(super) busy: f64,
}

fn config(loads: &[Load], mode: Mode, address: SocketAddr) -> String {
    let mut text = format!(
        "[node]\nname = \"bench\"\npool = \"{}\"\n[http]\nlisten = []\n[[input]]\nmqtt = {{ listen = \"{address}\" }}\n\
         [[stream]]\nlatency = \"1s\"\nto = []\n",
        mode.key()
    );
    for Load { name, cost, bound, .. } in loads {
        let (cost, bound) = (cost.as_micros(), bound.as_micros());
        let _ = write!(
            text,
            "[[operator]]\nname = \"{name}\"\nfrom = [\"raw/{name}/#\"]\nto = \"bench/{name}\"\nkey = 3\n\
             bound = \"{bound}us\"\ndo = [{{ spin = \"{cost}us\" }}]\n"
        );
    }
    text
}

/// When which message is due: the time, the topic's place, and its number there.
fn agenda(loads: &[Load], seed: u64, time: Duration) -> io::Result<Vec<(Duration, usize, u64)>> {
    let mut all = Vec::new();
    for (place, Load { rate, arrivals, .. }) in loads.iter().enumerate() {
        // Topics of one rate must not beat together.
        let seed = seed.wrapping_mul(1000) + place as u64;
        let share = Share { per_second: *rate, place: 0, publishers: 1, seed };
        let schedule = arrivals.schedule(share).map_err(io::Error::other)?;
        let offset = Duration::from_secs_f64(place as f64 / loads.len() as f64 / rate);
        let due = schedule.map(|at| at + offset).take_while(|at| *at < time);
        all.extend(due.enumerate().map(|(number, at)| (at, place, number as u64)));
    }
    all.sort_unstable();
    Ok(all)
}

/// Runs a node with these topics for a while.
pub(super) fn measure(loads: &[Load], setup: &Setup<'_>) -> io::Result<Answer> {
    // Threads inherit where they may run: this one's places are given back when the run is over.
    let _place = setup.is_alone.then(Elsewhere::go).transpose()?;
    let address = free_address();
    let text = config(loads, setup.mode, address);
    let program = setup.tidegate.to_str().ok_or_else(|| io::Error::other("the program's path"))?;
    let server = if setup.is_alone {
        let alone = (Path::new("taskset"), ["-c", "0", program, "run"]);
        Server::launch_with((alone.0, &alone.1), "-c", address, &text, false)?
    } else {
        Server::launch_with((setup.tidegate, &["run"]), "-c", address, &text, false)?
    };
    let watch = Watch::start();
    let origin = Instant::now();
    let mut subscribers = Vec::new();
    for Load { name, subscribers: count, .. } in loads {
        let own = (0..*count).map(|number| {
            let (client, filter) = (format!("{name}-{number}"), format!("bench/{name}"));
            Subscriber::to(address, &client, &filter, 0, origin)
        });
        subscribers.push(own.collect::<io::Result<Vec<_>>>()?);
    }
    let agenda = agenda(loads, setup.seed, setup.time)?;
    let mut stream = raw::log_in(address, "publisher")?;
    let (start, used) = (Instant::now(), server.cpu()?);
    let mut payload = vec![0; PAYLOAD];
    for &(at, place, number) in &agenda {
        thread::sleep(at.saturating_sub(start.elapsed()));
        payload[..8].copy_from_slice(&(origin.elapsed().as_nanos() as u64).to_be_bytes());
        let topic = setup.mode.topic(&loads[place].name, number);
        stream.write_all(&raw::publish_packet(&topic, None, &payload))?;
    }
    let busy = (server.cpu()? - used).as_secs_f64() / start.elapsed().as_secs_f64();
    let mut counts = vec![0; loads.len()];
    agenda.iter().for_each(|&(_, place, _)| counts[place] += 1);
    let mut came = Vec::new();
    for (own, &count) in subscribers.iter().zip(&counts) {
        came.push(own.iter().map(|subscriber| subscriber.wait_for(count)).sum::<u64>());
    }
    let stills = watch.take();
    let heard = subscribers.iter().zip(counts).zip(came).map(|((own, count), came)| {
        let mut heard = Heard::default();
        for subscriber in own {
            let lives = subscriber.lives();
            let cold = (lives.len() as f64 * COLD) as usize;
            for (sent, took) in lives.into_iter().skip(cold) {
                let began = origin + Duration::from_nanos(sent);
                let ended = began + Duration::from_nanos(took);
                if stills.iter().any(|still| still.touches(began, ended)) {
                    heard.left_out += 1;
                } else {
                    heard.delays.push(took);
                }
            }
        }
        heard.delays.sort_unstable();
        let wanted = count * own.len() as u64;
        heard.arrived = if wanted == 0 { 1.0 } else { came as f64 / wanted as f64 };
        heard
    });
    Ok(Answer { topics: heard.collect(), busy })
}

/// The calling thread, and those that it starts, stay off the first processor while this lives.
struct Elsewhere(CpuSet);

impl Elsewhere {
    fn go() -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut others = before;
        others.unset(0);
        if others.count() == 0 {
            return Err(io::Error::other(
                "needs two processors: one for the node, one for clients",
            ));
        }
        sched_setaffinity(None, &others)?;
        Ok(Elsewhere(before))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(None, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_a_node_that_is_right() {
        let load = |name: &str, rate| Load {
            name: name.to_owned(),
            cost: Duration::from_millis(2),
            rate,
            arrivals: Arrivals::Constant,
            subscribers: 1,
            bound: Duration::from_millis(100),
        };
        let loads = [load("front", 10.0), load("back0", 20.0), load("back1", 20.0)];
        for mode in Mode::ALL {
            let text = config(&loads, mode, ([127, 0, 0, 1], 1883).into());
            assert_eq!(tidegate::config::read(&text).render("node.toml", &text), "");
        }
        let agenda = agenda(&loads, 1, Duration::from_secs(1)).unwrap();
        let of = |wanted: usize| agenda.iter().filter(|(_, place, _)| *place == wanted).count();
        assert_eq!((of(0), of(1), of(2)), (10, 20, 20));
        assert!(agenda.is_sorted_by_key(|(at, ..)| *at));
    }
}
