//! The node's status for everybody who asks: taken at most once a second, however many ask.

pub mod links;
pub mod log;
pub mod operators;
pub mod scripts;
pub mod table;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use tidegate_node::status::NodeStatus;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::broker::BrokerStatus;
use crate::drive::StatusHandle;
use crate::fleet::FleetFigures;
use crate::frames::{FramesBoard, FramesFigures};
use crate::group::{GroupView, Handle};
use crate::input::counts::InputCounts;
use crate::link::LinkFigures;
use crate::mirror::MirrorFigures;
use crate::operators::MeterStatus;
use crate::port::Stopping;
use crate::proxy::{ProxyCounts, ProxyFigures};
use crate::script::board::ScriptStatus;
use crate::spool::{CommitCounts, Commits};

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
}

/// Where status comes from. Cheap to clone; all clones share one snapshot.
#[derive(Clone, Debug)]
pub struct StatusSource {
    handle: StatusHandle,
    kept: Arc<Mutex<Option<(Instant, Snapshot)>>>,
}

impl StatusSource {
    /// The status of the node behind `handle`.
    pub fn new(handle: StatusHandle) -> Self {
        StatusSource { handle, kept: Arc::default() }
    }

    /// What the node's inputs count, now.
    pub fn counts(&self) -> &InputCounts {
        self.handle.counts()
    }

    /// The node's cameras.
    pub fn frames(&self) -> &FramesBoard {
        self.handle.frames()
    }

    /// A snapshot at most a second old.
    ///
    /// # Errors
    /// The node is gone.
    pub async fn get(&self) -> Result<Snapshot, Stopping> {
        // Held while asking, so that many who ask at once cost the node one snapshot.
        let mut kept = self.kept.lock().await;
        if let Some((taken, snapshot)) = &*kept
            && taken.elapsed() < REFRESH
        {
            return Ok(snapshot.clone());
        }
        let before = kept.as_ref().map(|(_, snapshot)| snapshot.now.clone());
        let now = Arc::new(self.handle.get().await?);
        let commits = self.handle.commits().map(CommitCounts::read);
        let confirms = self.handle.confirms();
        let links = self.handle.links().read();
        let broker = self.handle.hub().status();
        let fleet = self.handle.fleet().read();
        let group = self.handle.hub().group().map(Handle::view);
        let mirror = self.handle.mirror().read();
        let frames = self.handle.frames().read();
        let scripts = self.handle.scripts().read();
        let proxy = self.handle.proxy().map(ProxyCounts::read);
        let operators = self.handle.hub().meters().read();
        let operators_before =
            kept.take().map(|(_, snapshot)| snapshot.operators).unwrap_or_default();
        let snapshot = Snapshot {
            now,
            before,
            commits,
            confirms,
            links,
            broker,
            fleet,
            group,
            mirror,
            frames,
            scripts,
            proxy,
            operators,
            operators_before,
        };
        *kept = Some((Instant::now(), snapshot.clone()));
        Ok(snapshot)
    }
}
