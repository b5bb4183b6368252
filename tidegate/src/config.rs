//! The configuration: one tree of typed values, exactly the tables and keys of the file.
//!
//! The tree says what the file says and nothing else; [`read`] makes it from text and finds every
//! mistake, `crate::wire_up` converts it into what the node and the drivers want. A section that is left
//! out has a default that works, so an empty file is a node on loopback (see [`Config::completed`]).
//! Every key is explained in `docs/reference.toml`, which `reference` generates.

mod access;
pub mod check;
mod classes;
mod clients;
pub mod fleet;
pub mod frames;
mod group;
mod inputs;
mod kind;
mod links;
mod log;
mod mirror;
mod nearest;
pub(crate) mod network;
pub mod operators;
mod proxy;
mod quotas;
mod read;
pub mod reference;
mod replay;
mod scripts;
mod streams;
pub(crate) mod touches;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidegate_schedule::SchedulerName;
use tidegate_types::units::Size;

pub use access::{AllowConfig, TlsConfig, UserFrom};
pub use clients::{ClientVersion, MqttClientConfig};
pub use fleet::{FleetConfig, OrchestrateConfig, OrchestratorConfig, PeerConfig};
pub use frames::{CameraConfig, Controller, FramesConfig};
pub use group::{GroupConfig, MemberConfig, PlacedConfig};
pub use inputs::InputConfig;
pub use kind::FileKind;
pub use links::LinkInputConfig;
pub use log::{Backlog, LogConfig};
pub use mirror::MirrorConfig;
pub use network::Network;
pub use operators::{OperatorConfig, PoolMode};
pub use proxy::{
    AccessFormat, BodyMode, FarTlsConfig, HealthConfig, ListenMode, ORIGINAL, Protocol,
    ProxyConfig, ProxyListenerConfig, RouteConfig, UpstreamConfig, WhenDown,
};
pub use quotas::QuotaConfig;
pub use read::{Reading, read, read_file};
pub(crate) use read::{read_and, read_tree};
pub use replay::{ReplayConfig, ReplayFormat};
pub use scripts::ScriptConfig;
pub use streams::{Accept, Full, Order, StreamConfig};
use units::{BitRate, ByteSize, Listen, Period};

use crate::keys::by_name;
pub use crate::keys::{places, units};
pub use crate::output::registry::OutputConfig;
use crate::output::sink::SinkConfig;

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `[node]`.
    pub node: NodeConfig,
    /// Every `[[input]]`.
    pub input: Vec<InputConfig>,
    /// Every `[[class]]`, most urgent first.
    pub class: Vec<ClassConfig>,
    /// Every `[[stream]]`; the first whose topics match wins.
    pub stream: Vec<StreamConfig>,
    /// Every `[[output]]`.
    pub output: Vec<OutputConfig>,
    /// Every `[[script]]`.
    pub script: Vec<ScriptConfig>,
    /// Every `[[operator]]`.
    pub operator: Vec<OperatorConfig>,
    /// `[http]`.
    pub http: HttpConfig,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// Every `[[quota]]`; the first that covers a user holds.
    pub quota: Vec<QuotaConfig>,
    /// `[log]`.
    pub log: LogConfig,
    /// `[mirror]`.
    pub mirror: MirrorConfig,
    /// `[group]`.
    pub group: GroupConfig,
    /// Every `[[placed]]`.
    pub placed: Vec<PlacedConfig>,
    /// `[fleet]`.
    pub fleet: FleetConfig,
    /// `[proxy]`.
    pub proxy: ProxyConfig,
    /// `[frames]`.
    pub frames: FramesConfig,
    /// Every `[[camera]]`.
    pub camera: Vec<CameraConfig>,
}

impl Config {
    /// Whether nothing says where records come from: no input, and no cameras.
    fn needs_listener(&self) -> bool {
        let has_cameras = !self.camera.is_empty() || self.frames.listen.is_some();
        self.input.is_empty() && !has_cameras
    }

