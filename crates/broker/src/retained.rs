//! The last message of each topic that its publisher wants to be kept for later subscribers.
//!
//! They stand in the order of their topics, level by level, so that what a filter matches is found without
//! a tree, whose levels would cost memory; and it is read a few at a time, from where the reader stopped:
//! nobody ever holds a list of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::account::{Account, Kind, Reservation};
use tidegate_types::topic::{Filter, FilterLevel};
use tidegate_types::units::Time;

use super::message::Message;

/// Bytes of memory that a topic costs beside its message: its place in the map, and what is booked for it.
const OVERHEAD: usize = 160;
/// Sorts behind all that is below a topic, and before its next neighbour.
const BEHIND: u8 = 1;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetainOutcome {
    /// It is the one of its topic.
    Stored,
    /// It had no payload: its topic has none any more.
    Removed,
    /// There is no room; what the topic had is gone too, for it is not the last one.
    Full,
}

/// A topic, in the order of topics: what is below it follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RetainedKey(Bytes);

impl Ord for RetainedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        // A level ends before any character that could go on with it. Topics have no NUL.
        let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
        self.0.iter().map(rank).cmp(other.0.iter().map(rank))
    }
}

impl PartialOrd for RetainedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How far a reader has come. A new one begins at the beginning.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    from: Bytes,
    /// What stands at `from` is done.
    is_after: bool,
}

/// What a reader finds next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetainedItem {
    /// A message.
    Message(Arc<Message>),
    /// Nothing in as many steps as it may take: it comes again.
    Later,
    /// No more.
    End,
}

/// Where a reader goes on that has seen a topic.
enum Step {
    /// The filter matches it.
    Take,
    /// Behind it.
    After,
    /// At this text, or behind it.
    At(Vec<u8>),
    /// Nowhere.
    End,
}

/// The retained messages. Bounded in bytes.
#[derive(Debug)]
pub struct Retained {
    messages: BTreeMap<RetainedKey, (Arc<Message>, Reservation)>,
    account: Account,
}

impl Retained {
    /// None yet, and never more than `account` has room for.
    pub fn new(account: Account) -> Self {
        Retained { messages: BTreeMap::new(), account }
    }

    /// Keeps a message as the last one of its topic; one without a payload ends it (MQTT 5, 3.3.1-6).
    pub fn keep(&mut self, message: &Arc<Message>) -> RetainOutcome {
        let key = RetainedKey(message.topic.clone());
        // First of all: what was held makes room.
        self.messages.remove(&key);
        if message.payload.is_empty() {
            return RetainOutcome::Removed;
        }
        let Ok(held) = self.account.reserve(Kind::Retained, message.footprint() + OVERHEAD) else {
            return RetainOutcome::Full;
        };
        self.messages.insert(key, (message.clone(), held));
        RetainOutcome::Stored
    }

    /// Keeps a message of an earlier process, unless its topic has a newer one.
    pub fn restore(&mut self, message: &Arc<Message>) -> RetainOutcome {
        match self.messages.contains_key(&RetainedKey(message.topic.clone())) {
            true => RetainOutcome::Stored,
            false => self.keep(message),
        }
    }

