//! One life of another node's link, over all of its paths.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use tidegate_link::claims::ClaimRight;
use tidegate_link::envelope::Envelope;
use tidegate_link::lineage::LineageCheck;
use tidegate_link::packet::Custody;
use tidegate_link::{LinkEvent, LinkOptions, PATHS_MAX};
use tidegate_types::account::Reservation;
use tidegate_types::record::{DropReason, Fate, Origin};
use tidegate_types::units::{Rate, Size};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::LinkInputOptions;
use crate::input::streams::{Settled, Streams, Ticket};
use crate::link::board::PERIOD;
use crate::link::engine::Engine;
use crate::link::wire::Heard;
use crate::link::{self, LinkFigures, Links, PACKET_MAX};
use crate::port::Clock;

/// A life without any connection for so long is over. Longer than a dialing end waits before it begins
/// another one.
const PATIENCE: Duration = Duration::from_secs(60);
/// Packets and answers taken in one turn.
const BATCH_MAX: usize = 256;
/// Packets that wait for a life.
pub(super) const HEARD_HERE: usize = 256;
/// The window that a peer begins with, and as much of a record as is not counted in that.
const WINDOW_ROOM: usize = 192 << 10;
/// What every life may hold: with it the packets that wait.
pub(super) const LIFE_ROOM: usize = HEARD_HERE * PACKET_MAX + WINDOW_ROOM;
/// By so much its room grows, and shrinks.
const ROOM_STEP: usize = 64 << 10;
/// What a record costs beside its bytes.
const RECORD_COST: u64 = 256;
/// Letters of a life that prove nothing; more are not looked at.
const UNREAD_MAX: u32 = 16;
/// Origins of a life that letters are about.
const PROVEN_MAX: usize = 8192;
/// We send acknowledgements only: a path need not be shown what it carries, in bytes/s.
const ANSWERS: f64 = 6250.0;

/// What a life is made of.
pub(super) struct Life {
    /// Name of the node.
    pub(super) peer: Arc<str>,
    /// What it has proven that by.
    pub(super) certificate: CertificateDer<'static>,
    /// Tells it from others of the same name.
    pub(super) incarnation: u32,
    pub(super) options: Arc<LinkInputOptions>,
    pub(super) streams: Streams,
    pub(super) links: Links,
    pub(super) clock: Clock,
}

impl Life {
    /// Serves until it has no connection for long, or nobody can send it any.
    /// `room` has [`LIFE_ROOM`] and grows with what comes.
    pub(super) async fn run(self, mut heard: mpsc::Receiver<Heard>, room: Reservation) {
        let (sender, mut answers) = mpsc::unbounded_channel();
        let mut state = State {
            engine: self.engine(),
            held: 0,
            room,
            sender,
            proven: BTreeSet::new(),
            unread: 0,
            line: None,
            life: &self,
        };
        let mut packets = Vec::with_capacity(BATCH_MAX);
        let mut settled = Vec::with_capacity(BATCH_MAX);
        let mut period = tokio::time::interval(PERIOD);
        let timer = sleep_until(Instant::now());
        tokio::pin!(timer);
        let mut alone_since = None;
        loop {
            let wake = state.engine.wake();
            if let Some(at) = wake {
                timer.as_mut().reset(at.into());
            }
            tokio::select! {
                count = heard.recv_many(&mut packets, BATCH_MAX) => {
                    if count == 0 {
                        break;
                    }
                    packets.drain(..).for_each(|heard| state.hear(heard));
                }
                _ = answers.recv_many(&mut settled, BATCH_MAX) => {
                    settled.drain(..).for_each(|settled| state.settle(&settled));
                }
                () = &mut timer, if wake.is_some() => {}
                () = overtaken(&mut state.line) => {
                    state.engine.refuse("a later process of this node has come");
                    break;
                }
                _ = period.tick() => {
                    self.tell(&state.engine);
                    state.has_room(0);
                    if state.engine.is_connected() {
                        alone_since = None;
                    } else if alone_since.get_or_insert(Instant::now()).elapsed() >= PATIENCE {
                        break;
                    }
                }
            }
            if let Err(why) = state.turn() {
                state.engine.refuse(why);
                break;
            }
        }
        self.links.forget(self.incarnation.into(), &self.peer);
    }

    fn engine(&self) -> Engine {
        let options = LinkOptions {
            receive_window: self.options.window,
            packet_max: PACKET_MAX,
            schedule: self.options.schedule,
            ..LinkOptions::new(link::new_incarnation(), PATHS_MAX)
        };
        let mut engine = Engine::new(options, self.clock);
        engine.remember(vec![Some(Rate::new(ANSWERS)); PATHS_MAX]);
        engine
    }

    fn tell(&self, engine: &Engine) {
        let [repeated, duplicates, strange] = engine.counts();
        let (name, paths) = (self.peer.to_string(), engine.figures(&[]));
        let figures = LinkFigures { name, is_output: false, paths, repeated, duplicates, strange };
        self.links.tell(self.incarnation.into(), figures);
    }
}

