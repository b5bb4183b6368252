//! Topics that move between the nodes of a group while they are published and subscribed to.
//!
//! A *unit* is some topics that move together: those that an operator reads and those that it writes. Each unit
//! has one owner, who works on its records; every member of the group takes publishes for it and serves subscribers.
//! [`Group`] is one member. What it relies on: messages from one member to another come in order and once, as long as
//! neither of both loses its memory; where one did, the other hears [`GroupInput::Restarted`] before anything else of it.
//!
//! What it promises is in the tests, which simulate whole groups: a record that was accepted is with an owner; it is
//! there once, and each member shows it once, and in the order in which its publisher's node took it, as long as no member
//! dies. How:
//!
//! * An owner that gives a unit away refuses new records, ends what it has, then hands over (`Take`). Every epoch has
//!   one owner, and the higher epoch counts.
//! * `forward`: a member has records of a unit under way to one owner at a time. What was refused goes to the next
//!   owner, in order, when all of it was answered.
//! * `merge`: a member shows what an owner makes of an epoch when the epochs before it have ended.

mod error;
mod forward;
mod group;
pub mod histogram;
pub mod loads;
mod merge;
pub mod wire;

use std::time::Duration;

use tidegate_types::record::RefuseReason;
use tidegate_types::units::{Size, Time};

pub use self::group::Group;

/// A member of a group, by its place among the names of all members in alphabetical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u16);

/// A unit, by its place in the configuration of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

/// Who owns a unit: the greater one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitOwner {
    /// Grows by one with each move.
    pub epoch: u64,
    /// The owner.
    pub member: Member,
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoverOptions {
    /// Bytes of one unit's records that may wait here for its owner's answer.
    pub held: Size,
    /// How long an owner may take to end what it has; then it stays the owner.
    pub ending: Duration,
    /// How long a member that starts waits to hear from the others what it owns.
    pub start: Duration,
    /// How long a new owner waits for what the old one remembers, and others for the end of the old one's results.
    pub handing: Duration,
}

impl Default for HandoverOptions {
    /// 8 MiB, 2 s, 3 s, 2 s.
    fn default() -> Self {
        HandoverOptions {
            held: Size::from_mib(8),
            ending: Duration::from_secs(2),
            start: Duration::from_secs(3),
            handing: Duration::from_secs(2),
        }
    }
}

/// The answer to a record that was published.
pub type PublishReply = Result<(), RefuseReason>;

/// What members tell each other of a unit; records and results are `T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupMessage<T> {
    /// A record for the owner.
    Forward {
        /// Which time its sender begins anew.
        round: u64,
        /// Its number at its sender.
        seq: u64,
        /// The record.
        content: T,
    },
    /// The owner has taken the record with this number, or will never take it.
    Answered(u64, PublishReply),
    /// The record with this number is not taken here, or not now.
    Refused {
        /// Its number.
        seq: u64,
        /// Who the owner is.
        owner: UnitOwner,
        /// Whether who refuses is the owner and takes records: the sender begins anew at once.
        is_open: bool,
    },
    /// What the owner of an epoch made: for subscribers.
    Result(u64, T),
    /// All results of this epoch were sent.
    Ended(u64),
    /// The receiver owns the unit from this epoch on; with what operators remember.
    Take(u64, Option<T>),
    /// Who the owner is. Whether it is the sender itself, and takes records.
    Table {
        /// The owner.
        owner: UnitOwner,
        /// See above.
        is_open: bool,
    },
}

/// What a member hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupInput<T> {
    /// A client here publishes.
    Publish {
        /// Of which unit.
        unit: UnitId,
        /// By which the answer is given.
        ticket: u64,
        /// Bytes that it takes while it waits.
        size: Size,
        /// The record.
        content: T,
    },
    /// Our node has taken a record that [`GroupOutput::Work`] gave it, or never will.
    Settled {
        /// Of which unit.
        unit: UnitId,
        /// The number that it was given with.
        take: u64,
        /// The answer.
        verdict: PublishReply,
    },
    /// We own the unit, and this came of it; subscribers here have it already.
    Made {
        /// Of which unit.
        unit: UnitId,
        /// What came.
        content: T,
    },
    /// The answer to [`GroupOutput::Drain`]: nothing of the unit is worked on any more.
    Drained {
        /// Which unit.
        unit: UnitId,
        /// The number of the question.
        attempt: u64,
        /// What its operators remember.
        state: Option<T>,
    },
    /// Another member says something.
    Heard {
        /// Who.
        from: Member,
        /// Of which unit.
        unit: UnitId,
        /// What.
        message: GroupMessage<T>,
    },
    /// Another member is there, and knows nothing of what was said before.
    Restarted(Member),
    /// Another member has told all that it knows.
    Greeted(Member),
    /// The unit is to go to another member.
    Move {
        /// Which unit; we own it.
        unit: UnitId,
        /// Where to.
        to: Member,
    },
    /// The unit is ours from now on, whoever owned it: its owner is gone for good.
    Seize(UnitId),
    /// Nothing came; time has passed.
    Tick,
}

/// What a member does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupOutput<T> {
    /// Tell another member.
    Send {
        /// Whom.
        to: Member,
        /// Of which unit.
        unit: UnitId,
        /// What.
        message: GroupMessage<T>,
    },
    /// Tell another member that it has heard all that we know; it hears [`GroupInput::Greeted`].
    Greet(Member),
    /// The answer to [`GroupInput::Publish`].
    Answer {
        /// Its ticket.
        ticket: u64,
        /// The answer.
        verdict: PublishReply,
    },
    /// Take a record: give it to subscribers, operators and outputs here; then [`GroupInput::Settled`].
    Work {
        /// Of which unit.
        unit: UnitId,
        /// Its number.
        take: u64,
        /// The record.
        content: T,
    },
    /// Give this to subscribers here, and to nobody else.
    Show {
        /// Of which unit.
        unit: UnitId,
        /// What the owner made.
        content: T,
    },
    /// Say when nothing of the unit is worked on any more.
    Drain {
        /// Which unit.
        unit: UnitId,
        /// The number of the question.
        attempt: u64,
    },
    /// We own a unit: operators go on with what the last owner's remembered.
    Begin {
        /// Which unit.
        unit: UnitId,
        /// What they remembered.
        state: Option<T>,
    },
    /// The owner of a unit: to be on disk before the outputs behind this one are obeyed. Where it is another one from now
    /// on, what operators here remember is stale.
    Owned {
        /// Which unit.
        unit: UnitId,
        /// Its owner.
        owner: UnitOwner,
    },
    /// A move that was asked for here is over; or why the unit stays.
    Moved {
        /// Which unit.
        unit: UnitId,
        /// Whether it has gone.
        result: Result<(), HandoverError>,
    },
}

/// Why a unit does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// Only the owner can give it away.
    #[error("this node does not own it, or does not take records of it now")]
    NotOwner,
    /// It goes somewhere already.
    #[error("it is being moved already")]
    Busy,
    /// It is there.
    #[error("it is there already")]
    There,
    /// The owner could not end what it had in time.
    #[error("what the owner works on did not end in time: it stays")]
    NotDrained,
}

/// The earlier of two times, where there are any.
fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}
