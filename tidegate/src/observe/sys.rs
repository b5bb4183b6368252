//! `$SYS` topics: the few figures of a broker that clients look for there, under the names that Mosquitto gave them.
//!
//! They are retained and told again when they have changed. They are for subscribers here: nothing of them goes to
//! outputs or into the log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::units::Time;
use tokio::time::{MissedTickBehavior, interval};

use crate::input::mqtt::Clients;
use crate::node::broker::Publisher;
use crate::node::contract::Intake;
use crate::support::tasks::Tasks;

/// What was told of each topic, in the order of `figures`.
type Told = Vec<String>;

/// Tells them each `every`, if that is any time, until the node is gone.
pub(crate) fn start(intake: &Intake, clients: &Arc<Clients>, every: Duration, tasks: &mut Tasks) {
    if !every.is_zero() {
        let telling = tell(intake.clone(), clients.clone(), every);
        tasks.spawn(async move {
            telling.await;
            Ok(())
        });
    }
}

async fn tell(intake: Intake, clients: Arc<Clients>, every: Duration) {
    let mut publisher = intake.hub().publisher();
    let (start, mut told) = (intake.now(), Told::new());
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = intake.closed() => return,
            _ = ticks.tick() => {}
        }
        round(&mut publisher, &clients, (start, intake.now()), &mut told);
    }
}

/// Tells what has changed.
fn round(
    publisher: &mut Publisher,
    clients: &Clients,
    (start, now): (Time, Time),
    told: &mut Told,
) {
    for (place, (topic, figure)) in figures(publisher, clients, now.since(start)).enumerate() {
        match told.get_mut(place) {
            Some(before) if *before == figure => continue,
            Some(before) => before.clone_from(&figure),
            None => told.push(figure.clone()),
        }
        publisher.announce(now, Bytes::from_static(topic.as_bytes()), figure.into());
    }
}

fn figures(
    publisher: &Publisher,
    clients: &Clients,
    up: Duration,
) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let broker = publisher.hub().tally();
    let (connected, kept) = clients.counts();
    let [received_bytes, sent_bytes, publishes] = clients.traffic().read();
    let dropped: u64 = broker.drops.values().sum();
    [
        ("$SYS/broker/version", format!("tidegate version {}", env!("CARGO_PKG_VERSION"))),
        ("$SYS/broker/uptime", format!("{} seconds", up.as_secs())),
        ("$SYS/broker/clients/connected", connected.to_string()),
        ("$SYS/broker/clients/disconnected", kept.to_string()),
        ("$SYS/broker/clients/total", (connected + kept).to_string()),
        ("$SYS/broker/publish/messages/received", publishes.to_string()),
        ("$SYS/broker/publish/messages/sent", broker.delivered.to_string()),
        ("$SYS/broker/publish/messages/dropped", dropped.to_string()),
        ("$SYS/broker/bytes/received", received_bytes.to_string()),
        ("$SYS/broker/bytes/sent", sent_bytes.to_string()),
        ("$SYS/broker/subscriptions/count", broker.subscriptions.to_string()),
        ("$SYS/broker/retained messages/count", broker.retained.to_string()),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use tidegate_broker::{NextSend, SubscribeOptions, Subscription};

    use super::*;
    use crate::node::broker::{Hub, Payer};

    /// Topics and payloads that a new subscriber to `filter` gets.
    fn read(hub: &Hub, filter: &str) -> Vec<(String, String)> {
        let account = hub.account_of_listener();
        let subscriptions = hub.subscriptions_of("desk", None);
        let subscriber = hub.subscriber(&Payer { client: "desk".into(), account, subscriptions });
        let subscription = Subscription::new(filter).unwrap();
        hub.subscribe(&subscriber, subscription, SubscribeOptions::default(), |_| true).unwrap();
        let mut outbox = subscriber.seat().outbox();
        outbox.connect(1);
        while subscriber.refill(Time::ZERO, &mut outbox) {}
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut all = Vec::new();
        while let Some(NextSend::Publish { delivery, .. }) = outbox.next(Time::ZERO) {
            all.push((text(&delivery.message.topic), text(&delivery.message.payload)));
        }
        all
    }

    #[test]
    fn figures_are_retained_and_a_hash_alone_does_not_match_them() {
        let (hub, clients) = (Hub::default(), Clients::new());
        let mut told = Told::new();
        let mut publisher = hub.publisher();
        let later = Time::ZERO + Duration::from_secs(75);
        for now in [Time::ZERO, later] {
            round(&mut publisher, &clients, (Time::ZERO, now), &mut told);
        }
        let all = read(&hub, "$SYS/#");
        assert_eq!(all.len(), 12);
        let of = |topic: &str| {
            let found = all.iter().find(|(name, _)| name == &format!("$SYS/broker/{topic}"));
            found.unwrap().1.clone()
        };
        assert_eq!(of("uptime"), "75 seconds");
        assert_eq!(of("version"), format!("tidegate version {}", env!("CARGO_PKG_VERSION")));
        assert_eq!(of("clients/connected"), "0");
        assert_eq!(of("retained messages/count"), "12", "those of the first round");
        for hidden in ["#", "+/broker/uptime", "+/#"] {
            assert_eq!(read(&hub, hidden), [], "{hidden}");
        }
        assert_eq!(read(&hub, "$SYS/broker/uptime").len(), 1);
    }
}