struct State<'a> {
    life: &'a Life,
    engine: Engine,
    /// Cost of the records that came and have no answer.
    held: u64,
    /// Reserved for them, and for what has come of others.
    room: Reservation,
    sender: mpsc::UnboundedSender<Settled>,
    /// Origins for which letters have proven that the peer may bring their records.
    proven: BTreeSet<(Arc<str>, u64)>,
    /// Letters that proved nothing.
    unread: u32,
    /// The process of the node that this life is of, and the one that came last.
    line: Option<(u64, watch::Receiver<u64>)>,
}

/// Waits until a later process of the node has come by another connection.
async fn overtaken(line: &mut Option<(u64, watch::Receiver<u64>)>) {
    if let Some((boot, current)) = line
        && current.wait_for(|current| current != boot).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

impl State<'_> {
    /// Takes what was heard. A packet for which there is no room is as good as lost on the way: its sender sends it
    /// again, and slows down.
    fn hear(&mut self, heard: Heard) {
        match &heard {
            Heard::Packet { packet, .. } if !self.has_room(packet.len()) => {}
            _ => self.engine.take(heard),
        }
    }

    /// Whether there is room for so many bytes more; what was reserved and is not needed is given back.
    fn has_room(&mut self, more: usize) -> bool {
        let held = usize::try_from(self.engine.held().0 + self.held).unwrap_or(usize::MAX);
        let beyond = held.saturating_add(more).saturating_sub(WINDOW_ROOM);
        let wanted = LIFE_ROOM.saturating_add(beyond.next_multiple_of(ROOM_STEP));
        let has = self.room.bytes();
        let is_fine = if more > 0 { wanted <= has } else { wanted == has };
        is_fine || self.room.resize(wanted).is_ok()
    }

    fn settle(&mut self, settled: &Settled) {
        self.held -= settled.cost;
        if let Some(custody) = settled.custody {
            self.engine.settle(settled.record, custody);
        }
    }

    /// Sends what may go, and takes what has come while there is room for it: what is not taken holds the
    /// sender's window.
    ///
    /// # Errors
    /// Why the peer may not go on.
    fn turn(&mut self) -> Result<(), &'static str> {
        while Size(self.held) < self.life.options.window
            && let Some(event) = self.engine.poll_event()
        {
            match event {
                LinkEvent::Arrived { record, content } => self.arrived(record, &content)?,
                // The other end tells, by its name.
                LinkEvent::Path { .. }
                | LinkEvent::Delivered { .. }
                | LinkEvent::Custody { .. }
                | LinkEvent::Expired { .. }
                | LinkEvent::Restarted { .. } => {}
            }
        }
        self.engine.pump();
        Ok(())
    }

    fn arrived(&mut self, record: u64, content: &Bytes) -> Result<(), &'static str> {
        match Envelope::decode(content) {
            Ok(mut envelope) => {
                if let Some(proof) = envelope.proof.take() {
                    self.read(&envelope, &proof)?;
                }
                let cost = content.len() as u64 + RECORD_COST;
                self.held += cost;
                let settled = self.sender.clone();
                let from = self.life.peer.clone();
                let ticket = Ticket { from, record, cost, settled };
                let origin = &envelope.identity.origin;
                let vouching = &self.life.options.vouching;
                let right = match vouching.right(&self.life.peer, &origin.node) {
                    ClaimRight::Claimed if self.has_proven(origin) => ClaimRight::Proven,
                    right => right,
                };
                match right {
                    ClaimRight::Claimed if vouching.is_strict => {
                        self.life.streams.refuse(&origin.node, ticket);
                    }
                    right => self.life.streams.take(envelope, right, ticket),
                }
            }
            Err(error) => {
                tracing::warn!(from = %self.life.peer, "a record that cannot be read: {error}");
                let custody = Custody::Final(Fate::Dropped(DropReason::Refused));
                self.engine.settle(record, custody);
            }
        }
        Ok(())
    }

    /// Whether letters have come that let the peer bring the records of an origin.
    fn has_proven(&self, origin: &Origin) -> bool {
        self.proven.contains(&(origin.node.clone(), origin.incarnation))
    }

    /// Reads the letters that came with a record.
    ///
    /// # Errors
    /// The peer shows by them that it is not the only holder of its log.
    fn read(&mut self, envelope: &Envelope, proof: &Bytes) -> Result<(), &'static str> {
        let Life { peer, certificate, options, links, streams, .. } = self.life;
        let origin = &envelope.identity.origin;
        if self.unread >= UNREAD_MAX || self.has_proven(origin) {
            return Ok(());
        }
        let checked = links.letters().check(proof, (peer, certificate), &options.trust);
        let Some((letter, is_own)) = checked else {
            self.unread += 1;
            return Ok(());
        };
        if self.proven.len() < PROVEN_MAX {
            self.proven.insert((letter.node.clone(), letter.incarnation));
            self.proven.insert((letter.node.clone(), letter.boot));
        }
        if !is_own || letter.boot == 0 {
            return Ok(());
        }
        let (coming, current) = links.letters().comes(&letter);
        match coming {
            LineageCheck::Same | LineageCheck::Next => {
                self.line = Some((letter.boot, current));
                Ok(())
            }
            LineageCheck::Late => Err("a later process of this node has come"),
            LineageCheck::Copy => {
                streams.counts().denied("clone");
                Err(
                    "another machine uses a copy of this node's log: remove the log's folder at the one that is \
                     the copy, and give it a name and a certificate of its own",
                )
            }
        }
    }
}
