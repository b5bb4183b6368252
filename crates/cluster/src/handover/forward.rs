//! Records of one unit on their way to its owner, from one member.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::{Member, PublishReply};

/// Records that may be under way and not answered.
const WINDOW: usize = 1024;

/// A record that waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct Parcel<T> {
    pub(super) seq: u64,
    pub(super) ticket: u64,
    pub(super) size: Size,
    pub(super) content: T,
}

#[derive(Clone, Debug)]
struct Sent<T> {
    parcel: Parcel<T>,
    is_refused: bool,
}

/// All records of one unit that came in here and have no answer.
#[derive(Clone, Debug)]
pub(super) struct Forward<T> {
    /// Under way, in order, to `to`.
    sent: VecDeque<Sent<T>>,
    to: Member,
    /// How many of `sent` were refused.
    refused: usize,
    /// Behind them, in order.
    held: VecDeque<Parcel<T>>,
    bytes: Size,
    last: u64,
    round: u64,
    /// The owner takes none now, and will say when it does.
    pub(super) is_waiting: bool,
    /// Until when answers of an owner before this one are waited for.
    until: Option<Time>,
}

impl<T: Clone> Forward<T> {
    pub(super) fn new(to: Member) -> Self {
        Forward {
            sent: VecDeque::new(),
            to,
            refused: 0,
            held: VecDeque::new(),
            bytes: Size::ZERO,
            last: 0,
            round: 1,
            is_waiting: false,
            until: None,
        }
    }

    /// Waits no longer than `patience` for answers of who is the owner no more: it may be gone for good.
    pub(super) fn tick(&mut self, now: Time, patience: Duration, owner: Member) {
        if self.sent.is_empty() || self.to == owner {
            self.until = None;
        } else if now >= *self.until.get_or_insert(now + patience) {
            self.take_back();
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.until
    }

    /// Takes a record; false where more than `most` bytes would wait.
    pub(super) fn push(&mut self, ticket: u64, size: Size, content: T, most: Size) -> bool {
        if self.bytes + size > most {
            return false;
        }
        self.bytes += size;
        self.last += 1;
        self.held.push_back(Parcel { seq: self.last, ticket, size, content });
        true
    }

    /// The next record to send to the owner, and its round; `None` while what is under way must be answered first.
    pub(super) fn next(&mut self, owner: Member) -> Option<(u64, u64, T)> {
        if self.refused > 0 && self.refused == self.sent.len() {
            self.take_back();
        }
        if self.sent.is_empty() {
            self.to = owner;
        }
        if self.is_waiting || self.to != owner || self.refused > 0 || self.sent.len() >= WINDOW {
            return None;
        }
        let parcel = self.held.pop_front()?;
        let next = (self.round, parcel.seq, parcel.content.clone());
        self.sent.push_back(Sent { parcel, is_refused: false });
        Some(next)
    }

    /// What is under way goes back to where it was, to be sent anew.
    fn take_back(&mut self) {
        while let Some(sent) = self.sent.pop_back() {
            self.held.push_front(sent.parcel);
        }
        self.refused = 0;
        self.round += 1;
    }

    /// A record has its answer: returns its ticket, where it was under way.
    pub(super) fn answered(&mut self, from: Member, seq: u64) -> Option<u64> {
        let place = self.place(from, seq)?;
        let sent = self.sent.remove(place)?;
        self.refused -= usize::from(sent.is_refused);
        self.bytes -= sent.parcel.size;
        Some(sent.parcel.ticket)
    }

    /// A record was not taken.
    pub(super) fn refused(&mut self, from: Member, seq: u64) {
        let Some(place) = self.place(from, seq) else { return };
        let sent = &mut self.sent[place];
        self.refused += usize::from(!std::mem::replace(&mut sent.is_refused, true));
    }

    /// Who they are under way to has forgotten them.
    pub(super) fn restarted(&mut self, member: Member) {
        if self.to == member && !self.sent.is_empty() {
            self.take_back();
        }
    }

    fn place(&self, from: Member, seq: u64) -> Option<usize> {
        let found = self.sent.binary_search_by_key(&seq, |sent| sent.parcel.seq);
        found.ok().filter(|_| from == self.to)
    }
}

/// What the owner of a unit has of the others' records.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// By the number of the take: who sent it, if that one still knows, and its number there.
    open: BTreeMap<u64, Option<(Member, u64)>>,
    last: u64,
    /// The last round of each member of which something was refused: the rest of it is refused too.
    refused: BTreeMap<Member, u64>,
}

impl Taken {
    /// Takes a record of a round, or not.
    pub(super) fn take(&mut self, from: Member, round: u64, seq: u64) -> Option<u64> {
        if self.refused.get(&from).is_some_and(|refused| round <= *refused) {
            return None;
        }
        self.last += 1;
        self.open.insert(self.last, Some((from, seq)));
        Some(self.last)
    }

    /// A record of this round was refused.
    pub(super) fn refuse(&mut self, from: Member, round: u64) {
        let refused = self.refused.entry(from).or_default();
        *refused = round.max(*refused);
    }

    /// A take has its answer: whom to tell.
    pub(super) fn settled(
        &mut self,
        take: u64,
        verdict: PublishReply,
    ) -> Option<(Member, u64, PublishReply)> {
        let (from, seq) = self.open.remove(&take)??;
        Some((from, seq, verdict))
    }

    /// A member has forgotten what it sent.
    pub(super) fn restarted(&mut self, member: Member) {
        self.refused.remove(&member);
        for sender in self.open.values_mut() {
            *sender = sender.filter(|(from, _)| *from != member);
        }
    }

    /// Whether all have their answer.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
