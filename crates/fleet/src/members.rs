//! Who there is, what each has and wants, and whom each reaches.
//!
//! Members have places, so that a matching works on flat arrays; a place is given again when its member is
//! gone.

use std::collections::BTreeMap;

use tidegate_types::units::Time;

use super::message::{Heartbeat, ReachablePeer};
use super::{Amount, CANDIDATES_MAX, Candidates, NODES_MAX, NodeId, Peer, Tuple};

/// A node that has said something to this leader.
#[derive(Clone, Debug)]
pub(super) struct FleetMember {
    pub(super) node: NodeId,
    pub(super) incarnation: u64,
    /// Its newest beat.
    pub(super) number: u64,
    pub(super) heard: Time,
    pub(super) tuple: Tuple,
    pub(super) output: Amount,
    reach: Vec<ReachablePeer>,
    /// The same as places, of those that are members.
    peers: Vec<(NodeId, Peer)>,
    /// When each class began to be short, as a count.
    pub(super) asked: Vec<Option<u64>>,
    pub(super) is_drained: bool,
    /// The newest directive of this leader that it obeyed, zero: none; the newest that went to it, and when; whether one
    /// must go.
    pub(super) obeyed: u64,
    round: u64,
    directed: Time,
    pub(super) must_direct: bool,
    /// The directive with its standing permits, and when that went; none: they have changed since.
    permitted: Option<(u64, Time)>,
}

impl FleetMember {
    fn new(beat: &Heartbeat) -> Self {
        FleetMember {
            node: beat.node,
            incarnation: beat.incarnation,
            number: 0,
            heard: Time::ZERO,
            tuple: Tuple::default(),
            output: Amount::ZERO,
            reach: Vec::new(),
            peers: Vec::new(),
            asked: vec![None; beat.tuple.demand.len()],
            is_drained: false,
            obeyed: 0,
            round: 0,
            directed: Time::ZERO,
            must_direct: true,
            permitted: None,
        }
    }

    /// What its uplink carries of its own. While a queue below the uplink fills, more goes out than is carried:
    /// that is not missing later.
    pub(super) fn carries(&self) -> Amount {
        self.output.min(self.tuple.capacity)
    }

    /// A directive goes to it.
    pub(super) fn direct(&mut self, now: Time, round: u64) {
        (self.must_direct, self.directed, self.round) = (false, now, round);
    }

    /// Its standing permits have changed.
    pub(super) fn change_permits(&mut self) {
        (self.permitted, self.must_direct) = (None, true);
    }

    /// Whether its standing permits are to be said, or said again: before half of their time is over.
    pub(super) fn lacks_permits(&self, now: Time, lease: std::time::Duration) -> bool {
        let Some((round, at)) = self.permitted else { return true };
        let is_lost = self.heard > at && self.obeyed < round;
        is_lost || now.since(at) >= lease / 2
    }

    /// A directive with its standing permits goes to it.
    pub(super) fn permit(&mut self, now: Time, round: u64) {
        self.permitted = Some((round, now));
    }

    /// Whether its directive is to be said again: in answer to a beat, when it holds something, or has
    /// not obeyed.
    pub(super) fn is_due(&self, now: Time, renewal: std::time::Duration, holds: bool) -> bool {
        let is_old = now.since(self.directed) >= renewal;
        is_old && self.heard > self.directed && (holds || self.obeyed < self.round)
    }
}

/// What a beat was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Older than what is known, from an earlier life, or nothing that a member says.
    Old,
    /// From a node that this leader has not heard before, or not in this life.
    First,
    /// The next one of a known life.
    Next,
}

/// All members.
#[derive(Debug, Default)]
pub(super) struct Members {
    places: BTreeMap<NodeId, u32>,
    rows: Vec<Option<FleetMember>>,
    /// Requests so far.
    asked: u64,
    candidates: Candidates,
    /// Whether somebody came, left or reaches others since the rows were made; whether pairs have changed.
    is_stale: bool,
    is_reshaped: bool,
}

