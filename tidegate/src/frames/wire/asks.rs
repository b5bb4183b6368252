//! What is asked once, and what a camera node and its server tell each other.

use std::time::Duration;

use tidegate_frames::{FrameTarget, Infeasible};

use super::{CameraInfo, FeasibleMessage, InfeasibleMessage, PolicyMessage};

/// `ConnectRequest`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ConnectRequest {}

/// `ConnectReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ConnectReply {
    /// Who answers.
    #[prost(string, tag = "1")]
    pub node: String,
    /// Version of the program.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Cameras that the caller may see.
    #[prost(message, repeated, tag = "3")]
    pub cameras: Vec<CameraInfo>,
}

/// `CameraInfoRequest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CameraInfoRequest {
    /// Empty: all that the caller may see.
    #[prost(string, tag = "1")]
    pub camera: String,
}

/// `CameraInfoReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CameraInfoReply {
    /// By name.
    #[prost(message, repeated, tag = "1")]
    pub cameras: Vec<CameraInfo>,
}

/// `UnsubscribeRequest`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UnsubscribeRequest {
    /// As `Subscribed` said.
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

/// `UnsubscribeReply`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UnsubscribeReply {
    /// Whether there was one.
    #[prost(bool, tag = "1")]
    pub was_known: bool,
}

/// `RegisterRequest`: all cameras of a node, and what happened since the last one.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterRequest {
    /// The node's name: that of its certificate, where it has one.
    #[prost(string, tag = "1")]
    pub node: String,
    /// All of its cameras.
    #[prost(message, repeated, tag = "2")]
    pub cameras: Vec<CameraInfo>,
    /// What happened.
    #[prost(message, repeated, tag = "3")]
    pub news: Vec<NewsMessage>,
}

/// `News`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct NewsMessage {
    /// Of which flow.
    #[prost(uint64, tag = "1")]
    pub flow: u64,
    /// One of these.
    #[prost(oneof = "NewsKind", tags = "2, 3, 4")]
    pub news: Option<NewsKind>,
}

/// `News.news`.
#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub enum NewsKind {
    /// Both bounds cannot be kept.
    #[prost(message, tag = "2")]
    Infeasible(InfeasibleMessage),
    /// They can again.
    #[prost(message, tag = "3")]
    Feasible(FeasibleMessage),
    /// A replay came to its end.
    #[prost(message, tag = "4")]
    Ended(EndedMessage),
}

impl From<Infeasible> for NewsKind {
    fn from(news: Infeasible) -> Self {
        match news {
            Infeasible::Began { accuracy, latency } => {
                let latency_ms = u32::try_from(latency.as_millis()).unwrap_or(u32::MAX);
                NewsKind::Infeasible(InfeasibleMessage { accuracy, latency_ms })
            }
            Infeasible::Over => NewsKind::Feasible(FeasibleMessage {}),
        }
    }
}

/// `Ended`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct EndedMessage {}

/// `RegisterReply`: all flows that are wanted of a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterReply {
    /// All of them.
    #[prost(message, repeated, tag = "1")]
    pub flows: Vec<FlowMessage>,
}

/// `Flow`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FlowMessage {
    /// The server's number for it.
    #[prost(uint64, tag = "1")]
    pub flow: u64,
    /// Of which camera.
    #[prost(string, tag = "2")]
    pub camera: String,
    /// Of stored frames: from here.
    #[prost(uint64, optional, tag = "3")]
    pub start_unix_ns: Option<u64>,
    /// To there.
    #[prost(uint64, optional, tag = "4")]
    pub stop_unix_ns: Option<u64>,
    /// From capture to arrival.
    #[prost(uint32, tag = "5")]
    pub latency_ms: u32,
    /// 0 to 1.
    #[prost(double, tag = "6")]
    pub accuracy: f64,
    /// Where both cannot be kept.
    #[prost(enumeration = "PolicyMessage", tag = "7")]
    pub policy: i32,
}

impl FlowMessage {
    /// A flow's number: nobody but its camera's node can guess it, so nobody else can send frames in it.
    pub fn new_number() -> u64 {
        use std::hash::{BuildHasher, Hasher, RandomState};
        RandomState::new().build_hasher().finish()
    }

    /// Its bounds.
    pub fn target(&self) -> FrameTarget {
        FrameTarget {
            latency: Duration::from_millis(self.latency_ms.into()),
            accuracy: if self.accuracy.is_finite() { self.accuracy.clamp(0.0, 1.0) } else { 0.0 },
            policy: self.policy().into(),
        }
    }

    /// Whether it is of stored frames.
    pub fn is_replay(&self) -> bool {
        self.start_unix_ns.is_some() || self.stop_unix_ns.is_some()
    }

    /// Whether both are of the same frames, encoded alike.
    pub fn is_like(&self, other: &FlowMessage) -> bool {
        let of_other = FlowMessage { flow: other.flow, ..self.clone() };
        of_other == *other
    }
}

/// `UnregisterRequest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UnregisterRequest {
    /// The node's name.
    #[prost(string, tag = "1")]
    pub node: String,
}

/// `UnregisterReply`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UnregisterReply {
    /// Whether it was registered.
    #[prost(bool, tag = "1")]
    pub was_known: bool,
}
