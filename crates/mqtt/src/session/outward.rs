//! How a client wants to be sent publishes, and the topic aliases of its connection.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_broker::WINDOW_MAX;

use crate::deliver::Alias;

/// Topic aliases that are used toward one client: each keeps its topic in memory.
const ALIASES_MAX: u16 = 64;
/// Longer topics get none.
const ALIASED_MAX: usize = 256;

/// What a client said of how it wants to be sent publishes.
#[derive(Debug, Default)]
pub(super) struct Outward {
    pub(super) receive_maximum: u16,
    pub(super) aliases: Aliases,
}

impl Outward {
    pub(super) fn new(receive_maximum: u16, topic_alias_maximum: u16) -> Self {
        Outward {
            receive_maximum: receive_maximum.min(WINDOW_MAX),
            aliases: Aliases {
                maximum: topic_alias_maximum.min(ALIASES_MAX),
                ..Aliases::default()
            },
        }
    }
}

/// The aliases of a connection, outward: the first topics get them.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    maximum: u16,
    numbers: BTreeMap<Bytes, u16>,
}

impl Aliases {
    /// Whether the client takes none.
    pub(super) fn is_none(&self) -> bool {
        self.maximum == 0
    }

    pub(super) fn of(&mut self, topic: &Bytes) -> Option<Alias> {
        if self.maximum == 0 {
            return None;
        }
        if topic.len() > ALIASED_MAX {
            return None;
        }
        if let Some(&number) = self.numbers.get(topic) {
            return Some(Alias { number, is_known: true });
        }
        let number = self.numbers.len() as u16 + 1;
        (number <= self.maximum).then(|| {
            self.numbers.insert(topic.clone(), number);
            Alias { number, is_known: false }
        })
    }

    /// A publish that would have told the alias was not sent.
    pub(super) fn forget(&mut self, topic: &Bytes) {
        self.numbers.remove(topic);
    }
}
