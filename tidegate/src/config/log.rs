//! `[log]`: the log that keeps accepted records over a crash.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_types::limits::LOG_SEGMENT_MAX;
use tidegate_types::units::Size;

use super::units::{ByteSize, Period};
use crate::keys::table::{choices, keys};

keys! {
    /// `[log]`; without a directory there is none.
    pub struct LogConfig {
        /// Folder of its segments, for this node alone.
        pub directory: Option<PathBuf>; sample("/var/lib/tidegate/log"),
        /// Bytes of all segments: records fill seven eighths of it, the rest is for what makes room again.
        pub bound: ByteSize = ByteSize(Size::from_mib(1024)),
        /// Bytes at which a segment is finished; a quarter of bound at most.
        pub segment: ByteSize = ByteSize(Size::from_mib(64));
            at_least(ByteSize(Size::from_kib(64)), "less than a log can work with")
            at_most(ByteSize(LOG_SEGMENT_MAX), "more than a segment can have"),
        /// Bytes of messages that wait for MQTT sessions, and of retained ones, each counted once. When it is full, a new
        /// message takes the place of old ones of the session that has most.
        pub sessions: ByteSize = ByteSize(Size::from_mib(512));
            at_least(ByteSize(Size::from_mib(1)), "less than sessions can work with"),
        /// Bytes of messages that wait for one MQTT session.
        pub session: ByteSize = ByteSize(Size::from_mib(64));
            at_least(ByteSize(Size::from_kib(64)), "less than a session can work with"),
        /// Records that one commit takes at most.
        pub commit_max: usize = 256; at_least(1, "nothing could be written"),
        /// How long a commit waits for more than its first entry. What comes while the disk is busy goes together in
        /// any case.
        pub commit_delay: Period = Period(Duration::ZERO),
        /// What is sent first of a backlog on disk. Fresh records go before it in any case.
        pub backlog: Backlog = Backlog::OldestFirst,
        /// A key of 64 hexadecimal digits that seals every entry. Default: nothing is sealed.
        pub key_file: Option<PathBuf>; apart("/etc/tidegate/log.key"),
        /// An environment variable with it, in place of the file.
        pub key_env: Option<String>; apart("TIDEGATE_LOG_KEY"),
        /// Keys of earlier segments: to change the key, name the old one here until its segments are gone.
        pub old_key_files: Vec<PathBuf> = Vec::new(); apart(r#"["/etc/tidegate/log.old"]"#),
        /// Whether to wait while another process uses the log, and to take over when it ends.
        pub standby: bool = false,
    }
}

choices! {
    /// `backlog` of `[log]`.
    pub enum Backlog: Copy, Eq {
        /// The oldest.
        OldestFirst = "oldest-first",
        /// Those of the newest segment.
        NewestFirst = "newest-first",
    }
}