    /// What [`Config::completed`] adds, in words.
    pub(crate) fn added(&self) -> Vec<&'static str> {
        let listener = "added, as there is no [[input]]: a listener for MQTT clients at 127.0.0.1:1883 and \
                        [::1]:1883";
        let sink = "added, as there is no [[output]]: a sink that writes to ./tidegate-data";
        let both = [(self.needs_listener(), listener), (self.output.is_empty(), sink)];
        both.into_iter().filter_map(|(is_added, words)| is_added.then_some(words)).collect()
    }

    /// The configuration with every missing section filled in: three classes, an MQTT listener on
    /// loopback (unless there are cameras), the embedded sink, and a last rule that takes what no `[[stream]]` matches.
    pub fn completed(mut self) -> Config {
        if self.class.is_empty() {
            self.class = tidegate_types::class::default_classes().iter().map(Into::into).collect();
        }
        if self.needs_listener() {
            let listen = Listen(vec![([127, 0, 0, 1], 1883).into(), loopback_v6(1883)]);
            let mqtt = Some(MqttInputConfig { listen: Some(listen), ..Default::default() });
            self.input.push(InputConfig { mqtt, ..InputConfig::default() });
        }
        if self.output.is_empty() {
            let sink = Some(SinkConfig::default());
            self.output.push(OutputConfig { sink, ..OutputConfig::default() });
        }
        self.output.extend(self.frames.output());
        if self.stream.iter().all(|stream| stream.topics.is_some()) {
            self.stream.push(StreamConfig { name: Some("default".into()), ..Default::default() });
        }
        self
    }
}

fn loopback_v6(port: u16) -> SocketAddr {
    (std::net::Ipv6Addr::LOCALHOST, port).into()
}

/// `[node]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeConfig {
    /// The node's name in every record's identity; the host's name if left out.
    pub name: Option<String>,
    /// Which scheduler picks.
    #[serde(deserialize_with = "by_name")]
    pub scheduler: SchedulerName,
    /// Which waiting record the threads of operators take.
    pub pool: PoolMode,
    /// Threads of operators; one for each processor if left out.
    pub pool_threads: Option<u32>,
    /// How long a stop waits for the outputs to deliver what is held.
    pub stop_timeout: Period,
}

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            name: None,
            scheduler: SchedulerName::default(),
            pool: PoolMode::Edf,
            pool_threads: None,
            stop_timeout: Period(Duration::from_secs(10)),
        }
    }
}

impl NodeConfig {
    /// The given name, or the host's, or `node` where the host has none.
    pub fn name(&self) -> String {
        let host = || Some(machine_name()).filter(|name| !name.is_empty());
        self.name.clone().or_else(host).unwrap_or_else(|| "node".into())
    }
}

/// The name that the machine has, or none.
pub(crate) fn machine_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    text.trim().to_owned()
}

/// `mqtt` of an `[[input]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MqttInputConfig {
    /// Where clients connect.
    pub listen: Option<Listen>,
    /// TLS, which all clients of this listener must then speak.
    pub tls: Option<TlsConfig>,
    /// File of users and their hashed passwords.
    pub users: Option<PathBuf>,
    /// Whether clients without a user name may come in beside the users.
    pub anonymous: bool,
    /// Who says who a client is.
    pub user_from: UserFrom,
    /// Who may publish to what; everybody to everything if left out.
    pub allow: Option<Vec<AllowConfig>>,
    /// What clients before MQTT 5 hear of a publish that is refused.
    pub refused: Refused,
    /// How long the session of a client that is away is kept at most.
    pub session_expiry: Option<Period>,
    /// Longest keepalive of MQTT 5 clients.
    pub keepalive_max: Option<Period>,
    /// How long a new connection may take until its client is let in.
    pub connect_timeout: Option<Period>,
    /// How long a client that wanted no keepalive may be silent; zero is for ever.
    pub idle_timeout: Option<Period>,
    /// How long a packet above 32 KiB may take while others wait for its room.
    pub packet_timeout: Option<Period>,
    /// How long a client may refuse to read.
    pub write_timeout: Option<Period>,
}

