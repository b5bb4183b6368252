//! A camera node, a link, an edge server and its subscribers, each of which is killed.

use std::sync::Arc;

use tidegate::services::cameras::wire::{FrameMessage, PolicyMessage, ReplyKind, SubscribeRequest};
use tidegate_frames::jpeg::JpegHeader;
use tidegate_testbed::free_port;
use tonic::{Code, Status};

use crate::frames::client::{Client, Film, Watch, jpeg, live};
use crate::support::certificates::{Authority, Issued};
use crate::support::process::Node;

/// The two nodes' world.
pub(crate) struct World {
    name: &'static str,
    authority: Arc<Authority>,
    server: Issued,
    node: Issued,
    ports: [u16; 3],
}

impl World {
    pub(crate) fn new(name: &'static str) -> World {
        let authority = Arc::new(Authority::new(name));
        let (server, node) = (authority.issue("edge"), authority.issue("cam-node"));
        World { name, server, node, ports: [free_port(), free_port(), free_port()], authority }
    }

    fn files(&self, issued: &Issued, join: &str) -> String {
        let ca = self.authority.ca();
        format!(
            "ca = {ca:?}{join}certificate = {:?}{join}key = {:?}",
            issued.certificate, issued.key
        )
    }

    /// The edge server.
    pub(crate) fn edge(&self) -> Node {
        self.server("edge", self.ports)
    }

    /// An edge server at these ports.
    fn server(&self, name: &str, ports: [u16; 3]) -> Node {
        let config = self.server_config(name, ports);
        let mut node = Node::start(&format!("{}-{name}", self.name), &config);
        node.wait_for("ready");
        node
    }

    fn server_config(&self, name: &str, [link, frames, _]: [u16; 3]) -> String {
        format!(
            "[node]\nname = {name:?}\n[http]\nlisten = []\n\
             [[input]]\nlink = {{ listen = \"127.0.0.1:{link}\", {} }}\n\
             [frames]\nlisten = \"127.0.0.1:{frames}\"\nnodes = [\"cam-node\"]\n{}\n",
            self.files(&self.server, ", "),
            self.files(&self.server, "\n"),
        )
    }

    /// The camera node.
    pub(crate) fn cameras(&self) -> Node {
        let mut node = Node::start(&format!("{}-cameras", self.name), &self.cameras_config());
        node.wait_for("ready");
        node
    }

    fn cameras_config(&self) -> String {
        let [link, frames, own] = self.ports;
        format!(
            "[node]\nname = \"cam-node\"\n[http]\nlisten = []\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
             [[output]]\nname = \"edge\"\n\
             link = {{ to = \"127.0.0.1:{link}\", {} }}\n\
             [frames]\nlisten = \"127.0.0.1:{own}\"\nserver = \"127.0.0.1:{frames}\"\nto = \"edge\"\n{}\n\
             [[camera]]\nname = \"gate\"\npublish = [\"cam-host\"]\nsubscribe = [\"app\"]\n",
            self.files(&self.node, ", "),
            self.files(&self.node, "\n"),
        )
    }

    async fn client(&self, name: &str) -> Client {
        Client::proven(self.ports[1], &self.authority, name).await.unwrap()
    }

    /// An application that comes back until it is served.
    pub(crate) async fn subscribe(&self, request: &SubscribeRequest) -> Watch {
        self.subscribe_at(self.ports[1], request).await
    }

    async fn subscribe_at(&self, port: u16, request: &SubscribeRequest) -> Watch {
        let mut period = tokio::time::interval(std::time::Duration::from_millis(100));
        let end = tokio::time::Instant::now() + crate::frames::PATIENCE;
        loop {
            period.tick().await;
            assert!(tokio::time::Instant::now() < end, "it is not served");
            let client = Client::proven(port, &self.authority, "app").await;
            let Ok(mut client) = client else { continue };
            match client.subscribe(request.clone()).await {
                Ok(watch) => return watch,
                Err(status) if matches!(status.code(), Code::NotFound | Code::Unavailable) => {}
                Err(status) => panic!("{status}"),
            }
        }
    }

    /// A camera's host at its node.
    pub(crate) async fn publisher(&self) -> Client {
        Client::proven(self.ports[2], &self.authority, "cam-host").await.unwrap()
    }

    pub(crate) fn film(&self) -> Film {
        let port = self.ports[2];
        Film::of("gate", port, Some(self.authority.clone()))
    }
}

