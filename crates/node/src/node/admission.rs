//! Who may bring records, and what happens where there is no room for one: its connection waits, or its
//! stream is *full* and drops or refuses at once.
//!
//! | file | what it has |
//! |---|---|
//! | `admission/sources.rs` | connections of inputs, and who waits for which room |
//! | `admission/room.rs` | whether a record fits |
//! | this file | fullness begins and ends; a connection begins, waits and ends |

mod room;
mod sources;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_schedule::estimate::ProcessingDelay;
use tidegate_types::class::ClassId;
use tidegate_types::limits::PENDING_MAX;
use tidegate_types::record::{Offered, RefuseReason, SourceId};
use tidegate_types::units::{Size, Time};

pub(super) use self::room::{Fit, Space, size_of};
pub(super) use self::sources::{Sources, Wait};
use super::holdings::{Holdings, Room, StreamKey};
use super::outbox::{Outbox, ReplyTo};
use crate::inbound::Inbound;
use crate::io::{Event, Output};
use crate::options::NodeOptions;
use crate::rules::RuleId;

/// A record that must wait for room.
#[derive(Debug)]
pub(super) struct Blocked {
    pub(super) offered: Offered,
    pub(super) stream: StreamKey,
    /// What it finds too little of.
    pub(super) room: Room,
    /// How long it may wait.
    pub(super) patience: Duration,
}

/// Connections of inputs, and what they wait for.
#[derive(Debug)]
pub(super) struct Admission {
    sources: Sources,
    /// Streams that lost a record since somebody waits.
    freed: Vec<StreamKey>,
    /// Streams that are full for want of memory, the most urgent class first.
    full_for_memory: BTreeSet<(ClassId, StreamKey)>,
    /// Streams that are full for want of room in the log.
    full_for_log: BTreeSet<StreamKey>,
    /// How many streams of each rule are full.
    full_streams: Vec<u64>,
    inbound: Inbound,
    processing: ProcessingDelay,
}

/// A full stream has room again when this part of its bound is free: it must not change with every
/// record that leaves.
fn with_head_room(bound: Size) -> Size {
    Size(bound.0 / 8 * 7)
}

/// Fullness.
impl Admission {
    pub(super) fn new(options: &NodeOptions) -> Self {
        Admission {
            sources: Sources::default(),
            freed: Vec::new(),
            full_for_memory: BTreeSet::new(),
            full_for_log: BTreeSet::new(),
            full_streams: vec![0; options.rules.len()],
            inbound: Inbound::new(options.inbound),
            processing: ProcessingDelay::default(),
        }
    }

    /// There are more rules now.
    pub(super) fn extend(&mut self, rules: usize) {
        self.full_streams.resize(rules, 0);
    }

    /// A record left: its stream, or another one, may have room again. One that was dropped to make room
    /// does not end the fullness for which it was.
    pub(super) fn made_room(
        &mut self,
        holdings: &mut Holdings,
        options: &NodeOptions,
        outbox: &mut Outbox,
        key: StreamKey,
        is_relief: bool,
    ) {
        let stream = holdings.stream(key);
        let rule = options.rules.get(stream.rule());
        let account = stream.account();
        let is_full = stream.full_for() == Some(Room::Stream(key));
        let has_room = account.bytes() <= with_head_room(rule.bound)
            && (rule.can_leave() || account.in_memory() <= with_head_room(rule.memory));
        if is_relief && is_full && has_room {
            self.no_longer_full(holdings, outbox, key);
        }
        if is_relief {
            self.made_memory(holdings, options, outbox);
        }
        if !self.sources.is_idle() && self.freed.last() != Some(&key) {
            self.freed.push(key);
        }
    }

    /// Ends the fullness of streams that found too little memory, where there is enough again. The most
    /// urgent class may fill the most: it has room first.
    fn made_memory(&mut self, holdings: &mut Holdings, options: &NodeOptions, outbox: &mut Outbox) {
        while let Some(&(class, key)) = self.full_for_memory.first() {
            if holdings.bytes() > with_head_room(options.memory_for(class)) {
                break;
            }
            self.no_longer_full(holdings, outbox, key);
        }
    }

    /// The log has room again: streams that found none go on.
    pub(super) fn made_log_room(&mut self, holdings: &mut Holdings, outbox: &mut Outbox) {
        while let Some(&key) = self.full_for_log.first() {
            self.no_longer_full(holdings, outbox, key);
        }
    }

    /// Records of this stream are dropped or refused from now on, for there is no room.
    pub(super) fn now_full(
        &mut self,
        holdings: &mut Holdings,
        outbox: &mut Outbox,
        key: StreamKey,
        room: Room,
    ) {
        if holdings.stream(key).full_for().is_some() {
            return;
        }
        holdings.set_full(key, Some(room));
        if let Room::Memory(class) = room {
            self.full_for_memory.insert((class, key));
        }
        if room == Room::Log {
            self.full_for_log.insert(key);
        }
        let rule = usize::from(holdings.stream(key).rule().0);
        self.full_streams[rule] += 1;
        if self.full_streams[rule] == 1 {
            outbox.report(Event::Full { rule, full: true });
        }
    }

    /// Records of this stream may fit again.
    pub(super) fn no_longer_full(
        &mut self,
        holdings: &mut Holdings,
        outbox: &mut Outbox,
        key: StreamKey,
    ) {
        let Some(room) = holdings.set_full(key, None) else { return };
        if let Room::Memory(class) = room {
            self.full_for_memory.remove(&(class, key));
        }
        if room == Room::Log {
            self.full_for_log.remove(&key);
        }
        holdings.note_idle(key);
        let rule = usize::from(holdings.stream(key).rule().0);
        self.full_streams[rule] -= 1;
        if self.full_streams[rule] == 0 {
            outbox.report(Event::Full { rule, full: false });
        }
    }

