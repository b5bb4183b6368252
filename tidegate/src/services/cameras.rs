//! Cameras: frames that shrink to fit the channel, from who publishes them to who subscribes (docs/CAMERAS.md).
//!
//! In the order in which a frame meets them: `publish` takes it (or `source` brings it), `camera` has it as the newest (`recent`
//! keeps it in memory and `store` on disk, sealed by `sealed`, with its `ways`), `sender` chooses its rung when it goes (`codec` makes it) and offers it in pieces to the node's queues;
//! `output::frames` of the node where its subscribers are hands the pieces to the `shelf`, which has a `slot` for
//! each subscriber. What is wanted goes the other way, by `register` or, within one node, at once: `desk` starts
//! and ends the senders. `service` is what gRPC calls.

mod arriving;
mod board;
mod camera;
mod codec;
mod delivery;
mod desk;
mod ladder;
pub(crate) mod output;
mod preview;
mod publish;
mod recent;
mod register;
mod replay;
mod replica;
mod replies;
mod sealed;
mod sender;
mod service;
mod shelf;
pub mod site;
mod slot;
mod source;
mod store;
pub mod ways;
pub mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_types::account::{Account, Level};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

pub use self::board::{FramesBoard, FramesFigures, ShelfCounts};
use self::camera::Camera;
pub use self::camera::{CameraFigures, CameraOptions};
use self::codec::Workers;
pub use self::codec::{CodecError, Shrunk, shrink, shrink_after, test_picture};
pub(crate) use self::delivery::Delivery;
use self::desk::{Cameras, Desk};
pub use self::ladder::{LadderFile, Written, WrittenArtifacts, WrittenRung, load as load_ladder};
pub use self::preview::{BOUNDARY, Preview};
use self::recent::Recent;
pub use self::recent::RecentLimit;
use self::register::{NEWS_MAX, Registrar};
use self::replica::ReplicaDisk;
pub use self::replica::{ReplicaOptions, SetAside};
pub use self::sender::{SendOptions, topics};
use self::service::FramesService;
pub use self::shelf::Shelf;
pub(crate) use self::source::jpegs;
pub use self::source::{Source, SourceOptions};
use self::store::Store;
pub use self::store::StoreOptions;
use crate::node::contract::Intake;
use crate::services::fleet::FleetTls;
use crate::support::acceptor::Acceptor;
use crate::support::tls::grpc::handshakes;

/// Bytes that may be under way to us by one connection, and so by each of its streams.
const WINDOW: u32 = 1 << 20;
/// Bytes of the headers of a call.
const HEADERS_MAX: u32 = 16 << 10;
/// Calls of one connection at once.
const CALLS_MAX: u32 = 256;

/// Largest frame of HTTP/2 that is taken: with the usual 16 KiB a picture of a megabyte is 64 of them, each of which is
/// encrypted, written and read on its own.
const CHUNK: u32 = 1 << 20;

/// A connection on which nothing came for so long is asked whether it lives, and has as long to answer: an
/// application that looks at a frame for seconds is no dead one.
const QUIET: Duration = Duration::from_secs(10);

/// What a node has to do with cameras.
#[derive(Clone, Debug)]
pub struct FramesOptions {
    /// The node's name.
    pub node: Arc<str>,
    /// Where cameras publish and applications subscribe.
    pub listen: Vec<SocketAddr>,
    /// What it shows and asks for; nothing on loopback.
    pub tls: Option<FleetTls>,
    /// Names that may register cameras here; all where it is empty.
    pub nodes: Vec<String>,
    /// Cameras of this node.
    pub cameras: Vec<CameraOptions>,
    /// `host:port` of the edge servers where they are registered: at the first that answers. None: subscribers come here.
    pub servers: Vec<String>,
    /// How frames are sent.
    pub send: SendOptions,
    /// Frames encoded at once.
    pub workers: usize,
    /// What stays of each camera in memory.
    pub recent: RecentLimit,
    /// Bytes of each camera's frames that stay where subscribers come.
    pub replica: u64,
    /// Where frames are kept, if anywhere.
    pub store: Option<StoreOptions>,
    /// Where frames of other nodes' cameras are kept, if anywhere.
    pub replica_store: Option<ReplicaOptions>,
}

