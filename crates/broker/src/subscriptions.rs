//! Who gets a message: a tree of topic levels with the subscriptions at its nodes.
//!
//! A subscription of a session is found by its filter and its group; a second one with the same replaces
//! it (MQTT 5, 3.8.4-3). A message that matches several subscriptions of a session is delivered once to it,
//! with the largest QoS and all identifiers (3.3.4-2 and 3.3.4-4); that of a shared subscription goes to one
//! member of each group (4.8.2), beside what that session gets by its own.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tidegate_types::ids::SessionId;
use tidegate_types::topic::FilterLevel;

use super::children::Children;
use super::message::Ids;
use super::subscription::Subscription;

/// What a subscription asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// The largest QoS that it wants: 0, 1 or 2.
    pub qos: u8,
    /// Nothing that the same client published.
    pub no_local: bool,
    /// Tell whether the publisher wanted a message to be retained.
    pub retain_as_published: bool,
    /// Told with each message; never 0.
    pub id: Option<u32>,
}

/// Memory of a subscription beside its text and its levels: its places in the tree, in the list of its session
/// and among what is read for it.
const SUBSCRIPTION: usize = 512;
/// Memory of a group at its filter.
const GROUP: usize = 512;
/// Memory of a level: its node, and its text three times.
const LEVEL: usize = 160;

/// Memory that a subscription takes, as if it shared no level of the tree with any other.
pub fn footprint(subscription: &Subscription) -> usize {
    let group = subscription.group.as_ref().map_or(0, |group| GROUP + group.len());
    let filter = &subscription.filter;
    SUBSCRIPTION + group + filter.levels().count() * LEVEL + 6 * filter.as_str().len()
}

/// Somebody who gets a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// Who.
    pub session: SessionId,
    /// The largest QoS.
    pub qos: u8,
    /// Whether to tell that the publisher wanted it to be retained.
    pub retain_as_published: bool,
    /// By which of its subscriptions.
    pub ids: Ids,
}

/// All who get the messages of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// All of these.
    pub all: Vec<Recipient>,
    /// One of each.
    pub groups: Vec<Vec<Recipient>>,
}

impl Route {
    /// Whether nobody gets them.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.groups.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
struct Subscriber {
    session: SessionId,
    options: SubscribeOptions,
}

/// The subscriptions of one filter, each list in the order of sessions: a filter that ten thousand have is changed as fast
/// as any.
#[derive(Debug, Default)]
struct Leaf {
    own: Vec<Subscriber>,
    groups: BTreeMap<Arc<str>, Vec<Subscriber>>,
}

impl Leaf {
    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.groups.is_empty()
    }

    fn put(&mut self, group: Option<&Arc<str>>, member: Subscriber) {
        let members = match group {
            None => &mut self.own,
            Some(name) => self.groups.entry(name.clone()).or_default(),
        };
        match members.binary_search_by_key(&member.session, |known| known.session) {
            Ok(place) => members[place] = member,
            Err(place) => members.insert(place, member),
        }
    }

    fn remove(&mut self, group: Option<&Arc<str>>, session: SessionId) {
        match group {
            None => leave(&mut self.own, session),
            Some(name) => {
                let Some(members) = self.groups.get_mut(name) else { return };
                leave(members, session);
                if members.is_empty() {
                    self.groups.remove(name);
                }
            }
        }
    }
}

fn leave(members: &mut Vec<Subscriber>, session: SessionId) {
    if let Ok(place) = members.binary_search_by_key(&session, |member| member.session) {
        members.remove(place);
    }
}

/// Filters that end at a node.
#[derive(Debug, Default)]
struct Leaves {
    /// Here.
    here: Leaf,
    /// Here with `#`.
    rest: Leaf,
}

#[derive(Debug, Default)]
pub(super) struct LevelNode {
    children: Children<LevelNode>,
    /// Below `+`.
    any: Option<Box<LevelNode>>,
    leaves: Option<Box<Leaves>>,
}

