//! Everything that can go into a node and come out of it: the interface between core and a driver.
//!
//! A driver calls `Node::handle(now, input)`, then `Node::poll(now)` until it answers `None`, and wakes
//! the node again at `Node::next_timeout()`. Nothing else passes between the two, but for reading a
//! record that an output names (`Node::record`).

mod control;
mod event;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub use tidegate_capacity::PathSample;
pub use tidegate_log::{Append, Fetch};
use tidegate_log::{Fetched, SegmentId};
pub use tidegate_types::ids::{OutputId, QueueId, SessionId, UplinkId};
use tidegate_types::record::{
    DeliveryId, DropReason, FrameId, LogPosition, Offered, Properties, RefuseReason, SourceId,
    Token, WorkId,
};
use tidegate_types::units::{Rate, Size};

pub use self::control::Control;
pub use self::event::Event;
use crate::adapt::Otherwise;

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
    /// Work asked for by `Output::Prepare` is done.
    Prepared {
        /// Which work.
        work: WorkId,
        /// The payload, or why there is none.
        result: Result<Bytes, PrepareError>,
    },
    /// The path can take bytes again; sent once after it could not.
    Writable {
        /// Which path.
        path: PathId,
        /// How many bytes it takes at most before it must be asked again.
        bytes: Size,
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
    /// What a script did to a queue that it saw in `generation`.
    Edits {
        /// Which queue.
        queue: QueueId,
        /// The generation of the view; handles of records that left since are harmless.
        generation: u64,
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
    /// A packet of a link.
    LinkPacket {
        /// The path it came by.
        path: PathId,
        /// Its bytes.
        packet: Bytes,
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
    /// Make a waiting record ready; answer with `Input::Prepared`.
    Prepare {
        /// To be named in the answer.
        work: WorkId,
        /// The delivery that needs it.
        id: DeliveryId,
        /// What to do.
        task: PrepareTask,
    },
    /// Hand bytes of a record to the wire now; answer with `Input::Sent`.
    Transmit {
        /// Who gets it: one body, possibly many sessions.
        destinations: Targets,
        /// By which way.
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
    /// Run the adaptation script on this queue.
    RunScript {
        /// Which queue.
        queue: QueueId,
        /// Why.
        trigger: Trigger,
    },
    /// Something happened that people or metrics should know.
    Report(Event),
}

/// Who gets a transmission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// One destination.
    One(Destination),
    /// Many sessions that share one body.
    Many(Arc<[Destination]>),
}

/// State of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// It takes bytes.
    Up,
    /// It does not; what was unconfirmed on it is sent again.
    Down,
}

/// Why work failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareError {
    /// The log's record cannot be read.
    Unreadable,
    /// The frame cannot be encoded.
    Undecodable,
    /// The endpoint did not answer; the original goes.
    TimedOut,
}

/// What a destination means by refusing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not now: send it again.
    Retry,
    /// Never: the record's fate is `Dropped` with this reason.
    Final(DropReason),
}

/// Work on a waiting record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareTask {
    /// Read it back from the log.
    Load(LogPosition),
    /// Encode a frame to a rung of its ladder.
    Encode {
        /// Which frame.
        frame: FrameId,
        /// Which rung, 0 the best.
        rung: u8,
    },
    /// Send it through an endpoint of the configuration.
    Transform {
        /// Which endpoint.
        endpoint: u16,
    },
    /// Run the stream's operator.
    Operate,
}

/// One change of a waiting queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Give a record up.
    Drop(DeliveryId),
    /// Send it next.
    MoveFront(DeliveryId),
    /// Send it last.
    MoveBack(DeliveryId),
    /// Send it elsewhere. Where a delivery of its own goes there already, it is dropped.
    Redirect(DeliveryId, Destination),
    /// Send this in its place, under its identity.
    Replace(DeliveryId, Content),
    /// Send this as a record of its own, by the same way, after the given one.
    Insert(DeliveryId, Content),
    /// Do this with it where an edit that follows cannot be done, or no endpoint answers.
    Guard(DeliveryId, Otherwise),
    /// Its script has failed on it: do this.
    Fail(DeliveryId, Otherwise),
    /// Have an endpoint transform its payload.
    Transform {
        /// Which record.
        id: DeliveryId,
        /// Which endpoint of the configuration.
        endpoint: u16,
        /// Whether nothing of its queue may pass it meanwhile.
        ordered: bool,
    },
}

impl Edit {
    /// The record that it is about.
    pub fn delivery(&self) -> DeliveryId {
        match self {
            Edit::Drop(id)
            | Edit::MoveFront(id)
            | Edit::MoveBack(id)
            | Edit::Redirect(id, _)
            | Edit::Replace(id, _)
            | Edit::Guard(id, _)
            | Edit::Fail(id, _)
            | Edit::Insert(id, _)
            | Edit::Transform { id, .. } => *id,
        }
    }
}

/// What a script changes of a record; the rest stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Key (for MQTT the topic), UTF-8.
    pub key: Option<Bytes>,
    /// What travels beside the payload.
    pub properties: Option<Properties>,
    /// The payload.
    pub payload: Option<Bytes>,
}

/// Why a script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// This record came. It waits for the script: the driver answers with `Input::Edits` before it polls
    /// again, or the record goes as it is.
    Arrival(DeliveryId),
    /// Its timer fired.
    Timer,
    /// A metric it watches changed.
    Metric,
}
