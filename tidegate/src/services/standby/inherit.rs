//! What a node that is gone still owed is taken over by this node: offered to it under the names that the
//! records have, marked as records that may have arrived.
//!
//! The oldest segment goes first, and is deleted when this node has accepted all that was owed of it. The
//! newest one, which says what is owed, is the last: whenever this is stopped, it can go on.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_link::claims::ClaimRight;
use tidegate_link::envelope::Envelope;
use tidegate_link::packet::Custody;
use tidegate_log::{Destinations, Fetch, Key, LoggedRecord, Recovery, Runs, SegmentId};
use tidegate_types::headers;
use tidegate_types::record::{Fate, Identity, Origin, StreamId};
use tidegate_types::units::Size;
use tokio::sync::{mpsc, watch};

use super::shelf::Shelf;
use crate::input::streams::{Settled, Streams, Ticket};
use crate::node::log_store::folder::segment_path;
use crate::node::log_store::look::read_recovery;
use crate::node::log_store::read::read_window;
use crate::support::disk::Real;

/// Bytes of records that are offered and not accepted yet.
const OFFERED_MAX: u64 = 4 << 20;
/// What a record costs beside its bytes.
const RECORD_COST: u64 = 256;
/// Bytes read at once.
const WINDOW: Size = Size(1 << 20);

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing is owed any more, and nothing is left of the log. So many records that were owed are not in the
    /// copy: they had not come, or are damaged.
    Done(u64),
    /// The owner is back, or this node is stopping.
    Stopped,
    /// This node will not take so many records, by its own rules: they are kept.
    Refused(u64),
}

/// What is owed of each segment, by stream.
type Owed = BTreeMap<SegmentId, BTreeMap<StreamId, Runs>>;

/// Takes over what a log owes. A change of `stop` ends it between two records; `count` hears how many more this node
/// has accepted.
///
/// # Errors
/// A file cannot be read, or no key opens it.
pub(super) async fn inherit(
    shelf: &mut Shelf,
    keys: &[Key],
    streams: &Streams,
    mut stop: watch::Receiver<u64>,
    count: impl Fn(u64),
) -> io::Result<Ended> {
    let (directory, with) = (shelf.directory().to_path_buf(), keys.to_vec());
    let read = tokio::task::spawn_blocking(move || read_recovery(&directory, &with)).await;
    let recovery = read.map_err(io::Error::other)?.map_err(io::Error::other)?;
    let origin = recovery.owner.as_ref().map(|(node, incarnation)| {
        Arc::new(Origin { node: node.clone(), incarnation: *incarnation })
    });
    let mut owed = owed(&recovery);
    let segments: Vec<SegmentId> = shelf.lengths().keys().copied().collect();
    let mut missing = 0;
    for segment in segments {
        if let (Some(owed), Some(origin)) = (owed.remove(&segment), &origin) {
            let mut offers = Offers::new(streams, origin);
            let ended = offers.of_segment(shelf, keys, (segment, owed), &mut stop).await?;
            count(offers.accepted);
            match ended {
                Ended::Done(of_segment) => missing += of_segment,
                Ended::Stopped | Ended::Refused(_) => return Ok(ended),
            }
        }
        shelf.release(&[segment])?;
    }
    // Segments that never came.
    missing += owed.values().map(records).sum::<u64>();
    shelf.remove()?;
    Ok(Ended::Done(missing))
}

/// How many records are owed.
fn records(owed: &BTreeMap<StreamId, Runs>) -> u64 {
    owed.values().map(Runs::records).sum()
}

fn owed(recovery: &Recovery) -> Owed {
    let mut owed = Owed::new();
    for (stream, segment, run) in recovery.live() {
        owed.entry(segment).or_default().entry(stream).or_default().add(run);
    }
    owed
}

/// Records that are offered, and what became of them.
struct Offers<'a> {
    streams: &'a Streams,
    origin: &'a Arc<Origin>,
    settled: mpsc::UnboundedSender<Settled>,
    answers: mpsc::UnboundedReceiver<Settled>,
    /// Records without an answer, and what they cost.
    open: u64,
    cost: u64,
    accepted: u64,
    refused: u64,
    is_stopping: bool,
}

impl<'a> Offers<'a> {
    fn new(streams: &'a Streams, origin: &'a Arc<Origin>) -> Self {
        let (settled, answers) = mpsc::unbounded_channel();
        let (open, cost, accepted, refused) = (0, 0, 0, 0);
        let is_stopping = false;
        Offers { streams, origin, settled, answers, open, cost, accepted, refused, is_stopping }
    }

