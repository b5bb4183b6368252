//! Records of a unit that operators work on: a unit moves to another node when there are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_cluster::handover::UnitId;
use tokio::sync::mpsc;

/// How much of a unit is worked on by operators.
#[derive(Debug)]
pub struct Gate {
    unit: UnitId,
    open: AtomicUsize,
    idle: mpsc::UnboundedSender<UnitId>,
}

impl Gate {
    /// Of a unit; `idle` hears of it whenever nothing of it is worked on any more.
    pub fn new(unit: UnitId, idle: mpsc::UnboundedSender<UnitId>) -> Arc<Gate> {
        Arc::new(Gate { unit, open: AtomicUsize::new(0), idle })
    }

    /// Looks whether it is idle, soon.
    pub(crate) fn tell(&self) {
        let _ = self.idle.send(self.unit);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0
    }
}

/// A record of a unit that an operator has to work on.
#[derive(Debug)]
pub struct Busy(Arc<Gate>);

impl Busy {
    /// One more record of this unit.
    pub fn new(gate: &Arc<Gate>) -> Busy {
        gate.open.fetch_add(1, Ordering::SeqCst);
        Busy(gate.clone())
    }

    /// Of which unit it is.
    pub fn unit(&self) -> UnitId {
        self.0.unit
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            // An error means that the task is gone, and with it whoever waits.
            let _ = self.0.idle.send(self.0.unit);
        }
    }
}
