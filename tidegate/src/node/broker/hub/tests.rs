use bytes::Bytes;
use tidegate_broker::{NextSend, Scope};
use tidegate_types::class::ClassId;
use tidegate_types::record::{Offered, Properties, SourceId};
use tidegate_types::topic::Filter;

use super::*;
use crate::node::broker::way::Way;

impl Hub {
    /// Whose bounds are those of all.
    pub(crate) fn anybody(&self) -> Payer {
        let subscriptions = self.subscriptions_of("anybody", None);
        Payer { client: "anybody".into(), account: self.account().clone(), subscriptions }
    }
}

pub(super) fn record(topic: &str, payload: &str, retain: bool) -> Offered {
    let pairs = if retain { vec![("retain".into(), "1".into())] } else { Vec::new() };
    Offered {
        source: SourceId(0),
        token: None,
        key: Bytes::copy_from_slice(topic.as_bytes()),
        properties: Properties::new(pairs),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        read_at: Time::ZERO,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}

fn subscribe(hub: &Hub, subscriber: &Subscriber, filter: &str, options: SubscribeOptions) {
    let subscription = Subscription::new(filter).unwrap();
    hub.subscribe(subscriber, subscription, options, |_| true).unwrap();
    // As its connection does at once.
    while subscriber.refill(Time::ZERO, &mut subscriber.seat().outbox()) {}
}

pub(super) fn subscribed(hub: &Hub, filter: &str) -> Subscriber {
    let subscriber = hub.subscriber(&hub.anybody());
    subscriber.seat().outbox().connect(10);
    subscribe(hub, &subscriber, filter, SubscribeOptions { qos: 1, ..SubscribeOptions::default() });
    subscriber
}

/// Payload, QoS and retain flag of all that is there.
fn got(subscriber: &Subscriber) -> Vec<(String, u8, bool)> {
    let mut outbox = subscriber.seat().outbox();
    while subscriber.refill(Time::ZERO, &mut outbox) {}
    let next = || match outbox.next(Time::ZERO)? {
        NextSend::Publish { delivery, .. } => {
            let payload = String::from_utf8(delivery.message.payload.to_vec()).unwrap();
            Some((payload, delivery.qos, delivery.retain))
        }
        NextSend::Release(_) => panic!("nothing is released here"),
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn a_change_of_the_table_changes_the_way() {
    let hub = Hub::default();
    let mut publisher = hub.publisher();
    let records = [record("a", "1", false)];
    let mut publish = || publisher.publish_all(records.iter().map(|record| (record, 0)));
    publish();
    let subscriber = subscribed(&hub, "a");
    publish();
    assert_eq!(got(&subscriber), [("1".into(), 0, false)]);
    assert!(hub.unsubscribe(&subscriber, &Subscription::new("a").unwrap()));
    publish();
    assert!(got(&subscriber).is_empty());
    assert_eq!(hub.status().published, 1);
}

#[test]
fn a_change_that_concerns_other_topics_leaves_the_way_as_it_is() {
    let hub = Hub::default();
    let subscriber = subscribed(&hub, "a/+");
    let mut publisher = hub.publisher();
    let topics = ["a/b", "a/c"].map(|topic| Bytes::from_static(topic.as_bytes()));
    let mut find = || topics.each_ref().map(|topic| publisher.way(topic));
    let same = |one: &[Arc<Way>; 2], two: &[Arc<Way>; 2]| {
        [0, 1].map(|place| Arc::ptr_eq(&one[place], &two[place]))
    };
    let first = find();
    let other = subscribed(&hub, "b/#");
    subscribe(&hub, &subscriber, "a/+", SubscribeOptions { qos: 1, ..Default::default() });
    assert!(!hub.unsubscribe(&other, &Subscription::new("a/b").unwrap()));
    let second = find();
    assert_eq!(same(&first, &second), [true; 2], "nothing that is new");
    let of_one = subscribed(&hub, "a/b");
    let third = find();
    assert_eq!(same(&second, &third), [false, true]);
    assert_eq!(third.each_ref().map(|way| way.all.len()), [2, 1]);
    drop((other, of_one));
    let fourth = find();
    assert_eq!(same(&third, &fourth), [false, true]);
    hub.set_scopes(Scopes::default());
    assert_eq!(same(&fourth, &find()), [false; 2], "of all topics");
}

#[test]
fn a_batch_keeps_its_order_and_leaves_what_is_not_accepted_out() {
    let hub = Hub::default();
    let (all, one) = (subscribed(&hub, "#"), subscribed(&hub, "b"));
    let records = ["a", "a", "b", "a"].map(|topic| record(topic, topic, false));
    let mut publisher = hub.publisher();
    publisher.publish_all(records.iter().zip([1, 2, 1, 0]));
    let payloads: Vec<String> = got(&all).into_iter().map(|(payload, ..)| payload).collect();
    assert_eq!(payloads, ["a", "b", "a"]);
    assert_eq!(got(&one).len(), 1);
}

#[test]
fn a_group_takes_turns_and_passes_over_who_is_away() {
    let hub = Hub::default();
    let members = [(); 2].map(|()| subscribed(&hub, "$share/g/a"));
    let records = [record("a", "1", false), record("a", "2", false)];
    let mut publisher = hub.publisher();
    publisher.publish_all(records.iter().map(|record| (record, 1)));
    assert_eq!(members.each_ref().map(|member| got(member).len()), [1, 1]);
    members[0].disconnect();
    publisher.publish_all(records.iter().map(|record| (record, 1)));
    assert_eq!(members.each_ref().map(|member| got(member).len()), [0, 2]);
}

#[test]
fn what_is_retained_comes_with_a_subscription() {
    let hub = Hub::default();
    let early = subscribed(&hub, "a");
    subscribe(
        &hub,
        &early,
        "b",
        SubscribeOptions { retain_as_published: true, ..SubscribeOptions::default() },
    );
    let records = [record("a", "1", true), record("b", "2", true)];
    hub.publisher().publish_all(records.iter().map(|record| (record, 1)));
    assert_eq!(got(&early), [("1".into(), 1, false), ("2".into(), 0, true)]);
    let late = subscribed(&hub, "#");
    assert_eq!(got(&late), [("1".into(), 1, true), ("2".into(), 1, true)]);
    let shared = subscribed(&hub, "$share/g/#");
    assert!(got(&shared).is_empty(), "a group gets nothing that is retained");
    assert_eq!((hub.status().retained, hub.status().sessions), (2, 3));
}

#[test]
fn rights_that_are_gone_end_subscriptions_and_what_waits_for_them() {
    let hub = Hub::default();
    let subscriber = subscribed(&hub, "#");
    let records = [record("a", "1", false), record("b", "2", false)];
    hub.publisher().publish_all(records.iter().map(|record| (record, 1)));
    let right = Filter::new("a").unwrap();
    let may_get = |message: &Message| message.topic == "a";
    hub.restrict(&subscriber, |subscription| right.covers(&subscription.filter), may_get);
    assert_eq!((got(&subscriber).len(), hub.status().subscriptions), (1, 0));
}

#[test]
fn a_class_is_that_of_the_first_rule_and_may_be_local() {
    let hub = Hub::default();
    assert!(!hub.is_local(b"a/b"));
    let scope = |filter: &str, class, is_local| Scope {
        filters: vec![Filter::new(filter).unwrap()],
        class: ClassId(class),
        latency: std::time::Duration::from_millis(50),
        is_local,
    };
    hub.set_scopes(Scopes::new(vec![scope("a/#", 1, true), scope("#", 2, false)]));
    assert!(hub.is_local(b"a/b") && !hub.is_local(b"b"));
    let mut publisher = hub.publisher();
    let message = publisher.message(&record("a/b", "", false), 1);
    assert_eq!((message.class, message.deadline), (ClassId(1), Time::from_millis(50)));
    assert!(publisher.is_local(&Bytes::from_static(b"a")));
}

#[tokio::test]
async fn a_publisher_waits_for_a_subscriber_that_is_at_work() {
    let hub = Hub::new(HubOptions { queue: 1000, ..HubOptions::default() });
    let subscriber = subscribed(&hub, "a");
    let mut publisher = hub.publisher();
    let long = "x".repeat(300);
    let records = [record("a", &long, false), record("a", &long, false)];
    publisher.publish_all(records.iter().map(|record| (record, 0)));
    let seat = publisher.take_crowded().expect("more than half of its bytes");
    let mut wait = std::pin::pin!(seat.roomy());
    tokio::select! {
        biased;
        () = &mut wait => panic!("nothing was taken"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(got(&subscriber).len(), 2);
    subscriber.seat().taken(false);
    wait.await;
    subscriber.seat().taken(true);
    publisher.publish_all(records.iter().map(|record| (record, 0)));
    assert!(publisher.take_crowded().is_none(), "who does not read is not waited for");
}