impl Members {
    pub(super) fn get(&self, node: NodeId) -> Option<&FleetMember> {
        self.rows[self.place(node)?].as_ref()
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut FleetMember> {
        let place = self.place(node)?;
        self.rows[place].as_mut()
    }

    pub(super) fn place(&self, node: NodeId) -> Option<usize> {
        self.places.get(&node).map(|place| *place as usize)
    }

    /// By place; a gap where a member has gone.
    pub(super) fn rows(&self) -> &[Option<FleetMember>] {
        &self.rows
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FleetMember> + '_ {
        self.rows.iter().flatten()
    }

    pub(super) fn rows_mut(&mut self) -> &mut [Option<FleetMember>] {
        &mut self.rows
    }

    /// Takes a beat in.
    pub(super) fn hear(
        &mut self,
        now: Time,
        beat: &Heartbeat,
        revision: u64,
        classes: usize,
    ) -> News {
        let known = self.get(beat.node).map(|member| (member.incarnation, member.number));
        let news = match known {
            Some((life, _)) if beat.incarnation < life => News::Old,
            Some((life, number)) if life == beat.incarnation && beat.number <= number => News::Old,
            Some((life, _)) if life == beat.incarnation => News::Next,
            _ => News::First,
        };
        let is_full = self.places.len() >= NODES_MAX && known.is_none();
        if news == News::Old || is_full || beat.tuple.demand.len() != classes {
            return News::Old;
        }
        let place = self.place_for(beat.node);
        let member = self.rows[place].get_or_insert_with(|| FleetMember::new(beat));
        (member.incarnation, member.number, member.heard) = (beat.incarnation, beat.number, now);
        (member.tuple, member.output) = (beat.tuple.clone(), beat.output);
        member.obeyed = if beat.heard.revision == revision { beat.heard.round } else { 0 };
        for (asked, short) in member.asked.iter_mut().zip(member.tuple.shortage()) {
            *asked = if short.is_zero() { None } else { asked.or(Some(self.asked)) };
        }
        self.asked += 1;
        if let Some(reach) = &beat.peers {
            let reach = &reach[..reach.len().min(CANDIDATES_MAX)];
            self.is_stale |= reach != member.reach;
            member.reach = reach.to_vec();
        }
        if news == News::First {
            member.permitted = None;
        }
        // It is told that it was heard.
        member.must_direct |= news == News::First || beat.peers.is_some();
        self.is_stale |= known.is_none();
        news
    }

    fn place_for(&mut self, node: NodeId) -> usize {
        let free = || self.rows.iter().position(Option::is_none).unwrap_or(self.rows.len());
        let place = self.place(node).unwrap_or_else(free);
        if place == self.rows.len() {
            self.rows.push(None);
        }
        self.places.insert(node, place as u32);
        place
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        if let Some(place) = self.places.remove(&node) {
            self.rows[place as usize] = None;
            self.is_stale = true;
        }
    }

    /// Pairs that may be matched have changed.
    pub(super) fn reshape(&mut self) {
        self.is_reshaped = true;
    }

    /// Makes the rows of candidates anew where somebody came, left or reaches others. `open_to` says of a receiver
    /// which providers it may be matched with. Answers whether they are new.
    pub(super) fn refresh<MayTry: Fn(NodeId) -> bool>(
        &mut self,
        open_to: impl Fn(NodeId) -> MayTry,
    ) -> bool {
        if std::mem::take(&mut self.is_stale) {
            self.find_places();
        } else if !self.is_reshaped {
            return false;
        }
        self.is_reshaped = false;
        let mut candidates = Candidates::default();
        let mut row = Vec::new();
        for member in &self.rows {
            row.clear();
            if let Some(FleetMember { node, peers, .. }) = member {
                let may_try = open_to(*node);
                let is_open = |(node, _): &&(NodeId, Peer)| may_try(*node);
                row.extend(peers.iter().filter(is_open).map(|(_, peer)| *peer));
            }
            candidates.push(&row);
        }
        self.candidates = candidates;
        true
    }

    /// Pairs change many times a second, places hardly ever: they are looked up once.
    fn find_places(&mut self) {
        for FleetMember { reach, peers, .. } in self.rows.iter_mut().flatten() {
            let peer = |reach: &ReachablePeer| {
                let place = *self.places.get(&reach.node)?;
                Some((reach.node, Peer { place, distance: reach.distance }))
            };
            peers.clear();
            peers.extend(reach.iter().filter_map(peer));
        }
    }

    /// The places of those that a member reaches, whether they may be matched or not.
    pub(super) fn reached_by(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let member = self.rows.get(place).and_then(Option::as_ref);
        let peers = member.into_iter().flat_map(|member| &member.peers);
        peers.map(|(_, peer)| peer.place as usize).filter(move |peer| *peer != place)
    }

    pub(super) fn candidates(&self) -> &Candidates {
        &self.candidates
    }
}
