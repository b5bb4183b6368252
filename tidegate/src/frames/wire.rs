//! What cameras, nodes and applications say, as protocol buffers: `tidegate/proto/frames.proto`, package
//! `tidegate.frames.v1`. Written by hand (docs/decisions/0033); a test holds its bytes.

mod asks;

use bytes::Bytes;
use tidegate_frames::{InfeasiblePolicy, Rung};

pub use self::asks::{
    CameraInfoReply, CameraInfoRequest, ConnectReply, ConnectRequest, EndedMessage, FlowMessage,
    NewsKind, NewsMessage, RegisterReply, RegisterRequest, UnregisterReply, UnregisterRequest,
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

/// A frame that a camera took.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PublishRequest {
    /// Whose.
    #[prost(string, tag = "1")]
    pub camera: String,
    /// The JPEG.
    #[prost(bytes = "bytes", tag = "2")]
    pub jpeg: Bytes,
    /// When it was taken, by the camera's clock; 0: when it came.
    #[prost(uint64, tag = "3")]
    pub captured_unix_ns: u64,
    /// How long it was on its way before, microseconds.
    #[prost(uint64, tag = "4")]
    pub age_us: u64,
}

/// The answer to one.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PublishReply {
    /// Whose.
    #[prost(string, tag = "1")]
    pub camera: String,
    /// Its number; 0 where it was not taken.
    #[prost(uint64, tag = "2")]
    pub frame: u64,
    /// Why it was not.
    #[prost(string, tag = "3")]
    pub error: String,
}

/// What is known of a camera.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CameraInfo {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Name of its node.
    #[prost(string, tag = "2")]
    pub node: String,
    /// Whether that is there.
    #[prost(bool, tag = "3")]
    pub is_online: bool,
    /// Of its newest frame, pixels; 0 before the first.
    #[prost(uint32, tag = "4")]
    pub width: u32,
    /// The same.
    #[prost(uint32, tag = "5")]
    pub height: u32,
    /// Of late.
    #[prost(double, tag = "6")]
    pub frames_per_second: f64,
    /// When its newest frame was taken; 0: none.
    #[prost(uint64, tag = "7")]
    pub newest_unix_ns: u64,
    /// Oldest frame that can be replayed; 0: none.
    #[prost(uint64, tag = "8")]
    pub oldest_unix_ns: u64,
    /// Its ladder.
    #[prost(message, repeated, tag = "9")]
    pub ladder: Vec<RungMessage>,
    /// Whether that was not calibrated for this camera.
    #[prost(bool, tag = "10")]
    pub ladder_is_generic: bool,
    /// Names that may subscribe; all where it is empty.
    #[prost(string, repeated, tag = "11")]
    pub subscribers: Vec<String>,
}

/// `Rung`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct RungMessage {
    /// Width and height, in eighths.
    #[prost(uint32, tag = "1")]
    pub eighths: u32,
    /// Of the JPEG.
    #[prost(uint32, tag = "2")]
    pub quality: u32,
    /// Without chroma.
    #[prost(bool, tag = "3")]
    pub is_gray: bool,
    /// Mean of a frame.
    #[prost(double, tag = "4")]
    pub bytes: f64,
    /// 0 to 1.
    #[prost(double, tag = "5")]
    pub accuracy: f64,
    /// Lower end of its interval.
    #[prost(double, tag = "6")]
    pub accuracy_low: f64,
    /// Processor time, microseconds.
    #[prost(uint64, tag = "7")]
    pub cost_us: u64,
}

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

/// `InfeasiblePolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum PolicyMessage {
    /// What fits goes.
    Degrade = 0,
    /// What was asked for goes, late.
    Floor = 1,
    /// Nothing goes.
    Skip = 2,
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

