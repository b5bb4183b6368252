//! What goes to another member: kept until it has come, and written by a task that dials.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustls::ClientConfig;
use tidegate_cluster::handover::Member;
use tidegate_cluster::handover::wire::MemberFrame;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, interval, sleep, timeout};

use super::talk::Talk;
use super::task::Event;
use crate::support::backoff::Backoff;
use crate::support::talk::PATIENCE;
use crate::support::tls::{self, Certificate, Stream};

/// How often the other end hears that we live.
const BEAT: Duration = Duration::from_secs(1);
/// A member that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(5);
/// Waits before the next attempt to reach it.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Bytes written at once.
const WRITE: usize = 64 * 1024;
/// Bytes of results that may wait for a member; those beyond it are dropped.
const RESULTS_MAX: usize = 8 << 20;

/// Another member, and where it listens.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Its name.
    pub(crate) name: String,
    /// Host and port.
    pub(crate) address: (String, u16),
    /// What clients are told to use.
    pub(crate) clients: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The life of the other end that all this is for; `None` before it was met.
    life: Option<u64>,
    /// Not known to have come, in order; the first one has the number `received + 1`.
    frames: VecDeque<Bytes>,
    received: u64,
    bytes: usize,
}

/// What waits for a member. The task of the group fills it, the one that dials empties it.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    queue: Mutex<Queue>,
    bell: Notify,
    /// Its last connection has broken, or it was met and cannot be dialled. That it is silent is not enough.
    is_gone: AtomicBool,
}

impl Outgoing {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // It changes by whole steps.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this life of it was met already.
    pub(super) fn knows(&self, life: u64) -> bool {
        self.queue().life == Some(life)
    }

    fn is_met(&self) -> bool {
        self.queue().life.is_some()
    }

    /// Whether it was met, and nothing says that it is gone.
    pub(super) fn is_here(&self) -> bool {
        self.is_met() && !self.is_gone.load(Ordering::Relaxed)
    }

    /// Another life of it: nothing that was for the one before is for this one.
    pub(super) fn begin(&self, life: u64) {
        *self.queue() = Queue { life: Some(life), ..Queue::default() };
        self.bell.notify_one();
    }

    /// Says something; false where there is no room for a result. To who was never met, nothing is said.
    pub(super) fn push(&self, frame: &MemberFrame, is_result: bool) -> bool {
        let mut queue = self.queue();
        if queue.life.is_none() {
            return true;
        }
        if is_result && queue.bytes > RESULTS_MAX {
            return false;
        }
        let mut bytes = BytesMut::new();
        frame.put(&mut bytes);
        queue.bytes += bytes.len();
        queue.frames.push_back(bytes.freeze());
        drop(queue);
        self.bell.notify_one();
        true
    }

    /// Whether the frame with this number is there.
    fn has_more(&self, life: u64, next: u64) -> bool {
        let queue = self.queue();
        queue.life == Some(life) && next <= queue.received + queue.frames.len() as u64
    }

    /// So many frames have come.
    fn has(&self, received: u64) {
        let mut queue = self.queue();
        while queue.received < received
            && let Some(frame) = queue.frames.pop_front()
        {
            queue.bytes -= frame.len();
            queue.received += 1;
        }
    }

    /// Puts frames from number `next` on into the connection; returns the number of the next one.
    fn fill(&self, talk: &mut Talk, life: u64, mut next: u64) -> Option<u64> {
        let queue = self.queue();
        if queue.life != Some(life) {
            return None;
        }
        let skip = usize::try_from(next.saturating_sub(queue.received + 1)).unwrap_or(usize::MAX);
        for frame in queue.frames.iter().skip(skip) {
            if talk.waiting() >= WRITE {
                break;
            }
            talk.put_bytes(frame);
            next += 1;
        }
        Some(next)
    }
}

/// Who dials a member.
pub(super) struct Dialer {
    pub(super) me: Arc<str>,
    pub(super) incarnation: u64,
    pub(super) digest: u64,
    pub(super) member: Member,
    pub(super) peer: Peer,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) outgoing: Arc<Outgoing>,
    pub(super) events: mpsc::Sender<Event>,
}

