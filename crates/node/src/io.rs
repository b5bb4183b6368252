//! Everything that can go into a node and come out of it: the interface between a node and a driver.
//!
//! A driver calls `Node::handle(now, input)`, then `Node::poll(now)` until it answers `None`, and wakes
//! the node again at `Node::next_timeout()`. Nothing else passes between the two, but for reading a
//! record that an output names (`Node::record`).

mod control;
mod edit;
mod event;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub use tidegate_capacity::{PathSample, TcpState};
pub use tidegate_log::{Append, Fetch};
use tidegate_log::{Fetched, SegmentId};
pub use tidegate_types::ids::{OutputId, QueueId, SessionId, UplinkId};
use tidegate_types::record::{
    DeliveryId, DropReason, Offered, RefuseReason, SourceId, Token, WorkId,
};
use tidegate_types::units::{Rate, Size};

pub use self::control::Control;
pub use self::edit::{Content, Edit, Otherwise};
pub use self::event::Event;

/// Where a record goes. A neighbour is reached by one of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// One of the node's outputs.
    Output(OutputId),
    /// A local subscriber.
    Session(SessionId),
}

/// One way of a destination: a connection, or an interface of a link. For an output with several
/// connections the lane is the urgency group, so that an urgent record overtakes a large one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId {
    /// The output that it belongs to.
    pub output: OutputId,
    /// Which of the output's connections, from 0.
    pub lane: u8,
}

/// What a driver tells the node.
#[derive(Clone, Debug)]
pub enum Input {
    /// Records that inputs have read, in the order of reading.
    Arrived(Vec<Offered>),
    /// The log holds every append up to and including this number, but for those that failed.
    Appended {
        /// Number of the last durable append, as given by `Output::Append`.
        upto: u64,
    },
    /// The log cannot hold these; their senders are refused. It takes nothing more until a checkpoint
    /// comes: what comes before that fails as well.
    AppendFailed {
        /// Numbers of the failed appends.
        appends: Vec<u64>,
        /// Why, for the sender.
        reason: RefuseReason,
    },
    /// The answer to `Output::Fetch`. A segment that is gone answers that it is at its end.
    Fetched(Fetched),
    /// The answer to `Output::Transform`.
    Transformed {
        /// Which work.
        work: WorkId,
        /// What the endpoint made of the payload; `None` where it did not answer, and the original goes.
        payload: Option<Bytes>,
    },
    /// The bytes of one `Output::Transmit` are handed to the wire.
    Sent {
        /// The delivery they belong to.
        id: DeliveryId,
        /// Bytes on the wire, framing included.
        bytes: Size,
    },
    /// The destination has these, as whole records.
    Confirmed {
        /// Who confirms.
        destination: Destination,
        /// Which deliveries.
        ids: Vec<DeliveryId>,
    },
    /// The destination has these, and they went by these paths of a link.
    Carried {
        /// Who has them.
        destination: Destination,
        /// Which deliveries.
        ids: Vec<DeliveryId>,
        /// Names of the paths.
        by: Arc<str>,
    },
    /// The destination will not take these.
    Refused {
        /// Who refuses.
        destination: Destination,
        /// Which deliveries.
        ids: Vec<DeliveryId>,
        /// What to do with them.
        reason: Refusal,
    },
    /// Byte-level feedback from below: `TCP_INFO`, or acknowledged packets of a link.
    PathSample {
        /// Which path.
        path: PathId,
        /// The figures.
        sample: PathSample,
    },
    /// What is below an output has found its own capacity: a link, over all its paths.
    Capacity {
        /// Which output.
        output: OutputId,
        /// Bytes/s that it carries.
        rate: Rate,
    },
    /// What is below an output takes only so many records unconfirmed: fewer than the options allow, where it says so.
    Window {
        /// Which output.
        output: OutputId,
        /// Records.
        records: usize,
    },
    /// A path came up or went down.
    PathState {
        /// Which path.
        path: PathId,
        /// Its state from now on.
        state: PathState,
    },
    /// A whole destination came up or went down.
    DestinationState {
        /// Which one.
        destination: Destination,
        /// Whether it takes records.
        up: bool,
    },
    /// What a script did to a queue. Handles of records that left it since are harmless.
    Edits {
        /// Which queue.
        queue: QueueId,
        /// In order.
        operations: Vec<Edit>,
    },
    /// From people, other nodes and the orchestrator.
    Control(Control),
    /// Wall time, for expiry across restarts and for time queries; never for scheduling.
    Wall {
        /// Nanoseconds since the Unix epoch.
        unix_ns: u64,
        /// Half-width of the interval that surely holds the true time.
        uncertainty: Duration,
    },
}

/// What a node tells its driver.
#[derive(Clone, Debug)]
pub enum Output {
    /// Append these to the log; answer with `Input::Appended` after the commit.
    Append(Vec<Append>),
    /// The log may delete these segments: nothing of them is needed any more.
    Release(Vec<SegmentId>),
    /// Read records back; answer with `Input::Fetched`. There is one at a time.
    Fetch(Fetch),
    /// The answer to an offer that carried a token.
    Accept {
        /// The connection that waits.
        source: SourceId,
        /// The offer.
        token: Token,
        /// Accepted, or why not.
        result: Result<(), RefuseReason>,
    },
    /// What the log knows of the session of this connection's client cannot mislead any more: only now may
    /// the client hear that it is let in.
    SessionReady(SourceId),
    /// The client of this connection may use these packet identifiers again.
    Released(SourceId, Vec<u16>),
    /// Stop reading this connection.
    PauseInput(SourceId),
    /// Read this connection again.
    ResumeInput(SourceId),
    /// Send a waiting record's payload through an endpoint of the configuration; answer with
    /// `Input::Transformed`.
    Transform {
        /// To be named in the answer.
        work: WorkId,
        /// The delivery whose content is to be transformed.
        id: DeliveryId,
        /// Which endpoint.
        endpoint: u16,
    },
    /// Hand bytes of a record to the wire now; answer with `Input::Sent`.
    Transmit {
        /// By which connection of which output.
        path: PathId,
        /// The delivery; `Node::record` has its content.
        id: DeliveryId,
        /// Which part of the record's size (as `Node::size_of` counts it). The driver scales it to its
        /// own encoding; a range that ends at the size means: all that is left.
        range: Range<u64>,
        /// Whether an earlier attempt may have arrived.
        again: bool,
    },
    /// Give up what was not yet written of this delivery.
    Cancel(DeliveryId),
    /// Run the adaptation script of a queue on a record that came. The record waits for it: the driver answers
    /// with `Input::Edits` before it polls again, or the record goes as it is.
    RunScript {
        /// Which queue.
        queue: QueueId,
        /// Which record.
        delivery: DeliveryId,
    },
    /// Something happened that people or metrics should know.
    Report(Event),
}

/// State of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// It takes bytes.
    Up,
    /// It does not; what was unconfirmed on it is sent again.
    Down,
}

/// What a destination means by refusing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not now: send it again.
    Retry,
    /// Never: the record's fate is `Dropped` with this reason.
    Final(DropReason),
}
