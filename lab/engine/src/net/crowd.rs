//! The part of the cross traffic that answers to loss: real TCP connections over the same links.
//!
//! Each source of the model has a connection and writes its packets when the model says so. What TCP does
//! not take at that time is not sent: a source that is held back sends less.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tidegate_types::units::Time;

use super::host::Host;
use super::probe::{LOOK, wait_until};
use super::pump::Way;
use super::stage::Stage;
use crate::link::{Cross, Sources};
use crate::sim::random::Random;
use crate::world::World;

/// Of the listener at a link's end; each way has one.
const PORT: u16 = 19_000;
/// Bytes of IP and TCP headers with time stamps.
const HEADERS: u64 = 52;
/// What a connection may hold back: more would go on long after its source fell silent.
const SEND_BUFFER: usize = 64 << 10;

/// The connections of one way.
#[derive(Debug)]
struct Flows {
    name: String,
    /// Bytes that have arrived.
    bytes: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// All connections of a world. Dropping it ends them.
#[derive(Debug)]
pub struct Crowd {
    flows: Vec<Flows>,
    stop: Arc<AtomicBool>,
}

impl Crowd {
    /// Connects what the links of a world say, and begins to send.
    pub fn start(world: &World, stage: &Stage) -> anyhow::Result<Crowd> {
        let mut crowd = Crowd { flows: Vec::new(), stop: Arc::default() };
        for link in &world.link {
            let addresses = stage.wire(&link.name)?.addresses();
            for (way, spec) in Way::ALL.into_iter().zip([&link.uplink, link.back()]) {
                let Some(cross) = spec.cross.and_then(|cross| cross.by_tcp()) else { continue };
                let [near, far] = [way as usize, 1 - way as usize];
                let hosts = [stage.host(&link.ends[near])?, stage.host(&link.ends[far])?];
                let address = SocketAddrV4::new(addresses[far], PORT + way as u16);
                let name = format!("{}, {} to {}", link.name, link.ends[near], link.ends[far]);
                let place = || format!("cross traffic of {name}");
                let pairs = connect(hosts, address, cross.sources).with_context(place)?;
                let seed = world.seed ^ u64::from(address.ip().to_bits()) << 16;
                crowd.flows.push(Flows::start(name, cross, seed, pairs, &crowd.stop)?);
            }
        }
        Ok(crowd)
    }

    /// Stops, and answers with the bytes that have arrived, for each way that has such traffic.
    pub fn finish(mut self) -> Vec<(String, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        let flows = std::mem::take(&mut self.flows);
        let ended = flows.into_iter().map(|flows| {
            for thread in flows.threads {
                // A panic of the thread has been printed; there is nothing to add.
                let _ = thread.join();
            }
            (flows.name, flows.bytes.load(Ordering::Relaxed))
        });
        ended.collect()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Connections from the first host to the second: the sending ends, and the receiving ones.
fn connect(
    hosts: [&Host; 2],
    address: SocketAddrV4,
    count: usize,
) -> anyhow::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let listener = hosts[1].listen(address)?;
    let mut pairs = (Vec::new(), Vec::new());
    for _ in 0..count {
        let sender = hosts[0].connect(address)?;
        sender.set_nodelay(true)?;
        rustix::net::sockopt::set_socket_send_buffer_size(sender.as_fd(), SEND_BUFFER)?;
        let (receiver, _) = listener.accept()?;
        for stream in [&sender, &receiver] {
            stream.set_nonblocking(true)?;
        }
        pairs.0.push(sender);
        pairs.1.push(receiver);
    }
    Ok(pairs)
}

impl Flows {
    fn start(
        name: String,
        cross: Cross,
        seed: u64,
        (senders, receivers): (Vec<TcpStream>, Vec<TcpStream>),
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Flows> {
        let bytes = Arc::new(AtomicU64::new(0));
        let one = Cross { sources: 1, rate: cross.rate.times(1.0 / senders.len() as f64), ..cross };
        let source = |part| Sources::new(one, Time::ZERO, Random::new(seed, part));
        let sources = (0..).map(source).zip(senders).collect();
        let (of_sender, of_sink, counted) =
            (Arc::clone(stop), Arc::clone(stop), Arc::clone(&bytes));
        let thread = || std::thread::Builder::new().name("cross".into());
        let threads = vec![
            thread().spawn(move || send(sources, &of_sender))?,
            thread().spawn(move || sink(&receivers, &counted, &of_sink))?,
        ];
        Ok(Flows { name, bytes, threads })
    }
}

/// Writes each source's packets to its connection until the stop.
fn send(mut sources: Vec<(Sources, TcpStream)>, stop: &AtomicBool) {
    let (origin, packet) = (Instant::now(), [0; 1500]);
    loop {
        let next = sources.iter_mut().filter_map(|one| one.0.next().map(|at| (at, one)));
        let Some((at, (source, stream))) = next.min_by_key(|(at, _)| *at) else { return };
        if !wait_until(at.since(Time::ZERO), origin, stop) {
            return;
        }
        let bytes = source.take().unwrap_or(0).saturating_sub(HEADERS).max(1);
        let length = usize::try_from(bytes).map_or(packet.len(), |bytes| bytes.min(packet.len()));
        // What TCP does not take is not sent; a broken connection sends nothing more.
        let _ = stream.write(&packet[..length]);
    }
}

/// Reads and counts what comes until the stop.
fn sink(streams: &[TcpStream], bytes: &AtomicU64, stop: &AtomicBool) {
    let mut buffer = vec![0; 64 << 10];
    let mut open: Vec<&TcpStream> = streams.iter().collect();
    while !open.is_empty() && !stop.load(Ordering::Relaxed) {
        let file = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut files: Vec<PollFd<'_>> = open.iter().map(|open| file(open.as_fd())).collect();
        let _ = poll(&mut files, Timespec::try_from(LOOK).ok().as_ref());
        open.retain(|stream| {
            let mut stream = *stream;
            match stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(length) => {
                    bytes.fetch_add(length as u64, Ordering::Relaxed);
                    true
                }
                Err(error) => {
                    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
                }
            }
        });
    }
}

/// Mbit/s of so many bytes.
pub fn megabits(bytes: u64, span: Duration) -> f64 {
    bytes as f64 * 8.0 / 1e6 / span.as_secs_f64().max(1e-9)
}
