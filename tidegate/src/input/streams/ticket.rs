//! Whom to answer about a record of another node.

use std::sync::Arc;

use tidegate_link::packet::Custody;
use tokio::sync::mpsc;

/// The answer about a record, for the life that it came by.
#[derive(Debug)]
pub(crate) struct Settled {
    /// Its name there.
    pub(crate) record: u64,
    /// The answer; `None`: none is given, for the node is stopping.
    pub(crate) custody: Option<Custody>,
    /// What it cost.
    pub(crate) cost: u64,
}

/// Whom to tell about a record.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The node that it came from.
    pub(crate) from: Arc<str>,
    pub(crate) record: u64,
    pub(crate) cost: u64,
    pub(crate) settled: mpsc::UnboundedSender<Settled>,
}

impl Ticket {
    pub(crate) fn settle(self, custody: Option<Custody>) {
        let Ticket { record, cost, settled, .. } = self;
        // The life may be over: then another one asks.
        let _ = settled.send(Settled { record, custody, cost });
    }
}
