//! What others hold of a node that runs: it, its status, and the door of the fleet's agent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_log::SessionState;
use tidegate_log::mirror::SegmentLengths;
use tidegate_node::io::{Control, Destination, Input, OutputId, UplinkId};
use tidegate_node::options::{OutputOptions, UplinkOptions};
use tidegate_node::rules::Rules;
use tidegate_node::status::NodeStatus;
use tidegate_types::demand::Measured;
use tidegate_types::units::Size;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::node::broker::Hub;
use crate::node::contract::counts::InputCounts;
use crate::node::contract::{
    Adaptation, Arrival, Clock, Feedback, Intake, OutputPort, Stopping, Troubles,
};
use crate::node::log_store::CommitCounts;
use crate::script::Script;
use crate::script::board::ScriptBoard;

/// How long a start waits for the log's first commit.
const LOG_READY: Duration = Duration::from_secs(5);

/// A node that runs.
#[derive(Debug)]
pub struct Running {
    /// The door for inputs.
    pub intake: Intake,
    /// Its status.
    pub status: StatusHandle,
    /// Sessions of clients that the log knows, each with how long it still lasts.
    pub sessions: Vec<SessionState>,
    /// What of the log is safe on disk, if there is one.
    pub log_lengths: Option<watch::Receiver<SegmentLengths>>,
    pub(super) log_is_ready: Option<watch::Receiver<bool>>,
    pub(super) arrivals: mpsc::Sender<Arrival>,
    pub(super) task: JoinHandle<NodeStatus>,
}

impl Running {
    /// The door for the fleet's agent.
    pub fn fleet_door(&self) -> FleetDoor {
        FleetDoor { arrivals: self.arrivals.clone(), clock: self.intake.clock() }
    }

    /// Waits until the log has taken its first entries: before, nothing durable is accepted. A log that
    /// takes long to say so (a full disk) is not waited for.
    pub async fn log_is_ready(&self) {
        let Some(mut ready) = self.log_is_ready.clone() else { return };
        if tokio::time::timeout(LOG_READY, ready.wait_for(|ready| *ready)).await.is_err() {
            tracing::warn!(
                "the log has written nothing yet: durable records are refused until it can"
            );
        }
    }

    /// Whether the node would take these scripts and rules at these outputs. Nothing changes.
    ///
    /// # Errors
    /// It would not, or is stopping.
    pub async fn try_on(
        &self,
        scripts: Vec<Script>,
        rules: Rules,
        (outputs, uplinks): (Vec<OutputOptions>, Vec<UplinkOptions>),
    ) -> anyhow::Result<Adaptation> {
        let adaptation = Adaptation { scripts, rules: rules.into() };
        let (reply, answer) = oneshot::channel();
        let arrival = Arrival::Try { adaptation, outputs, uplinks, reply };
        self.arrivals.send(arrival).await.map_err(|_| Stopping)?;
        answer.await?
    }

    /// Puts scripts and rules in force that were tried, after all that was told before.
    pub async fn adapt(&self, adaptation: Adaptation) {
        // A send fails only when the loop has ended already.
        let _ = self.arrivals.send(Arrival::Adapt(adaptation)).await;
    }

    /// Holds the node to other bounds.
    pub async fn limit(&self, memory: Size, record_max: Size) {
        // A send fails only when the loop has ended already.
        let order = Control::Limits { memory, record_max };
        let _ = self.arrivals.send(Arrival::Input(Input::Control(order))).await;
    }

    /// Holds an uplink to another rate or law.
    pub async fn govern(&self, uplink: UplinkId, options: UplinkOptions) {
        let UplinkOptions { controller, cap, .. } = options;
        let order = Control::Govern { uplink, controller, cap };
        let _ = self.arrivals.send(Arrival::Input(Input::Control(order))).await;
    }

    /// Ends an output: its connections close, and what they had not confirmed waits again.
    pub async fn end_output(&self, id: OutputId) {
        let _ = self.arrivals.send(Arrival::EndOutput(id)).await;
    }

    /// An output has ended: what was under way by it waits again.
    pub async fn output_is_down(&self, id: OutputId) {
        let input = Input::DestinationState { destination: Destination::Output(id), up: false };
        let _ = self.arrivals.send(Arrival::Input(input)).await;
    }

