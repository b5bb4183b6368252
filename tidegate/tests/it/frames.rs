//! Cameras end to end: from who publishes, by nodes that are processes, to who subscribes.

pub(crate) mod client;
mod edge;
mod hostile;
mod local;
mod sources;

pub(crate) use crate::support::PATIENCE;
