use proptest::prelude::*;

use super::*;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);

fn subscription(text: &str) -> Subscription {
    Subscription::new(text).unwrap()
}

fn qos(qos: u8) -> SubscribeOptions {
    SubscribeOptions { qos, ..SubscribeOptions::default() }
}

fn sessions(route: &Route) -> Vec<u32> {
    route.all.iter().map(|target| target.session.0).collect()
}

#[test]
fn overlapping_subscriptions_deliver_once_with_the_largest_qos() {
    let mut all = Subscriptions::default();
    assert!(all.subscribe(A, subscription("a/#"), SubscribeOptions { id: Some(7), ..qos(0) }));
    assert!(all.subscribe(A, subscription("a/+"), SubscribeOptions { id: Some(9), ..qos(2) }));
    assert!(all.subscribe(B, subscription("a/b"), qos(1)));
    let route = all.route("a/b", None);
    assert_eq!(sessions(&route), [1, 2]);
    assert_eq!((route.all[0].qos, route.all[0].ids.as_deref()), (2, Some(&[7, 9][..])));
    assert!(!all.subscribe(A, subscription("a/+"), qos(1)), "the same filter replaces");
    assert_eq!(all.route("a/b", None).all[0].qos, 1);
    assert!(all.unsubscribe(A, &subscription("a/+")) && !all.unsubscribe(A, &subscription("a/+")));
    assert_eq!(all.route("a/b", None).all[0].qos, 0);
    assert_eq!(all.of(A, None).cloned().collect::<Vec<_>>(), all.remove(A, 10));
    assert_eq!(sessions(&all.route("a/b", None)), [2]);
    all.remove(B, 10);
    assert!(all.is_empty() && all.root.is_empty(), "no node is left");
}

#[test]
fn what_is_published_locally_may_be_left_out() {
    let mut all = Subscriptions::default();
    all.subscribe(A, subscription("a"), SubscribeOptions { no_local: true, ..qos(0) });
    assert!(all.route("a", Some(A)).is_empty());
    assert_eq!(sessions(&all.route("a", Some(B))), [1]);
    all.subscribe(A, subscription("+"), qos(0));
    assert_eq!(sessions(&all.route("a", Some(A))), [1], "another one wants it");
}

#[test]
fn groups_stand_beside_own_subscriptions() {
    let mut all = Subscriptions::default();
    for session in [A, B] {
        all.subscribe(session, subscription("$share/g/a/+"), qos(1));
    }
    all.subscribe(A, subscription("$share/h/a/+"), qos(1));
    all.subscribe(A, subscription("a/b"), qos(0));
    let route = all.route("a/b", None);
    assert_eq!((sessions(&route), route.groups.len()), (vec![1], 2));
    assert_eq!(route.groups[0].len(), 2);
    assert!(all.unsubscribe(A, &subscription("$share/g/a/+")));
    assert_eq!(all.route("a/b", None).groups[0][0].session, B);
    assert_eq!((all.count(A), all.len()), (2, 3));
}

#[test]
fn many_subscriptions_are_looked_at_and_ended_a_part_at_a_time() {
    let mut all = Subscriptions::default();
    for number in 0..7 {
        all.subscribe(A, subscription(&format!("a/{number}")), qos(1));
    }
    let (mut last, mut seen) = (None, 0);
    while let Some(end) = all.of(A, last.as_ref()).take(3).last().cloned() {
        seen += all.of(A, last.as_ref()).take(3).count();
        last = Some(end);
    }
    assert_eq!((seen, all.of(B, None).count()), (7, 0));
    let ended: Vec<usize> = (0..4).map(|_| all.remove(A, 3).len()).collect();
    assert_eq!((ended, all.len(), all.root.is_empty()), (vec![3, 3, 1, 0], 0, true));
}

/// Topics and filters of few levels and few names, so that they meet.
fn level() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "", "$x"])
}

fn topic() -> impl Strategy<Value = String> {
    prop::collection::vec(level(), 1..4)
        .prop_map(|levels| levels.join("/"))
        .prop_filter("a topic is not empty", |topic| !topic.is_empty())
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![3 => level(), 2 => Just("+")];
    (prop::collection::vec(level, 1..4), any::<bool>())
        .prop_map(|(levels, rest)| levels.join("/") + if rest { "/#" } else { "" })
        .prop_filter("a filter is not empty", |filter| !filter.is_empty())
}

proptest! {
    /// The tree finds what a walk over the list of filters finds, after any changes.
    #[test]
    fn the_tree_is_the_list(
        changes in prop::collection::vec((0..4_u32, filter(), any::<bool>()), 0..40),
        topics in prop::collection::vec(topic(), 1..10),
    ) {
        let mut tree = Subscriptions::default();
        let mut list: Vec<(u32, Subscription)> = Vec::new();
        for (session, filter, is_new) in changes {
            let subscription = Subscription::new(&filter).unwrap();
            let place = list.iter().position(|entry| *entry == (session, subscription.clone()));
            if is_new {
                let was_new = tree.subscribe(SessionId(session), subscription.clone(), qos(1));
                prop_assert_eq!(was_new, place.is_none());
                if place.is_none() {
                    list.push((session, subscription));
                }
            } else {
                let was_there = tree.unsubscribe(SessionId(session), &subscription);
                prop_assert_eq!(was_there, place.is_some());
                place.map(|place| list.remove(place));
            }
        }
        prop_assert_eq!(tree.len(), list.len());
        for topic in topics {
            let matches = list.iter().filter(|(_, entry)| entry.filter.matches(&topic));
            let mut expected: Vec<u32> = matches.map(|(session, _)| *session).collect();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(sessions(&tree.route(&topic, None)), expected, "{}", topic);
        }
    }
}

#[test]
fn a_node_is_small() {
    assert!(size_of::<LevelNode>() <= 48, "{}", size_of::<LevelNode>());
}
