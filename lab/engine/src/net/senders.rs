//! The loads of a world: one thread that sends them all, one that receives.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::NetError;
use super::probe::{self, Arrival, HEADERS, Stream};
use super::stage::Stage;
use crate::world::{Fate, World};

/// The first load's port at both ends; the next ones follow.
const PORT: u16 = 20_000;

type Received = Result<Vec<Vec<Arrival>>, NetError>;

/// The threads. Dropping it stops them.
#[derive(Debug)]
pub struct Senders {
    names: Vec<String>,
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<Vec<Vec<u64>>>>,
    receiver: Option<JoinHandle<Received>>,
}

impl Senders {
    /// Starts to send what a world's loads say, from now on.
    pub fn start(world: &World, stage: &Stage) -> anyhow::Result<Senders> {
        let (mut streams, mut sockets, mut last) = (Vec::new(), Vec::new(), Duration::ZERO);
        for (load, port) in world.load.iter().zip(PORT..) {
            let link = world.link(&load.link).context("a load's link")?;
            let wire = stage.wire(&load.link)?;
            let end = usize::from(link.ends[0] != load.from);
            let [near, far] =
                [end, 1 - end].map(|end| SocketAddrV4::new(wire.addresses()[end], port));
            let until = load.until.or(world.length).context("a load's end")?.0;
            last = last.max(until);
            streams.push(Stream {
                socket: stage.host(&load.from)?.udp(near)?,
                to: far.into(),
                payload: usize::try_from(load.size.0)?.saturating_sub(HEADERS),
                interval: Duration::from_secs_f64(1.0 / load.per_second),
                offset: load.start.0,
                until,
            });
            sockets.push(stage.host(&link.ends[1 - end])?.udp(far)?);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (origin, until) = (Instant::now(), last + world.drain.0);
        let names = world.load.iter().map(|load| load.name.clone()).collect();
        let mut senders = Senders { names, stop, sender: None, receiver: None };
        if !streams.is_empty() {
            let stop = Arc::clone(&senders.stop);
            let receive = move || probe::receive(&sockets, origin, until, &stop);
            senders.receiver = Some(std::thread::spawn(receive));
            let stop = Arc::clone(&senders.stop);
            let send = move || probe::send(&streams, origin, &stop);
            senders.sender = Some(std::thread::spawn(send));
        }
        Ok(senders)
    }

    /// Stops, and answers what became of each load.
    pub fn finish(mut self) -> anyhow::Result<BTreeMap<String, Fate>> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = |_| anyhow!("a thread of the loads panicked");
        let sent = self.sender.take().map_or(Ok(Vec::new()), JoinHandle::join).map_err(panicked)?;
        let received = self.receiver.take().map_or(Ok(Ok(Vec::new())), JoinHandle::join);
        let received = received.map_err(panicked)??;
        let fates = self
            .names
            .iter()
            .zip(sent)
            .zip(received)
            .map(|((name, sent), arrivals)| (name.clone(), fate(sent.len() as u64, &arrivals)));
        Ok(fates.collect())
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Of several copies of a datagram the first counts.
fn fate(sent: u64, arrivals: &[Arrival]) -> Fate {
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    for arrival in arrivals {
        first.entry(arrival.seq).or_insert(arrival.received.saturating_sub(arrival.due));
    }
    let mut latencies: Vec<Duration> = first.into_values().map(Duration::from_nanos).collect();
    latencies.sort_unstable();
    Fate { sent, latencies, ..Fate::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_counts_from_the_time_at_which_it_was_due() {
        let arrival = |seq, received| Arrival { seq, due: 100, sent: 150, received };
        let fate = fate(3, &[arrival(1, 400), arrival(0, 300), arrival(1, 900)]);
        assert_eq!(fate.latencies, [200, 300].map(Duration::from_nanos));
        assert!((fate.lost() - 1.0 / 3.0).abs() < 1e-9);
    }
}
