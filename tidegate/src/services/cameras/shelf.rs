//! What an edge server knows: which cameras there are and at which node, who watches them, and which flows
//! serve them. Subscribers of one camera that ask for the same share a flow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use prost::Message;
use tidegate_frames::piece::{FrameAssembly, FramePiece};
use tidegate_frames::{InfeasiblePolicy, TransitTime};
use tidegate_types::account::Account;
use tidegate_types::units::Time;
use tokio::sync::watch;
use tonic::Status;

use super::board::ShelfCounts;
use super::delivery::Delivery;
use super::replica::{Replica, ReplicaDisk, ReplicaFrame, SetAside, StoredFrame};
use super::slot::Slot;
use super::store::StoreReader;
use super::wire::{
    CameraInfo, FlowMessage, FrameMessage, NewsKind, NewsMessage, ReplyKind, SubscribeRequest,
};

mod state;

/// Subscriptions of a node at once.
const SUBSCRIPTIONS_MAX: usize = 4096;
/// Cameras that a node may register.
const CAMERAS_MAX: usize = 1024;

/// The shelf. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Shelf(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    cameras: BTreeMap<String, CameraInfo>,
    nodes: BTreeMap<String, NodeSeat>,
    /// Nodes whose live flows end soon, each with the registration that is over.
    away: BTreeMap<String, u64>,
    flows: BTreeMap<u64, FlowSeat>,
    subscriptions: BTreeMap<u64, Subscriber>,
    /// The number given last. It begins anew with each process, where none of an earlier one began.
    last: u64,
    counts: ShelfCounts,
    replica: Replica,
}

#[derive(Debug)]
struct NodeSeat {
    registration: u64,
    wanted: watch::Sender<Vec<FlowMessage>>,
    transit: TransitTime,
}

#[derive(Debug)]
struct FlowSeat {
    message: FlowMessage,
    assembly: FrameAssembly,
}

#[derive(Debug)]
struct Subscriber {
    flow: u64,
    who: String,
    slot: Arc<Slot>,
}

