//! Cameras, from the configuration's words to those who do it.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tidegate_frames::{Gains, piece};
use tidegate_node::io::OutputId;
use tidegate_node::rules::{FullPolicy, Rule};
use tidegate_types::class::Classes;
use tidegate_types::record::AcceptMode;
use tidegate_types::topic::Filter;

use super::{Tasks, available, log_keys};
use crate::config::frames::LATENCY;
use crate::config::{CameraConfig, Config, OutputConfig};
use crate::node::contract::OutputPort;
use crate::node::event_loop::Running;
use crate::observe::status::Boards;
use crate::services::cameras::site::site;
use crate::services::cameras::{
    self, CameraOptions, FramesOptions, RecentLimit, ReplicaOptions, SendOptions, Shelf, Source,
    SourceOptions, StoreOptions, load_ladder, topics,
};

/// Bytes of a piece that goes by a link: ten of them make a frame of a tight channel, so what is given up of
/// a late one is most of what is left.
const PIECE: usize = 8 << 10;
/// The same to subscribers here, whom no channel parts from us: a frame in one piece is copied once less.
const PIECE_HERE: usize = 8 << 20;
/// What a record has beside its payload: its topic and the piece's head.
const BESIDE: usize = 1 << 10;

/// The rules of frames, before all others: one for each edge server, the first one last.
///
/// # Errors
/// A configuration that was not checked.
pub(crate) fn rules(config: &Config, classes: &Classes) -> anyhow::Result<Vec<Rule>> {
    if !config.frames.is_set() {
        return Ok(Vec::new());
    }
    let ways: Vec<&str> = config.frames.ways().collect();
    let rules = ways.iter().enumerate().rev();
    rules.map(|(way, to)| rule(config, classes, way, to)).collect()
}

fn rule(config: &Config, classes: &Classes, way: usize, to: &str) -> anyhow::Result<Rule> {
    let to = config.output.iter().position(|output| output.label() == to);
    let to = OutputId(u16::try_from(to.context("[frames]: no such output")?)?);
    let name = if way == 0 { "frames".into() } else { format!("frames-{}", way + 1).into() };
    let class = match &config.frames.class {
        Some(name) => classes.by_name(name).with_context(|| format!("no class {name:?}"))?,
        None => classes.for_latency(LATENCY.0),
    };
    let rule = Rule::catch_all(classes, vec![to]);
    // Who subscribed is at one edge server only: any other far end would take them for a stranger's.
    let is_own = |output: &&OutputConfig| output.link.as_ref().is_none_or(|link| !link.is_peer);
    let own = config.output.iter().filter(is_own).count();
    let same = config.fleet.peer.iter().zip(own..).filter(|(peer, _)| peer.frames);
    let same = same.filter_map(|(_, at)| u16::try_from(at).ok().map(OutputId));
    Ok(Rule {
        name,
        lent_to: Some(same.collect()),
        // `#` of a rule or a right does not cover them.
        filters: vec![Filter::new(&format!("{}#", topics(way)))?],
        latency: classes.spec(class).latency.min(LATENCY.0),
        class,
        // What does not fit is a piece that did not arrive: its frame is given up.
        full: FullPolicy::Reject,
        // Who sends learns of each piece when it is there.
        accept: AcceptMode::Confirmed,
        ..rule
    })
}

/// Starts the output to subscribers.
///
/// # Errors
/// None.
pub(crate) fn start_output(
    shelf: Shelf,
    port: OutputPort,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    tasks.spawn(async move {
        cameras::output::run(shelf, port).await;
        Ok(())
    });
    Ok(())
}

/// Starts what the configuration says of cameras. Answers the addresses where they publish.
///
/// # Errors
/// An address cannot be bound, or a file cannot be used.
pub(crate) async fn start_frames(
    config: &Config,
    running: &Running,
    boards: &Boards,
    shelf: Shelf,
    tasks: &mut Tasks,
) -> anyhow::Result<Vec<SocketAddr>> {
    let frames = &config.frames;
    if !frames.is_set() {
        return Ok(Vec::new());
    }
    let is_local = frames.is_served_here();
    let record_max = usize::try_from(config.limits.record_max.0.0).unwrap_or(usize::MAX);
    let piece = if is_local { PIECE_HERE } else { PIECE };
    let piece = piece.min(record_max.saturating_sub(BESIDE + piece::HEAD)).max(1);
    let site = frames.channel.as_deref().map(site).transpose().context("[frames] channel")?;
    let gains = Gains { gain_p: frames.gain_p, gain_i: frames.gain_i, aim: frames.aim };
    let controller = frames.controller.into();
    let send = SendOptions { controller, piece, site, gains, is_local, way: 0 };
    let cameras = config.camera.iter().map(camera).collect::<anyhow::Result<_>>()?;
    let listen = frames.listen.as_ref().map(|listen| available(&listen.0)).unwrap_or_default();
    let store = match frames.directory.clone() {
        Some(directory) => {
            let (room, keys) = (frames.keep.0.0, log_keys(&config.log)?);
            Some(StoreOptions { directory, room, keys })
        }
        None => None,
    };
    let replica_store = store.clone().filter(|_| is_local && frames.replica_keep.0.0 > 0);
    let replica_store = replica_store.map(|StoreOptions { directory, keys, .. }| {
        let (each, all) = (frames.replica_keep.0.0, frames.replica_keep_all.0.0);
        ReplicaOptions { directory, each, all, keys }
    });
    let options = FramesOptions {
        node: config.node.name().into(),
        listen,
        tls: config.frames_tls(),
        nodes: frames.nodes.clone(),
        cameras,
        servers: frames.servers(),
        send,
        workers: frames.workers as usize,
        replica: if is_local { frames.replica.0.0 } else { 0 },
        recent: RecentLimit { span: frames.recent_for.0, bytes: frames.recent.0.0 },
        store,
        replica_store,
    };
    cameras::start(options, shelf, running.intake.clone(), &boards.frames, tasks).await
}

fn camera(camera: &CameraConfig) -> anyhow::Result<CameraOptions> {
    let name: Arc<str> = camera.name.as_deref().unwrap_or_default().into();
    let ladder = load_ladder(camera.ladder.as_deref(), camera.gray);
    let ladder = ladder.with_context(|| format!("[[camera]] {name:?}"))?;
    let (publishers, subscribers) = (camera.publish.clone(), camera.subscribe.clone());
    let source = camera.source.as_deref().map(Source::parse).transpose();
    let source = source.map_err(|error| anyhow::anyhow!("[[camera]] {name:?} source: {error}"))?;
    let source = source.map(|source| SourceOptions { source, rate: camera.rate });
    let preview = camera.preview;
    let differencing = camera.differencing;
    Ok(CameraOptions { name, publishers, subscribers, ladder, source, preview, differencing })
}