impl MqttInputConfig {
    /// The given time, or a day.
    pub fn session_expiry(&self) -> Period {
        self.session_expiry.unwrap_or(Period(Duration::from_secs(24 * 3600)))
    }

    /// The given time, or 10 s: what other brokers give a handshake.
    pub fn connect_timeout(&self) -> Period {
        self.connect_timeout.unwrap_or(Period(Duration::from_secs(10)))
    }

    /// The given time, or for ever (zero): the standard lets such a client be silent.
    pub fn idle_timeout(&self) -> Period {
        self.idle_timeout.unwrap_or(Period(Duration::ZERO))
    }

    /// The given time, or a minute.
    pub fn packet_timeout(&self) -> Period {
        self.packet_timeout.unwrap_or(Period(Duration::from_secs(60)))
    }

    /// The given time, or 30 s.
    pub fn write_timeout(&self) -> Period {
        self.write_timeout.unwrap_or(Period(Duration::from_secs(30)))
    }
}

/// `refused` of an `mqtt` input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// No acknowledgement, and the connection is closed.
    #[default]
    Close,
    /// An acknowledgement, and the record is counted as dropped.
    Drop,
}

/// `[[class]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassConfig {
    /// Its name, as in `class = "ls"`.
    pub name: Option<String>,
    /// Bound on residence.
    pub latency: Option<Period>,
    /// Part of the uplink that is its own while it has a backlog, 0 to 1.
    pub min_share: Option<f64>,
    /// Never more than this.
    pub cap: Option<BitRate>,
    /// Part of its service that late records get while live ones wait too, 0 to 1.
    pub late_share: Option<f64>,
}

impl From<&tidegate_types::class::ClassSpec> for ClassConfig {
    fn from(spec: &tidegate_types::class::ClassSpec) -> Self {
        ClassConfig {
            name: Some(spec.name.to_string()),
            latency: Some(Period(spec.latency)),
            min_share: Some(spec.min_share.as_f64()),
            cap: spec.cap.map(BitRate),
            late_share: Some(spec.late_share.as_f64()),
        }
    }
}

/// `[http]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Where status, health and metrics are served; an empty list turns them off.
    pub listen: Listen,
    /// Names of this machine beside its own, by which it is asked for them.
    pub hosts: Vec<String>,
    /// How long a client may take for the head of a request.
    pub header_timeout: Period,
    /// How long a connection without a request is kept.
    pub keep_alive: Period,
    /// How long a client may read nothing of its answer.
    pub write_timeout: Period,
}

impl Default for HttpConfig {
    fn default() -> Self {
        HttpConfig {
            listen: Listen(vec![([127, 0, 0, 1], 7070).into()]),
            hosts: Vec::new(),
            header_timeout: Period(Duration::from_secs(10)),
            keep_alive: Period(Duration::from_secs(75)),
            write_timeout: Period(Duration::from_secs(10)),
        }
    }
}

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Bound on the bytes of records held; clients may make the broker hold half as much again.
    pub memory: ByteSize,
    /// Bound on one record: topic, properties and payload.
    pub record_max: ByteSize,
    /// Bound on client connections.
    pub connections: u32,
    /// Bound on the bytes that wait for one subscriber.
    pub subscriber: ByteSize,
    /// Bound on the bytes of retained messages.
    pub retained: ByteSize,
}

impl LimitsConfig {
    /// Bytes that all clients may make the broker hold beside what is retained: half as much as records may
    /// take, and some of the largest packets in any case.
    pub fn clients(&self) -> usize {
        /// A packet in the making needs twice its size, and one user gets three quarters.
        const PACKETS: u64 = 8;
        let bytes = (self.memory.0.0 / 2).max(PACKETS * self.record_max.0.0.min(1 << 28));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        LimitsConfig {
            memory: ByteSize(Size::from_mib(64)),
            record_max: ByteSize(Size::from_mib(1)),
            connections: 10_000,
            subscriber: ByteSize(Size::from_mib(4)),
            retained: ByteSize(Size::from_mib(64)),
        }
    }
}
