//! How exact emulated links are on this machine.
//!
//! Datagrams cross one link, then three beside each other. What should have happened is computed by the
//! same model from the times at which they were sent, so that a queue which they really met is no error.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use tidegate_types::units::Time;

use super::host::{self, Host};
use super::probe::{self, Arrival, HEADERS, Stream};
use super::pump::{Report, Way};
use super::spinner::Spinners;
use super::wire::Wire;
use crate::link::{Direction, Options, Outcome};
use crate::report::{Figure, Findings, figure};

/// Of each link, in Mbit/s.
const RATE: u64 = 120;
const DELAY: Duration = Duration::from_millis(20);
/// Some 33 ms at the rate: longer than the emulator ever waits for a processor.
const QUEUE: u64 = 500_000;
/// Bytes of a packet, with headers.
const PACKET: usize = 1500;
const PORT: u16 = 7000;
/// What the emulator promises.
const RATE_ERROR_MAX: f64 = 0.01;
const DELAY_ERROR_P50_MAX_MS: f64 = 0.3;

/// One load on some links.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    links: usize,
    /// On each link, in Mbit/s.
    megabits: u64,
}

const LOADS: [Load; 4] = [
    Load { name: "1_light", links: 1, megabits: 40 },
    Load { name: "1_full", links: 1, megabits: 126 },
    Load { name: "3_light", links: 3, megabits: 40 },
    Load { name: "3_full", links: 3, megabits: 126 },
];

/// What was measured under one load.
#[derive(Clone, Debug, Default, PartialEq)]
struct Measured {
    /// Of each link, from its first to its last packet, in Mbit/s.
    rates: Vec<f64>,
    /// By how much each packet came later or earlier than it should have, in ms, sorted.
    errors: Vec<f64>,
    /// Packets that the link should have carried and did not.
    lost: u64,
    /// Packets that were sent.
    packets: u64,
    /// How late the emulator wrote packets, in ms: p50, p99.
    lateness: [f64; 2],
}

/// Runs all loads, says what each gave, and returns the figures.
///
/// # Errors
/// Links cannot be made here, or they are less exact than promised.
pub async fn run(seconds: u32, say: fn(&str)) -> anyhow::Result<Findings> {
    let stop = StopOnDrop::default();
    let stopped = Arc::clone(&stop.0);
    let measured = tokio::task::spawn_blocking(move || {
        let _awake = Spinners::start()?;
        let length = Duration::from_secs(seconds.max(1).into());
        let mut found = Findings::default();
        say(&heading());
        for load in &LOADS {
            let measured = measure(*load, length, &stopped)?;
            ensure!(!stopped.load(Ordering::Relaxed), "interrupted");
            say(&row(load, &measured));
            found.figures.extend(figures(load, &measured));
            let less = |what| format!("less exact than promised: {what}");
            found.broken.extend(promises(load, &measured).into_iter().map(less));
        }
        anyhow::Ok(found)
    });
    measured.await?
}

/// Who drops the future ends the threads as well.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn measure(load: Load, length: Duration, stop: &AtomicBool) -> anyhow::Result<Measured> {
    host::remove_stale()?;
    let run = host::next_run();
    let [edge, cloud] = [Host::new(run, "edge")?, Host::new(run, "cloud")?];
    let options = || Options::new(RATE * 1_000_000, DELAY, QUEUE);
    let (mut wires, mut streams, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
    let interval = Duration::from_nanos(PACKET as u64 * 8000 / load.megabits);
    for index in 0..load.links {
        let name = format!("link{index}");
        let wire = Wire::new([&edge, &cloud], &name, index, [options(), options()], 1)?;
        let [near, far] = wire.addresses().map(|address| SocketAddrV4::new(address, PORT));
        streams.push(Stream {
            socket: edge.udp(near)?,
            to: far.into(),
            payload: PACKET - HEADERS,
            interval,
            // Streams do not march in step.
            offset: interval.mul_f64(index as f64 / load.links as f64),
            until: length,
        });
        sockets.push(cloud.udp(far)?);
        wires.push(wire);
    }
    let origin = Instant::now();
    // The last packet may find a full queue and a slow machine.
    let until = length + DELAY + Duration::from_millis(500);
    let (sent, arrivals) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| probe::receive(&sockets, origin, until, stop));
        let sent = probe::send(&streams, origin, stop);
        (sent, receiver.join())
    });
    let arrivals = arrivals.map_err(|_| anyhow::anyhow!("the receiver panicked"))??;
    let reports: Vec<Report> = wires.iter().filter_map(|wire| wire.report(Way::Uplink)).collect();
    Ok(judge(&options(), &sent, &arrivals, &reports))
}

