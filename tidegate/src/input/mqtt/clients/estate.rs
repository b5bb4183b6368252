//! What an older connection of a client leaves to a newer one.

use tokio::sync::oneshot;

use crate::input::mqtt::session::Memory;
use crate::node::contract::Source;

/// A source and whether the node wants it to be read.
#[derive(Debug)]
pub(in crate::input::mqtt) struct Line {
    pub(in crate::input::mqtt) source: Source,
    pub(in crate::input::mqtt) paused: bool,
}

/// What an older connection leaves to a newer one.
#[derive(Debug)]
pub(in crate::input::mqtt) struct Estate {
    pub(in crate::input::mqtt) memory: Memory,
    /// Its source, where answers are still to come by it.
    pub(in crate::input::mqtt) line: Option<Line>,
}

/// Told to a connection that is taken over. Its end of life answers or drops the sender, which is what
/// the newer connection waits for: the older one's records go first.
#[derive(Debug)]
pub(in crate::input::mqtt) struct Takeover {
    /// The newer connection wants nothing of the older session.
    pub(in crate::input::mqtt) is_clean: bool,
    pub(in crate::input::mqtt) heir: oneshot::Sender<Estate>,
}

/// What is there of an older session.
#[derive(Debug)]
pub(in crate::input::mqtt) enum Heritage {
    Nothing,
    /// Kept while the client was away.
    Kept(Memory),
    /// An older connection ends now; an error of the receiver is nothing left.
    Awaited(oneshot::Receiver<Estate>),
}
