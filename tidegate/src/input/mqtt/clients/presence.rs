//! How many clients each user has here, by listener and in all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_log::SessionOwner;
use tidegate_types::shares::{self, Shares};

use super::Clients;
use crate::support::access::Quota;

/// Who comes for a client id.
#[derive(Clone, Debug)]
pub(in crate::input::mqtt) struct Caller {
    pub(in crate::input::mqtt) owner: SessionOwner,
    /// Among whose connections and sessions it counts: the user, or the address where nobody says who he is.
    pub(in crate::input::mqtt) payer: Arc<str>,
    pub(in crate::input::mqtt) quota: Quota,
    /// By which listener it comes.
    pub(in crate::input::mqtt) door: u64,
}

/// The clients of a listener.
#[derive(Debug, Default)]
struct Door {
    bound: u64,
    all: u64,
    shares: Shares<Arc<str>>,
}

/// The clients that are connected.
#[derive(Debug, Default)]
pub(super) struct Presence {
    doors: BTreeMap<u64, Door>,
    all: Shares<Arc<str>>,
}

impl Presence {
    /// A listener with a number, and how many clients it has at most.
    pub(super) fn open(&mut self, door: u64, bound: u64) {
        self.doors.insert(door, Door { bound, ..Door::default() });
    }

    /// It is no more.
    pub(super) fn close(&mut self, door: u64) {
        self.doors.remove(&door);
    }

    /// It has so many at most from now on.
    pub(super) fn resize(&mut self, door: u64, bound: u64) {
        if let Some(door) = self.doors.get_mut(&door) {
            door.bound = bound;
        }
    }

    /// Whether one client more is within the share of who pays, and within his quota.
    pub(super) fn admits(&self, payer: &Arc<str>, door: u64, most: Option<u32>) -> bool {
        let is_of_share =
            |door: &Door| door.shares.of(payer) < shares::limit(door.all, door.bound, None);
        let most = most.map_or(u64::MAX, u64::from);
        self.doors.get(&door).is_none_or(is_of_share) && self.all.of(payer) < most
    }

    /// A client comes.
    pub(super) fn enter(&mut self, payer: &Arc<str>, door: u64) {
        self.all.add(payer, 1);
        if let Some(door) = self.doors.get_mut(&door) {
            door.all += 1;
            door.shares.add(payer, 1);
        }
    }

    /// A client goes.
    pub(super) fn leave(&mut self, payer: &Arc<str>, door: u64) {
        self.all.subtract(payer, 1);
        if let Some(door) = self.doors.get_mut(&door) {
            door.all -= 1;
            door.shares.subtract(payer, 1);
        }
    }

    /// How many clients a listener has.
    #[cfg(test)]
    pub(super) fn at(&self, door: u64) -> Option<u64> {
        self.doors.get(&door).map(|door| door.all)
    }
}

impl Clients {
    /// A number for a listener that takes so many connections.
    pub(in crate::input::mqtt) fn door(&self, connections_max: usize) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.lock().presence.open(number, connections_max as u64);
        number
    }

    /// A listener is no more, and its clients are gone.
    pub(in crate::input::mqtt) fn close_door(&self, door: u64) {
        self.lock().presence.close(door);
    }

    /// A listener takes so many clients from now on.
    pub(in crate::input::mqtt) fn resize_door(&self, door: u64, connections_max: usize) {
        self.lock().presence.resize(door, connections_max as u64);
    }
}
