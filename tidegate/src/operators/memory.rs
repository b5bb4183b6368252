//! What the keys of operators remember, and how it moves with the topics that it belongs to (docs/MOVES.md).
//!
//! A key's memory belongs to a unit of a group where it saw records of that unit only. [`save`] writes what belongs to
//! a unit and leaves it where it is, [`forget`] drops it when another node has it, and [`restore`] puts it where the
//! next record of its key finds it. Only then, by a thread of the pool, its bytes are read.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tidegate_cluster::handover::UnitId;
use tidegate_stream::memory::bundle::{BUNDLE_MAX, KeyState, pack, unpack};
use tidegate_stream::{ChainInstance, MemoryError, PartitionKey};
use tidegate_types::units::Time;

use super::Operator;

/// What one key remembers.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// `None` before the first record.
    work: Option<ChainInstance>,
    came: Option<Came>,
    /// Of what it saw records: of units, or of none.
    of: BTreeSet<Option<UnitId>>,
}

/// What came from another node, and nobody has read yet.
#[derive(Debug)]
struct Came {
    bytes: Bytes,
    at: Time,
    /// Whether it was said that some of it is of no use: once for all that came together.
    is_told: Arc<AtomicBool>,
}

impl Memory {
    /// It sees a record of this unit, or of none.
    pub(super) fn sees(&mut self, unit: Option<UnitId>) {
        self.of.insert(unit);
    }

    /// Whether it saw records of a unit.
    pub(super) fn saw(&self, unit: UnitId) -> bool {
        self.of.contains(&Some(unit))
    }

    /// What works on the key.
    pub(super) fn work(&mut self, operator: &Operator) -> &mut ChainInstance {
        let came = self.came.take();
        self.work.get_or_insert_with(|| {
            let Some(Came { bytes, at, is_told }) = came else { return operator.chain.start() };
            operator.chain.load(at, &bytes).unwrap_or_else(|error| {
                if !is_told.swap(true, Ordering::Relaxed) {
                    let name = operator.name();
                    tracing::warn!(operator = %name, "what it remembered elsewhere is refused, it begins anew: {error}");
                }
                operator.engine.hub().group().inspect(|group| group.memory().refused(1));
                operator.chain.start()
            })
        })
    }
}

/// What was saved of a unit.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    /// All that goes along; `None` where nothing is remembered.
    pub(crate) bytes: Option<Bytes>,
    /// Keys whose memory that is.
    pub(crate) sent: u64,
    /// Keys that begin anew: for want of room, because they saw records of others as well, or because a script did not
    /// save.
    pub(crate) left: u64,
}

/// Writes what operators remember of a unit's topics. It stays where it is. Takes a time that depends on how much it is.
pub(crate) fn save(operators: &[Arc<Operator>], unit: UnitId) -> Saved {
    let mut saved = Saved::default();
    let (mut all, mut room) = (Vec::new(), BUNDLE_MAX - 1);
    let lanes = operators.first().map(|first| first.engine.lanes_of(unit)).unwrap_or_default();
    // What was used last matters most, where there is no room for all.
    for (lane, id, key) in lanes.into_iter().rev() {
        let Some(operator) = operators.iter().find(|operator| operator.id == id) else { continue };
        let written = operator.engine.with_memory(lane, |memory| written(memory, operator));
        match written {
            None | Some(Ok((None, _))) => {}
            Some(Ok((Some(memory), true))) => {
                let (definition, operator) = (operator.definition, operator.name().into());
                let kept = KeyState { operator, definition, key, memory };
                if kept.size() <= room {
                    room -= kept.size();
                    all.push(kept);
                } else {
                    saved.left += 1;
                }
            }
            Some(Ok((Some(_), false))) => saved.left += 1,
            Some(Err(error)) => {
                let name = operator.name();
                tracing::warn!(operator = %name, "what it remembers cannot be saved: {error}");
                saved.left += 1;
            }
        }
    }
    // As it was: the one that was idle for longest first.
    all.reverse();
    saved.sent = all.len() as u64;
    saved.bytes = (!all.is_empty()).then(|| pack(&all));
    saved
}

/// Bytes of a memory, and whether all of it belongs to one unit. The memory is taken away where its step panics.
type Written = Result<(Option<Bytes>, bool), MemoryError>;

fn written(memory: &mut Option<Memory>, operator: &Operator) -> Option<Written> {
    let mut its = memory.take()?;
    let now = operator.engine.now();
    let written = catch_unwind(AssertUnwindSafe(|| {
        let bytes = its.work(operator).save(now, BUNDLE_MAX);
        (bytes, its)
    }));
    let Ok((bytes, its)) = written else {
        return Some(Err(MemoryError::Step("the step panicked".into())));
    };
    let is_whole = its.of.len() == 1;
    *memory = Some(its);
    Some(bytes.map(|bytes| (bytes, is_whole)))
}

/// Drops what is remembered of a unit: another node has it.
pub(crate) fn forget(operators: &[Arc<Operator>], unit: UnitId) {
    let Some(engine) = operators.first().map(|first| &first.engine) else { return };
    for (lane, ..) in engine.lanes_of(unit) {
        engine.with_memory(lane, |memory| {
            let its = memory.as_mut()?;
            its.of.remove(&Some(unit));
            if its.of.is_empty() {
                *memory = None;
            }
            Some(())
        });
    }
}

/// What became of what another node saved.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Restored {
    /// Keys that go on with it.
    pub(crate) taken: u64,
    /// Keys that do not: of which operator, why, and how many.
    pub(crate) refused: BTreeMap<(Arc<str>, String), u64>,
}

impl Restored {
    fn refuse(&mut self, operator: &Arc<str>, why: impl Into<String>) {
        *self.refused.entry((operator.clone(), why.into())).or_default() += 1;
    }
}

/// Goes on with what another node has saved of a unit; `is_its` says whether a topic is of the unit. What is remembered
/// of the unit here is dropped.
pub(crate) fn restore(
    operators: &[Arc<Operator>],
    unit: UnitId,
    bytes: &Bytes,
    is_its: impl Fn(&Bytes) -> bool,
) -> Restored {
    forget(operators, unit);
    let mut restored = Restored::default();
    let all = match unpack(bytes) {
        Ok(all) => all,
        Err(error) => {
            restored.refuse(&"".into(), error.to_string());
            return restored;
        }
    };
    let is_told = Arc::<AtomicBool>::default();
    for KeyState { operator: name, definition, key, memory } in all {
        let Some(operator) = operators.iter().find(|operator| operator.name() == &*name) else {
            restored.refuse(&name, "there is no such operator here");
            continue;
        };
        let at = operator.engine.now();
        let came = Came { bytes: memory, at, is_told: is_told.clone() };
        let memory = Memory { work: None, came: Some(came), of: [Some(unit)].into() };
        if operator.definition != definition {
            restored.refuse(&name, "the operator of this name is another one here");
        } else if operator.key == PartitionKey::Topic && !is_its(&key) {
            restored.refuse(&name, "it is of other topics");
        } else if !operator.engine.restore(operator.id, key, memory) {
            restored.refuse(&name, "the key remembers records of other topics here");
        } else {
            restored.taken += 1;
        }
    }
    restored
}