/// That it is a picture of what the camera took.
pub(crate) fn is_right(frame: &FrameMessage) {
    let head = JpegHeader::read(&frame.jpeg).unwrap();
    let size = (u32::from(head.width), u32::from(head.height));
    assert_eq!(size, (frame.width, frame.height));
    assert_eq!((frame.source_width, frame.source_height), (1280, 720));
    assert_eq!(frame.width, (1280 * frame.eighths).div_ceil(8));
    assert!(frame.quality > 0 && frame.jpeg.len() < jpeg().len(), "{} bytes", frame.jpeg.len());
}

#[tokio::test]
async fn frames_cross_a_link_at_a_rung_and_survive_the_end_of_either_node() {
    let world = World::new("frames-edge");
    let mut edge = world.edge();
    let mut cameras = world.cameras();
    let _film = world.film();
    let request =
        SubscribeRequest { policy: PolicyMessage::Degrade.into(), ..live("gate", 20_000, 0.5) };
    let mut watch = world.subscribe(&request).await;
    for _ in 0..5 {
        is_right(&watch.frame().await.unwrap());
    }

    // A subscriber goes without a word; another one that asks for less time has a flow of its own.
    drop(watch);
    let mut watch = world.subscribe(&request).await;
    let mut other = world.subscribe(&live("gate", 30_000, 0.9)).await;
    is_right(&watch.frame().await.unwrap());
    is_right(&other.frame().await.unwrap());

    // The camera node: subscribers need do nothing.
    cameras.process.kill().unwrap();
    cameras.end();
    let _cameras = world.cameras();
    let before = watch.frame().await.unwrap().frame;
    let mut last = before;
    for _ in 0..5 {
        last = watch.frame().await.unwrap().frame;
    }
    assert!(last > before);

    // The server: it learns from its camera nodes what there is; subscribers come again.
    edge.process.kill().unwrap();
    edge.end();
    let ended: Status = loop {
        if let Err(status) = watch.frame().await {
            break status;
        }
    };
    assert_ne!(ended.code(), Code::Ok);
    let _edge = world.edge();
    let mut watch = world.subscribe(&request).await;
    is_right(&watch.frame().await.unwrap());
}

#[tokio::test]
async fn a_camera_that_goes_leaves_its_frames_at_its_edge_server() {
    let world = World::new("frames-replica");
    let _edge = world.edge();
    leaves_its_frames(&world, async |_| ()).await;
}

#[tokio::test]
async fn a_camera_that_is_gone_has_its_frames_after_a_restart_of_its_edge_server() {
    let world = World::new("frames-replica-disk");
    let directory =
        std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("frames-replica-disk");
    let _ = std::fs::remove_dir_all(&directory);
    let config = world.server_config("edge", world.ports);
    let kept = format!("[frames]\ndirectory = {directory:?}\n");
    let config = config.replace("[frames]\n", &kept);
    let start = || {
        let mut node = Node::start("frames-replica-disk-edge", &config);
        node.wait_for("ready");
        node
    };
    let edge = std::cell::RefCell::new(start());
    leaves_its_frames(&world, async |last| {
        let end = tokio::time::Instant::now() + crate::frames::PATIENCE;
        while !is_in(&directory, &last.jpeg) {
            assert!(tokio::time::Instant::now() < end, "it is not kept");
            tokio::task::yield_now().await;
        }
        edge.borrow_mut().process.kill().unwrap();
        edge.borrow_mut().end();
        *edge.borrow_mut() = start();
    })
    .await;
    drop(edge);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Whether a file of a folder has these bytes.
fn is_in(folder: &std::path::Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_in(&path, bytes),
            // One that is written now, and has another name in a moment.
            false => std::fs::read(&path)
                .is_ok_and(|content| content.windows(bytes.len()).any(|part| part == bytes)),
        }
    })
}

/// A camera sends some frames and is killed; then `meanwhile`, with the last frame that came; then they are replayed from the
/// edge server.
async fn leaves_its_frames(world: &World, meanwhile: impl AsyncFn(&FrameMessage)) {
    let mut cameras = world.cameras();
    let film = world.film();
    let request =
        SubscribeRequest { policy: PolicyMessage::Degrade.into(), ..live("gate", 20_000, 0.5) };
    let mut watch = world.subscribe(&request).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(watch.frame().await.unwrap());
    }
    cameras.process.kill().unwrap();
    cameras.end();
    drop(film);
    meanwhile(&seen[4]).await;
    let mut client = world.client("app").await;
    let known = loop {
        let known = client.cameras().await.remove(0);
        if !known.is_online {
            break known;
        }
    };
    assert!(known.oldest_unix_ns <= seen[0].frame && known.oldest_unix_ns > 0);
    let span = SubscribeRequest {
        start_unix_ns: Some(seen[1].frame),
        stop_unix_ns: Some(seen[4].frame),
        ..live("gate", 0, 1.0)
    };
    let mut replay = client.subscribe(span).await.unwrap();
    let mut replayed = Vec::new();
    while let Some(reply) = replay.next().await.unwrap() {
        let ReplyKind::Frame(frame) = reply else { panic!("{reply:?}") };
        replayed.push((frame.frame, frame.jpeg));
    }
    assert!(replayed.is_sorted_by_key(|(number, _)| *number));
    for frame in &seen[1..] {
        is_right(frame);
        assert!(replayed.contains(&(frame.frame, frame.jpeg.clone())), "as it was sent");
    }
}

