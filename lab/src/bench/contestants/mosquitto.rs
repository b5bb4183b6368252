//! Mosquitto at the edge: with its own bridge, and with a forwarder to RabbitMQ.

use std::net::SocketAddr;

use super::{Component, Entrance, Rig};
use crate::load::mqtt::Version;
use crate::load::{Consume, Forward, Job, Source};
use crate::net::namespace::{Link, Side};
use crate::net::scratch::Scratch;
use crate::rig::brokers::{self, AMQP_PORT, MQTT_PORT, USER};
use crate::rig::{self, CONNECT};

/// A listener without a limit of waiting records: the usual thousand would be a loss by configuration.
pub(super) fn listener(side: Side) -> String {
    format!(
        "listener {MQTT_PORT} {}\nallow_anonymous true\npersistence false\nmax_queued_messages 0\n",
        side.address()
    )
}

/// Takes records and forgets them.
pub(super) async fn alone(link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
    let broker = brokers::mosquitto(link, Side::Edge, scratch, &listener(Side::Edge)).await?;
    let entrance = Entrance::Mqtt(rig::edge_listener(), Version::V5);
    let edge = vec![Component::new("mosquitto", broker)];
    Ok(Rig { entrance, consumer: None, edge, elsewhere: Vec::new() })
}

pub(super) async fn bridge(link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
    let address: SocketAddr = (Side::Cloud.address(), MQTT_PORT).into();
    let mut cloud = brokers::mosquitto(link, Side::Cloud, scratch, &listener(Side::Cloud)).await?;
    let from = Source::Mqtt { address, filter: "#".into(), version: Version::V5 };
    let consumer = rig::client(link, Job::Consume(Consume::once(from))).await?;
    let bridge = format!(
        "{}connection cloud\naddress {address}\ntopic # out 1\n\
         bridge_protocol_version mqttv50\nnotifications false\n",
        listener(Side::Edge)
    );
    let edge = brokers::mosquitto(link, Side::Edge, scratch, &bridge).await?;
    cloud.says(&format!("connected from {}", Side::Edge.address()), CONNECT).await?;
    let entrance = Entrance::Mqtt(rig::edge_listener(), Version::V5);
    let edge = vec![Component::new("mosquitto", edge)];
    Ok(Rig { entrance, consumer: Some(consumer), edge, elsewhere: vec![cloud.quietly()] })
}

pub(super) async fn forwarder(link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
    let rabbitmq = brokers::rabbitmq(link, scratch).await?;
    let consumer = rig::client(link, Job::Consume(Consume::once(rig::everything()))).await?;
    let broker = brokers::mosquitto(link, Side::Edge, scratch, &listener(Side::Edge)).await?;
    let forward = Forward {
        from: rig::edge_listener(),
        filter: "#".into(),
        to: (Side::Cloud.address(), AMQP_PORT).into(),
        user: USER.into(),
        exchange: rig::EXCHANGE.into(),
    };
    let forwarder = rig::client_at(link, Side::Edge, Job::Forward(forward)).await?;
    let entrance = Entrance::Mqtt(rig::edge_listener(), Version::V5);
    let edge = vec![Component::new("mosquitto", broker), Component::new("forwarder", forwarder)];
    Ok(Rig { entrance, consumer: Some(consumer), edge, elsewhere: vec![rabbitmq.quietly()] })
}
