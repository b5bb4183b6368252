//! Very many subscribers, groups and subscriptions: each gets what is for it, whatever the others do. Beside that the tests
//! measure what it takes, and tell it without a judgement (docs/decisions/0138-a-crowd-at-the-table.md):
//! `cargo test --release -p tidegate --lib crowd_tests -- --ignored --nocapture --test-threads 1`.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_broker::NextSend;
use tidegate_types::record::{Offered, Properties, SourceId};

use super::*;

/// Subscribers of one topic.
const MANY: usize = 10_000;

fn record(topic: &str) -> Offered {
    Offered {
        source: SourceId(0),
        token: None,
        key: Bytes::copy_from_slice(topic.as_bytes()),
        properties: Properties::default(),
        payload: Bytes::from_static(&[0; 64]),
        read_at: Time::ZERO,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}

fn hub() -> Hub {
    Hub::new(HubOptions { clients: 1 << 30, ..HubOptions::default() })
}

fn subscribed<'f>(hub: &Hub, filters: impl IntoIterator<Item = &'f str>) -> Subscriber {
    let subscriber = hub.subscriber(&hub.anybody());
    subscriber.seat().outbox().connect(100);
    for filter in filters {
        let subscription = Subscription::new(filter).unwrap();
        hub.subscribe(&subscriber, subscription, SubscribeOptions::default(), |_| false).unwrap();
    }
    subscriber
}

/// Takes all that is there, as a connection does; says how much it was.
fn take(subscriber: &Subscriber) -> usize {
    let (mut outbox, mut count) = (subscriber.seat().outbox(), 0);
    loop {
        if let Some(run) = outbox.whole_run() {
            count += run.messages().len();
            outbox.take_whole_run();
            continue;
        }
        match outbox.next(Time::ZERO) {
            Some(NextSend::Publish { .. }) => count += 1,
            _ => return count,
        }
    }
}

fn publish(publisher: &mut Publisher, topic: &str, count: usize) -> Duration {
    let records = vec![record(topic); count];
    let begun = Instant::now();
    publisher.publish_all(records.iter().map(|record| (record, 0)));
    begun.elapsed()
}

fn tell(what: &str, took: Duration, of: usize) {
    eprintln!(
        "{what}: {:.3} ms, {} ns each",
        took.as_secs_f64() * 1e3,
        took.as_nanos() / of as u128
    );
}

#[test]
#[ignore = "takes long, and what it tells is of a release build"]
fn ten_thousand_get_each_message_and_who_takes_none_loses_its_own_alone() {
    let hub = hub();
    let all: Vec<Subscriber> = (0..MANY).map(|_| subscribed(&hub, ["crowd/#"])).collect();
    let mut publisher = hub.publisher();
    tell("first message, with its way", publish(&mut publisher, "crowd/a", 1), MANY);
    tell("a message", publish(&mut publisher, "crowd/a", 1), MANY);
    tell("a batch of 64", publish(&mut publisher, "crowd/a", 64), 64 * MANY);
    let reserved = hub.account().used();
    assert!(reserved < 1 << 20, "they share what waits: {reserved}");
    assert!(all.iter().all(|subscriber| take(subscriber) == 66));
    // The first one takes nothing any more.
    let (slow, others) = all.split_first().unwrap();
    let (mut worst, mut got) = (Duration::ZERO, 0);
    for _ in 0..1000 {
        worst = worst.max(publish(&mut publisher, "crowd/a", 64));
        got += others.iter().map(take).sum::<usize>();
    }
    tell("the slowest batch beside one that is slow", worst, 64 * MANY);
    assert_eq!(got, 64_000 * others.len());
    let held = slow.seat().outbox().bytes();
    assert!(held <= 4 << 20, "{held}");
    assert_eq!(hub.status().drops.values().sum::<u64>() + take(slow) as u64, 64_000);
}

