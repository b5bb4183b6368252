//! What operators remember of units: saved when a unit goes, restored when one comes.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_cluster::handover::{GroupMessage, UnitId};
use tidegate_stream::memory::bundle::unpack;
use tokio::sync::mpsc;

use super::Handle;
use crate::broker::Hub;
use crate::operators::memory::{Saved, forget, restore, save};

/// Keys of operators whose memory was to move.
#[derive(Debug, Default)]
pub(crate) struct MemoryCounts {
    sent: AtomicU64,
    left: AtomicU64,
    taken: AtomicU64,
    refused: AtomicU64,
}

impl MemoryCounts {
    /// So many came, and begin anew.
    pub(crate) fn refused(&self, count: u64) {
        self.refused.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn view(&self) -> MemoryView {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        MemoryView {
            sent: of(&self.sent),
            left: of(&self.left),
            taken: of(&self.taken),
            refused: of(&self.refused),
        }
    }
}

/// Keys of operators whose memory was to move with its topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryView {
    /// Went along.
    pub sent: u64,
    /// Did not.
    pub left: u64,
    /// Came, and goes on here.
    pub taken: u64,
    /// Came, and is of no use here.
    pub refused: u64,
}

/// What was saved of a unit, for a question.
pub(super) type Answer = (UnitId, u64, Option<Bytes>);

/// See the file's header.
pub(super) struct Memory {
    hub: Hub,
    /// Names of units.
    units: Vec<String>,
    answers: mpsc::UnboundedSender<Answer>,
    /// How often a unit began with what another owner has saved.
    begun: u64,
}

impl Memory {
    pub(super) fn new(
        hub: Hub,
        units: Vec<String>,
        answers: mpsc::UnboundedSender<Answer>,
    ) -> Self {
        Memory { hub, units, answers, begun: 0 }
    }

    fn name(&self, unit: UnitId) -> &str {
        self.units.get(unit.0 as usize).map_or("", String::as_str)
    }

    /// Saves what is remembered of a unit of which nothing is worked on, beside the group's task.
    pub(super) fn save(&self, handle: &Handle, unit: UnitId, attempt: u64) {
        let (operators, answers) = (self.hub.operators(), self.answers.clone());
        let (handle, name) = (handle.clone(), self.name(unit).to_owned());
        tokio::task::spawn_blocking(move || {
            let Saved { bytes, sent, left } = save(&operators, unit);
            let counts = handle.memory();
            counts.sent.fetch_add(sent, Ordering::Relaxed);
            counts.left.fetch_add(left, Ordering::Relaxed);
            if left > 0 {
                tracing::warn!(unit = %name, keys = left, "what operators remember of these keys does not go along");
            }
            // An error means that the group is gone.
            let _ = answers.send((unit, attempt, bytes));
        });
    }

    /// Another one owns a unit that was ours: what is here is stale. Until that one has it, the state of the group has
    /// what was saved.
    pub(super) fn is_gone(&self, unit: UnitId) {
        forget(&self.hub.operators(), unit);
    }

    /// A unit is ours, with what its last owner has saved. Where that is nothing, what is here goes on.
    pub(super) fn begins(&mut self, handle: &Handle, unit: UnitId, state: Option<&Bytes>) {
        let Some(state) = state else { return };
        self.begun += 1;
        let is_its = |topic: &Bytes| handle.unit_of(topic) == Some(unit);
        let restored = restore(&self.hub.operators(), unit, state, is_its);
        let counts = handle.memory();
        counts.taken.fetch_add(restored.taken, Ordering::Relaxed);
        for ((operator, why), keys) in restored.refused {
            counts.refused(keys);
            let name = self.name(unit);
            tracing::warn!(unit = %name, %operator, keys, "what it remembered elsewhere is refused, it begins anew: {why}");
        }
    }

    /// Looks whether what comes with a unit is used; to be asked again after it was heard.
    pub(super) fn brings(&self, message: &GroupMessage<Bytes>) -> Option<(u64, Bytes)> {
        let GroupMessage::Take(_, Some(state)) = message else { return None };
        Some((self.begun, state.clone()))
    }

    /// What came with a unit was heard. Where the unit had begun before, it came too late.
    pub(super) fn heard(&self, handle: &Handle, unit: UnitId, (begun, state): (u64, Bytes)) {
        if self.begun == begun {
            let keys = unpack(&state).map_or(1, |all| all.len() as u64);
            handle.memory().refused(keys);
            let name = self.name(unit);
            tracing::warn!(unit = %name, keys, "what operators remembered elsewhere comes too late: they began anew");
        }
    }
}