    /// What a subscription gets next, in at most so many steps; what is expired goes.
    pub fn next(
        &mut self,
        filter: &Filter,
        cursor: &mut Cursor,
        now: Time,
        steps: &mut usize,
    ) -> RetainedItem {
        let levels: Vec<FilterLevel<'_>> = filter.levels().collect();
        loop {
            let Some(left) = steps.checked_sub(1) else { return RetainedItem::Later };
            *steps = left;
            let from = RetainedKey(cursor.from.clone());
            let from = if cursor.is_after { Bound::Excluded(from) } else { Bound::Included(from) };
            let Some((key, (message, _))) = self.messages.range((from, Bound::Unbounded)).next()
            else {
                return RetainedItem::End;
            };
            match step(&levels, &key.0) {
                Step::End => return RetainedItem::End,
                Step::At(text) => *cursor = Cursor { from: text.into(), is_after: false },
                Step::After => *cursor = Cursor { from: key.0.clone(), is_after: true },
                Step::Take => {
                    let (key, message) = (key.clone(), message.clone());
                    *cursor = Cursor { from: key.0.clone(), is_after: true };
                    if !message.is_expired(now) {
                        return RetainedItem::Message(message);
                    }
                    self.messages.remove(&key);
                }
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.account.used()
    }
}

/// What a topic is to a filter.
fn step(levels: &[FilterLevel<'_>], topic: &[u8]) -> Step {
    let mut begin = 0;
    // Behind all that is below the levels before this place.
    let behind = |end: usize| {
        if end == 0 { Step::End } else { Step::At([&topic[..end - 1], &[BEHIND]].concat()) }
    };
    for level in levels {
        // The end of a topic has no level any more, which `a/#` matches at `a`.
        let is_over = begin > topic.len();
        if let FilterLevel::Rest = level
            && is_over
        {
            return Step::Take;
        }
        if is_over {
            return Step::After;
        }
        let end = topic[begin..].iter().position(|byte| *byte == b'/');
        let end = end.map_or(topic.len(), |length| begin + length);
        let name = &topic[begin..end];
        // Names that begin with $ are not met by a wildcard at the first level.
        let is_of_server = begin == 0 && name.first() == Some(&b'$');
        match level {
            FilterLevel::Rest | FilterLevel::One if is_of_server => return behind(end + 1),
            FilterLevel::Rest => return Step::Take,
            FilterLevel::One => {}
            FilterLevel::Exact(exact) => match name.cmp(exact.as_bytes()) {
                Ordering::Equal => {}
                Ordering::Less => return Step::At([&topic[..begin], exact.as_bytes()].concat()),
                Ordering::Greater => return behind(begin),
            },
        }
        begin = end + 1;
    }
    if begin > topic.len() { Step::Take } else { behind(begin) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use tidegate_types::class::ClassId;
    use tidegate_types::record::Properties;

    use super::*;

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
        let (mut cursor, mut all) = (Cursor::default(), Vec::new());
        loop {
            // So few steps that a reader often comes again.
            match retained.next(&filter, &mut cursor, Time::from_millis(now), &mut 2) {
                RetainedItem::Message(message) => {
                    all.push(String::from_utf8(message.topic.to_vec()).unwrap());
                }
                RetainedItem::Later => {}
                RetainedItem::End => return all,
            }
        }
    }

    #[test]
    fn the_last_one_is_kept_until_an_empty_one_comes() {
        let mut retained = Retained::new(Account::new(10_000));
        for (topic, payload) in [("a/b", "1"), ("a", "1"), ("$x/b", "1"), ("a/b", "2")] {
            assert_eq!(retained.keep(&message(topic, payload, None)), RetainOutcome::Stored);
        }
        assert_eq!(retained.len(), 3);
        assert_eq!(found(&mut retained, "a/#", 0), ["a", "a/b"]);
        assert_eq!(found(&mut retained, "#", 0), ["a", "a/b"]);
        assert_eq!(found(&mut retained, "+/b", 0), ["a/b"]);
        assert_eq!(found(&mut retained, "$x/#", 0), ["$x/b"]);
        for topic in ["a", "a/b", "$x/b", "a/b"] {
            assert_eq!(retained.keep(&message(topic, "", None)), RetainOutcome::Removed);
        }
        assert!(retained.is_empty() && retained.bytes() == 0);
    }

    #[test]
    fn what_is_expired_goes() {
        let mut retained = Retained::new(Account::new(10_000));
        retained.keep(&message("a", "1", Some(5)));
        assert_eq!(found(&mut retained, "a", 4), ["a"]);
        assert!(found(&mut retained, "a", 5).is_empty() && retained.is_empty());
    }

    #[test]
    fn bytes_are_bounded_and_nothing_old_stays() {
        let mut retained = Retained::new(Account::new(4 * OVERHEAD));
        assert_eq!(retained.keep(&message("a", "1", None)), RetainOutcome::Stored);
        assert_eq!(retained.keep(&message("b", "1", None)), RetainOutcome::Full);
        assert_eq!(retained.keep(&message("a", &"1".repeat(999), None)), RetainOutcome::Full);
        assert_eq!((retained.len(), retained.bytes()), (0, 0));
    }

    #[test]
    fn a_topic_costs_its_bytes_however_many_levels_they_are() {
        let mut retained = Retained::new(Account::new(10_000));
        let deep = vec!["a"; 100].join("/");
        retained.keep(&message(&deep, "1", None));
        let bytes = retained.bytes();
        assert!(bytes < deep.len() + 500 + OVERHEAD, "{bytes}");
        assert_eq!(found(&mut retained, "#", 0), [deep]);
    }

    #[test]
    fn a_reader_takes_as_many_steps_as_it_may() {
        let mut retained = Retained::new(Account::new(1 << 20));
        for number in 0..100 {
            retained.keep(&message(&format!("a/{number}/c"), "1", None));
        }
        let (filter, mut cursor, mut steps) =
            (Filter::new("a/+/b").unwrap(), Cursor::default(), 10);
        assert_eq!(
            retained.next(&filter, &mut cursor, Time::ZERO, &mut steps),
            RetainedItem::Later
        );
        assert_eq!(steps, 0);
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
            let mut retained = Retained::new(Account::new(1 << 20));
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