#[test]
#[ignore = "takes long, and what it tells is of a release build"]
fn ten_thousand_groups_of_ten_get_each_message_once() {
    let hub = hub();
    let filters: Vec<String> =
        (0..MANY).map(|group| format!("$share/{group}/crowd/+/deep")).collect();
    let begun = Instant::now();
    let members: Vec<Subscriber> =
        (0..10).map(|_| subscribed(&hub, filters.iter().map(|filter| &**filter))).collect();
    tell("a subscription of a group", begun.elapsed(), 10 * MANY);
    let mut publisher = hub.publisher();
    tell("first message, with its way", publish(&mut publisher, "crowd/a/deep", 1), MANY);
    tell("a message", publish(&mut publisher, "crowd/a/deep", 1), MANY);
    assert_eq!(members.iter().map(take).sum::<usize>(), 2 * MANY);
    let begun = Instant::now();
    let mut members = members;
    members.truncate(5);
    tell("the end of a subscription of a group", begun.elapsed(), 5 * MANY);
    publish(&mut publisher, "crowd/a/deep", 3);
    assert_eq!(members.iter().map(take).sum::<usize>(), 3 * MANY);
}

/// How long others wait for the table at most while `work` is done.
fn longest_wait(hub: &Hub, work: impl FnOnce()) -> Duration {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut worst = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                drop(hub.write());
                worst = worst.max(begun.elapsed());
                std::thread::yield_now();
            }
            worst
        });
        work();
        is_over.store(true, Ordering::Relaxed);
        waiting.join().unwrap()
    })
}

#[test]
#[ignore = "takes long, and what it tells is of a release build"]
fn a_hundred_thousand_subscriptions_bring_each_message_once() {
    let hub = hub();
    // Deep ones that begin alike, with a wildcard at each place in turn.
    let deep = |number: usize| {
        let level = |place: usize| match (number >> place) & 1 {
            0 => "a".to_owned(),
            _ => "+".to_owned(),
        };
        let levels: Vec<String> = (0..13).map(level).collect();
        format!("{}/{}", levels.join("/"), number / (1 << 13))
    };
    let filters: Vec<String> = (0..MANY).map(deep).collect();
    let mut all: Vec<Subscriber> =
        (0..9).map(|_| subscribed(&hub, filters.iter().map(|filter| &**filter))).collect();
    let topic = format!("{}/0", ["a"; 13].join("/"));
    let one = || longest_wait(&hub, || drop(subscribed(&hub, ["other/x"])));
    tell("wait for the table, nothing else at work", one(), 1);
    let more = || all.push(subscribed(&hub, filters.iter().map(|filter| &**filter)));
    tell("while ten thousand are subscribed to", longest_wait(&hub, more), 1);
    assert_eq!(hub.status().subscriptions, 10 * MANY);
    let mut publisher = hub.publisher();
    let begun = Instant::now();
    let worst = longest_wait(&hub, || _ = publish(&mut publisher, &topic, 1));
    tell("a topic that eight thousand filters match", begun.elapsed(), 1);
    tell("while its way is found", worst, 1);
    assert!(all.iter().all(|subscriber| take(subscriber) == 1), "once, by whatever many filters");
    let last = &all[9];
    let limit = || _ = hub.restrict(last, |one| one.filter.as_str().ends_with('0'), |_| true);
    tell("while rights are looked at", longest_wait(&hub, limit), 1);
    let gone = all.pop().unwrap();
    tell("while ten thousand end", longest_wait(&hub, || drop(gone)), 1);
    tell("while the status is told", longest_wait(&hub, || drop(hub.status())), 1);
    assert_eq!(hub.status().subscriptions, 9 * MANY);
    let begun = Instant::now();
    for number in 0..100 {
        drop(subscribed(&hub, [&*format!("other/{number}")]));
        publish(&mut publisher, &topic, 1);
    }
    tell("a message, and a subscription elsewhere that came and went", begun.elapsed(), 100);
    assert!(all.iter().all(|subscriber| take(subscriber) == 100));
}