/// Compares what came with what should have come.
fn judge(
    options: &Options,
    sent: &[Vec<u64>],
    arrivals: &[Vec<Arrival>],
    reports: &[Report],
) -> Measured {
    let mut result = Measured::default();
    for (sent, arrivals) in sent.iter().zip(arrivals) {
        result.packets += sent.len() as u64;
        result.rates.push(rate(arrivals));
        let mut expected = expected(options, sent);
        let should = expected.iter().flatten().count();
        for arrival in arrivals {
            let place = expected.get_mut(usize::try_from(arrival.seq).unwrap_or(usize::MAX));
            if let Some(time) = place.and_then(Option::take) {
                let error = arrival.received as f64 - time.as_nanos() as f64;
                result.errors.push(error.abs() / 1e6);
            }
        }
        // Which packet meets a full queue is a matter of microseconds, how many do is not: a packet is
        // lost if nothing came in its place.
        result.lost += (should as u64).saturating_sub(arrivals.len() as u64);
    }
    result.errors.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        let worst = reports.iter().map(|report| report.lateness.value_at_quantile(part)).max();
        worst.unwrap_or(0) as f64 / 1e6
    };
    result.lateness = [quantile(0.5), quantile(0.99)];
    result
}

/// When each packet should arrive, `None` for those that the queue should refuse.
fn expected(options: &Options, sent: &[u64]) -> Vec<Option<Time>> {
    let mut direction = Direction::new(options.clone(), 1);
    let mut expected = vec![None; sent.len()];
    let mut take = |direction: &mut Direction<usize>, now| {
        while let Some(outcome) = direction.poll(now) {
            if let Outcome::Arrived { at, item } = outcome {
                expected[item] = Some(at);
            }
        }
    };
    for (seq, at) in sent.iter().enumerate() {
        let at = Time::from_nanos(*at);
        direction.offer(at, PACKET as u64, seq);
        take(&mut direction, at);
    }
    take(&mut direction, Time::FAR - Duration::from_nanos(1));
    expected
}

/// Mbit/s from the first packet to the last.
fn rate(arrivals: &[Arrival]) -> f64 {
    let [first, .., last] = arrivals else { return 0.0 };
    let seconds = last.received.saturating_sub(first.received) as f64 / 1e9;
    (arrivals.len() - 1) as f64 * PACKET as f64 * 8.0 / 1e6 / seconds.max(1e-9)
}

impl Load {
    /// What a link should carry, in Mbit/s.
    fn due(&self) -> f64 {
        self.megabits.min(RATE) as f64
    }
}

impl Measured {
    /// Of the link that is furthest off, as a part of what it should carry.
    fn rate_error(&self, load: &Load) -> f64 {
        let errors = self.rates.iter().map(|rate| (rate / load.due() - 1.0).abs());
        errors.fold(0.0, f64::max)
    }

