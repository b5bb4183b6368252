//! `[[stream]]`: which records matter, within which time, and what becomes of them.

use std::time::Duration;

use tidegate_types::units::Size;

use super::units::{ByteSize, Period};
use crate::keys::table::{choices, keys};

keys! {
    /// `[[stream]]`.
    pub struct StreamConfig {
        /// Label in status and metrics. Default: the first topic filter.
        pub name: Option<String>; sample("plc"),
        /// MQTT topic filters. Default: everything.
        pub topics: Option<Vec<String>>; sample(r#"["factory/+/plc/#"]"#),
        /// Bound on residence. This or class; default: the last class.
        pub latency: Option<Period>;
            sample("50ms") above_zero("no record is that fast: give at least \"1ms\""),
        /// The class whose bound it has, in place of latency.
        pub class: Option<String>; apart("ls"),
        /// Outputs; a record goes to each of them, and [] is none: only to clients that have subscribed here, who get
        /// it in any case. Default: the first output.
        pub to: Option<Vec<String>>; sample(r#"["cloud"]"#),
        /// Which waiting record goes next.
        pub order: Order = Order::Fifo,
        /// Keep order even across late records: after an outage nothing overtakes inside a stream.
        pub strict_order: bool = false,
        /// What happens to a record that does not fit.
        pub full: Full = Full::Block,
        /// How long "block" holds up a connection; then the stream's records are rejected until it has room again, so
        /// that other streams of the connection wait once and no longer.
        pub block_max: Period = Period(Duration::from_secs(1)),
        /// Bound on the bytes of each client's stream in memory. What is durable and does not fit waits in the log.
        pub memory: ByteSize = ByteSize(Size::from_mib(16));
            above_zero("no record fits: give at least 1KiB"),
        /// Bound on those in memory and in the log, where it is durable. Default: that of the log.
        pub stored: Option<ByteSize>; apart("256MiB"),
        /// How long its records are worth sending. Default: for ever.
        pub ttl: Option<Period>;
            sample("10m") above_zero("every record would be dropped: give a duration, or none"),
        /// When a sender is told that its record is accepted. Default: "durable" with a [log], else "memory".
        pub accept: Option<Accept>; sample("durable"),
        /// The [[script]] that looks at each of its records before it may go. Default: none.
        pub script: Option<String>; apart("shed"),
    }
}

impl StreamConfig {
    /// Whether its records are for clients that have subscribed here, and for no output.
    pub fn is_local(&self) -> bool {
        self.to.as_ref().is_some_and(Vec::is_empty)
    }

    /// The given name, or its first topic filter, or `default` for the one that takes everything.
    pub fn label(&self) -> &str {
        let first = || self.topics.as_ref().and_then(|topics| topics.first()).map(String::as_str);
        self.name.as_deref().or_else(first).unwrap_or("default")
    }
}

choices! {
    /// `order` of a `[[stream]]`.
    pub enum Order: Copy, Eq {
        /// The oldest first.
        Fifo = "fifo",
        /// The newest first.
        Lifo = "lifo",
        /// The newest of each topic; older ones are dropped.
        NewestOnly = "newest-only",
    }
}

choices! {
    /// `full` of a `[[stream]]`.
    pub enum Full: Copy, Eq {
        /// The oldest waiting records go.
        DropOldest = "drop-oldest",
        /// The new record goes.
        DropNewest = "drop-newest",
        /// The new record is refused, and its sender is told.
        Reject = "reject",
        /// Its connection is not read until there is room.
        Block = "block",
    }
}

choices! {
    /// `accept` of a `[[stream]]`.
    pub enum Accept: Copy, Eq {
        /// As soon as it is queued.
        Memory = "memory",
        /// When the log has it on disk.
        Durable = "durable",
        /// When every output's far end has it.
        Confirmed = "confirmed",
    }
}
