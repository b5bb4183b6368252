//! A broker that holds very many sessions, subscriptions and retained messages, and is killed once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use std::{fmt, io};

use super::client::{Client, published};
use super::{PATIENCE, QUIET, RETRY};

/// Clients at work at once.
const AT_ONCE: u64 = 8;
/// Publishes of each that wait for their acknowledgement.
const WINDOW: u64 = 500;
/// Filters of a SUBSCRIBE.
const FILTERS: u64 = 100;

/// What the broker is to hold.
#[derive(Clone, Copy, Debug)]
pub struct ManyOptions {
    /// Where it listens.
    pub address: SocketAddr,
    /// Persistent sessions, all of clients that are away.
    pub sessions: u64,
    /// Subscriptions of all of them.
    pub subscriptions: u64,
    /// Retained messages, each of a topic.
    pub retained: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct ManyAccount {
    /// How long it took to give it all of that.
    pub filling: Duration,
    /// Its memory then, and after it was killed and had read all again: KiB.
    pub resident: [u64; 2],
    /// From the kill to a CONNACK, and whether that client's session was there.
    pub start: Duration,
    /// See `start`.
    pub is_present: bool,
    /// Different retained messages that a new subscription to all got, and how many it got again.
    pub retained: [u64; 2],
    /// How long that took.
    pub reading: Duration,
}

impl fmt::Display for ManyAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ManyAccount { filling, resident, start, is_present, retained, reading } = self;
        write!(
            f,
            "filled in {:.1} s, {} MiB; killed, CONNACK after {} ms (session present: {is_present}); `#` got {} retained \
             messages, {} again, in {:.1} s; {} MiB",
            filling.as_secs_f64(),
            resident[0] / 1024,
            start.as_millis(),
            retained[0],
            retained[1],
            reading.as_secs_f64(),
            resident[1] / 1024
        )
    }
}

/// Fills a broker, kills it, and looks whether all is there.
///
/// # Errors
/// It cannot be started, or lets a client wait.
pub fn kill_with_many<B>(
    options: ManyOptions,
    start: impl Fn() -> io::Result<B>,
    resident: impl Fn(&B) -> io::Result<u64>,
) -> io::Result<ManyAccount> {
    let broker = start()?;
    until_served(options.address)?;
    let begun = Instant::now();
    options.fill()?;
    let (filling, before) = (begun.elapsed(), resident(&broker)?);
    let begun = Instant::now();
    drop(broker);
    let broker = start()?;
    let is_present = until_served(options.address)?;
    let start = begun.elapsed();
    let begun = Instant::now();
    let retained = options.read_all()?;
    let reading = begun.elapsed();
    let resident = [before, resident(&broker)?];
    Ok(ManyAccount { filling, resident, start, is_present, retained, reading })
}

/// Waits until a client is let in; whether its session was there.
pub(super) fn until_served(address: SocketAddr) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match Client::connect(address, "many-0", None) {
            Ok(client) => return Ok(client.is_present),
            Err(error) if begun.elapsed() > PATIENCE => return Err(error),
            Err(_) => sleep(RETRY),
        }
    }
}

impl ManyOptions {
    /// So many retained messages, a tenth as many subscriptions, a hundredth as many sessions.
    pub fn of(address: SocketAddr, retained: u64) -> ManyOptions {
        ManyOptions { address, sessions: retained / 100, subscriptions: retained / 10, retained }
    }

    fn fill(&self) -> io::Result<()> {
        scope(|scope| {
            let all = (0..AT_ONCE).map(|part| scope.spawn(move || self.fill_part(part)));
            let all: Vec<_> = all.collect();
            all.into_iter().try_for_each(|one| one.join().expect("a client does not panic"))
        })
    }

    fn fill_part(&self, part: u64) -> io::Result<()> {
        let each = self.subscriptions / self.sessions.max(1);
        for number in (part..self.sessions).step_by(AT_ONCE as usize) {
            let mut client = Client::connect(self.address, &format!("many-{number}"), None)?;
            for begin in (0..each).step_by(FILTERS as usize) {
                let filters: Vec<String> = (begin..each.min(begin + FILTERS))
                    .map(|place| format!("many/{number}/{place}/+/deep/#"))
                    .collect();
                client.subscribe_all(&filters, 1)?;
                client.wait_for(0x90)?;
            }
            client.send(0xe0, &[])?;
        }
        let mut client = Client::connect(self.address, &format!("publisher-{part}"), None)?;
        let mut open = 0;
        for number in (part..self.retained).step_by(AT_ONCE as usize) {
            let topic = format!("r/{}/{}/{number}", number % 100, number % 1000);
            client.publish(&topic, 0x03, (number % 65_000) as u16 + 1, &[7; 64])?;
            open += 1;
            if open == WINDOW {
                (0..WINDOW / 2).try_for_each(|_| client.wait_for(0x40))?;
                open -= WINDOW / 2;
            }
        }
        (0..open).try_for_each(|_| client.wait_for(0x40))
    }

    /// Different retained messages that a client gets, and how many it gets again.
    fn read_all(&self) -> io::Result<[u64; 2]> {
        let mut client = Client::connect(self.address, "reader", None)?;
        client.subscribe("#", 1)?;
        let mut seen: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        let mut last = Instant::now();
        let until = |seen: &BTreeMap<_, _>| if seen.is_empty() { PATIENCE } else { QUIET };
        while last.elapsed() < until(&seen) && (seen.len() as u64) < self.retained {
            let Some((first, body)) = client.next(RETRY)? else { continue };
            if let Some((id, _)) = published(first, &body) {
                last = Instant::now();
                let length = usize::from(u16::from_be_bytes([body[0], body[1]]));
                *seen.entry(body[2..2 + length].to_vec()).or_default() += 1;
                id.map_or(Ok(()), |id| client.send(0x40, &id.to_be_bytes()))?;
            }
        }
        Ok([seen.len() as u64, seen.values().map(|count| count - 1).sum()])
    }
}