/// What a subscriber wants.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubscribeRequest {
    /// Of which camera.
    #[prost(string, tag = "1")]
    pub camera: String,
    /// Of stored frames: from here.
    #[prost(uint64, optional, tag = "2")]
    pub start_unix_ns: Option<u64>,
    /// To there.
    #[prost(uint64, optional, tag = "3")]
    pub stop_unix_ns: Option<u64>,
    /// From capture to arrival.
    #[prost(uint32, tag = "4")]
    pub latency_ms: u32,
    /// 0 to 1.
    #[prost(double, tag = "5")]
    pub accuracy: f64,
    /// Where both cannot be kept.
    #[prost(enumeration = "PolicyMessage", tag = "6")]
    pub policy: i32,
}

/// What a subscriber hears.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubscribeReply {
    /// One of these.
    #[prost(oneof = "ReplyKind", tags = "1, 2, 3, 4")]
    pub reply: Option<ReplyKind>,
}

/// `SubscribeReply.reply`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ReplyKind {
    /// The first one.
    #[prost(message, tag = "1")]
    Subscribed(SubscribedMessage),
    /// A frame.
    #[prost(message, tag = "2")]
    Frame(FrameMessage),
    /// Both bounds cannot be kept.
    #[prost(message, tag = "3")]
    Infeasible(InfeasibleMessage),
    /// They can again.
    #[prost(message, tag = "4")]
    Feasible(FeasibleMessage),
}

impl From<ReplyKind> for SubscribeReply {
    fn from(reply: ReplyKind) -> Self {
        SubscribeReply { reply: Some(reply) }
    }
}

/// `Subscribed`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SubscribedMessage {
    /// For `Unsubscribe`.
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

/// `Frame`: as it travels between nodes, in pieces, and to subscribers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FrameMessage {
    /// Whose.
    #[prost(string, tag = "1")]
    pub camera: String,
    /// Its number.
    #[prost(uint64, tag = "2")]
    pub frame: u64,
    /// When it was taken, by the camera's clock.
    #[prost(uint64, tag = "3")]
    pub captured_unix_ns: u64,
    /// From capture until it left its camera's node, microseconds.
    #[prost(uint64, tag = "4")]
    pub age_us: u64,
    /// Pixels.
    #[prost(uint32, tag = "5")]
    pub width: u32,
    /// Pixels.
    #[prost(uint32, tag = "6")]
    pub height: u32,
    /// Pixels of what the camera took.
    #[prost(uint32, tag = "7")]
    pub source_width: u32,
    /// The same.
    #[prost(uint32, tag = "8")]
    pub source_height: u32,
    /// Width and height, in eighths of the source's.
    #[prost(uint32, tag = "9")]
    pub eighths: u32,
    /// Of the JPEG; 0: it is the source itself.
    #[prost(uint32, tag = "10")]
    pub quality: u32,
    /// Without chroma.
    #[prost(bool, tag = "11")]
    pub is_gray: bool,
    /// 0 to 1, by its ladder.
    #[prost(double, tag = "12")]
    pub accuracy: f64,
    /// Lower end of its interval.
    #[prost(double, tag = "13")]
    pub accuracy_low: f64,
    /// The JPEG.
    #[prost(bytes = "bytes", tag = "14")]
    pub jpeg: Bytes,
    /// Frames that this subscriber was too slow for, since the last one.
    #[prost(uint64, tag = "15")]
    pub skipped: u64,
    /// When it left its camera's node, by a clock of that node alone, microseconds; 0: not told.
    #[prost(uint64, tag = "16")]
    pub left_us: u64,
    /// The shortest time on the way from there, as far as that node knows, microseconds.
    #[prost(uint64, tag = "17")]
    pub way_us: u64,
    /// It came after its bound, and goes on for it was asked for so (`InfeasiblePolicy::Floor`).
    #[prost(bool, tag = "18")]
    pub is_late: bool,
}

/// `Infeasible`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct InfeasibleMessage {
    /// What would fit within the latency.
    #[prost(double, tag = "1")]
    pub accuracy: f64,
    /// In what time the accuracy would.
    #[prost(uint32, tag = "2")]
    pub latency_ms: u32,
}

/// `Feasible`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct FeasibleMessage {}

#[cfg(test)]
mod tests {
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
