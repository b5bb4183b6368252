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
pub mod operators;
pub mod page;
mod proxy;
mod quotas;
mod read;
pub mod reference;
mod replay;
pub mod schema;
mod scripts;
mod streams;
pub(crate) mod touches;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_schedule::SchedulerName;
use tidegate_types::class::ClassSpec;
use tidegate_types::units::Size;

pub use access::{
    AllowConfig, HookConfig, HookDown, JwtConfig, TlsConfig, UserFrom, WebSocketConfig,
};
pub use clients::MqttClientConfig;
pub use fleet::{FleetConfig, OrchestrateConfig, OrchestratorConfig, PeerConfig};
pub use frames::{CameraConfig, Controller, FramesConfig};
pub use group::{GroupConfig, MemberConfig, PlacedConfig};
pub use inputs::InputConfig;
pub use kind::FileKind;
pub use links::LinkInputConfig;
pub use log::{Backlog, LogConfig};
pub use mirror::MirrorConfig;
pub use operators::{OperatorConfig, PoolMode};
pub use proxy::{
    AccessFormat, BodyMode, FarTlsConfig, HealthConfig, ListenMode, ORIGINAL, Protocol,
    ProxyConfig, ProxyListenerConfig, RouteConfig, UpstreamConfig, WhenDown,
};
pub use quotas::QuotaConfig;
pub use read::{Reading, read, read_file};
pub(crate) use read::{read_and, read_file_again, read_tree};
pub(crate) use replay::SPEED;
pub use replay::{ReplayConfig, ReplayFormat};
pub use scripts::ScriptConfig;
pub use streams::{Accept, Full, Order, StreamConfig};
use units::{BitRate, ByteSize, Listen, Period};

pub(crate) use crate::keys::network;
pub use crate::keys::network::Network;
use crate::keys::table::{choices, keys};
pub use crate::keys::{places, units};
pub use crate::output::registry::OutputConfig;
use crate::output::sink::SinkConfig;

