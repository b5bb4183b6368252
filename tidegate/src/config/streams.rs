//! `[[stream]]`: which records matter, within which time, and what becomes of them.

use std::time::Duration;

use serde::Deserialize;
use tidegate_types::units::Size;

use super::units::{ByteSize, Period};

/// `[[stream]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamConfig {
    /// Label in metrics; the first topic filter if left out.
    pub name: Option<String>,
    /// MQTT topic filters; everything if left out.
    pub topics: Option<Vec<String>>,
    /// Bound on residence.
    pub latency: Option<Period>,
    /// The class whose bound it has; the last class if neither is given.
    pub class: Option<String>,
    /// Names of outputs; the first output if left out.
    pub to: Option<Vec<String>>,
    /// Which waiting record goes next.
    pub order: Order,
    /// Keep order even across late records.
    pub strict_order: bool,
    /// What happens to a record that does not fit.
    pub full: Full,
    /// How long `full = "block"` stops reading.
    pub block_max: Period,
    /// Bound on the bytes held in memory of each of its streams.
    pub memory: ByteSize,
    /// Bound on those held in memory and in the log.
    pub stored: Option<ByteSize>,
    /// How long its records are worth sending.
    pub ttl: Option<Period>,
    /// When its senders are told that a record is accepted.
    pub accept: Option<Accept>,
    /// The script that looks at each of its records before it may go.
    pub script: Option<String>,
}

impl Default for StreamConfig {
    fn default() -> Self {
        StreamConfig {
            name: None,
            topics: None,
            latency: None,
            class: None,
            to: None,
            order: Order::Fifo,
            strict_order: false,
            full: Full::Block,
            block_max: Period(Duration::from_secs(1)),
            memory: ByteSize(Size::from_mib(16)),
            stored: None,
            ttl: None,
            accept: None,
            script: None,
        }
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

/// `order` of a `[[stream]]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The oldest first.
    #[default]
    Fifo,
    /// The newest first.
    Lifo,
    /// The newest of each topic; older ones are dropped.
    NewestOnly,
}

/// `full` of a `[[stream]]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Full {
    /// The oldest waiting records go.
    DropOldest,
    /// The new record goes.
    DropNewest,
    /// The new record is refused.
    Reject,
    /// Its connection is not read until there is room.
    #[default]
    Block,
}

/// `accept` of a `[[stream]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accept {
    /// As soon as it is queued.
    Memory,
    /// When the log has it on disk.
    Durable,
    /// After every destination confirmed it.
    Confirmed,
}
