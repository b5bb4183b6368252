//! Hot standby across machines: a node's log is copied to a neighbour as it grows, and when the node is
//! gone the neighbour sends what it still owed.
//!
//! `ship` is the owner's part and `keep` the keeper's; both talk by `talk`, in the words of
//! `tidegate_log::mirror`. What is kept stands on a `shelf`, where each log has its `seat`; `inherit` takes over
//! what it owes.

mod board;
mod inherit;
mod keep;
mod seat;
mod shelf;
mod ship;
mod talk;

/// What both speak who know letters, as TLS names it; those of the version before name nothing.
const PROTOCOL_LETTERS: &[u8] = b"tidegate-mirror/1+letters";

pub use self::board::{KeptFigures, MirrorBoard, MirrorFigures};
pub(crate) use self::keep::{KeeperOptions, run as keep};
pub(crate) use self::ship::Owner;
