//! A standby asks the leader, once a second, for what only a leader knows.

use std::sync::Arc;
use std::time::Duration;

use tidegate_fleet::FleetDigest;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::hub::Hub;
use crate::fleet::attend::told;
use crate::fleet::channel::FleetTls;
use crate::fleet::wire::{DIGEST, DigestMessage, DigestRequest};

/// Time between two questions.
const PERIOD: Duration = Duration::from_secs(1);

/// Asks whoever leads, as long as there is a hub.
pub(super) async fn run(tls: FleetTls, mut leader: watch::Receiver<Option<Arc<str>>>, hub: Hub) {
    loop {
        let at = leader.borrow_and_update().clone();
        let followed = async {
            match at {
                Some(at) => follow(&tls, &at, &hub).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = followed => return,
            changed = leader.changed() => if changed.is_err() { return },
        }
    }
}

/// Asks one leader until the hub is gone.
async fn follow(tls: &FleetTls, at: &str, hub: &Hub) {
    tracing::info!(leader = %at, "following");
    let mut complaint = None;
    let mut drained = Vec::new();
    loop {
        let why = match tls.connect(at).await {
            Ok(channel) => loop {
                let next = Instant::now() + PERIOD;
                match ask(channel.clone()).await {
                    Ok(digest) => {
                        if digest.drained != drained {
                            drained.clone_from(&digest.drained);
                            let count = drained.len();
                            tracing::info!(leader = %at, count, "drained nodes, as the leader says");
                        }
                        if hub.inherit(digest).await.is_err() {
                            return;
                        }
                    }
                    Err(status) => break told(&status),
                }
                sleep_until(next).await;
            },
            Err(error) => format!("{error:#}"),
        };
        if complaint.as_ref() != Some(&why) {
            tracing::warn!(leader = %at, "what only the leader knows is not heard: {why}");
            complaint = Some(why);
        }
        sleep(PERIOD).await;
    }
}

async fn ask(channel: Channel) -> Result<FleetDigest, Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<DigestRequest, DigestMessage>::default();
    let path = PathAndQuery::from_static(DIGEST);
    Ok(grpc.unary(Request::new(DigestRequest {}), path, codec).await?.into_inner().into())
}
