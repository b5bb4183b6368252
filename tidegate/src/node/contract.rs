//! How inputs and outputs talk to the loop that owns the node: everything crosses by these channels.
//!
//! An input opens a [`Source`] for each connection, offers batches of records by it and reads
//! [`Notice`]s from it. An output is handed an [`OutputPort`]: it obeys [`Order`]s and reports by
//! [`Feedback`]. Neither ever sees the node.

pub mod counts;
mod feedback;
mod notices;
mod orders;
mod troubles;

use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::{Control, Input, OutputId};
use tidegate_node::options::{OutputOptions, UplinkOptions};
use tidegate_node::rules::Rules;
use tidegate_types::class::ClassId;
use tidegate_types::demand::Measured;
use tidegate_types::record::{DeliveryId, Offered, Owner, Quota, Record, SourceId};
use tidegate_types::units::{Size, Time};
use tokio::sync::{mpsc, oneshot};

pub use self::feedback::Feedback;
pub use self::notices::{Notice, NoticePost, NoticeSender, Notices, notices};
pub use self::orders::{Orders, OutputPort};
pub use self::troubles::Troubles;
use crate::node::broker::Hub;
use crate::node::contract::counts::InputCounts;
use crate::script::Script;
pub use crate::support::time::Clock;

/// The loop is gone: the process is stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is stopping")]
pub struct Stopping;

/// What reaches the loop. Bounded: an input that offers faster than the node takes waits here.
#[derive(Debug)]
pub enum Arrival {
    /// Any input of the node, stamped by the loop when it takes it.
    Input(Input),
    /// The bytes of these transmissions are handed to the wire: [`Input::Sent`] for each.
    Sent(Vec<(DeliveryId, Size)>),
    /// A connection begins: the loop chooses its number.
    Open {
        /// What its streams are called by.
        name: Arc<str>,
        /// Set where all that comes by it is a neighbour's: the class that it has there.
        relays: Option<ClassId>,
        /// Where its notices go.
        notices: NoticeSender,
        /// The answer.
        reply: oneshot::Sender<SourceId>,
    },
    /// A connection ended.
    Close(SourceId),
    /// An output is to end, so that it can begin anew.
    EndOutput(OutputId),
    /// Whether the node would take an adaptation at these outputs.
    Try {
        /// Comes back with the answer.
        adaptation: Adaptation,
        /// The outputs that there will be.
        outputs: Vec<OutputOptions>,
        /// The uplinks that they are on.
        uplinks: Vec<UplinkOptions>,
        /// The answer.
        reply: oneshot::Sender<anyhow::Result<Adaptation>>,
    },
    /// An adaptation that was tried. It comes in one order with what ends and what goes: see `Assembled::change`.
    Adapt(Adaptation),
    /// Other outputs, and the uplinks that they are on, as `Control::Outputs` has them.
    Outputs(Vec<OutputOptions>, Vec<UplinkOptions>),
    /// An output begins: a new one, or one that has ended begins anew.
    BeginOutput {
        /// Which.
        id: OutputId,
        /// What the configuration calls it.
        name: Arc<str>,
        /// Where it will report.
        feedback: Feedback,
        /// The answer.
        reply: oneshot::Sender<OutputPort>,
    },
    /// The fleet's agent asks what the node carries and wants.
    Measure(oneshot::Sender<Option<Measured>>),
}

/// New scripts, each at its place, and the rules that name them.
#[derive(Debug)]
pub struct Adaptation {
    /// The scripts.
    pub scripts: Vec<Script>,
    /// The rules.
    pub rules: Arc<Rules>,
}

/// The loop's door for inputs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Intake {
    sender: mpsc::Sender<Arrival>,
    clock: Clock,
    counts: InputCounts,
    hub: Hub,
}

impl Intake {
    /// A door to the loop that reads `sender`'s other end.
    pub fn new(sender: mpsc::Sender<Arrival>, clock: Clock) -> Self {
        Intake::with(sender, clock, Hub::default())
    }

    /// The same, with this broker for who subscribes at the node.
    pub fn with(sender: mpsc::Sender<Arrival>, clock: Clock, hub: Hub) -> Self {
        Intake { sender, clock, counts: InputCounts::default(), hub }
    }

    /// The node's own broker.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// The clock itself.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What the inputs of this door count.
    pub fn counts(&self) -> &InputCounts {
        &self.counts
    }

    /// The present time, for `Offered::read_at`.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Waits until the loop is gone: the process is stopping.
    pub async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Orders something of the node.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn control(&self, control: Control) -> Result<(), Stopping> {
        let arrival = Arrival::Input(Input::Control(control));
        self.sender.send(arrival).await.map_err(|_| Stopping)
    }

    /// Announces a connection whose streams are called by `name`.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn open(&self, name: Arc<str>) -> Result<Source, Stopping> {
        self.open_for(name, None).await
    }

    /// The same for a neighbour's records, by their class there.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn open_for(
        &self,
        name: Arc<str>,
        relays: Option<ClassId>,
    ) -> Result<Source, Stopping> {
        let (notices, inbox) = notices();
        let (reply, answer) = oneshot::channel();
        let open = Arrival::Open { name, relays, notices, reply };
        self.sender.send(open).await.map_err(|_| Stopping)?;
        let id = answer.await.map_err(|_| Stopping)?;
        Ok(Source { id, inbox, intake: self.clone() })
    }
}

