//! What cameras, nodes and applications say, as protocol buffers: `tidegate/proto/frames.proto`, package
//! `tidegate.frames.v1`. The messages are made from that file (docs/decisions/0113); a test holds their bytes.

#[allow(unreachable_pub, reason = "generated code makes all of its modules public")]
mod proto;

use std::time::Duration;

use tidegate_frames::{FrameTarget, Infeasible, InfeasiblePolicy, Rung};
use tonic::Status;

pub use self::proto::news::News as NewsKind;
pub use self::proto::subscribe_reply::Reply as ReplyKind;
pub use self::proto::{
    CameraInfo, CameraInfoReply, CameraInfoRequest, ConnectReply, ConnectRequest,
    Ended as EndedMessage, Feasible as FeasibleMessage, Flow as FlowMessage, Frame as FrameMessage,
    Infeasible as InfeasibleMessage, News as NewsMessage, Policy as PolicyMessage, PublishReply,
    PublishRequest, RegisterReply, RegisterRequest, Rung as RungMessage, SubscribeReply,
    SubscribeRequest, Subscribed as SubscribedMessage, UnregisterReply, UnregisterRequest,
    UnsubscribeReply, UnsubscribeRequest,
};

/// Who answers, and what the caller may see.
pub const CONNECT: &str = "/tidegate.frames.v1.Frames/Connect";
/// Frames of cameras.
pub const PUBLISH: &str = "/tidegate.frames.v1.Frames/Publish";
/// What is known of cameras.
pub const CAMERA_INFO: &str = "/tidegate.frames.v1.Frames/GetCameraInfo";
/// Frames within bounds.
pub const SUBSCRIBE: &str = "/tidegate.frames.v1.Frames/Subscribe";
/// No more of them.
pub const UNSUBSCRIBE: &str = "/tidegate.frames.v1.Frames/Unsubscribe";
/// Camera nodes.
pub const REGISTER: &str = "/tidegate.frames.v1.Frames/Register";
/// A camera node goes.
pub const UNREGISTER: &str = "/tidegate.frames.v1.Frames/Unregister";

impl From<&Rung> for RungMessage {
    fn from(rung: &Rung) -> Self {
        RungMessage {
            eighths: rung.eighths.into(),
            quality: rung.quality.into(),
            is_gray: rung.is_gray,
            bytes: rung.bytes,
            accuracy: rung.accuracy,
            accuracy_low: rung.accuracy_low,
            cost_us: u64::try_from(rung.cost.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl From<PolicyMessage> for InfeasiblePolicy {
    fn from(policy: PolicyMessage) -> Self {
        match policy {
            PolicyMessage::Degrade => InfeasiblePolicy::Degrade,
            PolicyMessage::Floor => InfeasiblePolicy::Floor,
            PolicyMessage::Skip => InfeasiblePolicy::Skip,
        }
    }
}

impl From<ReplyKind> for SubscribeReply {
    fn from(reply: ReplyKind) -> Self {
        SubscribeReply { reply: Some(reply) }
    }
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

/// Longest bound of a latency, milliseconds: beyond it a replay is what is wanted.
const LATENCY_MAX_MS: u32 = 60_000;

impl FlowMessage {
    /// What a request asks of a camera's node.
    ///
    /// # Errors
    /// Bounds that cannot be.
    pub fn of(request: &SubscribeRequest) -> Result<FlowMessage, Status> {
        let SubscribeRequest { camera, start_unix_ns, stop_unix_ns, latency_ms, accuracy, .. } =
            request.clone();
        let is_replay = start_unix_ns.is_some() || stop_unix_ns.is_some();
        if !is_replay && !(1..=LATENCY_MAX_MS).contains(&latency_ms) {
            let text = format!("latency_ms is {latency_ms}: give 1 to {LATENCY_MAX_MS}");
            return Err(Status::invalid_argument(text));
        }
        if !(0.0..=1.0).contains(&accuracy) {
            let text = format!("accuracy is {accuracy}: give 0 to 1");
            return Err(Status::invalid_argument(text));
        }
        if start_unix_ns.zip(stop_unix_ns).is_some_and(|(start, stop)| start > stop) {
            return Err(Status::invalid_argument("start_unix_ns is after stop_unix_ns"));
        }
        let (flow, policy) = (0, request.policy().into());
        Ok(FlowMessage { flow, camera, start_unix_ns, stop_unix_ns, latency_ms, accuracy, policy })
    }

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

    /// From which frame to which one, of a replay.
    pub fn span(&self) -> (u64, u64) {
        (self.start_unix_ns.unwrap_or(0), self.stop_unix_ns.unwrap_or(u64::MAX))
    }

    /// Whether both are of the same frames, encoded alike.
    pub fn is_like(&self, other: &FlowMessage) -> bool {
        let of_other = FlowMessage { flow: other.flow, ..self.clone() };
        of_other == *other
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;

    use super::*;

    #[test]
    fn a_frame_travels_as_these_bytes() {
        let frame = FrameMessage {
            camera: "c".into(),
            frame: 3,
            captured_unix_ns: 300,
            width: 2,
            accuracy: 0.5,
            jpeg: Bytes::from_static(&[0xFF, 0xD8]),
            ..FrameMessage::default()
        };
        let bytes = [
            10, 1, b'c', 16, 3, 24, 172, 2, 40, 2, 97, 0, 0, 0, 0, 0, 0, 0xE0, 0x3F, 114, 2, 0xFF,
            0xD8,
        ];
        assert_eq!(frame.encode_to_vec(), bytes);
        assert_eq!(FrameMessage::decode(&bytes[..]), Ok(frame.clone()));
        let reply = SubscribeReply::from(ReplyKind::Frame(frame)).encode_to_vec();
        assert_eq!(reply[..2], [18, 23]);
    }

    #[test]
    fn a_request_travels_as_these_bytes() {
        let request = SubscribeRequest {
            camera: "c".into(),
            start_unix_ns: Some(0),
            latency_ms: 100,
            policy: PolicyMessage::Skip.into(),
            ..SubscribeRequest::default()
        };
        assert_eq!(request.encode_to_vec(), [10, 1, b'c', 16, 0, 32, 100, 48, 2]);
    }
}
