//! A client of etcd, as far as an election needs one: a lease, and a key that is taken with it.

mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use prost::Message;
use tokio::time::timeout;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use self::wire::{
    Compare, KeyValue, LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE, LeaseGrantRequest,
    LeaseGrantResponse, LeaseKeepAliveResponse, LeaseRequest, LeaseRevokeResponse, PutRequest,
    RANGE, RangeRequest, RangeResponse, RequestOp, TXN, TxnRequest, TxnResponse,
};

/// How long one member of etcd may take to answer before the next one is asked: several must have their
/// turn within a leader's lease.
const ANSWER: Duration = Duration::from_millis(500);
/// `CREATE` of etcd's `CompareTarget`.
const CREATED: i32 = 1;

/// A claim to the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// When the key was made: larger than that of every claim before.
    pub(super) revision: u64,
    /// With which lease.
    pub(super) lease: i64,
    /// What the claimant says of itself.
    pub(super) value: String,
}

/// Connections to all members, made when they are needed. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Etcd {
    channels: Arc<[Channel]>,
    /// The one that answered last.
    first: Arc<AtomicUsize>,
    key: Arc<str>,
}

impl Etcd {
    /// A client of the members at these addresses, `http://host:port` or `https://host:port`.
    ///
    /// # Errors
    /// An address is none.
    pub(super) fn new(urls: &[String], tls: &ClientTlsConfig, key: &str) -> anyhow::Result<Etcd> {
        let channel = |url: &String| {
            let wrong = || {
                format!(
                    "[orchestrator] etcd: {url:?} is no address: write \"https://etcd-1.example:2379\""
                )
            };
            let mut endpoint = Endpoint::from_shared(url.clone()).with_context(wrong)?;
            if url.starts_with("https://") {
                endpoint = endpoint.tls_config(tls.clone()).with_context(wrong)?;
            }
            anyhow::Ok(endpoint.connect_timeout(ANSWER).tcp_nodelay(true).connect_lazy())
        };
        let channels: Vec<Channel> = urls.iter().map(channel).collect::<Result<_, _>>()?;
        anyhow::ensure!(!channels.is_empty(), "[orchestrator] etcd names nobody");
        Ok(Etcd { channels: channels.into(), first: Arc::default(), key: key.into() })
    }

    /// A lease of so many whole seconds at least: its name, and how long it lasts.
    pub(super) async fn grant(&self, lease: Duration) -> Result<(i64, Duration), Status> {
        let ttl = i64::try_from(lease.as_secs().max(1)).unwrap_or(i64::MAX);
        let answer: LeaseGrantResponse = self.ask(LEASE_GRANT, LeaseGrantRequest { ttl }).await?;
        Ok((answer.id, seconds(answer.ttl)))
    }

    /// Renews a lease: how long it lasts from now; nothing where it is over.
    pub(super) async fn renew(&self, id: i64) -> Result<Option<Duration>, Status> {
        let answer: LeaseKeepAliveResponse =
            self.ask(LEASE_KEEP_ALIVE, LeaseRequest { id }).await?;
        Ok((answer.ttl > 0).then(|| seconds(answer.ttl)))
    }

    /// Gives a lease back: what was taken with it is free.
    pub(super) async fn revoke(&self, id: i64) -> Result<(), Status> {
        self.ask::<_, LeaseRevokeResponse>(LEASE_REVOKE, LeaseRequest { id }).await.map(drop)
    }

    /// Who has the key.
    pub(super) async fn look(&self) -> Result<Option<Claim>, Status> {
        let answer: RangeResponse = self.ask(RANGE, self.range()).await?;
        Ok(answer.kvs.into_iter().next().map(claim))
    }

    /// Takes the key if nobody has it; who has it then.
    pub(super) async fn claim(&self, value: &str, lease: i64) -> Result<Option<Claim>, Status> {
        let key = self.key.as_bytes().to_vec();
        let put = PutRequest { key: key.clone(), value: value.into(), lease };
        let look = RequestOp { range: Some(self.range()), put: None };
        let request = TxnRequest {
            compare: vec![Compare { target: CREATED, key, create_revision: Some(0) }],
            success: vec![RequestOp { range: None, put: Some(put) }, look.clone()],
            failure: vec![look],
        };
        let answer: TxnResponse = self.ask(TXN, request).await?;
        let found = answer.responses.into_iter().filter_map(|one| one.range).next_back();
        Ok(found.and_then(|found| found.kvs.into_iter().next()).map(claim))
    }