/// One connection of an input. Dropping it tells the node that the connection ended.
#[derive(Debug)]
pub struct Source {
    id: SourceId,
    inbox: Notices,
    intake: Intake,
}

impl Source {
    /// The connection's number, for `Offered::source`.
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// The present time, for `Offered::read_at`.
    pub fn now(&self) -> Time {
        self.intake.now()
    }

    /// What its inputs count.
    pub fn counts(&self) -> &InputCounts {
        self.intake.counts()
    }

    /// The node's own broker.
    pub fn hub(&self) -> &Hub {
        self.intake.hub()
    }

    /// By which others answer for the node.
    pub(crate) fn notices(&self) -> NoticePost {
        self.inbox.post()
    }

    /// Says on whose account all that comes by this connection is.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn charge(&self, owner: Owner, quota: Quota) -> Result<(), Stopping> {
        let source = self.id;
        self.intake.control(Control::Charge { source, owner, quota }).await
    }

    /// Offers records in the order of reading; waits while the loop is busy.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn offer(&self, records: Vec<Offered>) -> Result<(), Stopping> {
        let arrival = Arrival::Input(Input::Arrived(records));
        self.intake.sender.send(arrival).await.map_err(|_| Stopping)
    }

    /// Offers what is in `records` and leaves it empty; waits while the loop is busy. Cancel-safe: what
    /// was not offered is still there.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn offer_all(&self, records: &mut Vec<Offered>) -> Result<(), Stopping> {
        let permit = self.intake.sender.reserve().await.map_err(|_| Stopping)?;
        permit.send(Arrival::Input(Input::Arrived(std::mem::take(records))));
        Ok(())
    }

    /// Says that this connection speaks for the client of its name, whose session outlives it by `lasts`;
    /// `Notice::Ready` is the answer. Where `is_new`, nothing of an earlier session counts.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn session(&self, lasts: Duration, is_new: bool) -> Result<(), Stopping> {
        let source = self.id;
        self.intake.control(Control::Session { source, lasts, is_new }).await
    }

    /// Says that the client has released these packet identifiers, and leaves the list empty;
    /// `Notice::Released` is the answer. Cancel-safe.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn release(&self, packets: &mut Vec<u16>) -> Result<(), Stopping> {
        let permit = self.intake.sender.reserve().await.map_err(|_| Stopping)?;
        let (source, packets) = (self.id, std::mem::take(packets));
        permit.send(Arrival::Input(Input::Control(Control::Release { source, packets })));
        Ok(())
    }

    /// The next notice; `None` when the loop is gone. Cancel-safe.
    pub async fn notice(&mut self) -> Option<Notice> {
        self.inbox.next().await
    }

    /// A notice that is already there, to answer many at once.
    pub fn try_notice(&mut self) -> Option<Notice> {
        self.inbox.try_next()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let Source { id, intake, .. } = self;
        let close = Arrival::Close(*id);
        // A full channel must not lose the end of a connection, and drop cannot wait.
        if let Err(mpsc::error::TrySendError::Full(close)) = intake.sender.try_send(close) {
            let sender = intake.sender.clone();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { sender.send(close).await });
            }
        }
    }
}

/// What the node orders an output to do.
#[derive(Clone, Debug)]
pub enum Order {
    /// Hand these bytes to the wire, then report `sent`.
    Transmit(Transmit),
    /// Give up what is not yet written of this delivery. A record of which bytes are already on the
    /// wire is finished all the same: half a record would break the connection.
    Cancel(DeliveryId),
    /// Finish what is begun, close the connections politely and return from `run`.
    Stop,
}

/// One cut of a record.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// The delivery; confirmations and refusals name it.
    pub id: DeliveryId,
    /// Which of the output's connections.
    pub lane: u8,
    /// How often the node had heard that this lane went down when it gave the order. An order with a
    /// smaller number than the lane's own count is void: its record will be ordered again.
    pub epoch: u64,
    /// The record; all cuts of a delivery share it.
    pub record: Arc<Record>,
    /// The record's class.
    pub class: ClassId,
    /// First byte of the cut, on the scale of `size`.
    pub start: u64,
    /// End of the cut, on the scale of `size`; `end == size` means all that is left.
    pub end: u64,
    /// The record's size as the node counts it: payload, key, properties and an allowance for framing.
    /// The output's own encoding may differ: it scales.
    pub size: u64,
    /// Whether an earlier attempt may have arrived: consumers are told.
    pub again: bool,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidegate_types::record::{Properties, Token};
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn an_offer_that_is_given_up_keeps_its_records() {
        let (sender, mut arrivals) = mpsc::channel(1);
        let (_notices, inbox) = notices();
        let intake = Intake::new(sender, Clock::start());
        let source = Source { id: SourceId(0), inbox, intake };
        let record = Offered {
            source: SourceId(0),
            token: Some(Token(0)),
            key: Bytes::from_static(b"t"),
            properties: Properties::default(),
            payload: Bytes::new(),
            read_at: Time::ZERO,
            source_unix_ns: None,
            ttl: None,
            foreign: None,
            packet: None,
        };
        let (mut first, mut second) = (vec![record.clone()], vec![record]);
        source.offer_all(&mut first).await.expect("there is room for one");
        tokio::select! {
            biased;
            _ = source.offer_all(&mut second) => panic!("there is no room"),
            () = yield_now() => {}
        }
        assert_eq!((first.len(), second.len()), (0, 1));
        assert!(arrivals.recv().await.is_some() && arrivals.try_recv().is_err());
    }
}
