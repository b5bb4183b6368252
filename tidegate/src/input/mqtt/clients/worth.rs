//! Which session makes room where there are too many of one user or of one address (docs/decisions/0096).

use std::cmp::Reverse;
use std::time::Instant;

use crate::input::mqtt::session::Memory;

/// How a session came to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Age {
    /// The number of the connection that began it.
    pub(super) begun: u64,
    /// A later connection went on with it.
    pub(super) is_resumed: bool,
}

/// What a session is worth beside others of the same payer: those that hold nothing make room first, then those that
/// were never resumed, of both the youngest; and last, of those that were, the one that ends next. So nobody can drive
/// out a session that is in use by beginning others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    Empty(Reverse<u64>),
    New(Reverse<u64>),
    Resumed(Instant, u64),
}

impl Worth {
    /// That of a session which is kept until then.
    pub(super) fn of(age: Age, memory: &Memory, until: Instant) -> Worth {
        match age {
            Age { begun, .. } if memory.holds_nothing() => Worth::Empty(Reverse(begun)),
            Age { begun, is_resumed: false } => Worth::New(Reverse(begun)),
            Age { begun, is_resumed: true } => Worth::Resumed(until, begun),
        }
    }
}