impl LevelNode {
    fn is_empty(&self) -> bool {
        self.children.is_empty() && self.any.is_none() && self.leaves.is_none()
    }

    /// The place of a filter, made where there is none.
    fn leaf(&mut self, levels: &[FilterLevel<'_>]) -> &mut Leaf {
        match levels.split_first() {
            None => &mut self.leaves.get_or_insert_default().here,
            Some((FilterLevel::Rest, _)) => &mut self.leaves.get_or_insert_default().rest,
            Some((FilterLevel::One, below)) => self.any.get_or_insert_default().leaf(below),
            Some((FilterLevel::Exact(level), below)) => {
                self.children.get_or_insert(level).leaf(below)
            }
        }
    }

    /// Removes a subscription, and the nodes that only it needed.
    fn remove(&mut self, levels: &[FilterLevel<'_>], group: Option<&Arc<str>>, session: SessionId) {
        match levels.split_first() {
            None | Some((FilterLevel::Rest, _)) => {
                let Some(leaves) = &mut self.leaves else { return };
                let is_here = levels.is_empty();
                let leaf = if is_here { &mut leaves.here } else { &mut leaves.rest };
                leaf.remove(group, session);
                self.leaves.take_if(|leaves| leaves.here.is_empty() && leaves.rest.is_empty());
            }
            Some((FilterLevel::One, below)) => {
                if let Some(any) = &mut self.any {
                    any.remove(below, group, session);
                    self.any.take_if(|any| any.is_empty());
                }
            }
            Some((FilterLevel::Exact(level), below)) => {
                if let Some(child) = self.children.find_mut(level) {
                    child.remove(below, group, session);
                    if child.is_empty() {
                        self.children.remove(level);
                    }
                }
            }
        }
    }

    /// All leaves that match the levels; `is_open` where wildcards may match the first of them.
    fn find<'a>(&'a self, levels: &[&str], is_open: bool, found: &mut Vec<&'a Leaf>) {
        if let Some(leaves) =
            self.leaves.as_ref().filter(|leaves| is_open && !leaves.rest.is_empty())
        {
            found.push(&leaves.rest);
        }
        let Some((level, below)) = levels.split_first() else {
            return found.extend(self.leaves.as_ref().map(|leaves| &leaves.here));
        };
        if let Some(any) = self.any.as_ref().filter(|_| is_open) {
            any.find(below, true, found);
        }
        if let Some(child) = self.children.find(level) {
            child.find(below, true, found);
        }
    }
}

/// The subscriptions of all sessions.
#[derive(Debug, Default)]
pub struct Subscriptions {
    root: LevelNode,
    by_session: BTreeMap<SessionId, BTreeMap<Subscription, SubscribeOptions>>,
    count: usize,
}

impl Subscriptions {
    /// Notes a subscription; false where it replaces one.
    pub fn subscribe(
        &mut self,
        session: SessionId,
        subscription: Subscription,
        options: SubscribeOptions,
    ) -> bool {
        let levels: Vec<_> = subscription.filter.levels().collect();
        let leaf = self.root.leaf(&levels);
        leaf.put(subscription.group.as_ref(), Subscriber { session, options });
        let of_session = self.by_session.entry(session).or_default();
        let is_new = of_session.insert(subscription, options).is_none();
        self.count += usize::from(is_new);
        is_new
    }

    /// Ends a subscription; false where there was none.
    pub fn unsubscribe(&mut self, session: SessionId, subscription: &Subscription) -> bool {
        let Some(of_session) = self.by_session.get_mut(&session) else { return false };
        if of_session.remove(subscription).is_none() {
            return false;
        }
        self.count -= 1;
        if of_session.is_empty() {
            self.by_session.remove(&session);
        }
        self.forget(session, subscription);
        true
    }

