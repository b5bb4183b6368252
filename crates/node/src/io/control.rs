//! What people, other nodes, connections and the orchestrator order.

use std::sync::Arc;
use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_log::SessionPosition;
use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;
use tidegate_types::record::{DeliveryId, Owner, Quota, SourceId};
use tidegate_types::units::{Rate, Size};

use super::{OutputId, QueueId, UplinkId};
use crate::options::{OutputOptions, UplinkOptions};
use crate::rules::{RuleId, Rules};

/// Orders from people, other nodes and the orchestrator.
#[derive(Clone, Debug)]
pub enum Control {
    /// A connection of an input begins. The name (client id, file, camera) is what its streams are
    /// called by: a client that comes back continues its streams.
    Open {
        /// The driver's number for it.
        source: SourceId,
        /// Its name.
        name: Arc<str>,
        /// Set where all that comes by it is a neighbour's: the class that it has there.
        relays: Option<ClassId>,
    },
    /// All that comes by a connection is of one rule, whatever its key: its input has found the rule by
    /// something else.
    Bind {
        /// The connection, which is open and has offered nothing yet.
        source: SourceId,
        /// The rule.
        rule: RuleId,
    },
    /// All that comes by a connection is on somebody's account from now on. Without this it is on nobody's.
    Charge {
        /// The connection, which is open.
        source: SourceId,
        /// Who pays.
        owner: Owner,
        /// What he may have.
        quota: Quota,
    },
    /// A connection of an input ended.
    Close(SourceId),
    /// The sender of a record is gone and nobody waits for what becomes of it: it is dropped
    /// (`withdrawn`), unless some of it is under way.
    Withdraw(DeliveryId),
    /// A connection speaks for the client of its name, whose session outlives it. QoS 2 publishes that come
    /// by it are known again after a crash. The answer is `Output::SessionReady`.
    Session {
        /// The connection.
        source: SourceId,
        /// How long the session lasts once its client is away; zero: it ends with the connection.
        lasts: Duration,
        /// Whether nothing of an earlier session counts.
        is_new: bool,
    },
    /// The session of a client that is away is over.
    SessionOver(Arc<str>),
    /// A client has released QoS 2 packet identifiers; the answer is `Output::Released`.
    Release {
        /// Its connection.
        source: SourceId,
        /// Which ones.
        packets: Vec<u16>,
    },
    /// A reader has got so far in a stream: `Node::position` knows it after a crash, if the log had time to
    /// take it (`limits::FATES_DELAY`).
    Position(SessionPosition),
    /// Accept nothing more; `Event::Drained` comes when nothing is held.
    Stop,
    /// Give up what is still held (reason `stopped`): the end of a stop without a log.
    Discard,
    /// What a neighbour's uplink carries of a class from now on, in place of what it did: nothing, where
    /// the amount is zero.
    Grant {
        /// The output by which the neighbour is reached.
        peer: OutputId,
        /// For which class.
        class: ClassId,
        /// How much.
        amount: Amount,
        /// For how long from now.
        lease: Duration,
    },
    /// What of our own uplink is reserved for neighbours' records of a class, or of a more urgent one, from now on, in
    /// place of what was: nothing, where the amount is zero.
    Reserve {
        /// For which class.
        class: ClassId,
        /// How much.
        amount: Amount,
        /// For how long from now.
        lease: Duration,
    },
    /// Who is reached by an output from now on: the log says it of what goes that way.
    Neighbour {
        /// The output.
        peer: OutputId,
        /// The neighbour's name.
        name: Arc<str>,
    },
    /// A queue is held to a rate of its own from now on (zero: nothing of it goes), or no more.
    Pace {
        /// The queue; one that is gone is not touched.
        queue: QueueId,
        /// Bytes/s.
        rate: Option<Rate>,
    },
    /// Scripts have changed: they look at what was withheld for them.
    Reconsider,
    /// New rules; the stored backlog is re-classed.
    Rules(Arc<Rules>),
    /// Other bounds. What is held already stays, though it is more.
    Limits {
        /// Bytes of all records in memory.
        memory: Size,
        /// Bytes of one record.
        record_max: Size,
    },
    /// Other outputs, and the uplinks that they are on. Those that are known keep their places, and new ones come behind
    /// them. What waits for one that is there no more goes where a script took it from, or is dropped (`unroutable`).
    Outputs(Box<(Vec<OutputOptions>, Vec<UplinkOptions>)>),
    /// Another rate or law of an uplink. What is under way goes on.
    Govern {
        /// Which uplink.
        uplink: UplinkId,
        /// How its capacity is found.
        controller: RateControllerName,
        /// Never more than this.
        cap: Option<Rate>,
    },
}
