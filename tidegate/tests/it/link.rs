//! Links between nodes, over loopback: whole nodes in this process, and as processes that are killed.

pub(crate) mod far;
mod identity;
mod marks;
mod nodes;
mod processes;
mod vanish;

pub(crate) use crate::support::PATIENCE;
