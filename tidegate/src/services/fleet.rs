//! The fleet: the orchestrator's service, and a node's part in it.
//!
//! All decisions are made in `tidegate_fleet`. Here is what joins them to the world: `wire` is what
//! is said, `orchestrate` the service, `attend` a node's streams to them, `member` the task that holds a
//! node's agent, `find` the links to neighbours that the leader names, `ask` what people ask, `explain` why things went where they went.

pub(crate) mod attend;
mod board;
mod codec;
mod etcd;
mod find;
pub mod fuzz;
mod member;
pub mod orchestrate;
pub mod wire;

pub use self::attend::{Greeting, Heard, Way, run as attend};
pub use self::board::{FleetBoard, FleetFigures, GrantName};
pub use self::member::{MemberOptions, Peer, Place, start};
pub use crate::support::tls::grpc::FleetTls;

use ring::digest::{SHA256, digest};
use tidegate_fleet::NodeId;

/// The number of a node, the same at every orchestrator and for ever: the first bytes of a digest of its
/// name. Two names of one fleet with the same number are less likely than a broken disk.
pub fn node_id(name: &str) -> NodeId {
    let digest = digest(&SHA256, name.as_bytes());
    let first = digest.as_ref().first_chunk::<8>().expect("a digest is longer");
    NodeId(u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_belongs_to_a_name_for_ever() {
        assert_eq!(node_id("gate-1"), NodeId(0x9647_2121_6ac3_8905));
        assert_ne!(node_id("gate-1"), node_id("gate-2"));
    }
}
