//! The last message of each topic that its publisher wants to be kept for later subscribers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::message::Message;
use crate::topic::{Filter, Level};
use crate::units::Time;

/// Bytes that a topic costs beside its message.
const OVERHEAD: usize = 128;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is the one of its topic.
    Stored,
    /// It had no payload: its topic has none any more.
    Removed,
    /// There is no room; what the topic had is gone too, for it is not the last one.
    Full,
}

#[derive(Debug, Default)]
struct Node {
    message: Option<Arc<Message>>,
    below: BTreeMap<Box<str>, Node>,
}

impl Node {
    /// Puts a message, or none, at a topic; answers with what was there. Empty nodes go.
    fn replace(&mut self, levels: &[&str], message: Option<Arc<Message>>) -> Option<Arc<Message>> {
        let Some((level, below)) = levels.split_first() else {
            return std::mem::replace(&mut self.message, message);
        };
        if message.is_some() {
            return self.below.entry((*level).into()).or_default().replace(below, message);
        }
        let child = self.below.get_mut(*level)?;
        let was = child.replace(below, None);
        if child.message.is_none() && child.below.is_empty() {
            self.below.remove(*level);
        }
        was
    }

    fn find(&self, levels: &[Level], is_open: bool, found: &mut Vec<Arc<Message>>) {
        // Names that begin with $ are not met by a wildcard at the first level.
        let is_met = |name: &str| is_open || !name.starts_with('$');
        match levels.split_first() {
            None => found.extend(self.message.clone()),
            Some((Level::Rest, _)) => {
                found.extend(self.message.clone());
                for (_, child) in self.below.iter().filter(|(name, _)| is_met(name)) {
                    child.find(levels, true, found);
                }
            }
            Some((Level::One, below)) => {
                for (_, child) in self.below.iter().filter(|(name, _)| is_met(name)) {
                    child.find(below, true, found);
                }
            }
            Some((Level::Exact(level), below)) => {
                if let Some(child) = self.below.get(level.as_str()) {
                    child.find(below, true, found);
                }
            }
        }
    }
}

/// The retained messages. Bounded in bytes.
#[derive(Debug)]
pub struct Retained {
    root: Node,
    count: usize,
    bytes: usize,
    bytes_max: usize,
}