    /// Other outputs, the known ones at their places, and the uplinks that they are on.
    pub async fn set_outputs(&self, outputs: Vec<OutputOptions>, uplinks: Vec<UplinkOptions>) {
        let _ = self.arrivals.send(Arrival::Outputs(outputs, uplinks)).await;
    }

    /// The port of an output that begins, or has ended and begins anew; nothing where the node is stopping.
    pub async fn begin_output(&self, id: OutputId, name: Arc<str>) -> Option<OutputPort> {
        let feedback = Feedback::new(self.arrivals.clone(), id, self.intake.clock());
        let feedback = feedback.with_troubles(&self.status.troubles);
        let (reply, port) = oneshot::channel();
        self.arrivals.send(Arrival::BeginOutput { id, name, feedback, reply }).await.ok()?;
        port.await.ok()
    }

    /// Accepts nothing more and waits until everything held has its fate, or until `patience` ends:
    /// then what is left is dropped (`stopped`). Returns the last status.
    pub async fn stop(mut self, patience: Duration) -> NodeStatus {
        // A send fails only when the loop has ended already.
        let _ = self.arrivals.send(Arrival::Input(Input::Control(Control::Stop))).await;
        if let Ok(status) = tokio::time::timeout(patience, &mut self.task).await {
            return status.expect("the loop does not panic");
        }
        let _ = self.arrivals.send(Arrival::Input(Input::Control(Control::Discard))).await;
        self.task.await.expect("the loop does not panic")
    }
}

/// Asks a running node for its status. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StatusHandle {
    pub(super) requests: mpsc::Sender<oneshot::Sender<NodeStatus>>,
    pub(super) counts: InputCounts,
    pub(super) commits: Option<CommitCounts>,
    pub(super) hub: Hub,
    pub(super) scripts: ScriptBoard,
    pub(super) confirms: Arc<Mutex<Arc<[&'static str]>>>,
    pub(super) troubles: Troubles,
}

impl StatusHandle {
    /// Of a node in another loop than this one: who holds the other end answers.
    pub(crate) fn of_another_loop(
        scripts: ScriptBoard,
    ) -> (StatusHandle, mpsc::Receiver<oneshot::Sender<NodeStatus>>) {
        let (requests, answers) = mpsc::channel(8);
        let handle = StatusHandle {
            requests,
            counts: InputCounts::default(),
            commits: None,
            hub: Hub::default(),
            scripts,
            confirms: Arc::default(),
            troubles: Troubles::default(),
        };
        (handle, answers)
    }

    /// Says of each output when it confirms a record.
    pub fn say_what_confirms(&self, outputs: Arc<[&'static str]>) {
        *self.confirms.lock().unwrap_or_else(PoisonError::into_inner) = outputs;
    }

    /// When each output confirms a record, in words.
    pub fn confirms(&self) -> Arc<[&'static str]> {
        self.confirms.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why outputs cannot send.
    pub fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    /// A snapshot of now.
    ///
    /// # Errors
    /// The node is gone.
    pub async fn get(&self) -> Result<NodeStatus, Stopping> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(reply).await.map_err(|_| Stopping)?;
        answer.await.map_err(|_| Stopping)
    }

    /// What the node's inputs count.
    pub fn counts(&self) -> &InputCounts {
        &self.counts
    }

    /// The node's own broker.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// What the node's scripts did.
    pub fn scripts(&self) -> &ScriptBoard {
        &self.scripts
    }

    /// What the log's commits count, if there is a log.
    pub fn commits(&self) -> Option<&CommitCounts> {
        self.commits.as_ref()
    }
}

/// How the fleet's agent reaches a running node.
#[derive(Clone, Debug)]
pub struct FleetDoor {
    arrivals: mpsc::Sender<Arrival>,
    clock: Clock,
}

impl FleetDoor {
    /// The node's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What the node carries and wants; `None` where it has no part in a fleet.
    ///
    /// # Errors
    /// The node is gone.
    pub async fn measure(&self) -> Result<Option<Measured>, Stopping> {
        let (reply, answer) = oneshot::channel();
        self.arrivals.send(Arrival::Measure(reply)).await.map_err(|_| Stopping)?;
        answer.await.map_err(|_| Stopping)
    }

    /// Tells the node what it may send by whom.
    ///
    /// # Errors
    /// The node is gone.
    pub async fn control(&self, control: Control) -> Result<(), Stopping> {
        let arrival = Arrival::Input(Input::Control(control));
        self.arrivals.send(arrival).await.map_err(|_| Stopping)
    }
}
