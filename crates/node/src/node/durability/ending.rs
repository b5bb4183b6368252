//! How a delivery ended, as the log hears of it.

use std::sync::Arc;

use tidegate_log::Deed;
use tidegate_types::record::{DropReason, Fate};

/// How a delivery ended.
#[derive(Clone, Debug)]
pub(in crate::node) struct Ending {
    pub(in crate::node) fate: Fate,
    /// The neighbour that carried it, if one did.
    pub(in crate::node) by: Option<Arc<str>>,
    /// What acted on it before.
    pub(in crate::node) deeds: Vec<Deed>,
}

impl Ending {
    /// Without anybody's doing.
    pub(super) fn dropped(reason: DropReason) -> Ending {
        Ending { fate: Fate::Dropped(reason), by: None, deeds: Vec::new() }
    }
}
