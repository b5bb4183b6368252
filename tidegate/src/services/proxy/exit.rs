//! The end of an exchange, however it comes: the hall, the connection, the counters and the log hear of it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode, Uri, Version};
use tidegate_types::record::DropReason;
use tidegate_types::units::Time;

use super::access_log::AccessLog;
use super::counts::ProxyCounts;
use super::hall::{Ending, Ticket};
use super::listener::Peer;
use super::routes::Route;
use super::upload::Upload;
use super::upstream::Lease;
use super::worker::Table;
use crate::support::time::Clock;

/// What of an exchange the log tells: noted as it goes on.
#[derive(Clone, Debug)]
pub(super) struct AccessEntry {
    pub(super) peer: Rc<Peer>,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) version: Version,
    pub(super) begun: Time,
    /// None where no route fits.
    pub(super) route: Option<Arc<Route>>,
    pub(super) upstream: Option<Arc<str>>,
    /// In the queue, before the request went.
    pub(super) waited: Duration,
    /// Why the upstream's answer is not what the client got.
    pub(super) reason: Option<&'static str>,
    pub(super) status: StatusCode,
}

/// Where ends are told.
#[derive(Clone, Debug)]
pub(super) struct Registry {
    pub(super) clock: Clock,
    pub(super) counts: ProxyCounts,
    pub(super) log: Option<AccessLog>,
}

impl Registry {
    /// An exchange is over.
    pub(super) fn close(&self, story: &AccessEntry, bytes: u64, is_whole: bool) {
        self.counts.note_end(story.route.as_deref(), story.status, is_whole);
        if let Some(log) = &self.log {
            log.write(story, bytes, is_whole, self.clock.now().since(story.begun));
        }
    }
}

/// What hangs on a response's body.
#[derive(Debug)]
pub(super) struct Exit {
    pub(super) registry: Arc<Registry>,
    /// What it goes by, to its end.
    pub(super) _table: Arc<Table>,
    pub(super) story: AccessEntry,
    /// Of the response's wait.
    pub(super) ticket: Option<Ticket>,
    /// The connection that the body comes by.
    pub(super) lease: Option<Lease>,
    /// Of a body of the client's that goes on while it is sent.
    pub(super) upload: Option<Rc<Upload>>,
    pub(super) bytes: u64,
    pub(super) is_complete: bool,
}

impl Exit {
    /// The body was handed over to its end: its connection can be used again.
    pub(super) fn complete(mut self) {
        self.is_complete = true;
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
        if let Some(ticket) = self.ticket.take() {
            ticket.end(Ending::Answered);
        }
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.end(Ending::Failed(DropReason::Withdrawn));
        }
        if let Some(upload) = self.upload.take() {
            upload.is_answered();
        }
        self.registry.close(&self.story, self.bytes, self.is_complete);
    }
}
