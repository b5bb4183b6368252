//! What an output's confirmation means, in words: a log forgets a record by it.

use super::outputs::{AmqpConfig, OutputConfig, OutputKind, SinkConfig};

impl OutputConfig {
    /// When it confirms a record, which the log then forgets.
    pub fn confirms(&self) -> &'static str {
        match self.kinds().next() {
            Some(OutputKind::Sink(SinkConfig { discard: true, .. })) | None => {
                "at once: nothing is kept"
            }
            Some(OutputKind::Sink(SinkConfig { sync: true, .. })) => {
                "when its line is synced to this machine's disk"
            }
            Some(OutputKind::Sink(_)) => {
                "when the kernel has its line: a power cut takes what is not on disk yet"
            }
            Some(OutputKind::Amqp(AmqpConfig { persistent: true, .. })) => {
                "when the broker confirms it: on disk or replicated if its queue is durable"
            }
            Some(OutputKind::Amqp(_)) => "when the broker confirms it: in its memory",
            Some(OutputKind::Mqtt(_)) => {
                "when the broker acknowledges it: in its memory or on disk, as the broker is set"
            }
            Some(OutputKind::Link(_)) => {
                "when the far node accepts it: on disk, unless the far stream's accept says otherwise"
            }
            Some(OutputKind::Frames) => {
                "when this node has handed it to who watches: nothing is kept"
            }
        }
    }
}
