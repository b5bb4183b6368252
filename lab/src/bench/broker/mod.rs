//! Publishing and subscribing at one process: what a delivery costs and how long it takes, beside Mosquitto
//! and, where they are installed, Mochi and NanoMQ.
//!
//! Cost: publishers send as fast as they are let, and every message is waited for; deliveries by the CPU time of
//! the whole broker. Delay: the same shapes at a steady rate, from just before the write to just after the
//! read. Contestants take turns; medians are printed.

use std::io::{self, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::brokers::{self, BrokerSpec};
use super::median;
use crate::load::raw;
use crate::load::subscriber::Subscriber;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};
use crate::rig::server::Server;
use clap::Args;

/// Payload of every message.
const PAYLOAD: usize = 64;
/// Between two looks of a paced publisher at the clock.
const TICK: Duration = Duration::from_micros(500);

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Deliveries of each measurement of cost
    #[arg(long, default_value_t = 400_000)]
    pub(crate) deliveries: u64,
    /// Deliveries a second while delay is measured
    #[arg(long, default_value_t = 4_000)]
    pub(crate) rate: u64,
    /// How long delay is measured, in seconds
    #[arg(long, default_value_t = 3)]
    pub(crate) seconds: u64,
    /// Rounds; in each one everybody has a turn
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: usize,
    /// Sessions that last, QoS 1, at brokers that keep what they acknowledge
    #[arg(long)]
    pub(crate) durable: bool,
}

/// A broker, and where its program is.
type Contestant = (BrokerSpec, PathBuf);

/// How many publish to how many.
#[derive(Clone, Copy, Debug)]
struct Shape {
    name: &'static str,
    publishers: u64,
    subscribers: u64,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "one_to_one", publishers: 1, subscribers: 1 },
    Shape { name: "fan_in", publishers: 8, subscribers: 1 },
    Shape { name: "fan_out", publishers: 1, subscribers: 8 },
    Shape { name: "wide", publishers: 1, subscribers: 100 },
];

/// One turn of one contestant.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Deliveries for a second of CPU.
    per_second: f64,
    /// Deliveries a second.
    speed: f64,
    /// Milliseconds.
    p99: f64,
    /// Part of the deliveries that came.
    arrived: f64,
}

/// Runs the benchmark; returns what was found.
///
/// # Errors
/// A process that does not start or a connection that breaks.
pub(crate) fn run(options: &Options) -> io::Result<Findings> {
    let _awake = Spinners::start().map_err(io::Error::other)?;
    let bench = if options.durable { "broker-durable" } else { "broker" };
    let (mut contestants, mut lines) = (Vec::new(), Vec::new());
    for (broker, path) in brokers::all(bench) {
        match path {
            Ok(path) if broker.is_ours() || broker.launch(&path).is_ok() => {
                contestants.push((broker, path));
            }
            Ok(_) => lines.push(format!("skipped: {}: it does not start", broker.figure())),
            Err(error) if broker.is_ours() => return Err(io::Error::other(error)),
            Err(error) => lines.push(format!("skipped: {}: {error}", broker.figure())),
        }
    }
    let (runs, mut figures) = (options.runs.max(1), Vec::new());
    let (shapes, all_qos): (_, &[u8]) =
        if options.durable { (&SHAPES[..], &[1]) } else { (&SHAPES[..3], &[0, 1]) };
    let progress = Progress::new(bench, shapes.len() * all_qos.len() * runs * contestants.len());
    lines.insert(0, format!(
        "Deliveries of {PAYLOAD} B for a second of the broker's CPU, and p99 at {} a second; medians of {runs} rounds",
        options.rate
    ));
    for shape in shapes {
        for qos in all_qos {
            let mut turns = vec![Vec::new(); contestants.len()];
            for _ in 0..runs {
                for (turns, contestant) in turns.iter_mut().zip(&contestants) {
                    let name = contestant.0.figure();
                    progress.step(&format!("{name}, {}", shape.name), None);
                    match turn(contestant, *shape, *qos, options) {
                        // The others go on.
                        Err(error) if !contestant.0.is_ours() => {
                            lines.push(format!("skipped: {name}, {}: {error}", shape.name));
                        }
                        turn => turns.push(turn?),
                    }
                }
            }
            tell((bench, *shape, *qos), &contestants, &turns, &mut lines, &mut figures);
        }
    }
    Ok((lines, figures).into())
}

