//! Every bound of a node that is not a matter of taste. Configurable bounds live in the options.

use std::time::Duration;

use crate::units::Size;

/// Classes of one node: a scheduler looks at each of them for every pick.
pub const CLASSES_MAX: usize = 16;
/// Rules (`[[stream]]`) of one node: matched in order for every new (source, key).
pub const RULES_MAX: usize = 256;
/// Outputs of one node: as many as a set of destinations in the log has bits. Each of them is looked at for
/// every pick.
pub const OUTPUTS_MAX: usize = 32;
/// Paths (connections) of one node, over all outputs.
pub const PATHS_MAX: usize = OUTPUTS_MAX * CLASSES_MAX;
/// Streams with a place in the table; the idle ones of closed sources make room.
pub const STREAMS_MAX: usize = 65_536;
/// Connections of inputs, idle ones included: one process rarely may have more open files.
pub const SOURCES_MAX: usize = 1 << 20;
/// Records of one connection that may wait for room: what a driver has read before it sees that it must
/// stop. More are refused.
pub const PENDING_MAX: usize = 16_384;
/// Levels of a key or topic filter.
pub const TOPIC_LEVELS_MAX: usize = 128;
/// Smallest cut of a large record: a packet's payload; below it framing eats the gain.
pub const CUT_MIN: Size = Size(1400);
/// Largest cut, so that no rate, however high, makes one call write without end.
pub const CUT_MAX: Size = Size(256 * 1024);
/// Time on the wire of one cut: the longest that an urgent record waits for a large one.
pub const CUT_TIME: Duration = Duration::from_millis(8);
/// Records that endpoints may transform at once, per node.
pub const TRANSFORMING_MAX: usize = 256;
/// Records that wait for another script, after one has failed on them: their bytes count like those of all others.
pub const WITHHELD_MAX: usize = 16_384;
/// How long a path may be silent about what it was handed before it counts as down, from its round trip:
/// three of them, for the first byte to be sent again twice, and never less than TCP's shortest time-out
/// (200 ms in Linux), within which an answer may be held back, and never more than 3 s: a round trip of more than one
/// is a queue, or an old measurement.
pub fn silence_max(rtt: Option<Duration>) -> Duration {
    let patience = rtt.map_or(Duration::from_secs(1), |rtt| rtt * 3);
    patience.clamp(Duration::from_millis(200), Duration::from_secs(3))
}
/// Reports kept for the driver; older ones make room and are counted.
pub const REPORTS_MAX: usize = 1024;
/// Entries that may be on their way to the log: so many sequence numbers at most can be lost in a crash
/// after they were used, and a stream goes on beyond them.
pub const UNAPPENDED_MAX: usize = 16_384;
/// Fates that wait for company before they go to the log, and how long: what a crash undoes of them is
/// sent again.
pub const FATES_MAX: usize = 256;
/// How long a fate waits at most for company.
pub const FATES_DELAY: Duration = Duration::from_millis(50);
/// How long a log that failed is left alone before it is tried again.
pub const LOG_RETRY: Duration = Duration::from_secs(1);
/// Bytes of a backlog that are asked for at once.
pub const FETCH_BYTES: Size = Size(256 * 1024);
/// Largest entry of the log: a record with all that travels beside it, or a checkpoint.
pub const LOG_ENTRY_MAX: usize = 256 * 1024 * 1024;
/// Largest segment of the log that an option may ask for; offsets in it have 32 bits.
pub const LOG_SEGMENT_MAX: Size = Size(1 << 30);
/// Damaged places that recovery names; more are counted.
pub const LOG_DAMAGES_MAX: usize = 1000;
/// Sessions of publishers that the log keeps, and positions of readers.
pub const LOG_SESSIONS_MAX: usize = 65_536;
/// QoS 2 packet identifiers of all sessions that the log keeps: 2 MiB of a checkpoint.
pub const LOG_PACKETS_MAX: usize = 1 << 20;
/// How long a neighbour's record may wait at its provider before it is handed to the uplink, from its
/// arrival there. After that it is never sent, and goes back. Its receiver lends no more than 250 ms of
/// queue, so one that waits for so long met an uplink that stands still.
pub const RELAY_HOLD_MAX: Duration = Duration::from_secs(2);
/// What a receiver may have waiting at a provider, as a time of its grant: a queue that nobody else could serve
/// meanwhile.
pub const RELAY_CREDIT: Duration = Duration::from_millis(250);
/// How long it may be at the provider in all, the far end's answer included. After that it goes back,
/// though it may have arrived: nobody is worse off than alone for longer than a lease.
pub const RELAY_ANSWER_MAX: Duration = Duration::from_secs(5);
/// A receiver takes back what a provider has not answered for when nothing connects them for so long. By
/// then the provider gave up what was not handed to its uplink: it is sent twice only if it was.
pub const RELAY_TAKE_BACK: Duration = Duration::from_secs(3);
const _: () = assert!(
    RELAY_HOLD_MAX.as_secs() < RELAY_TAKE_BACK.as_secs()
        && RELAY_HOLD_MAX.as_secs() < RELAY_ANSWER_MAX.as_secs()
);
