//! What an output reports to the node.

use std::sync::Arc;

use tidegate_node::io::{
    Control, Destination, Input, OutputId, PathId, PathSample, PathState, Refusal,
};
use tidegate_types::record::DeliveryId;
use tidegate_types::units::{Rate, Size, Time};
use tokio::sync::mpsc;

use super::troubles::Troubles;
use super::{Arrival, Clock, Stopping};

/// An output's reports to the node. Cheap to clone, one for each lane.
#[derive(Clone, Debug)]
pub struct Feedback {
    sender: mpsc::Sender<Arrival>,
    output: OutputId,
    clock: Clock,
    troubles: Troubles,
}

impl Feedback {
    /// Reports of `output` to the loop that reads `sender`'s other end.
    pub fn new(sender: mpsc::Sender<Arrival>, output: OutputId, clock: Clock) -> Self {
        Feedback { sender, output, clock, troubles: Troubles::default() }
    }

    /// The same, with words about what is wrong told to `troubles`.
    pub fn with_troubles(self, troubles: &Troubles) -> Self {
        Feedback { troubles: troubles.clone(), ..self }
    }

    /// Says in words why the output cannot send, for people who look at the status. It stands until a lane comes up.
    pub fn trouble(&self, words: &str) {
        self.troubles.set(self.output, words);
    }

    /// Says to which host a lane is connected, where an output has several; `None` when that is over.
    pub fn leads_to(&self, lane: u8, host: Option<&str>) {
        self.troubles.lead(self.output, lane, host);
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The clock itself.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    async fn send(&self, input: Input) -> Result<(), Stopping> {
        self.sender.send(Arrival::Input(input)).await.map_err(|_| Stopping)
    }

    fn path(&self, lane: u8) -> PathId {
        PathId { output: self.output, lane }
    }

    /// The bytes of one transmission are handed to the socket; `bytes` with all framing.
    ///
    /// # Errors
    /// The loop is gone (as for all reports).
    pub async fn sent(&self, id: DeliveryId, bytes: Size) -> Result<(), Stopping> {
        self.send(Input::Sent { id, bytes }).await
    }

    /// The same of many at once, which is one message to the loop.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn all_sent(&self, sent: Vec<(DeliveryId, Size)>) -> Result<(), Stopping> {
        self.sender.send(Arrival::Sent(sent)).await.map_err(|_| Stopping)
    }

    /// The far end has these.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn confirmed(&self, ids: Vec<DeliveryId>) -> Result<(), Stopping> {
        let destination = Destination::Output(self.output);
        self.send(Input::Confirmed { destination, ids }).await
    }

    /// The far end has these, by these paths of a link.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn carried(&self, ids: Vec<DeliveryId>, by: Arc<str>) -> Result<(), Stopping> {
        let destination = Destination::Output(self.output);
        self.send(Input::Carried { destination, ids, by }).await
    }

    /// The far end will not take these.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn refused(&self, ids: Vec<DeliveryId>, reason: Refusal) -> Result<(), Stopping> {
        let destination = Destination::Output(self.output);
        self.send(Input::Refused { destination, ids, reason }).await
    }

    /// Byte-level figures of a lane.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn sample(&self, lane: u8, sample: PathSample) -> Result<(), Stopping> {
        self.send(Input::PathSample { path: self.path(lane), sample }).await
    }

    /// What is below carries so much together: for outputs that measure it themselves.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn capacity(&self, rate: Rate) -> Result<(), Stopping> {
        self.send(Input::Capacity { output: self.output, rate }).await
    }

    /// What is below takes only so many records unconfirmed.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn window(&self, records: usize) -> Result<(), Stopping> {
        self.send(Input::Window { output: self.output, records }).await
    }

    /// A lane came up or went down. When it goes down, everything unconfirmed on it is sent again.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn path_state(&self, lane: u8, state: PathState) -> Result<(), Stopping> {
        if state == PathState::Up {
            self.troubles.clear(self.output);
        }
        self.send(Input::PathState { path: self.path(lane), state }).await
    }

    /// An order of the console or of another node.
    ///
    /// # Errors
    /// The loop is gone.
    pub async fn control(&self, control: Control) -> Result<(), Stopping> {
        self.send(Input::Control(control)).await
    }
}
