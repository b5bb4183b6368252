//! The node's status for everybody who asks: taken at most once a second, however many ask.

pub mod broker;
pub mod cameras;
pub mod coflows;
pub mod fleet;
pub mod links;
pub mod log;
pub mod mirror;
pub mod operators;
pub mod outputs;
pub mod recent;
pub mod scripts;
pub mod table;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::OutputId;
use tidegate_node::status::NodeStatus;
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::recent::{PERIOD, Recent, RecentFigures};
use crate::input::mqtt::{ClientStatus, Clients};
use crate::link::{LinkFigures, Links};
use crate::node::broker::{BrokerStatus, MeterStatus};
use crate::node::contract::Stopping;
use crate::node::contract::counts::InputCounts;
use crate::node::event_loop::StatusHandle;
use crate::node::log_store::{CommitCounts, Commits};
use crate::script::board::ScriptStatus;
use crate::services::cameras::{FramesBoard, FramesFigures};
use crate::services::cluster::{GroupView, Handle};
use crate::services::fleet::{FleetBoard, FleetFigures};
use crate::services::proxy::{ProxyCounts, ProxyFigures};
use crate::services::standby::{MirrorBoard, MirrorFigures};

/// A snapshot walks all streams of the node: younger than this it is shown again. A little less than a
/// second, so that who asks each second sees a new one each time.
const REFRESH: Duration = Duration::from_millis(900);

/// A snapshot and the one before it, from which rates follow.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The newest.
    pub now: Arc<NodeStatus>,
    /// The one before, at least a second older; `None` at first.
    pub before: Option<Arc<NodeStatus>>,
    /// What the log's commits count; `None` without a log.
    pub commits: Option<Commits>,
    /// When each output confirms a record, in words.
    pub confirms: Arc<[&'static str]>,
    /// What its links look like.
    pub links: Vec<LinkFigures>,
    /// Who has subscribed at it, and what they get.
    pub broker: BrokerStatus,
    /// Its part in a fleet; `None` without one.
    pub fleet: Option<FleetFigures>,
    /// Its part in a group; `None` without one.
    pub group: Option<GroupView>,
    /// Mirrors: of its log, and of others'; `None` where it has to do with none.
    pub mirror: Option<MirrorFigures>,
    /// Cameras and their subscribers; `None` where it has to do with none.
    pub frames: Option<FramesFigures>,
    /// What its scripts did.
    pub scripts: Vec<ScriptStatus>,
    /// What its proxy counts; `None` for a node that is none.
    pub proxy: Option<ProxyFigures>,
    /// Topics of operators.
    pub operators: Vec<MeterStatus>,
    /// The same earlier, as `before`.
    pub operators_before: Vec<MeterStatus>,
    /// Clients of its MQTT listeners, by client id.
    pub clients: Vec<ClientStatus>,
    /// Why outputs cannot send.
    pub troubles: BTreeMap<OutputId, Arc<str>>,
    /// Where outputs with several hosts lead to.
    pub hosts: BTreeMap<OutputId, BTreeSet<Arc<str>>>,
    /// The last minute, and the last ten.
    pub recent: Arc<RecentFigures>,
}

impl Snapshot {
    /// Of a node without anything beside it.
    pub fn bare(now: NodeStatus) -> Self {
        Snapshot {
            now: Arc::new(now),
            before: None,
            commits: None,
            confirms: Arc::default(),
            links: Vec::new(),
            broker: BrokerStatus::default(),
            fleet: None,
            group: None,
            mirror: None,
            frames: None,
            scripts: Vec::new(),
            proxy: None,
            operators: Vec::new(),
            operators_before: Vec::new(),
            clients: Vec::new(),
            troubles: BTreeMap::new(),
            hosts: BTreeMap::new(),
            recent: Arc::default(),
        }
    }
}

/// What a node does beside carrying records, as it looks at present. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Boards {
    /// What its links look like.
    pub links: Links,
    /// Its part in its fleet.
    pub fleet: FleetBoard,
    /// Its part in a group, if it has one.
    pub group: Option<Handle>,
    /// Mirrors: of its log, and of others'.
    pub mirror: MirrorBoard,
    /// Its cameras and who watches them.
    pub frames: FramesBoard,
    /// What its proxy counts, if it is one's.
    pub proxy: Option<ProxyCounts>,
    /// Who is connected to its MQTT listeners.
    pub clients: Arc<Clients>,
}

/// Where status comes from. Cheap to clone; all clones share one snapshot.
#[derive(Clone, Debug)]
pub struct StatusSource {
    handle: StatusHandle,
    boards: Boards,
    kept: Arc<Mutex<Kept>>,
}

/// What is remembered between two questions.
#[derive(Debug, Default)]
struct Kept {
    newest: Option<(Instant, Snapshot)>,
    recent: Recent,
}

impl StatusSource {
    /// The status of the node behind `handle`, and of what `boards` show.
    pub fn new(handle: StatusHandle, boards: Boards) -> Self {
        StatusSource { handle, boards, kept: Arc::default() }
    }

    /// What the node's inputs count, now.
    pub fn counts(&self) -> &InputCounts {
        self.handle.counts()
    }

    /// The node's cameras.
    pub fn frames(&self) -> &FramesBoard {
        &self.boards.frames
    }

    /// Looks at the node every few seconds until it is gone, so that the last minute is known to whoever asks first. Who
    /// asks then sees the node as it is at that moment, not as it was when it was looked at last.
    pub async fn keep_looking(self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let mut kept = self.kept.lock().await;
            let Ok(now) = self.handle.get().await else { return };
            kept.recent.look(&now);
        }
    }

    /// A snapshot at most a second old.
    ///
    /// # Errors
    /// The node is gone.
    pub async fn get(&self) -> Result<Snapshot, Stopping> {
        // Held while asking, so that many who ask at once cost the node one snapshot.
        let mut kept = self.kept.lock().await;
        if let Some((taken, snapshot)) = &kept.newest
            && taken.elapsed() < REFRESH
        {
            return Ok(snapshot.clone());
        }
        let now = self.handle.get().await?;
        let recent = Arc::new(kept.recent.look(&now));
        let (before, operators_before) = match kept.newest.take() {
            Some((_, snapshot)) => (Some(snapshot.now), snapshot.operators),
            None => (None, Vec::new()),
        };
        let hub = self.handle.hub();
        let snapshot = Snapshot {
            before,
            commits: self.handle.commits().map(CommitCounts::read),
            confirms: self.handle.confirms(),
            links: self.boards.links.read(),
            broker: hub.status(),
            fleet: self.boards.fleet.read(),
            group: self.boards.group.as_ref().map(Handle::view),
            mirror: self.boards.mirror.read(),
            frames: self.boards.frames.read(),
            scripts: self.handle.scripts().read(),
            proxy: self.boards.proxy.as_ref().map(ProxyCounts::read),
            operators: hub.meters().read(),
            operators_before,
            clients: self.boards.clients.read(),
            troubles: self.handle.troubles().read(),
            hosts: self.handle.troubles().hosts(),
            recent,
            ..Snapshot::bare(now)
        };
        kept.newest = Some((Instant::now(), snapshot.clone()));
        Ok(snapshot)
    }
}
