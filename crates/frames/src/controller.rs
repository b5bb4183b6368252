//! What a controller is: it says how many bytes the next frame may have.

use std::fmt;
use std::time::Duration;

use tidegate_types::units::{Size, Time};

use crate::channel::ChannelModel;
use crate::ladder::Ladder;

/// What a controller may know when it is asked for a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControllerInput {
    /// Time that the frame's bytes have, from its first on the way to its last at the far end:
    /// propagation and encoding are taken out.
    pub left: Duration,
    /// Bytes of earlier frames that are sent and not acknowledged.
    pub backlog: Size,
}

/// Says how many bytes a frame may have. It hears of acknowledgements by this node's clock alone.
pub trait Controller: fmt::Debug + Send {
    /// Bytes that the next frame may have; below 0 where even what is under way is too much.
    fn budget(&mut self, now: Time, moment: &ControllerInput) -> f64;
    /// A frame begins to leave.
    fn sent(&mut self, now: Time);
    /// So many more bytes of what was sent have arrived.
    fn acked(&mut self, now: Time, newly: Size);
    /// A frame arrived after so long since its capture, or was given up.
    fn ended(&mut self, now: Time, latency: Option<Duration>);
    /// What is known of the channel before the first frame.
    fn begin_at(&mut self, _site: &ChannelModel, _ladder: &Ladder) {}
}
