//! A frame on its way from the shelf to those who asked for it.

use std::sync::Arc;

use tidegate_types::units::Time;

use super::slot::Slot;
use super::wire::FrameMessage;

/// A whole frame, and for whom.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(super) frame: FrameMessage,
    pub(super) slots: Vec<Arc<Slot>>,
    pub(super) is_replay: bool,
    /// When its bound is over, if it is nothing any more then.
    pub(super) until: Option<Time>,
}

impl Delivery {
    /// Puts the frame where it belongs; waits only for who replays.
    pub(crate) async fn hand_over(self) {
        for slot in self.slots {
            match self.is_replay {
                true => slot.put_all(self.frame.clone()).await,
                false => slot.put(self.frame.clone(), self.until),
            }
        }
    }

    /// Whether `hand_over` may wait.
    pub(crate) fn may_wait(&self) -> bool {
        self.is_replay
    }
}