    fn range(&self) -> RangeRequest {
        RangeRequest { key: self.key.as_bytes().to_vec() }
    }

    /// Asks one member after the other, the one first that answered last. All requests may come twice.
    async fn ask<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let count = self.channels.len();
        let first = self.first.load(Ordering::Relaxed);
        let mut error = Status::unavailable("etcd has no member");
        for place in (0..count).map(|turn| (first + turn) % count) {
            let asked = ask(self.channels[place].clone(), path, request.clone());
            match timeout(ANSWER, asked).await {
                Ok(Ok(answer)) => {
                    self.first.store(place, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(status)) => error = status,
                Err(_) => error = Status::deadline_exceeded("no answer in time"),
            }
        }
        Err(error)
    }
}

/// One question and one answer; as a stream of one, which is what etcd wants for a renewal, and which
/// is the same on the wire for all others.
async fn ask<Q, A>(channel: Channel, path: &'static str, request: Q) -> Result<A, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<Q, A>::default();
    let request = Request::new(tokio_stream::once(request));
    let answer = grpc.streaming(request, PathAndQuery::from_static(path), codec).await?;
    let first = answer.into_inner().message().await?;
    first.ok_or_else(|| Status::unavailable("etcd said nothing"))
}

/// What etcd may answer: nothing in it may panic.
pub(super) fn exercise(data: &[u8]) {
    let claims = |answer: RangeResponse| answer.kvs.into_iter().map(claim).collect::<Vec<_>>();
    let found = RangeResponse::decode(data).map(claims).unwrap_or_default();
    let responses = TxnResponse::decode(data).map(|answer| answer.responses);
    let ranges = responses.unwrap_or_default().into_iter().filter_map(|one| one.range);
    for Claim { revision, .. } in found.into_iter().chain(ranges.flat_map(claims)) {
        assert!(i64::try_from(revision).is_ok(), "revisions are not negative");
    }
    if let Ok(answer) = LeaseGrantResponse::decode(data) {
        seconds(answer.ttl);
    }
    if let Ok(answer) = LeaseKeepAliveResponse::decode(data) {
        seconds(answer.ttl);
    }
}

fn claim(found: KeyValue) -> Claim {
    Claim {
        revision: u64::try_from(found.create_revision).unwrap_or_default(),
        lease: found.lease,
        value: String::from_utf8_lossy(&found.value).into_owned(),
    }
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from the field numbers of etcd's `rpc.proto`.
    #[test]
    fn a_claim_is_a_transaction_that_etcd_understands() {
        let compare = Compare { target: CREATED, key: b"k".to_vec(), create_revision: Some(0) };
        // target = 1, key = "k", and create_revision = 0, written though it is nothing.
        assert_eq!(compare.encode_to_vec(), [0x10, 1, 0x1a, 1, b'k', 0x28, 0]);
        let put = PutRequest { key: b"k".to_vec(), value: b"v".to_vec(), lease: 5 };
        let op = RequestOp { range: None, put: Some(put) };
        let bytes = [0x12, 8, 0x0a, 1, b'k', 0x12, 1, b'v', 0x18, 5];
        assert_eq!(op.encode_to_vec(), bytes);
        // A response with a header (1), a range (2.1) of one key value, fields that we do not read among it.
        let kv = [0x0a, 1, b'k', 0x10, 9, 0x18, 9, 0x20, 1, 0x2a, 1, b'v', 0x30, 5];
        let mut range = vec![0x0a, 2, 0x18, 9, 0x12, kv.len() as u8];
        range.extend(kv);
        let found = RangeResponse::decode(&*range).unwrap().kvs.remove(0);
        let expected = Claim { revision: 9, lease: 5, value: "v".into() };
        assert_eq!(claim(found), expected);
    }
}