keys! {
    /// A whole file.
    pub struct Config {
        /// The node itself.
        pub node: NodeConfig = NodeConfig::default(); standing() restarts(),
        /// Where records come from: any number of these, each of exactly one kind. Default: an MQTT listener on
        /// 127.0.0.1:1883 and [::1]:1883.
        pub input: Vec<InputConfig> = Vec::new(); standing() reloads(),
        /// A named latency bound, most urgent first; streams with a bound up to it belong to it. Default: these three.
        pub class: Vec<ClassConfig> = Vec::new(); standing() restarts(),
        /// Which records matter within which time. The first one whose topics match wins; what none matches goes to the
        /// first output in the last class.
        pub stream: Vec<StreamConfig> = Vec::new(); reloads(),
        /// Where records go: any number of these, each of exactly one kind. Default: a sink in ./tidegate-data.
        pub output: Vec<OutputConfig> = Vec::new(); restarts(),
        /// A program in Luau that drops, moves, redirects, replaces or transforms what waits; streams name it by
        /// their key script (docs/SCRIPTS.md). It can be changed while the node runs.
        pub script: Vec<ScriptConfig> = Vec::new(); reloads() section_apart(),
        /// What records of a topic go through on their way to another one (docs/OPERATORS.md). It can be changed while
        /// the node runs.
        pub operator: Vec<OperatorConfig> = Vec::new(); reloads() section_apart(),
        /// Status page, /status, /metrics, /healthz and /readyz.
        pub http: HttpConfig = HttpConfig::default(); standing() restarts(),
        /// Bounds of the whole node.
        pub limits: LimitsConfig = LimitsConfig::default(); standing() reloads(),
        /// What one user of the MQTT listeners may have, or one address where clients have no name. The first whose
        /// user covers a client's holds for it. Without any, shares hold: one user alone may take 61 % of a listener's
        /// connections, of all streams and of 7/8 of the log's bound, and less where others have much; whoever has most
        /// sessions makes room with his own. Beyond them 0x97 is the answer (before MQTT 5: see docs/BROKER.md).
        pub quota: Vec<QuotaConfig> = Vec::new(); reloads(),
        /// The log, which keeps accepted records over a crash. Without a directory there is none.
        pub log: LogConfig = LogConfig::default(); restarts(),
        /// This node's log at a neighbour, which sends what is owed when this node is gone; and neighbours' logs here.
        /// Without to and listen there is none.
        pub mirror: MirrorConfig = MirrorConfig::default(); restarts(),
        /// Nodes that are one broker for placed topics: each takes publishes and serves subscribers, one owns a topic
        /// and works on it, and topics move among them (docs/MOVES.md). The same members and topics at all.
        pub group: GroupConfig = GroupConfig::default(); restarts() section_apart(),
        /// Topics that move together among the members of [group].
        pub placed: Vec<PlacedConfig> = Vec::new(); restarts() section_apart(),
        /// Neighbours carry what the uplink cannot, and the other way round. Without an orchestrator named here, and
        /// without a standing permit of a neighbour, the node is part of no fleet; while none answers it goes on with
        /// standing permits alone.
        pub fleet: FleetConfig = FleetConfig::default(); restarts(),
        /// An HTTP sidecar, for `tidegate proxy` alone (docs/PROXY.md).
        pub proxy: ProxyConfig = ProxyConfig::default(); reloads(),
        /// Cameras: frames that shrink to fit the channel (docs/CAMERAS.md). Without listen and server there is nothing
        /// of it.
        pub frames: FramesConfig = FramesConfig::default(); restarts(),
        /// A camera of this node.
        pub camera: Vec<CameraConfig> = Vec::new(); restarts(),
    }
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

keys! {
    /// `[node]`.
    pub struct NodeConfig {
        /// Its name in every record's identity. Default: the host's name.
        pub name: Option<String>; sample("gate-7"),
        /// Who picks the next record (docs/algorithms-janus.md).
        pub scheduler: SchedulerName = SchedulerName::default(),
        /// Topics, properties and payload that all inputs together let in, a second. What comes faster is not read for a
        /// while: nothing is refused or dropped for it (docs/algorithms-janus.md#inbound). Default: no limit.
        pub inbound: Option<BitRate>; sample("80mbit") above_zero("nothing could come in: leave it out for no limit"),
        /// Which waiting record the threads of operators take.
        pub pool: PoolMode = PoolMode::Edf,
        /// Threads of operators. Default: one for each processor.
        pub pool_threads: Option<u32>;
            apart("4") between(1, 256, "give 1 to 256, or leave it out"),
        /// How often the $SYS topics are published to subscribers here; "0s" is never (docs/BROKER.md).
        pub sys_interval: Period = Period(Duration::from_secs(10)),
        /// How long a stop waits for the outputs to deliver what is held; the rest is then dropped.
        pub stop_timeout: Period = Period(Duration::from_secs(10)),
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

keys! {
    /// `mqtt` of an `[[input]]`.
    pub struct MqttInputConfig: Eq {
        /// One address or a list. Without TLS: beyond loopback, in a network that you trust only.
        pub listen: Option<Listen>;
            required() standing() sample(r#"["127.0.0.1:1883", "[::1]:1883"]"#),
        /// TLS 1.2 and 1.3, which every client of this listener must then speak. PEM files: the certificate with what
        /// leads to its authority, its key, and, where clients must show a certificate too, the authorities of theirs.
        /// `tidegate keys` makes such files.
        pub tls: Option<TlsConfig>;
            apart(r#"{ certificate = "node.pem", key = "node.key", client_ca = "ca.pem" }"#),
        /// MQTT over WebSocket, which every client of this listener must then speak: ws, or wss with tls. For browsers
        /// (docs/howto/websocket.md).
        pub websocket: Option<WebSocketConfig>; apart(r#"{ origins = ["https://desk.example"] }"#),
        /// Load balancers, by their addresses: their connections begin with a header of the PROXY protocol, version 2,
        /// which says from where a client comes. It counts as the client's address from then on.
        pub proxy_protocol: Vec<Network> = Vec::new(); apart(r#"["10.0.0.5", "10.1.0.0/16"]"#),
        /// File of users and hashed passwords, which `tidegate user` makes; it is read again when it changes. Clients
        /// without a user name are then refused.
        pub users: Option<PathBuf>; apart("/etc/tidegate/users"),
        /// Clients without a user name may come in: beside users, or, where no users are given, on an address beyond
        /// loopback without the warning that anybody can.
        pub anonymous: bool = false; apart("true"),
        /// Who says which user a client is.
        pub user_from: UserFrom = UserFrom::Password; apart("certificate"),
        /// Passwords may be JSON Web Tokens, which say who their user is (docs/howto/tokens.md).
        pub jwt: Option<JwtConfig>;
            apart(r#"{ keys = "jwks.json", issuer = "https://login.example", audience = ["plant"] }"#),
        /// A server that is asked by HTTP who comes in and may do what (docs/howto/tokens.md).
        pub hook: Option<HookConfig>; apart(r#"{ url = "http://127.0.0.1:8080/login" }"#),
        /// Who may publish to what (topics) and subscribe to what (subscribe): user is a pattern (left out: everybody),
        /// %u the user's own name. A client has the rights of all entries that fit. Default: everything for everybody.
        pub allow: Option<Vec<AllowConfig>>;
            apart(r#"[{ user = "plc-*", topics = ["factory/%u/#"], subscribe = ["orders/%u/#"] }]"#),
        /// What a client before MQTT 5 hears of a publish that is refused, for there are no words for it.
        pub refused: Refused = Refused::Close,
        /// How long the session of a client that is away is kept, if it asks for that long: what it has subscribed to,
        /// what waits for it, and what is known of its QoS 2 publishes. Whole seconds; "0s" keeps none.
        pub session_expiry: Period = Period(Duration::from_secs(24 * 3600)),
        /// Longest keepalive of MQTT 5 clients, which are told so. Whole seconds. Default: what they ask.
        pub keepalive_max: Option<Period>; apart("60s"),
        /// How long a new connection may take until its client is let in: TLS, CONNECT, password.
        pub connect_timeout: Period = Period(Duration::from_secs(10));
            above_zero("nothing is that fast: give at least \"1s\""),
        /// How long a client that asked for no keepalive may be silent; "0s" is for ever.
        pub idle_timeout: Period = Period(Duration::ZERO),
        /// How long a packet above 32 KiB may take from then on while others wait for its room.
        pub packet_timeout: Period = Period(Duration::from_secs(60));
            above_zero("nothing is that fast: give at least \"1s\""),
        /// How long a client may leave unread what it is sent.
        pub write_timeout: Period = Period(Duration::from_secs(30));
            above_zero("nothing is that fast: give at least \"1s\""),
    }
}

choices! {
    /// `refused` of an `mqtt` input.
    pub enum Refused: Copy, Eq {
        /// No acknowledgement, and the connection is closed.
        Close = "close",
        /// An acknowledgement, and the record is counted in tidegate_input_dropped_records_total.
        Drop = "drop",
    }
}

keys! {
    /// `[[class]]`.
    pub struct ClassConfig {
        /// As in class = "ls".
        pub name: Option<String>; required() sample("ls"),
        /// Bound on residence: arrival to the last byte on the wire.
        pub latency: Option<Period>;
            required() sample("50ms") above_zero("no record is that fast: give at least \"1ms\""),
        /// Part of the uplink that is its own while it has a backlog. Together at most 1.
        pub min_share: f64 = ClassSpec::new("", Duration::ZERO).min_share.as_f64();
            between(0.0, 1.0, "is a share of the whole: give a number from 0 to 1, such as 0.05"),
        /// Part of its service that late records get while live ones wait too.
        pub late_share: f64 = ClassSpec::new("", Duration::ZERO).late_share.as_f64();
            between(0.0, 1.0, "is a share of the whole: give a number from 0 to 1, such as 0.05"),
        /// Never more than this. Default: no cap.
        pub cap: Option<BitRate>;
            apart("10mbit") above_zero("nothing could ever be sent: give a rate, or leave it out"),
    }
}

impl From<&ClassSpec> for ClassConfig {
    fn from(spec: &ClassSpec) -> Self {
        ClassConfig {
            name: Some(spec.name.to_string()),
            latency: Some(Period(spec.latency)),
            min_share: spec.min_share.as_f64(),
            late_share: spec.late_share.as_f64(),
            cap: spec.cap.map(BitRate),
        }
    }
}

keys! {
    /// `[http]`.
    pub struct HttpConfig: Eq {
        /// One address or a list; [] for none.
        pub listen: Listen = Listen(vec![([127, 0, 0, 1], 7070).into()]),
        /// Names by which it is asked, beside addresses, localhost and the machine's own name. Default: none.
        pub hosts: Vec<String> = Vec::new(); sample(r#"["gate-7.example"]"#),
        /// How long a client may take for the head of a request.
        pub header_timeout: Period = Period(Duration::from_secs(10));
            above_zero("no client is that fast: give at least \"1s\""),
        /// How long a connection without a request is kept.
        pub keep_alive: Period = Period(Duration::from_secs(75));
            above_zero("no client is that fast: give at least \"1s\""),
        /// How long a client may read nothing of its answer.
        pub write_timeout: Period = Period(Duration::from_secs(10));
            above_zero("no client is that fast: give at least \"1s\""),
    }
}

keys! {
    /// `[limits]`.
    pub struct LimitsConfig: Eq {
        /// Bytes of records held; clients may make the broker hold half as much again.
        pub memory: ByteSize = ByteSize(Size::from_mib(64));
            at_least(ByteSize(Size::from_kib(64)), "less than a node can work with"),
        /// One record: topic, properties and payload.
        pub record_max: ByteSize = ByteSize(Size::from_mib(1));
            above_zero("no record fits: give at least 1KiB"),
        /// Client connections.
        pub connections: u32 = 10_000; at_least(1, "nobody could connect"),
        /// Bytes that wait for one client that has subscribed here; then the least urgent are dropped.
        pub subscriber: ByteSize = ByteSize(Size::from_mib(4)); restarts(),
        /// Bytes of messages that are retained here.
        pub retained: ByteSize = ByteSize(Size::from_mib(64)); restarts(),
    }
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
