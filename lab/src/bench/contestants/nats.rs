//! NATS: a leaf node at the edge with an MQTT listener, a server in the cloud.

use std::net::SocketAddr;

use serde_json::json;

use super::{Component, Entrance, Rig};
use crate::load::mqtt::Version;
use crate::load::{Ask, Consume, Job, Source};
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::rig::brokers::{self, MQTT_PORT};
use crate::rig::{self, CONNECT};

const PORT: u16 = 4222;
const LEAF_PORT: u16 = 7422;

async fn servers(link: &Link, scratch: &Scratch) -> anyhow::Result<[Process; 2]> {
    let [edge, cloud] = Side::ALL.map(Side::address);
    let folder = |side: &str| scratch.path().join(format!("jetstream-{side}"));
    let common = |name: &str, address| {
        format!(
            "server_name: {name}\nlisten: \"{address}:{PORT}\"\n\
             jetstream {{ store_dir: \"{}\", domain: {name} }}\n",
            folder(name).display()
        )
    };
    let above =
        common("cloud", cloud) + &format!("leafnodes {{ listen: \"{cloud}:{LEAF_PORT}\" }}\n");
    let mut above = brokers::nats(link, Side::Cloud, scratch, &above).await?;
    let below = common("edge", edge)
        + &format!(
            "mqtt {{ listen: \"{edge}:{MQTT_PORT}\" }}\n\
             leafnodes {{ remotes: [ {{ url: \"nats-leaf://{cloud}:{LEAF_PORT}\" }} ] }}\n"
        );
    let below = brokers::nats(link, Side::Edge, scratch, &below).await?;
    above.says("Leafnode connection created", CONNECT).await?;
    Ok([below, above])
}

fn server(side: Side) -> SocketAddr {
    (side.address(), PORT).into()
}

/// A consumer of a subject in the cloud.
async fn rig(link: &Link, [below, above]: [Process; 2], subject: &str) -> anyhow::Result<Rig> {
    let from = Source::Nats { address: server(Side::Cloud), subject: subject.into() };
    let consumer = rig::client(link, Job::Consume(Consume::once(from))).await?;
    let entrance = Entrance::Mqtt(rig::edge_listener(), Version::V311);
    let edge = vec![Component::new("nats-server", below)];
    Ok(Rig { entrance, consumer: Some(consumer), edge, elsewhere: vec![above.quietly()] })
}

/// What is published at the edge comes to a subscription in the cloud: nothing is stored on the way.
pub(super) async fn leaf(link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
    let servers = servers(link, scratch).await?;
    rig(link, servers, "plant.*").await
}

/// A stream at the edge stores what is published there; one in the cloud has it as its source, and a
/// consumer gets it from that.
pub(super) async fn stream(link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
    const DELIVER: &str = "delivered";
    let servers = servers(link, scratch).await?;
    let below = json!({ "name": "PLANT", "subjects": ["plant.*"], "storage": "file" });
    let source = json!({ "name": "PLANT", "external": { "api": "$JS.edge.API" } });
    let above = json!({ "name": "PLANT", "storage": "file", "sources": [source] });
    let consumer = json!({ "stream_name": "PLANT", "config": {
        "durable_name": "lab", "deliver_subject": DELIVER, "deliver_policy": "all",
        "ack_policy": "explicit",
    } });
    let create = |what: &str| format!("$JS.API.STREAM.CREATE.{what}");
    let at_edge = Ask { address: server(Side::Edge), requests: vec![(create("PLANT"), below)] };
    rig::client_at(link, Side::Edge, Job::Ask(at_edge)).await?;
    let durable = "$JS.API.CONSUMER.DURABLE.CREATE.PLANT.lab".to_owned();
    let requests = vec![(create("PLANT"), above), (durable, consumer)];
    let in_cloud = Ask { address: server(Side::Cloud), requests };
    rig::client(link, Job::Ask(in_cloud)).await?;
    rig(link, servers, DELIVER).await
}