/// Opens a connection to a member.
pub(super) async fn connect(peer: &Peer, tls: Option<Arc<ClientConfig>>) -> io::Result<Talk> {
    let (host, port) = &peer.address;
    let begin = async {
        let socket = TcpStream::connect((&**host, *port)).await?;
        socket.set_nodelay(true)?;
        let Some(tls) = tls else { return Ok(Stream::from(socket)) };
        let name = tls::server_name(host).map_err(io::Error::other)?;
        let mut stream = Stream::client(socket, tls, name)?;
        stream.handshake().await?;
        // The address may be right for several members.
        match common_name(&stream) {
            Some(name) if name == peer.name => io::Result::Ok(stream),
            name => {
                let name = name.unwrap_or_default();
                Err(io::Error::other(format!("the certificate there is that of {name:?}")))
            }
        }
    };
    let stream = timeout(PATIENCE, begin).await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(Talk::new(stream))
}

/// The name that the other end has proven.
pub(super) fn common_name(stream: &Stream) -> Option<String> {
    Certificate::read(stream.peer_certificate()?).ok()?.common_name
}

impl Dialer {
    /// Dials until the group is gone.
    pub(super) async fn run(self) {
        let mut waits = Backoff::within(WAITS.0, WAITS.1);
        let mut told = String::new();
        while !self.events.is_closed() {
            let begun = Instant::now();
            let was_met = self.outgoing.is_met();
            let Err(error) = self.serve().await else { return };
            if was_met && !is_silence(&error) {
                self.outgoing.is_gone.store(true, Ordering::Relaxed);
            }
            if begun.elapsed() > SILENCE {
                waits.reset();
                told.clear();
            }
            let why = tls::explain(&error).unwrap_or_else(|| error.to_string());
            if why != told {
                tracing::warn!(member = %self.peer.name, "no connection of the group: {why}");
                told = why;
            }
            tokio::select! {
                () = sleep(waits.next()) => {}
                () = self.events.closed() => return,
            }
        }
    }

    /// Until the connection ends; `Ok` when the group is gone.
    async fn serve(&self) -> io::Result<()> {
        let mut talk = connect(&self.peer, self.tls.clone()).await?;
        let Dialer { me, incarnation, digest, .. } = self;
        let node = me.clone();
        talk.say(&MemberFrame::Hello { node, incarnation: *incarnation, digest: *digest }).await?;
        let first = timeout(PATIENCE, talk.hear()).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let (life, received) = match first {
            MemberFrame::Welcome { incarnation, received } => (incarnation, received),
            MemberFrame::Refused(why) => {
                return Err(io::Error::other(format!("it refuses: {why}")));
            }
            _ => return Err(unexpected()),
        };
        if !self.outgoing.knows(life) {
            let event = Event::Met(self.member, life);
            if self.events.send(event).await.is_err() {
                return Ok(());
            }
        }
        tracing::info!(member = %self.peer.name, "connected to a member of the group");
        self.outgoing.is_gone.store(false, Ordering::Relaxed);
        self.outgoing.has(received);
        let written = self.write(&mut talk, life, received + 1).await;
        let is_gone = written.as_ref().is_err_and(|error| !is_silence(error));
        self.outgoing.is_gone.store(is_gone, Ordering::Relaxed);
        written
    }

    async fn write(&self, talk: &mut Talk, life: u64, mut next: u64) -> io::Result<()> {
        let mut beat = interval(BEAT);
        let mut heard_at = Instant::now();
        loop {
            match self.outgoing.fill(talk, life, next) {
                Some(upto) => next = upto,
                // The task of the group has not come to this life yet, or is at a later one.
                None if next == 1 => {}
                None => return Err(unexpected()),
            }
            talk.flush().await?;
            let is_idle = !self.outgoing.has_more(life, next);
            let heard = tokio::select! {
                biased;
                heard = talk.hear() => Some(heard?),
                () = self.outgoing.bell.notified(), if is_idle => None,
                () = std::future::ready(()), if !is_idle => None,
                _ = beat.tick() => {
                    talk.put(&MemberFrame::Alive);
                    None
                }
                () = self.events.closed() => return Ok(()),
            };
            match heard {
                Some(MemberFrame::Received(count)) => self.outgoing.has(count),
                Some(MemberFrame::Alive) | None => {}
                Some(_) => return Err(unexpected()),
            }
            if heard.is_some() {
                heard_at = Instant::now();
            } else if heard_at.elapsed() > SILENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

/// Who only says nothing may go on, and has not lost what it was told.
fn is_silence(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

fn unexpected() -> io::Error {
    io::Error::other("it speaks out of turn: is a member of the group there?")
}