#[tokio::test]
async fn another_edge_server_serves_while_the_first_one_is_gone() {
    let world = World::new("frames-failover");
    let mut first = world.edge();
    let other = [free_port(), free_port(), 0];
    let _second = world.server("edge-2", other);
    let fallback = format!(
        "[[output]]\nname = \"edge-2\"\nlink = {{ to = \"127.0.0.1:{}\", {} }}\n\
         [frames]\nfallback = [{{ server = \"127.0.0.1:{}\", to = \"edge-2\" }}]\n",
        other[0],
        world.files(&world.node, ", "),
        other[1],
    );
    let config = world.cameras_config().replace("[frames]\n", &fallback);
    let mut cameras = Node::start("frames-failover-cameras", &config);
    cameras.wait_for("ready");
    let _film = world.film();
    let request = live("gate", 20_000, 0.5);
    let mut watch = world.subscribe(&request).await;
    is_right(&watch.frame().await.unwrap());
    first.process.kill().unwrap();
    first.end();
    let mut watch = world.subscribe_at(other[1], &request).await;
    for _ in 0..5 {
        is_right(&watch.frame().await.unwrap());
    }
    // The first one is back, and its cameras come back to it.
    let _first = world.edge();
    let mut watch = world.subscribe(&request).await;
    for _ in 0..5 {
        is_right(&watch.frame().await.unwrap());
    }
}

#[tokio::test]
async fn strangers_see_nothing_and_take_no_part() {
    let world = World::new("frames-acl");
    let _edge = world.edge();
    let _cameras = world.cameras();
    let _watch = world.subscribe(&live("gate", 20_000, 0.5)).await;

    let mut stranger = world.client("stranger").await;
    assert!(stranger.cameras().await.is_empty());
    let denied = stranger.subscribe(live("gate", 20_000, 0.5)).await.err().expect("it may not");
    assert_eq!(denied.code(), Code::PermissionDenied);
    let own = world.ports[2];
    let mut liar = Client::proven(own, &world.authority, "stranger").await.unwrap();
    let reply = liar.publish().await.unwrap().take("gate", 0, &jpeg()).await;
    assert_eq!(reply.error, "\"stranger\" may not publish frames of camera \"gate\"");

    let foreign = Authority::new("frames-foreign");
    let refused = Client::proven(world.ports[1], &foreign, "app").await;
    let served = match refused {
        Ok(mut client) => client.subscribe(live("gate", 20_000, 0.5)).await.is_ok(),
        Err(_) => false,
    };
    assert!(!served, "a certificate of another authority");
    let plain = Client::plain(world.ports[1]).await;
    let served = match plain {
        Ok(mut client) => client.subscribe(live("gate", 20_000, 0.5)).await.is_ok(),
        Err(_) => false,
    };
    assert!(!served, "no certificate");
}

#[tokio::test]
async fn a_channel_is_measured_beside_its_node_and_is_where_that_begins() {
    let world = World::new("frames-channel");
    let _edge = world.edge();
    let running = world.cameras();
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (config, site) = (folder.join("frames-channel-cameras.toml"), folder.join("channel.json"));
    let _ = std::fs::remove_file(&site);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["calibrate", "channel"])
        .arg(&config)
        .args(["--sizes", "1000,900000", "--probes", "5", "--out"])
        .arg(&site)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("10 probes of 1000 to 900000 bytes by output \"edge\""), "{told}");
    assert!(tidegate::services::cameras::site::site(&site).unwrap().rate > 1000.0);
    drop(running);
    let begun =
        world.cameras_config().replace("[frames]\n", "[frames]\nchannel = \"channel.json\"\n");
    let mut node = Node::start("frames-channel-begun", &begun);
    node.wait_for("ready");
    let _film = world.film();
    let mut watch = world.subscribe(&live("gate", 20_000, 0.5)).await;
    assert!(watch.frame().await.unwrap().frame > 0);
}