    /// Of the delay, in ms.
    fn error(&self, part: f64) -> f64 {
        let rank = (part * self.errors.len() as f64).ceil() as usize;
        self.errors.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}

/// What was promised and is not kept.
fn promises(load: &Load, measured: &Measured) -> Vec<String> {
    let mut broken = Vec::new();
    let mut check = |is_kept: bool, what: String| {
        if !is_kept {
            broken.push(format!("{}: {what}", load.name));
        }
    };
    let rate = measured.rate_error(load);
    check(rate <= RATE_ERROR_MAX, format!("rate {:.2} % off", rate * 100.0));
    let delay = measured.error(0.5);
    check(delay <= DELAY_ERROR_P50_MAX_MS, format!("delay error p50 {delay:.3} ms"));
    let is_light = load.megabits < RATE;
    check(!is_light || measured.lost == 0, format!("{} packets lost", measured.lost));
    broken
}

fn heading() -> String {
    let names = ["links", "offered", "carried", "rate error", "delay error p50", "p99", "lost"];
    let [links, offered, carried, rate, p50, p99, lost] = names;
    format!(
        "{links:>5} {offered:>13} {carried:>13} {rate:>10} {p50:>15} {p99:>9} {lost:>15}  late p50, p99"
    )
}

fn row(load: &Load, measured: &Measured) -> String {
    let carried = measured.rates.iter().sum::<f64>() / measured.rates.len().max(1) as f64;
    let [late_p50, late_p99] = measured.lateness;
    format!(
        "{:>5} {:>6} Mbit/s {carried:>6.2} Mbit/s {:>8.3} % {:>12.3} ms {:>6.3} ms {:>5} of {:>6}  {late_p50:.3} ms, {late_p99:.3} ms",
        load.links,
        load.megabits,
        measured.rate_error(load) * 100.0,
        measured.error(0.5),
        measured.error(0.99),
        measured.lost,
        measured.packets,
    )
}

fn figures(load: &Load, measured: &Measured) -> Vec<Figure> {
    let name = |what: &str| format!("net_selftest_{}_{what}", load.name);
    let slowest = measured.rates.iter().copied().fold(f64::MAX, f64::min);
    vec![
        figure(&name("rate_min"), slowest, "Mbit/s"),
        figure(&name("rate_error_max"), measured.rate_error(load) * 100.0, "%"),
        figure(&name("delay_error_p50"), measured.error(0.5), "ms"),
        figure(&name("delay_error_p99"), measured.error(0.99), "ms"),
        figure(&name("lost"), measured.lost as f64, "packets"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIGHT: Load = LOADS[0];

    fn options() -> Options {
        Options::new(RATE * 1_000_000, DELAY, 3 * PACKET as u64)
    }

    /// Packets sent at these microseconds, and each arrival so many microseconds off; `None`: lost.
    fn judged(sent: &[u64], off: &[Option<i64>]) -> Measured {
        let sent: Vec<u64> = sent.iter().map(|micros| micros * 1000).collect();
        let expected = expected(&options(), &sent);
        let arrival = |(seq, off): (usize, &Option<i64>)| {
            let time = expected[seq]?.as_nanos().checked_add_signed((*off)? * 1000)?;
            Some(Arrival { seq: seq as u64, due: sent[seq], sent: sent[seq], received: time })
        };
        let arrivals = off.iter().enumerate().filter_map(arrival).collect();
        judge(&options(), std::slice::from_ref(&sent), &[arrivals], &[])
    }

    #[test]
    fn a_queue_that_was_really_met_is_no_error() {
        // 1500 bytes are 100 us at 120 Mbit/s: three at once wait for each other.
        let measured = judged(&[0, 0, 0, 1000], &[Some(0), Some(0), Some(100), Some(-300)]);
        assert_eq!((measured.lost, measured.packets), (0, 4));
        let errors: Vec<i64> = measured.errors.iter().map(|ms| (ms * 1e6) as i64).collect();
        assert_eq!(errors, [0, 0, 100_000, 300_000]);
        assert!(
            (measured.error(0.5) - 0.0).abs() < 1e-9 && (measured.error(0.99) - 0.3).abs() < 1e-9
        );
    }

    #[test]
    fn a_refused_packet_is_no_loss_and_a_missing_one_is() {
        // The fourth of five at once does not fit, nor the fifth.
        let none = judged(&[0; 5], &[Some(0), Some(0), Some(0), None, None]);
        assert_eq!(none.lost, 0);
        let one = judged(&[0; 5], &[Some(0), None, Some(0), None, None]);
        assert_eq!(one.lost, 1);
        assert!(promises(&LIGHT, &one).iter().any(|line| line.contains("1 packets lost")));
    }

    #[test]
    fn promises_are_kept_or_named() {
        let kept = Measured { rates: vec![40.2], errors: vec![0.1; 3], ..Measured::default() };
        assert_eq!(promises(&LIGHT, &kept), [""; 0]);
        let broken = Measured { rates: vec![40.0, 38.0], errors: vec![0.4; 3], ..kept };
        let said = ["1_light: rate 5.00 % off", "1_light: delay error p50 0.400 ms"];
        assert_eq!(promises(&LIGHT, &broken), said);
        let nothing = Measured { rates: vec![0.0], errors: vec![], ..broken };
        assert_eq!(promises(&LIGHT, &nothing).len(), 2, "no packet is no small error");
    }
}
