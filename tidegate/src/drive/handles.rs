//! What others hold of a running node: its status, and what the fleet's agent does with it.

use tidegate_core::fleet::Measured;
use tidegate_core::io::{Control, Input};
use tidegate_core::status::NodeStatus;
use tokio::sync::{mpsc, oneshot};

use crate::fleet::FleetBoard;
use crate::input::counts::InputCounts;
use crate::link::Links;
use crate::port::{Arrival, Clock, Stopping};
use crate::spool::CommitCounts;

/// How the fleet's agent reaches a running node.
#[derive(Clone, Debug)]
pub struct FleetDoor {
    pub(super) arrivals: mpsc::Sender<Arrival>,
    pub(super) clock: Clock,
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

/// Asks a running node for its status. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StatusHandle {
    pub(super) requests: mpsc::Sender<oneshot::Sender<NodeStatus>>,
    pub(super) counts: InputCounts,
    pub(super) commits: Option<CommitCounts>,
    pub(super) links: Links,
    pub(super) fleet: FleetBoard,
}

impl StatusHandle {
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

    /// What the node's links look like.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The node's part in its fleet.
    pub fn fleet(&self) -> &FleetBoard {
        &self.fleet
    }

    /// What the log's commits count, if there is a log.
    pub fn commits(&self) -> Option<&CommitCounts> {
        self.commits.as_ref()
    }
}
