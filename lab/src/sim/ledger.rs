//! What the far end has, how long it took, and whether the node kept its promises.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::io::PathId;
use tidegate_core::record::{DeliveryId, Record};
use tidegate_core::units::Time;

use super::load::value_in;
use crate::query::{Answer, Judged, Query, Sums};

/// Width of a bin of the throughput.
const BIN: Duration = Duration::from_millis(100);

/// One load's records.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Each record that is at the far end, in the order of arrival there.
    pub(super) received: Vec<Received>,
    /// Bytes that reached the far end in each bin.
    bins: Vec<u64>,
    /// Copies received of each record, by its place in the stream.
    copies: Vec<u8>,
    /// Newest record picked while it was live.
    newest_live: u64,
}

/// A record at the far end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Its arrival at the node.
    pub(super) arrived: Time,
    /// From then to the far end.
    pub(super) took: Duration,
    /// Its payload.
    pub(super) payload: u64,
    /// Its place in its stream, from 1.
    pub(super) seq: u64,
    /// What it carries.
    pub(super) value: i64,
}

/// A transmission under way.
#[derive(Debug)]
struct Open {
    load: usize,
    seq: u64,
    arrived: Time,
    payload: u64,
    value: i64,
    left: u64,
    again: bool,
    path: PathId,
}

/// The far end's book.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) accounts: Vec<Account>,
    /// How many of them are of the node's own loads.
    own: usize,
    open: BTreeMap<DeliveryId, Open>,
    /// Broken promises, the first few.
    pub(super) broken: Vec<String>,
}

/// Promises named before the rest is left out.
const BROKEN_MAX: usize = 10;

impl Ledger {
    /// For so many loads of the node, and of other nodes.
    pub(super) fn new(own: usize, others: usize) -> Self {
        let accounts = (0..own + others).map(|_| Account::default()).collect();
        Ledger { accounts, own, ..Ledger::default() }
    }

    pub(super) fn complain(&mut self, now: Time, what: String) {
        if self.broken.len() < BROKEN_MAX {
            self.broken.push(format!("{:.6} s: {what}", now.as_secs_f64()));
        }
    }

    /// The first cut of a delivery was picked. `size`: all its bytes.
    pub(super) fn picked(
        &mut self,
        now: Time,
        id: DeliveryId,
        (load, record): (usize, &Record),
        size: u64,
        (path, again): (PathId, bool),
    ) {
        let seq = record.identity.seq;
        let is_own = load < self.own;
        let account = &mut self.accounts[load];
        if now < record.deadline && !again && is_own {
            if seq <= account.newest_live {
                let newest = account.newest_live;
                self.complain(now, format!("live record {seq} of load {load} after {newest}"));
            }
            let account = &mut self.accounts[load];
            account.newest_live = account.newest_live.max(seq);
        }
        // The sources of the lab say when a record came to its first node.
        let arrived = record.source_unix_ns.map_or(record.arrived, Time::from_nanos);
        let payload = record.body.size().0;
        let value = value_in(&record.body);
        self.open.insert(id, Open { load, seq, arrived, payload, value, left: size, again, path });
    }

    /// Bytes of a delivery are at the far end; answers whether that was the last of them.
    pub(super) fn received(&mut self, now: Time, id: DeliveryId, bytes: u64) -> bool {
        let Some(open) = self.open.get_mut(&id) else {
            self.complain(now, format!("bytes of {id:?}, which is not under way"));
            return false;
        };
        let account = &mut self.accounts[open.load];
        let bin = (now.as_nanos() / BIN.as_nanos() as u64) as usize;
        if account.bins.len() <= bin {
            account.bins.resize(bin + 1, 0);
        }
        account.bins[bin] += bytes;
        open.left = open.left.saturating_sub(bytes);
        if open.left > 0 {
            return false;
        }
        let Open { load, seq, arrived, payload, value, again, .. } =
            self.open.remove(&id).expect("it was just found");
        let account = &mut self.accounts[load];
        let place = seq as usize;
        if account.copies.len() <= place {
            account.copies.resize(place + 1, 0);
        }
        account.copies[place] = account.copies[place].saturating_add(1);
        let copies = account.copies[place];
        if copies == 1 {
            let took = now.since(arrived);
            account.received.push(Received { arrived, took, payload, seq, value });
        } else if !again {
            self.complain(now, format!("record {seq} of load {load} came again, unmarked"));
        }
        true
    }

    /// A connection broke: what was begun on it is void.
    pub(super) fn broke(&mut self, path: PathId) {
        self.open.retain(|_, open| open.path != path);
    }

    /// Copies after the first that the far end has of a load's records.
    pub(super) fn further(&self, load: usize) -> u64 {
        self.accounts[load].copies.iter().map(|copies| u64::from(copies.saturating_sub(1))).sum()
    }

    /// Records of a load that the far end has.
    pub(super) fn distinct(&self, load: usize) -> u64 {
        self.accounts[load].copies.iter().filter(|&&copies| copies > 0).count() as u64
    }
}

impl Account {
    /// The `share` quantile of the time to the far end, over records that arrived at the node in
    /// [from, until); `None` where there was none.
    pub(super) fn quantile(&self, share: f64, from: Time, until: Time) -> Option<Duration> {
        let inside = self.received.iter().filter(|one| (from..until).contains(&one.arrived));
        let mut taken: Vec<Duration> = inside.map(|one| one.took).collect();
        taken.sort_unstable();
        let place = ((taken.len() as f64 * share) as usize).min(taken.len().saturating_sub(1));
        taken.get(place).copied()
    }

    /// What the query at the far end says of the records, beside what their source offered.
    pub(super) fn judged(&self, truth: &Sums) -> Judged {
        let mut query = Query::new(1);
        let mut answers = Vec::new();
        for one in &self.received {
            let at_ns = (one.arrived + one.took).as_nanos();
            let complete = query.take(one.seq, one.arrived.as_nanos(), one.value);
            let answer = |(window, sum)| Answer { stream: String::new(), window, sum, at_ns };
            answers.extend(complete.into_iter().map(answer));
        }
        let mut judged = Judged::default();
        judged.add(truth, &answers);
        judged
    }

    /// Bytes that reached the far end in [from, until), to a tenth of a second.
    pub(super) fn bytes(&self, from: Time, until: Time) -> u64 {
        let bin = |at: Time| (at.as_nanos() / BIN.as_nanos() as u64) as usize;
        let until = bin(until).min(self.bins.len());
        self.bins.get(bin(from)..until).map_or(0, |bins| bins.iter().sum())
    }
}