/// Starts it. Answers the addresses, with the ports that the system chose.
///
/// # Errors
/// An address cannot be bound, or a folder or a file cannot be used.
pub async fn start(
    options: FramesOptions,
    shelf: Shelf,
    intake: Intake,
    board: &FramesBoard,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<Vec<SocketAddr>> {
    let cameras = cameras(&options, &intake.hub().account_of_listener())?;
    shelf.replicate(options.replica, intake.hub().account_of_listener(), &options.node);
    if let Some(store) = options.replica_store.clone() {
        let name = store.directory.display().to_string();
        let account = intake.hub().account_of_listener();
        // It reads all that is there.
        let opened = tokio::task::spawn_blocking(move || ReplicaDisk::open(store, &account));
        let (disk, known) = opened.await?.with_context(|| format!("[frames] directory {name}"))?;
        shelf.store(disk, known);
    }
    board.set(shelf.clone(), cameras.clone());
    for camera in cameras.values() {
        if let Some(source) = camera.options.source.clone() {
            let (camera, intake) = (camera.clone(), intake.clone());
            tasks.spawn(async move {
                source::run(source, camera, intake).await;
                Ok(())
            });
        }
    }
    match options.servers.is_empty() {
        false => {
            let registrar = Registrar {
                node: options.node.clone(),
                servers: options.servers.clone(),
                tls: options.tls.clone(),
                cameras: cameras.clone(),
                options: options.send,
                intake: intake.clone(),
            };
            tasks.spawn(async move {
                registrar.run().await;
                Ok(())
            });
        }
        true => attend_here(&options, &shelf, &cameras, &intake, tasks),
    }
    let mut bound = Vec::new();
    for &address in &options.listen {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| {
            format!("cannot listen on {address} (choose another address in [frames] listen)")
        })?;
        bound.push(listener.local_addr()?);
        let service = FramesService {
            node: options.node.clone(),
            cameras: cameras.clone(),
            shelf: shelf.clone(),
            intake: intake.clone(),
            nodes: options.nodes.clone().into(),
            is_proven: options.tls.is_some(),
            account: intake.hub().account_of_listener(),
        };
        serve(service, listener, options.tls.as_ref(), tasks)?;
    }
    Ok(bound)
}

fn cameras(options: &FramesOptions, account: &Account) -> anyhow::Result<Cameras> {
    let workers = Workers::new(options.workers);
    let mut cameras = std::collections::BTreeMap::new();
    for camera in &options.cameras {
        let store = match &options.store {
            None => None,
            Some(StoreOptions { directory, room, keys }) => {
                let folder = directory.join(&*camera.name);
                let opened = Store::open(&folder, *room, keys);
                Some(opened.with_context(|| format!("[frames] directory {}", folder.display()))?)
            }
        };
        let name = camera.name.clone();
        let recent = Recent::new(options.recent, account.fair_named(Level::User, &name));
        let camera = Camera::new(camera.clone(), workers.clone(), recent, store);
        cameras.insert(name, Arc::new(camera));
    }
    Ok(Arc::new(cameras))
}

/// The node's own cameras are registered at its own shelf, without a wire between.
fn attend_here(
    options: &FramesOptions,
    shelf: &Shelf,
    cameras: &Cameras,
    intake: &Intake,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) {
    if cameras.is_empty() {
        return;
    }
    let (news, mut heard) = mpsc::channel(NEWS_MAX);
    let desk = Desk::new(cameras.clone(), options.send, intake.clone(), news);
    let (_, wanted) = shelf.register(&options.node);
    let (shelf, cameras, node) = (shelf.clone(), cameras.clone(), options.node.clone());
    let gone = intake.clone();
    let told = node.clone();
    let tell = move |shelf: &Shelf| {
        let infos = cameras.values().map(|camera| camera.info(&told)).collect();
        if let Err(status) = shelf.update(&told, infos) {
            tracing::warn!("{}", status.message());
        }
    };
    // Before anybody can ask.
    tell(&shelf);
    tasks.spawn(async move {
        let mut period = tokio::time::interval(register::PERIOD);
        let served = desk.serve(wanted);
        tokio::pin!(served);
        loop {
            tokio::select! {
                () = &mut served => return Ok(()),
                () = gone.closed() => return Ok(()),
                Some(news) = heard.recv() => shelf.news(&node, news),
                _ = period.tick() => tell(&shelf),
            }
        }
    });
}

fn serve(
    service: FramesService,
    listener: TcpListener,
    tls: Option<&FleetTls>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let server = Server::builder()
        .http2_keepalive_interval(Some(QUIET))
        .http2_keepalive_timeout(Some(QUIET))
        .max_frame_size(CHUNK)
        .http2_max_header_list_size(Some(HEADERS_MAX))
        .max_concurrent_streams(Some(CALLS_MAX))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let handshake = tls.map(FleetTls::server).transpose().context("[frames]: TLS")?;
    let gone = service.intake.clone();
    let each = (WINDOW + HEADERS_MAX) as usize;
    let acceptor = Acceptor::new("[frames]", service.account.clone(), each, tls.is_some());
    tasks.spawn(async move {
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let incoming = incoming.filter_map(move |stream| acceptor.accept(stream));
        // Streams of subscribers would keep a gentle end waiting for ever: they are cut off.
        let served = async {
            match handshake {
                Some(tls) => server.serve_with_incoming(service, handshakes(tls, incoming)).await,
                None => server.serve_with_incoming(service, incoming).await,
            }
        };
        tokio::select! {
            served = served => served.context("[frames]"),
            () = gone.closed() => Ok(()),
        }
    });
    Ok(())
}