    /// Offers all that is owed of a segment, and waits for the answers.
    async fn of_segment(
        &mut self,
        shelf: &Shelf,
        keys: &[Key],
        (segment, owed): (SegmentId, BTreeMap<StreamId, Runs>),
        stop: &mut watch::Receiver<u64>,
    ) -> io::Result<Ended> {
        let path = segment_path(shelf.directory(), segment);
        let mut missing = records(&owed);
        let streams = Arc::new(owed.keys().copied().collect());
        let mut order = Fetch { segment, from: 0, streams, most: WINDOW };
        loop {
            let (path, with, wanted) = (path.clone(), keys.to_vec(), order.clone());
            let read =
                tokio::task::spawn_blocking(move || read_window(&Real, &path, &with, &wanted));
            let fetched = read.await.map_err(io::Error::other)??;
            let is_owed = |record: &LoggedRecord| {
                let runs = owed.get(&record.stream);
                runs.is_some_and(|runs| runs.get(record.seq) != Destinations::NONE)
            };
            for record in fetched.records.into_iter().filter(is_owed) {
                missing = missing.saturating_sub(1);
                self.offer(record);
                while self.cost > OFFERED_MAX {
                    if !self.answer(stop).await {
                        return Ok(Ended::Stopped);
                    }
                }
            }
            // What is read twice without getting on is at its end: the rest is damage.
            if fetched.is_end || fetched.next <= order.from && order.from > 0 {
                break;
            }
            order.from = fetched.next;
        }
        while self.open > 0 {
            if !self.answer(stop).await {
                return Ok(Ended::Stopped);
            }
        }
        Ok(match (self.is_stopping, self.refused) {
            (true, _) => Ended::Stopped,
            (false, 0) => Ended::Done(missing),
            (false, refused) => Ended::Refused(refused),
        })
    }

    fn offer(&mut self, record: LoggedRecord) {
        let cost = record.size().0 + RECORD_COST;
        let Some(envelope) = envelope(record, self.origin, unix_ns()) else { return };
        self.open += 1;
        self.cost += cost;
        let (from, settled) = (self.origin.node.clone(), self.settled.clone());
        // The owner of a log may write what it likes into it: it speaks for itself only.
        let is_own = envelope.identity.origin.node == self.origin.node;
        let right = if is_own { ClaimRight::Proven } else { ClaimRight::Claimed };
        self.streams.take(envelope, right, Ticket { from, record: 0, cost, settled });
    }

    /// Waits for an answer; false where this shall end.
    async fn answer(&mut self, stop: &mut watch::Receiver<u64>) -> bool {
        let settled = tokio::select! {
            settled = self.answers.recv() => settled,
            _ = stop.changed() => return false,
        };
        let Some(Settled { custody, cost, .. }) = settled else { return false };
        self.open -= 1;
        self.cost -= cost;
        match custody {
            Some(Custody::Final(Fate::Confirmed)) => self.accepted += 1,
            Some(_) => self.refused += 1,
            None => self.is_stopping = true,
        }
        true
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The record as another node hands it on; `None` for one that has surely expired.
fn envelope(record: LoggedRecord, origin: &Arc<Origin>, unix_ns: u64) -> Option<Envelope> {
    let ttl = match record.expires.map(|expires| expires.since(record.arrived)) {
        None => None,
        Some(all) => match record.wall {
            // Nobody knows how old it is.
            None => Some(all),
            Some(wall) => {
                let age = Duration::from_nanos(unix_ns.saturating_sub(wall.unix_ns));
                let left = (all + wall.uncertainty).checked_sub(age).filter(|left| !left.is_zero());
                Some(left?)
            }
        },
    };
    let own = Identity { origin: origin.clone(), stream: record.stream, seq: record.seq };
    Some(Envelope {
        identity: record.foreign.unwrap_or(own),
        again: true,
        hop: headers::hop(&record.properties),
        grant: None,
        left: Duration::ZERO,
        ttl,
        source_unix_ns: record.source_unix_ns,
        proof: None,
        key: record.key,
        properties: record.properties,
        payload: record.payload,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidegate_log::WallTime;
    use tidegate_types::record::Properties;
    use tidegate_types::units::Time;

    use super::*;

    fn record(wall: Option<u64>) -> LoggedRecord {
        let uncertainty = Duration::from_millis(100);
        LoggedRecord {
            stream: StreamId(4),
            seq: 9,
            destinations: Destinations::one(0),
            arrived: Time::from_millis(500),
            deadline: Time::from_millis(600),
            expires: Some(Time::from_millis(2500)),
            wall: wall.map(|ms| WallTime { unix_ns: ms * 1_000_000, uncertainty }),
            source_unix_ns: Some(7),
            class: "ls".into(),
            key: Bytes::from_static(b"alarm"),
            properties: Properties::default(),
            payload: Bytes::from_static(b"hot"),
            foreign: None,
            packet: None,
        }
    }

    #[test]
    fn a_record_keeps_its_name_is_marked_and_expires_by_the_clock_of_the_world() {
        let origin = Arc::new(Origin { node: "gate-7".into(), incarnation: 5 });
        let at = |record, ms: u64| envelope(record, &origin, ms * 1_000_000);
        let left = at(record(Some(10_000)), 11_000).unwrap();
        assert_eq!(left.identity.to_string(), "gate-7/0000000000000005/4/9");
        assert_eq!((left.again, left.ttl), (true, Some(Duration::from_millis(1100))));
        assert_eq!(at(record(Some(10_000)), 12_100), None, "it is surely over");
        assert_eq!(at(record(None), 99_000).unwrap().ttl, Some(Duration::from_secs(2)));
        let foreign = Identity { stream: StreamId(1), ..left.identity.clone() };
        let of_another = LoggedRecord { foreign: Some(foreign.clone()), ..record(None) };
        assert_eq!(at(of_another, 0).unwrap().identity, foreign);
    }
}