    /// Streams that lost a record since the last call, to be tried again.
    pub(super) fn take_freed(&mut self) -> Vec<StreamKey> {
        std::mem::take(&mut self.freed)
    }

    /// Any stream may have room now.
    pub(super) fn free_all(&mut self, holdings: &Holdings) {
        self.freed.extend(holdings.streams().map(|(key, _)| key));
    }

    /// How long the inbound limit holds the next record back.
    pub(super) fn inbound_wait(&mut self, now: Time) -> Option<Duration> {
        self.inbound.wait(now)
    }

    /// The inbound limit let a record in.
    pub(super) fn let_in(&mut self, now: Time, size: Size) {
        self.inbound.spend(now, size);
    }

    /// A record was taken so long after it was read.
    pub(super) fn processed(&mut self, delay: Duration) {
        self.processing.measure(delay);
    }

    /// How long the node itself takes for a record.
    pub(super) fn processing(&self) -> Duration {
        self.processing.get()
    }
}

/// Connections.
impl Admission {
    pub(super) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// A connection begins.
    pub(super) fn open(
        &mut self,
        outbox: &mut Outbox,
        source: SourceId,
        name: Arc<str>,
        relays: Option<ClassId>,
    ) {
        if !self.sources.open(source, name, relays) {
            outbox.report(Event::Unsupported("a connection with a number beyond the bound"));
        }
    }

    /// All that comes by a connection is of one rule.
    pub(super) fn bind(&mut self, source: SourceId, rule: RuleId) {
        if let Some(state) = self.sources.get_mut(source) {
            state.bound = Some(rule);
        }
    }

    /// A connection ended. Records that it still waited to have accepted are gone with it: their sender was
    /// never told that they were accepted.
    pub(super) fn close(&mut self, holdings: &mut Holdings, outbox: &mut Outbox, source: SourceId) {
        let Some(mut state) = self.sources.close(source) else { return };
        outbox.forget(source);
        while state.next_pending().is_some() {
            holdings.count_refused(None);
        }
        for (_, stream) in state.streams {
            holdings.detach(stream);
        }
    }

    /// The stream that a connection feeds under this rule; `None` when the table of streams is full.
    pub(super) fn stream_of(
        &mut self,
        holdings: &mut Holdings,
        options: &NodeOptions,
        source: SourceId,
        rule: RuleId,
    ) -> Option<StreamKey> {
        let state = self.sources.get_mut(source)?;
        if let Some(stream) = state.stream(rule) {
            return Some(stream);
        }
        let stream = holdings.attach(options, rule, &state.name)?;
        state.streams.push((rule, stream));
        Some(stream)
    }

    /// Tells a sender, if it waits and its connection is still there.
    pub(super) fn answer(
        &self,
        outbox: &mut Outbox,
        reply: Option<ReplyTo>,
        result: Result<(), RefuseReason>,
    ) {
        if let Some(reply) = reply.filter(|reply| self.sources.is_alive(reply)) {
            let ReplyTo { source, token, .. } = reply;
            outbox.push(Output::Accept { source, token, result });
        }
    }

    /// Refuses an offer.
    pub(super) fn refuse(
        &self,
        holdings: &mut Holdings,
        outbox: &mut Outbox,
        offered: &Offered,
        rule: Option<RuleId>,
        reason: RefuseReason,
    ) {
        holdings.count_refused(rule);
        if let Some(token) = offered.token {
            outbox.push(Output::Accept { source: offered.source, token, result: Err(reason) });
        }
    }

    /// Keeps a record for later: the order of a connection is kept, so behind one that waits all do.
    pub(super) fn keep_pending(
        &mut self,
        holdings: &mut Holdings,
        outbox: &mut Outbox,
        offered: Offered,
    ) {
        let Some(state) = self.sources.get_mut(offered.source) else { return };
        if state.pending().len() < PENDING_MAX {
            state.pending().push_back(offered);
        } else {
            self.refuse(holdings, outbox, &offered, None, RefuseReason::Full);
        }
    }

    /// A connection's record does not fit: it waits for room, and the connection is not read.
    pub(super) fn block(&mut self, now: Time, outbox: &mut Outbox, blocked: Blocked) {
        let Blocked { offered, room, patience, .. } = blocked;
        let source = offered.source;
        self.wait(offered, room, now + patience, None);
        outbox.push(Output::PauseInput(source));
    }

    /// A record waits until then, before all others of its connection. A wait that goes on for the same room
    /// as an `old` one keeps its turn.
    pub(super) fn wait(&mut self, offered: Offered, room: Room, until: Time, old: Option<Wait>) {
        let source = offered.source;
        let Some(state) = self.sources.get_mut(source) else { return };
        state.pending().push_front(offered);
        self.sources.wait(source, room, until, old);
    }

    /// The wait of a connection ends; answers with it.
    pub(super) fn end_wait(&mut self, source: SourceId) -> Option<Wait> {
        self.sources.end_wait(source)
    }

    /// The next record that a connection kept for later.
    pub(super) fn next_pending(&mut self, source: SourceId) -> Option<Offered> {
        self.sources.get_mut(source)?.next_pending()
    }

    /// Refuses every waiting record: the node stops.
    pub(super) fn refuse_blocked(&mut self, holdings: &mut Holdings, outbox: &mut Outbox) {
        while let Some((_, source)) = self.sources.first_patience() {
            self.sources.end_wait(source);
            while let Some(offered) = self.next_pending(source) {
                self.refuse(holdings, outbox, &offered, None, RefuseReason::Stopping);
            }
            outbox.push(Output::ResumeInput(source));
        }
    }
}
