//! What a world needs of its nodes, be they models of custody or whole nodes.

use std::collections::VecDeque;

use tidegate_fleet::{Agent, Heartbeat};
use tidegate_types::units::Time;

use super::plan::{Plan, Uplink};

/// A record of a node, by its number.
pub type Seq = u32;

/// A record that goes to the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub origin: usize,
    pub seq: Seq,
    pub class: usize,
    /// Whether it may have arrived before.
    pub again: bool,
    /// What its sender knows it by, and on which of its connections it went.
    pub ticket: (u64, u64),
}

/// What a node wants to have done; `W` is what nodes say to each other by a link.
#[derive(Debug)]
pub enum Wish<W> {
    Beat(Heartbeat),
    Say(usize, W),
    Send(Sent),
    /// A neighbour's record is picked to be sent.
    Pick(Sent),
}

/// A node. Its log outlives it; all else begins anew with its process.
pub trait Member {
    /// What nodes say to each other.
    type Word: Clone + std::fmt::Debug;
    /// How much longer than it takes to notice an end holds a link to be alive, in milliseconds.
    const PATIENCE: u64;
    /// Whether a provider sends nothing that its receiver has taken back.
    const IS_FENCED: bool;

    /// What happens in the world of a seed.
    fn plan(seed: u64) -> Plan {
        Plan::new(seed)
    }

    fn new(place: usize, plan: &Plan) -> Self;
    fn agent(&self) -> &Agent;
    fn agent_mut(&mut self) -> &mut Agent;
    /// The process ends.
    fn die(&mut self);
    /// A new one begins, on the same log.
    fn start(&mut self, now: Time);
    /// A tick passes: so many records a second come, and the uplink does this.
    fn work(&mut self, now: Time, rates: [f64; 3], uplink: Uplink, is_measure: bool);
    /// Does what the agent says.
    fn obey(&mut self, now: Time);
    fn hear(&mut self, now: Time, from: usize, word: Self::Word);
    fn is_record(word: &Self::Word) -> bool;
    /// A life of a link is over.
    fn lose(&mut self, now: Time, peer: usize);
    /// A new one begins.
    fn meet(&mut self, now: Time, peer: usize);
    fn reach(&mut self, now: Time, peers: &[usize]);
    /// The far end has a record that this node sent.
    fn confirmed(&mut self, now: Time, sent: Sent);
    fn wishes(&mut self) -> &mut VecDeque<Wish<Self::Word>>;
    /// Its records that their senders were told to be accepted.
    fn accepted(&self) -> impl Iterator<Item = Seq> + '_;
    /// What is still to be done, if anything is.
    fn left(&self) -> Option<String>;
    /// Whether a provider has a record of it, as far as it knows.
    fn is_away(&self, seq: Seq, provider: usize) -> bool;
    /// Classes of the records that came since this was asked last, in the order of their numbers.
    fn take_came(&mut self) -> Vec<usize> {
        Vec::new()
    }
    /// Bytes of the least urgent class that left while a borrowed record of the most urgent one waited here, and
    /// of a cut of the uplink: for each.
    fn take_behind(&mut self) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// How many records may come twice by what happened so far.
    fn may_repeat(&self) -> u64;
}
