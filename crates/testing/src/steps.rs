//! One random operation on a node.
//!
//! Every four bytes are an operation, so that a fuzzer and a property test share the same steps and what
//! one of them finds can be given to the other.

/// One step. Small numbers are taken modulo what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOp {
    /// A connection begins, or begins again.
    Open(u8),
    /// A connection ends.
    Close(u8),
    /// A connection offers records: which key, how large, how many and of what kind.
    Offer {
        /// The connection.
        source: u8,
        /// The key; with `kind` it chooses how many and what body.
        key: u8,
        /// Payload bytes, in units of 8.
        size: u8,
    },
    /// The driver reports cuts of a path as handed to the wire.
    Send {
        /// The path.
        path: u8,
        /// How many.
        count: u8,
    },
    /// The path's bytes are acknowledged.
    Acknowledge {
        /// The path.
        path: u8,
        /// Milliseconds of round trip.
        rtt: u8,
    },
    /// The far end confirms some.
    Confirm {
        /// The first of them.
        place: u8,
        /// How many.
        count: u8,
    },
    /// The far end refuses one.
    Refuse {
        /// Which.
        place: u8,
        /// Whether for good.
        is_final: bool,
    },
    /// A path changes.
    Path {
        /// The path.
        path: u8,
        /// Its state.
        is_up: bool,
    },
    /// An output as a whole changes.
    Destination {
        /// The output.
        output: u8,
        /// Its state.
        is_up: bool,
    },
    /// The log has the next appends.
    Appended(u8),
    /// The log refuses the next append.
    AppendFailed,
    /// Work is done.
    Prepared {
        /// Which.
        place: u8,
        /// How it went.
        outcome: u8,
    },
    /// A queue is edited.
    Edit {
        /// The queue.
        queue: u8,
        /// The record.
        place: u8,
        /// What happens to it.
        kind: u8,
    },
    /// Something that names nothing.
    Nonsense {
        /// What kind of input.
        kind: u8,
        /// The name.
        name: u8,
    },
    /// Milliseconds pass.
    Advance(u8),
    /// A second passes, four of them at most.
    AdvanceSeconds(u8),
    /// The node stops; later offers are refused.
    Stop,
    /// Other rules.
    Rules(u8),
}

impl NodeOp {
    /// The operation that these bytes mean; every four bytes mean one.
    pub fn decode([kind, a, b, c]: [u8; 4]) -> NodeOp {
        match kind % 32 {
            0..=9 => NodeOp::Offer { source: a, key: b, size: c },
            10..=13 => NodeOp::Send { path: a, count: b },
            14..=15 => NodeOp::Acknowledge { path: a, rtt: b },
            16..=17 => NodeOp::Confirm { place: a, count: b },
            18 => NodeOp::Refuse { place: a, is_final: b % 2 == 0 },
            19..=20 => NodeOp::Path { path: a, is_up: b % 4 != 0 },
            21 => NodeOp::Destination { output: a, is_up: b % 2 == 0 },
            22 => NodeOp::Appended(a),
            23 if a % 4 == 0 => NodeOp::AppendFailed,
            23..=24 => NodeOp::Prepared { place: a, outcome: b },
            25 => NodeOp::Edit { queue: a, place: b, kind: c },
            26 => NodeOp::Nonsense { kind: a, name: b },
            27 if a % 2 == 0 => NodeOp::Close(b),
            27 => NodeOp::Open(b),
            28..=30 => NodeOp::Advance(a),
            31 if a % 16 == 0 => NodeOp::Stop,
            31 if a % 16 < 4 => NodeOp::Rules(b),
            _ => NodeOp::AdvanceSeconds(a),
        }
    }
}