impl Retained {
    /// None yet, and never more than so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Retained { root: Node::default(), count: 0, bytes: 0, bytes_max }
    }

    /// Keeps a message as the last one of its topic; one without a payload ends it (MQTT 5, 3.3.1-6).
    pub fn keep(&mut self, message: &Arc<Message>) -> Kept {
        let Ok(topic) = std::str::from_utf8(&message.topic) else { return Kept::Full };
        let levels: Vec<&str> = topic.split('/').collect();
        if let Some(old) = self.root.replace(&levels, None) {
            self.count -= 1;
            self.bytes -= cost(&old);
        }
        if message.payload.is_empty() {
            return Kept::Removed;
        }
        if self.bytes + cost(message) > self.bytes_max {
            return Kept::Full;
        }
        self.count += 1;
        self.bytes += cost(message);
        self.root.replace(&levels, Some(message.clone()));
        Kept::Stored
    }

    /// What a new subscription gets; what is expired goes.
    pub fn find(&mut self, filter: &Filter, now: Time) -> Vec<Arc<Message>> {
        let mut found = Vec::new();
        self.root.find(filter.levels(), false, &mut found);
        found.retain(|message| {
            let is_expired = message.is_expired(now);
            if is_expired {
                self.forget(message);
            }
            !is_expired
        });
        found
    }

    fn forget(&mut self, message: &Message) {
        let topic = String::from_utf8_lossy(&message.topic);
        let levels: Vec<&str> = topic.split('/').collect();
        if let Some(old) = self.root.replace(&levels, None) {
            self.count -= 1;
            self.bytes -= cost(&old);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn cost(message: &Message) -> usize {
    message.size() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::class::ClassId;
    use crate::record::Properties;

    fn message(topic: &str, payload: &str, expires: Option<u64>) -> Arc<Message> {
        Arc::new(Message {
            topic: Bytes::copy_from_slice(topic.as_bytes()),
            payload: Bytes::copy_from_slice(payload.as_bytes()),
            properties: Properties::default(),
            qos: 1,
            retain: true,
            arrived: Time::ZERO,
            expires: expires.map(Time::from_millis),
            class: ClassId(0),
            deadline: Time::ZERO,
            source_unix_ns: None,
            meter: None,
        })
    }

    fn found(retained: &mut Retained, filter: &str, now: u64) -> Vec<String> {
        let filter = Filter::new(filter).unwrap();
        let found = retained.find(&filter, Time::from_millis(now));
        found.iter().map(|message| String::from_utf8(message.topic.to_vec()).unwrap()).collect()
    }

    #[test]
    fn the_last_one_is_kept_until_an_empty_one_comes() {
        let mut retained = Retained::new(10_000);
        for (topic, payload) in [("a/b", "1"), ("a", "1"), ("$x/b", "1"), ("a/b", "2")] {
            assert_eq!(retained.keep(&message(topic, payload, None)), Kept::Stored);
        }
        assert_eq!(retained.len(), 3);
        assert_eq!(found(&mut retained, "a/#", 0), ["a", "a/b"]);
        assert_eq!(found(&mut retained, "#", 0), ["a", "a/b"]);
        assert_eq!(found(&mut retained, "+/b", 0), ["a/b"]);
        assert_eq!(found(&mut retained, "$x/#", 0), ["$x/b"]);
        for topic in ["a", "a/b", "$x/b", "a/b"] {
            assert_eq!(retained.keep(&message(topic, "", None)), Kept::Removed);
        }
        assert!(retained.is_empty() && retained.bytes() == 0 && retained.root.below.is_empty());
    }

    #[test]
    fn what_is_expired_goes() {
        let mut retained = Retained::new(10_000);
        retained.keep(&message("a", "1", Some(5)));
        assert_eq!(found(&mut retained, "a", 4), ["a"]);
        assert!(found(&mut retained, "a", 5).is_empty() && retained.is_empty());
    }

    #[test]
    fn bytes_are_bounded_and_nothing_old_stays() {
        let mut retained = Retained::new(2 * OVERHEAD);
        assert_eq!(retained.keep(&message("a", "1", None)), Kept::Stored);
        assert_eq!(retained.keep(&message("b", "1", None)), Kept::Full);
        assert_eq!(retained.keep(&message("a", &"1".repeat(999), None)), Kept::Full);
        assert_eq!((retained.len(), retained.bytes()), (0, 0));
    }

    fn topic() -> impl Strategy<Value = String> {
        let level = prop::sample::select(vec!["a", "b", "", "$x"]);
        prop::collection::vec(level, 1..4)
            .prop_map(|levels| levels.join("/"))
            .prop_filter("a topic is not empty", |topic| !topic.is_empty())
    }

    proptest! {
        /// The tree finds what a walk over a map of topics finds.
        #[test]
        fn the_tree_is_the_map(
            changes in prop::collection::vec((topic(), any::<bool>()), 0..40),
            filters in prop::collection::vec(prop::sample::select(vec![
                "#", "+", "+/#", "a/#", "a/+", "+/b", "+/+/+", "$x/#", "$x/+", "/", "/#", "a", "a//b",
            ]), 1..8),
        ) {
            let mut retained = Retained::new(1 << 20);
            let mut map = BTreeMap::new();
            for (topic, is_kept) in changes {
                retained.keep(&message(&topic, if is_kept { "x" } else { "" }, None));
                if is_kept { map.insert(topic, ()); } else { map.remove(&topic); }
            }
            prop_assert_eq!(retained.len(), map.len());
            for filter in filters {
                let matches = Filter::new(filter).unwrap();
                let expected: Vec<&String> =
                    map.keys().filter(|topic| matches.matches(topic)).collect();
                let mut ours = found(&mut retained, filter, 0);
                ours.sort();
                prop_assert_eq!(ours.iter().collect::<Vec<_>>(), expected, "{}", filter);
            }
        }
    }
}