/// Adds a table of one shape and its figures.
fn tell(
    (bench, shape, qos): (&str, Shape, u8),
    contestants: &[Contestant],
    turns: &[Vec<Turn>],
    lines: &mut Vec<String>,
    figures: &mut Vec<Figure>,
) {
    let (bench, shape) = (bench.replace('-', "_"), format!("{}_qos{qos}", shape.name));
    lines.push(format!(
        "{shape:<18}{:>14}{:>12}{:>10}{:>9}",
        "per CPU s", "per s", "p99 ms", "arrived"
    ));
    let mut ours = f64::NAN;
    for (contestant, turns) in contestants.iter().zip(turns).filter(|(_, turns)| !turns.is_empty())
    {
        let of = |read: fn(&Turn) -> f64| median(turns.iter().map(read).collect());
        let (per_second, p99) = (of(|turn| turn.per_second), of(|turn| turn.p99));
        let speed = of(|turn| turn.speed);
        let arrived = turns.iter().map(|turn| turn.arrived).fold(1.0, f64::min);
        let name = contestant.0.figure();
        let promise = &contestant.0.promise;
        lines.push(format!(
            "  {name:<16}{per_second:>14.0}{speed:>12.0}{p99:>10.2}{arrived:>9.3}  {promise}"
        ));
        let mut add = |what: &str, value, unit| {
            figures.push(figure(&format!("{bench}_{shape}_{what}"), value, unit));
        };
        add(name, per_second, "per_cpu_second");
        add(&format!("{name}_speed"), speed, "per_second");
        add(&format!("{name}_p99"), p99, "ms");
        if contestant.0.is_ours() {
            ours = per_second;
        } else {
            add(&format!("ratio_{name}"), ours / per_second, "times");
        }
    }
}

fn turn((broker, path): &Contestant, shape: Shape, qos: u8, options: &Options) -> io::Result<Turn> {
    let server = broker.launch(path)?;
    let (address, durable) = (server.address, options.durable);
    let origin = Instant::now();
    let each = options.deliveries / shape.publishers / shape.subscribers;
    let all = each * shape.publishers;
    let subscribers = subscribe(&server, (shape, durable), qos, origin)?;
    let before = server.cpu()?;
    let begun = Instant::now();
    raw::saturate_by(address, shape.publishers, "bench/", qos, &[0; PAYLOAD], each)?;
    let came: u64 = subscribers.iter().map(|subscriber| subscriber.wait_for(all)).sum();
    let (cpu, spent) = (server.cpu()? - before, begun.elapsed());
    drop(subscribers);
    let subscribers = subscribe(&server, (shape, durable), qos, origin)?;
    let rate = options.rate / shape.publishers / shape.subscribers;
    let count = rate * options.seconds;
    raw::at_once(shape.publishers, |number| {
        let stream = raw::log_in(address, &format!("publisher-{number}"))?;
        pace(stream, &format!("bench/{number}"), qos, rate, count, origin)
    })?;
    let mut delays = Vec::new();
    for subscriber in &subscribers {
        subscriber.wait_for(count * shape.publishers);
        delays.extend(subscriber.delays());
    }
    delays.sort_unstable();
    let p99 = delays.get(delays.len() * 99 / 100).copied().unwrap_or_default();
    Ok(Turn {
        per_second: came as f64 / cpu.as_secs_f64(),
        speed: came as f64 / spent.as_secs_f64(),
        p99: p99 as f64 / 1e6,
        arrived: came as f64 / (all * shape.subscribers) as f64,
    })
}

fn subscribe(
    server: &Server,
    (shape, is_lasting): (Shape, bool),
    qos: u8,
    origin: Instant,
) -> io::Result<Vec<Subscriber>> {
    let name = |number| format!("subscriber-{number}");
    (0..shape.subscribers)
        .map(|number| {
            Subscriber::open(server.address, (&name(number), is_lasting), "bench/#", qos, origin)
        })
        .collect()
}

/// Publishes at a steady rate; each payload begins with the time at which it is written.
fn pace(
    mut stream: TcpStream,
    topic: &str,
    qos: u8,
    rate: u64,
    count: u64,
    origin: Instant,
) -> io::Result<()> {
    // Answers are not needed, but must not fill the connection.
    let mut answers = stream.try_clone()?;
    thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
    let start = Instant::now();
    let mut payload = [0; PAYLOAD];
    let mut sent = 0;
    while sent < count {
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due.min(count) {
            payload[..8].copy_from_slice(&(origin.elapsed().as_nanos() as u64).to_be_bytes());
            let id = (qos == 1).then_some((sent % 60_000 + 1) as u16);
            stream.write_all(&raw::publish_packet(topic, id, &payload))?;
            sent += 1;
        }
        thread::sleep(TICK);
    }
    Ok(())
}
