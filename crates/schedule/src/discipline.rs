//! The order within one queue.

/// Which record of a queue goes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// The oldest.
    #[default]
    Fifo,
    /// The newest.
    Lifo,
    /// The newest of each key; older ones are dropped (`superseded`).
    NewestOnly,
}
