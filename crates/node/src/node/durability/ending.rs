//! How a delivery ended, as the log hears of it.

use std::sync::Arc;

use tidegate_log::Deed;
use tidegate_types::record::{DropReason, Fate};

/// How a delivery ended.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) fate: Fate,
    /// The neighbour that carried it, if one did.
    pub(crate) by: Option<Arc<str>>,
    /// What acted on it before.
    pub(crate) deeds: Vec<Deed>,
}

impl Ending {
    /// Without anybody's doing.
    pub(super) fn dropped(reason: DropReason) -> Ending {
        Ending { fate: Fate::Dropped(reason), by: None, deeds: Vec::new() }
    }
}