impl Shelf {
    /// An empty one. `first` is larger than every number that an earlier process gave.
    pub fn new(first: u64) -> Self {
        Shelf(Arc::new(Mutex::new(State {
            cameras: BTreeMap::new(),
            nodes: BTreeMap::new(),
            away: BTreeMap::new(),
            flows: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            last: first,
            counts: ShelfCounts::default(),
            replica: Replica::default(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A camera node is there. Answers which registration that is, and what is wanted of it; an earlier
    /// registration of the same node is over.
    pub(super) fn register(&self, node: &str) -> (u64, watch::Receiver<Vec<FlowMessage>>) {
        let mut state = self.lock();
        let registration = state.next();
        state.away.remove(node);
        let wanted = watch::Sender::new(state.wanted_of(node));
        let receiver = wanted.subscribe();
        state.nodes.insert(
            node.into(),
            NodeSeat { registration, wanted, transit: TransitTime::default() },
        );
        (registration, receiver)
    }

    /// What a registered node has.
    ///
    /// # Errors
    /// One of its cameras is another node's.
    pub(super) fn update(&self, node: &str, cameras: Vec<CameraInfo>) -> Result<(), Status> {
        let mut state = self.lock();
        if cameras.len() > CAMERAS_MAX {
            return Err(Status::resource_exhausted(format!(
                "a node has at most {CAMERAS_MAX} cameras"
            )));
        }
        for camera in &cameras {
            let known = state.cameras.get(&camera.name).filter(|known| known.node != node);
            if let Some(known) = known.filter(|known| known.is_online) {
                let text = format!("camera {:?} is one of node {:?}", camera.name, known.node);
                return Err(Status::already_exists(text));
            }
        }
        let before = state.names_of(node);
        for camera in cameras {
            let name = camera.name.clone();
            let mut info = CameraInfo { node: node.into(), is_online: true, ..camera };
            if info.ladder.is_empty()
                && let Some(known) = state.cameras.get_mut(&name)
            {
                info.ladder = std::mem::take(&mut known.ladder);
            }
            state.replica.tell(&info);
            state.cameras.insert(name, info);
        }
        // A camera that is new here may be wanted already.
        if state.names_of(node) != before {
            state.tell(node);
        }
        Ok(())
    }

    /// A registration is over. What its node has stays known: subscribers wait for it, those of live frames until
    /// [`Shelf::stays_away`].
    pub(super) fn gone(&self, node: &str, registration: u64) -> bool {
        let mut state = self.lock();
        let is_present =
            state.nodes.get(node).is_some_and(|seat| seat.registration == registration);
        if is_present {
            state.nodes.remove(node);
            state.away.insert(node.into(), registration);
            let of_node = state.cameras.values_mut().filter(|camera| camera.node == node);
            of_node.for_each(|camera| camera.is_online = false);
        }
        is_present
    }

    /// A node has not come back since that registration of it was over: it may be at another server, where
    /// subscribers of live frames should look.
    pub(super) fn stays_away(&self, node: &str, registration: u64) {
        let mut state = self.lock();
        if state.away.get(node) == Some(&registration) {
            state.away.remove(node);
            state.end_live(node);
        }
    }

    /// A node goes for good: its cameras are forgotten, and who watches them is told the end.
    pub(super) fn unregister(&self, node: &str) -> bool {
        let mut state = self.lock();
        let names = state.names_of(node);
        let was_known = state.nodes.remove(node).is_some() || !names.is_empty();
        state.cameras.retain(|_, camera| camera.node != node);
        names.iter().for_each(|name| state.replica.forget(name));
        let gone: Vec<u64> = state
            .flows
            .iter()
            .filter(|(_, flow)| names.contains(&flow.message.camera))
            .map(|(&flow, _)| flow)
            .collect();
        gone.iter().for_each(|&flow| state.end(flow));
        was_known
    }

    /// The cameras that somebody may see: one, or all.
    pub(super) fn cameras(&self, who: &str, name: &str) -> Vec<CameraInfo> {
        let state = self.lock();
        let may_see = |camera: &&CameraInfo| {
            (name.is_empty() || camera.name == name) && may(&camera.subscribers, who)
        };
        let mut seen: Vec<_> = state.cameras.values().filter(may_see).cloned().collect();
        for camera in seen.iter_mut().filter(|camera| !camera.is_online) {
            camera.oldest_unix_ns = state.replica.oldest(&camera.name);
        }
        seen
    }

    /// A subscriber. Answers the subscription's number and its place.
    ///
    /// # Errors
    /// No such camera, no right to it, bounds that cannot be, or live frames of a camera that is away.
    pub(super) fn subscribe(
        &self,
        who: &str,
        request: &SubscribeRequest,
    ) -> Result<(u64, Arc<Slot>), Status> {
        let mut state = self.lock();
        let camera = state.cameras.get(&request.camera);
        let camera = camera.ok_or_else(|| {
            Status::not_found(format!("no camera {:?} is registered here", request.camera))
        })?;
        if !may(&camera.subscribers, who) {
            let text = format!("{who:?} may not subscribe to camera {:?}", request.camera);
            return Err(Status::permission_denied(text));
        }
        let node = camera.node.clone();
        let mut message = FlowMessage::of(request)?;
        let is_away = !camera.is_online;
        if is_away && !message.is_replay() {
            let text =
                format!("camera {:?} is away: its node is not registered here", message.camera);
            return Err(Status::unavailable(text));
        }
        if state.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            let text = format!("there are {SUBSCRIPTIONS_MAX} subscriptions here: no more");
            return Err(Status::resource_exhausted(text));
        }
        // A replay has a beginning of its own; what is live is shared.
        let shared = state.flows.values().find(|flow| flow.message.is_like(&message));
        let shared = shared.filter(|flow| !flow.message.is_replay());
        let (flow, is_new) = match shared {
            Some(flow) => (flow.message.flow, false),
            None => (FlowMessage::new_number(), true),
        };
        let (id, slot) = (state.next(), Arc::new(Slot::default()));
        let (from, to) = message.span();
        if is_away && message.is_replay() && state.replica.next(&message.camera, from, to).is_some()
        {
            // No flow has this number.
            let subscriber = Subscriber { flow: 0, who: who.into(), slot: slot.clone() };
            state.subscriptions.insert(id, subscriber);
            tokio::spawn(self.clone().replay(id, message.camera, (from, to), slot.clone()));
            return Ok((id, slot));
        }
        let subscriber = Subscriber { flow, who: who.into(), slot: slot.clone() };
        state.subscriptions.insert(id, subscriber);
        if is_new {
            message.flow = flow;
            let assembly = FrameAssembly::default();
            state.flows.insert(flow, FlowSeat { message, assembly });
            state.tell(&node);
        }
        Ok((id, slot))
    }

    /// Replays what is here of a camera that is away.
    async fn replay(self, id: u64, camera: String, (from, to): (u64, u64), slot: Arc<Slot>) {
        let (mut next, mut reader) = (from, None);
        loop {
            let found = self.lock().replica.next(&camera, next, to);
            let Some((number, found)) = found else { break };
            let frame = match found {
                ReplicaFrame::Here(frame) => Some(*frame),
                ReplicaFrame::Stored(frame) => stored(frame, &mut reader).await,
            };
            if let Some(frame) = frame {
                slot.put_all(frame).await;
            }
            let Some(after) = number.checked_add(1) else { break };
            next = after;
        }
        self.lock().leave(id);
    }

    /// Keeps so many bytes of each camera's frames, as they come, but for those of this node, which has them.
    pub(super) fn replicate(&self, bytes: u64, account: Account, own: &Arc<str>) {
        self.lock().replica.limit(bytes, account, own.clone());
    }

    /// Keeps them on disk, too, where cameras left some before this process began: these are known, and away.
    pub(super) fn store(&self, disk: ReplicaDisk, cameras: Vec<CameraInfo>) {
        let mut state = self.lock();
        state.replica.store(disk);
        state.cameras.extend(cameras.into_iter().map(|info| (info.name.clone(), info)));
    }

    /// Ends a subscription of `who`. Answers whether there was one.
    pub(super) fn unsubscribe(&self, who: &str, id: u64) -> bool {
        let mut state = self.lock();
        if state.subscriptions.get(&id).is_none_or(|subscriber| subscriber.who != who) {
            return false;
        }
        state.leave(id);
        true
    }

    /// Something happened to a flow.
    pub(super) fn news(&self, node: &str, news: NewsMessage) {
        let mut state = self.lock();
        let Some(flow) = state.flows.get(&news.flow) else { return };
        if state.node_of(&flow.message) != Some(node) {
            return;
        }
        let reply = match news.news {
            Some(NewsKind::Infeasible(news)) => ReplyKind::Infeasible(news),
            Some(NewsKind::Feasible(news)) => ReplyKind::Feasible(news),
            Some(NewsKind::Ended(_)) => return state.end(news.flow),
            None => return,
        };
        state.slots_of(news.flow).iter().for_each(|slot| slot.tell(reply.clone()));
    }

    /// A piece came from a node. Answers the frame if it is whole, and in time or wanted all the same; or why the piece
    /// is none.
    ///
    /// # Errors
    /// The bytes are no piece, or of a flow that is not the node's.
    pub(crate) fn piece(
        &self,
        now: Time,
        node: &str,
        bytes: Bytes,
    ) -> Result<Option<Delivery>, String> {
        let piece = FramePiece::decode(bytes).map_err(|error| error.to_string())?;
        let mut state = self.lock();
        let (number, of_piece) = (piece.flow, piece.frame);
        // Nobody wants it any more: it was under way.
        let Some(flow) = state.flows.get(&number) else { return Ok(None) };
        if state.node_of(&flow.message) != Some(node) {
            return Err(format!("node {node:?} sends frames of a camera that is not its own"));
        }
        let Some(flow) = state.flows.get_mut(&number) else { return Ok(None) };
        let broken = flow.assembly.broken();
        let whole = flow.assembly.push(now, piece);
        let broken = flow.assembly.broken() - broken;
        let (camera, is_replay) = (flow.message.camera.clone(), flow.message.is_replay());
        let target = flow.message.target();
        state.counts.broken += broken;
        let Some((began_at, bytes)) = whole else { return Ok(None) };
        let mut frame = FrameMessage::decode(bytes).map_err(|error| format!("a frame: {error}"))?;
        if frame.camera != camera {
            return Err(format!("a frame of camera {:?} in a flow of {camera:?}", frame.camera));
        }
        if frame.frame != of_piece {
            return Err(format!("frame {} in pieces of frame {of_piece}", frame.frame));
        }
        state.counts.frames += 1;
        let State { replica, cameras, .. } = &mut *state;
        if let Some(info) = cameras.get(&camera) {
            replica.keep(node, &frame, (info, is_replay));
        }
        let took = state.took(began_at, now, node, &frame);
        let left = took.map(|took| target.latency.checked_sub(took));
        frame.is_late = left == Some(None);
        state.counts.late += u64::from(frame.is_late);
        let goes_late = target.policy == InfeasiblePolicy::Floor;
        if frame.is_late && !goes_late {
            return Ok(None);
        }
        let until = left.flatten().filter(|_| !goes_late).map(|left| now + left);
        let slots = state.slots_of(number);
        Ok(Some(Delivery { frame, slots, is_replay, until }))
    }

    /// Frames of cameras on disk of which nothing can be read.
    pub(super) fn aside(&self) -> Vec<SetAside> {
        self.lock().replica.aside()
    }

    /// What it counts.
    pub fn counts(&self) -> ShelfCounts {
        let state = self.lock();
        let present: u64 = state.subscriptions.values().map(|one| one.slot.skipped()).sum();
        let skipped = state.counts.skipped + present;
        let late: u64 = state.subscriptions.values().map(|one| one.slot.late()).sum();
        let late = state.counts.late + late;
        ShelfCounts { skipped, late, subscriptions: state.subscriptions.len(), ..state.counts }
    }
}

/// A frame of the disk; `None` where it has gone, or cannot be read.
async fn stored(frame: StoredFrame, reader: &mut Option<StoreReader>) -> Option<FrameMessage> {
    let mut last = reader.take();
    let read = tokio::task::spawn_blocking(move || (frame.read(&mut last), last)).await;
    let (read, last) = read.ok()?;
    *reader = last;
    read.inspect_err(|error| tracing::warn!("a stored frame cannot be read: {error}")).ok()?
}

/// Whether a list of names has this one; all are meant where it is empty.
pub(super) fn may(names: &[String], who: &str) -> bool {
    names.is_empty() || names.iter().any(|name| name == who)
}

#[cfg(test)]
#[path = "shelf_tests.rs"]
mod tests;