    /// Ends so many subscriptions of a session, and says which; none where it has none.
    pub fn remove(&mut self, session: SessionId, most: usize) -> Vec<Subscription> {
        let Some(of_session) = self.by_session.get_mut(&session) else { return Vec::new() };
        let first = std::iter::from_fn(|| of_session.pop_first());
        let gone: Vec<Subscription> = first.map(|(gone, _)| gone).take(most).collect();
        if of_session.is_empty() {
            self.by_session.remove(&session);
        }
        self.count -= gone.len();
        gone.iter().for_each(|subscription| self.forget(session, subscription));
        gone
    }

    fn forget(&mut self, session: SessionId, Subscription { group, filter }: &Subscription) {
        let levels: Vec<_> = filter.levels().collect();
        self.root.remove(&levels, group.as_ref(), session);
    }

    /// The options of a subscription, if a session has it.
    pub fn options(
        &self,
        session: SessionId,
        subscription: &Subscription,
    ) -> Option<SubscribeOptions> {
        self.by_session.get(&session)?.get(subscription).copied()
    }

    /// The subscriptions of a session in their order, those behind `last`.
    pub fn of(
        &self,
        session: SessionId,
        last: Option<&Subscription>,
    ) -> impl Iterator<Item = &Subscription> {
        let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
        let of_session = self.by_session.get(&session);
        let part = of_session.map(|all| all.range((behind, Bound::Unbounded)));
        part.into_iter().flatten().map(|(subscription, _)| subscription)
    }

    /// How many a session has.
    pub fn count(&self, session: SessionId) -> usize {
        self.by_session.get(&session).map_or(0, BTreeMap::len)
    }

    /// How many there are in all.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_session.is_empty()
    }

    /// All who get what `publisher` publishes to a topic.
    pub fn route(&self, topic: &str, publisher: Option<SessionId>) -> Route {
        self.matching(topic).route(publisher)
    }

    /// What matches a topic, as it stands here.
    pub fn matching(&self, topic: &str) -> TopicMatch {
        let levels: Vec<&str> = topic.split('/').collect();
        let mut found = Vec::new();
        self.root.find(&levels, !topic.starts_with('$'), &mut found);
        let mut all = Vec::with_capacity(found.iter().map(|leaf| leaf.own.len()).sum());
        found.iter().for_each(|leaf| all.extend_from_slice(&leaf.own));
        let groups = found.iter().flat_map(|leaf| leaf.groups.values().cloned()).collect();
        TopicMatch { all, groups }
    }
}

/// The subscriptions that match a topic. Who gets its messages is found without the tree, which others may have meanwhile.
#[derive(Clone, Debug)]
pub struct TopicMatch {
    all: Vec<Subscriber>,
    groups: Vec<Vec<Subscriber>>,
}

impl TopicMatch {
    /// All who get what `publisher` publishes to it.
    pub fn route(self, publisher: Option<SessionId>) -> Route {
        let TopicMatch { mut all, groups } = self;
        all.retain(|member| !(member.options.no_local && publisher == Some(member.session)));
        all.sort_by_key(|member| member.session);
        let same = |a: &Subscriber, b: &Subscriber| a.session == b.session;
        let single = |member: &Subscriber| target(std::slice::from_ref(member));
        Route {
            all: all.chunk_by(same).map(target).collect(),
            groups: groups.iter().map(|members| members.iter().map(single).collect()).collect(),
        }
    }
}

/// One target of the subscriptions of one session.
fn target(members: &[Subscriber]) -> Recipient {
    let ids: Vec<u32> = members.iter().filter_map(|member| member.options.id).collect();
    Recipient {
        session: members[0].session,
        qos: members.iter().map(|member| member.options.qos).max().unwrap_or(0),
        retain_as_published: members.iter().any(|member| member.options.retain_as_published),
        ids: (!ids.is_empty()).then(|| ids.into()),
    }
}

#[cfg(test)]
mod tests;
