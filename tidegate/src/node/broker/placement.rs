//! What the broker, and who publishes at it, ask of the cluster that the node is a member of.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_broker::Message;
use tidegate_cluster::handover::{Member, UnitId};
use tidegate_types::record::Offered;
use tidegate_types::units::Time;

use super::gate::Gate;
use crate::node::contract::{Source, Stopping};

/// Who owns the records that were diverted, where one other member owns all of them.
pub type Diverted<'a> = Pin<Box<dyn Future<Output = Result<Option<Member>, Stopping>> + Send + 'a>>;

/// Topics that are placed on the nodes of a cluster, in units that move between them.
pub trait Placement: Debug + Send + Sync {
    /// The unit that a topic is of.
    fn unit_of(&self, topic: &[u8]) -> Option<UnitId>;

    /// A unit's name.
    fn name_of(&self, unit: UnitId) -> Option<Arc<str>>;

    /// What counts the records of a unit that are worked on.
    fn gate(&self, unit: UnitId) -> Option<&Arc<Gate>>;

    /// Takes the records of placed topics out of `records`, and brings them to their owners; `source` hears
    /// their answers. What comes from its owner, the node `sender`, stays where it is. Cancel-safe: what was not
    /// brought is still there.
    fn divert<'a>(
        &'a self,
        source: &'a Source,
        sender: Option<&'a str>,
        records: &'a mut Vec<Offered>,
        qos_of: &'a (dyn Fn(&Offered) -> u8 + Sync),
    ) -> Diverted<'a>;

    /// Brings a result to the owner of its topic where that is another member; else gives it back.
    fn send_on(&self, record: Offered, qos: u8) -> Option<Offered>;

    /// What was published here of a unit that is ours goes to the other members. Never waits.
    fn made(&self, now: Time, unit: UnitId, message: &Message);

    /// What a client of MQTT 5 whose topics are all at `owner` is to be told; each is told once.
    fn reference(&self, owner: Member, client: &Arc<str>) -> Option<Arc<str>>;

    /// So many keys of operators came with a unit and are of no use here: they begin anew.
    fn refused(&self, keys: u64);
}
