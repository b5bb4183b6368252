//! The topics of one connection as record keys: the last one, and MQTT 5's aliases.

use bytes::Bytes;

use crate::{Reason, Violation};

/// Bytes that the aliases of one connection may hold.
const ALIASED_MAX: usize = 64 * 1024;

/// Keys that are likely to come again. A key that comes again costs a reference, not a copy.
#[derive(Debug, Default)]
pub(super) struct Topics {
    last: Bytes,
    /// By alias - 1; empty where not defined.
    aliases: Vec<Bytes>,
    aliased: usize,
}

impl Topics {
    /// The key for a topic that was sent in full.
    pub(super) fn key(&mut self, topic: &str) -> Bytes {
        if self.last != topic.as_bytes() {
            self.last = Bytes::copy_from_slice(topic.as_bytes());
        }
        self.last.clone()
    }

    /// The key for a publish with an alias: defines it where there is a topic, else looks it up.
    pub(super) fn aliased(
        &mut self,
        alias: u32,
        topic: &str,
        maximum: u16,
    ) -> Result<Bytes, Violation> {
        if alias == 0 || alias > u32::from(maximum) {
            return Err(Violation::new(
                Reason::TopicAliasInvalid,
                "a topic alias beyond the topic alias maximum",
            ));
        }
        let place = alias as usize - 1;
        if topic.is_empty() {
            let known = self.aliases.get(place).filter(|key| !key.is_empty());
            return known.cloned().ok_or(Violation::protocol("a topic alias that was not defined"));
        }
        if self.aliases.len() <= place {
            self.aliases.resize(place + 1, Bytes::new());
        }
        self.aliased = self.aliased - self.aliases[place].len() + topic.len();
        if self.aliased > ALIASED_MAX {
            return Err(Violation::new(
                Reason::QuotaExceeded,
                "the topics behind the topic aliases are too long",
            ));
        }
        let key = self.key(topic);
        self.aliases[place] = key.clone();
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_topic_is_shared() {
        let mut topics = Topics::default();
        let first = topics.key("a/b");
        assert_eq!(first.as_ptr(), topics.key("a/b").as_ptr());
        assert_eq!(topics.key("a/c"), "a/c");
        assert_eq!(topics.key(""), "");
    }

    #[test]
    fn aliases_are_defined_used_and_redefined() {
        let mut topics = Topics::default();
        assert_eq!(topics.aliased(2, "", 4).unwrap_err().reason, Reason::ProtocolError);
        assert_eq!(topics.aliased(4, "a", 4).unwrap(), "a");
        assert_eq!(topics.aliased(4, "", 4).unwrap(), "a");
        assert_eq!(topics.aliased(4, "b", 4).unwrap(), "b");
        assert_eq!(topics.aliased(4, "", 4).unwrap(), "b");
        assert_eq!(topics.aliased(3, "", 4).unwrap_err().reason, Reason::ProtocolError);
    }

    #[test]
    fn aliases_are_bounded_in_number_and_bytes() {
        let mut topics = Topics::default();
        assert_eq!(topics.aliased(0, "a", 4).unwrap_err().reason, Reason::TopicAliasInvalid);
        assert_eq!(topics.aliased(5, "a", 4).unwrap_err().reason, Reason::TopicAliasInvalid);
        let long = "x".repeat(ALIASED_MAX / 2);
        assert!(topics.aliased(1, &long, 4).is_ok());
        assert!(topics.aliased(1, &long, 4).is_ok(), "a redefinition frees the old topic");
        assert!(topics.aliased(2, &long, 4).is_ok());
        assert_eq!(topics.aliased(3, "y", 4).unwrap_err().reason, Reason::QuotaExceeded);
    }
}
