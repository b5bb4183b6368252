//! `[frames]` and `[[camera]]`: cameras of this node, and who watches which.

pub(crate) mod source;

use std::path::PathBuf;
use std::time::Duration;

use tidegate_frames::ControllerName;
use tidegate_types::units::Size;

use super::units::{ByteSize, Listen, Period};
use super::{Config, OutputConfig};
use crate::keys::table::{choices, keys};
use crate::support::tls::grpc::FleetTls;

/// Name of the output that leads to subscribers of this node.
pub const SUBSCRIBERS: &str = "subscribers";

keys! {
    /// `[frames]`; without `listen` and `server` there is nothing of it.
    pub struct FramesConfig {
        /// Where cameras publish, camera nodes register and applications subscribe, by gRPC. Off loopback everybody
        /// shows a certificate.
        pub listen: Option<Listen>; sample("127.0.0.1:7420"),
        /// The edge server where this node's cameras are registered. Default: subscribers come here.
        pub server: Option<String>; sample("edge.example:7420"),
        /// The output that leads to that server: a link. Required with server.
        pub to: Option<String>; sample("cloud"),
        /// Edge servers for when that one does not answer, in this order, each with the output that leads to it. When the
        /// first one is back, its cameras go back to it. Default: none.
        pub fallback: Vec<FallbackConfig> = Vec::new();
            sample(r#"[{ server = "edge-2.example:7420", to = "cloud" }]"#),
        /// The class of frames. Default: the one for 100ms.
        pub class: Option<String>; sample("nm"),
        /// Who says how many bytes a frame may have.
        pub controller: Controller = Controller::FeedForward,
        /// Where controllers begin, by `tidegate calibrate channel`. Default: at 1 Mbit/s.
        pub channel: Option<PathBuf>; sample("channel.json"),
        /// Frames encoded at once, each on a thread of its own.
        pub workers: u32 = 2; at_least(1, "nothing could be encoded"),
        /// Controller pi: bytes that a frame shrinks by for each millisecond that the last one took beyond the aim.
        pub gain_p: f64 = 50.0; between(0.0, 1e6, "bytes a millisecond"),
        /// Controller pi: the same, added up over all frames.
        pub gain_i: f64 = 10.0; between(0.0, 1e6, "bytes a millisecond"),
        /// Controller pi: the latency that it aims at, as a part of the bound.
        pub aim: f64 = 0.8; between(0.1, 1.0, "a part of the bound"),
        /// Bytes of each camera's newest frames that stay in memory for replay.
        pub recent: ByteSize = ByteSize(Size::from_mib(4)),
        /// For how long they stay there at most.
        pub recent_for: Period = Period(Duration::from_secs(10)),
        /// Bytes of each camera's frames that stay in memory where its subscribers come, as they were sent: a replay of a
        /// camera that is away has them.
        pub replica: ByteSize = ByteSize(Size::from_mib(4)),
        /// Folder where frames are kept for replay, with what became of each; sealed where [log] has a key. Default: none
        /// is kept but in memory.
        pub directory: Option<PathBuf>; sample("/var/lib/tidegate/frames"),
        /// Bytes kept of each camera; the oldest frames go.
        pub keep: ByteSize = ByteSize(Size::from_mib(256)),
        /// Bytes kept there of each camera of another node, where its subscribers come, as frames were sent: a replay of a
        /// camera that is away has them, after a restart, too. 0: they stay in memory only.
        pub replica_keep: ByteSize = ByteSize(Size::from_mib(64)),
        /// Bytes kept there of all of these together: of the camera that sent nothing for longest the oldest frames go.
        pub replica_keep_all: ByteSize = ByteSize(Size::from_mib(1024)),
        /// Nodes that may register cameras here. Default: all with a certificate.
        pub nodes: Vec<String> = Vec::new(); sample(r#"["cam-node-1"]"#),
        /// Authorities of all certificates. Default: that of [fleet], as for the next two.
        pub ca: Option<PathBuf>; sample("/etc/tidegate/pki/ca.pem"),
        /// The certificate of this node; its common name is the node's name.
        pub certificate: Option<PathBuf>; sample("/etc/tidegate/pki/gate-7.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; sample("/etc/tidegate/pki/gate-7.key"),
    }
}

keys! {
    /// One of `fallback`.
    pub struct FallbackConfig: Eq {
        /// The edge server.
        pub server: Option<String>; required(),
        /// The output that leads to it: a link.
        pub to: Option<String>; required(),
    }
}

choices! {
    /// `controller` of `[frames]`.
    pub enum Controller: Copy, Eq {
        /// The Mez paper's, repaired.
        Pi = "pi",
        /// Tidegate's own, which measures the channel.
        FeedForward = "feed-forward",
        /// The best rung always.
        Fixed = "fixed",
    }
}

impl From<Controller> for ControllerName {
    fn from(controller: Controller) -> Self {
        match controller {
            Controller::Pi => ControllerName::Pi,
            Controller::FeedForward => ControllerName::FeedForward,
            Controller::Fixed => ControllerName::Fixed,
        }
    }
}

keys! {
    /// `[[camera]]`.
    pub struct CameraConfig {
        /// Its name.
        pub name: Option<String>; required() sample("gate-north"),
        /// Names in certificates that may publish. Default: all.
        pub publish: Vec<String> = Vec::new(); sample(r#"["cam-host-1"]"#),
        /// Names that may subscribe. Default: all.
        pub subscribe: Vec<String> = Vec::new(); sample(r#"["counting"]"#),
        /// Its ladder (docs/CAMERAS.md); "mez" is one of the Mez paper's knobs, to compare with. Default: a generic one.
        pub ladder: Option<PathBuf>; sample("/etc/tidegate/gate-north.json"),
        /// Whether frames may go without colour.
        pub gray: bool = false,
        /// Live frames that differ from the last one that was sent in no more than this part of their pixels are not sent,
        /// for a second at most: what was found on that one still stands. Default: all are sent.
        pub differencing: Option<f64>; sample("0.02") between(0.0, 1.0, "a part of the pixels: 0 to 1"),
        /// Where its frames come from: http:// (MJPEG), rtsp://, rtsps://, https:// (by ffmpeg), /dev/video0, a folder
        /// of JPEGs, or a clip, again and again. Default: they are published.
        pub source: Option<String>; sample("rtsp://camera.example/stream"),
        /// Frames of the source a second, at most. Default: all; of a folder 5.
        pub rate: Option<f64>; sample("5") between(0.01, 240.0, "frames a second: 0.01 to 240"),
        /// Whether /cameras/NAME of [http] shows it, to everybody who reaches that.
        pub preview: bool = false,
    }
}

impl FramesConfig {
    /// Whether the node has to do with frames.
    pub fn is_set(&self) -> bool {
        self.listen.is_some() || self.server.is_some()
    }

    /// The output that frames go to.
    pub fn to(&self) -> &str {
        self.to.as_deref().unwrap_or(SUBSCRIBERS)
    }

    /// The edge servers, in the order in which they are tried.
    pub fn servers(&self) -> Vec<String> {
        let others = self.fallback.iter().filter_map(|one| one.server.clone());
        self.server.iter().cloned().chain(others).collect()
    }

    /// The outputs that frames go to: the first, and those of `fallback`.
    pub fn ways(&self) -> impl Iterator<Item = &str> {
        let others = self.fallback.iter().filter_map(|one| one.to.as_deref());
        std::iter::once(self.to()).chain(others)
    }

    /// Whether subscribers come to this node.
    pub fn is_served_here(&self) -> bool {
        self.is_set() && self.to.is_none()
    }

    /// The output to subscribers of this node, which is added to those of the file.
    pub(super) fn output(&self) -> Option<OutputConfig> {
        let has_subscribers = self.is_served_here();
        has_subscribers.then(|| OutputConfig {
            name: Some(SUBSCRIBERS.into()),
            frames: true,
            ..OutputConfig::default()
        })
    }
}

/// Bound on the residence of frames where no class is given: what people mean by live.
pub const LATENCY: Period = Period(Duration::from_millis(100));

impl Config {
    /// The files of its TLS: authorities, certificate and key.
    pub fn frames_files(&self) -> [Option<PathBuf>; 3] {
        let Config { frames, fleet, .. } = self;
        [
            (&frames.ca, &fleet.ca),
            (&frames.certificate, &fleet.certificate),
            (&frames.key, &fleet.key),
        ]
        .map(|(own, of_fleet)| own.clone().or_else(|| of_fleet.clone()))
    }

    /// The same, if all are given.
    pub fn frames_tls(&self) -> Option<FleetTls> {
        let [ca, certificate, key] = self.frames_files();
        Some(FleetTls { ca: ca?, certificate: certificate?, key: key? })
    }
}
