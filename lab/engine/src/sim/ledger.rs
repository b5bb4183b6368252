//! What the far end has, how long it took, and whether the node kept its promises.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::PathId;
use tidegate_types::record::{DeliveryId, Record};
use tidegate_types::units::Time;

use super::load::value_in;
use crate::query::{Answer, Judged, Query, Sums};

/// Width of a bin of the throughput.
const BIN: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub struct Account {
    /// Each record that is at the far end, in the order of arrival there.
    pub received: Vec<Received>,
    /// Bytes that reached the far end in each bin.
    bins: Vec<u64>,
    /// Copies received of each record, by its place in the stream: all, and those without a mark.
    copies: Vec<(u8, u8)>,
    /// Newest record picked while it was live.
    newest_live: u64,
}

/// A record at the far end.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Its arrival at the node.
    pub arrived: Time,
    /// From then to the far end.
    pub took: Duration,
    pub payload: u64,
    /// Its place in its stream, from 1.
    pub seq: u64,
    pub value: i64,
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
pub struct Ledger {
    pub accounts: Vec<Account>,
    /// How many of them are of the node's own loads.
    own: usize,
    /// Places of the others: of other nodes' loads, by their names. Numbers of records say something only
    /// within one node's stream.
    others: BTreeMap<(Arc<str>, usize), usize>,
    /// In the order of sending: what is stuck on its way may have been sent once more.
    open: BTreeMap<DeliveryId, VecDeque<Open>>,
    /// Broken promises, the first few.
    pub broken: Vec<String>,
}

/// Promises named before the rest is left out.
const BROKEN_MAX: usize = 10;

impl Ledger {
    /// For so many loads of the node.
    pub fn new(own: usize) -> Self {
        let accounts = (0..own).map(|_| Account::default()).collect();
        Ledger { accounts, own, ..Ledger::default() }
    }

    /// The place of another node's load, which has one from now on.
    pub(crate) fn place_of(&mut self, node: &Arc<str>, load: usize) -> usize {
        let next = self.accounts.len();
        let place = *self.others.entry((node.clone(), load)).or_insert(next);
        if place == next {
            self.accounts.push(Account::default());
        }
        place
    }

    /// The account of another node's load, if anything of it was sent here.
    pub fn account_of(&self, node: &str, load: usize) -> Option<&Account> {
        self.others.get(&(node.into(), load)).map(|&place| &self.accounts[place])
    }

    /// Accounts of other nodes' loads.
    pub fn relayed(&self) -> &[Account] {
        &self.accounts[self.own..]
    }

    pub(crate) fn complain(&mut self, now: Time, what: String) {
        if self.broken.len() < BROKEN_MAX {
            self.broken.push(format!("{:.6} s: {what}", now.as_secs_f64()));
        }
    }

    /// The first cut of a delivery was picked. `size`: all its bytes.
    pub(crate) fn picked(
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
        let payload = record.payload.len() as u64;
        let value = value_in(&record.payload);
        let open = Open { load, seq, arrived, payload, value, left: size, again, path };
        self.open.entry(id).or_default().push_back(open);
    }

    /// Bytes of a delivery are at the far end; answers whether that was the last of them.
    pub fn received(&mut self, now: Time, id: DeliveryId, bytes: u64) -> bool {
        let Some(open) = self.open.get_mut(&id).and_then(VecDeque::front_mut) else {
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
        let mut copies = self.open.remove(&id).expect("it was just found");
        let Open { load, seq, arrived, payload, value, again, .. } =
            copies.pop_front().expect("it was just found");
        if !copies.is_empty() {
            self.open.insert(id, copies);
        }
        let account = &mut self.accounts[load];
        let place = seq as usize;
        if account.copies.len() <= place {
            account.copies.resize(place + 1, (0, 0));
        }
        let (copies, plain) = &mut account.copies[place];
        *copies = copies.saturating_add(1);
        *plain = plain.saturating_add(u8::from(!again));
        if *copies == 1 {
            let took = now.since(arrived);
            account.received.push(Received { arrived, took, payload, seq, value });
        } else if !again {
            self.complain(now, format!("record {seq} of load {load} came again, unmarked"));
        }
        true
    }

    /// A connection broke: what was begun on it is void.
    pub fn broke(&mut self, path: PathId) {
        self.open.retain(|_, copies| {
            copies.retain(|open| open.path != path);
            !copies.is_empty()
        });
    }

    /// Copies after the first that the far end has of a load's records.
    pub fn further(&self, load: usize) -> u64 {
        self.accounts[load].copies.iter().map(|(all, _)| u64::from(all.saturating_sub(1))).sum()
    }

    /// Records of a load that the far end has.
    pub fn distinct(&self, load: usize) -> u64 {
        self.accounts[load].copies.iter().filter(|(all, _)| *all > 0).count() as u64
    }
}

impl Account {
    /// Copies of a record that came without a mark.
    pub fn unmarked(&self, seq: u64) -> u8 {
        self.copies.get(seq as usize).map_or(0, |(_, plain)| *plain)
    }

    /// The `share` quantile of the time to the far end, over records that arrived at the node in
    /// [from, until); `None` where there was none.
    pub fn quantile(&self, share: f64, from: Time, until: Time) -> Option<Duration> {
        let inside = self.received.iter().filter(|one| (from..until).contains(&one.arrived));
        let mut taken: Vec<Duration> = inside.map(|one| one.took).collect();
        taken.sort_unstable();
        let place = ((taken.len() as f64 * share) as usize).min(taken.len().saturating_sub(1));
        taken.get(place).copied()
    }

    /// What the query at the far end says of the records, beside what their source offered.
    pub fn judged(&self, truth: &Sums) -> Judged {
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
    pub fn bytes(&self, from: Time, until: Time) -> u64 {
        let bin = |at: Time| (at.as_nanos() / BIN.as_nanos() as u64) as usize;
        let until = bin(until).min(self.bins.len());
        self.bins.get(bin(from)..until).map_or(0, |bins| bins.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_node::io::OutputId;
    use tidegate_types::record::Properties;

    use super::*;

    #[test]
    fn a_record_that_is_twice_on_one_connection_comes_twice() {
        let record = Record {
            identity: "gate/1/0/1".parse().unwrap(),
            key: "ls".into(),
            properties: Properties::default(),
            payload: vec![0; 98].into(),
            arrived: Time::ZERO,
            deadline: Time::from_millis(50),
            expires: None,
            source_unix_ns: None,
        };
        let mut ledger = Ledger::new(1);
        let (id, path) = (DeliveryId(7), PathId { output: OutputId(0), lane: 0 });
        for (at, again) in [(1, false), (2, true)] {
            ledger.picked(Time::from_millis(at), id, (0, &record), 100, (path, again));
        }
        let received = |ledger: &mut Ledger, at| ledger.received(Time::from_millis(at), id, 50);
        let ends = [3, 4, 5, 6].map(|at| received(&mut ledger, at));
        assert_eq!(ends, [false, true, false, true]);
        assert_eq!((ledger.further(0), ledger.accounts[0].unmarked(1)), (1, 1));
        assert_eq!(ledger.broken, [""; 0]);
        received(&mut ledger, 7);
        assert_eq!(ledger.broken.len(), 1, "a third time it is not under way");
    }
}
