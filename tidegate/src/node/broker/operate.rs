//! What the broker asks of an operator.

use std::fmt::Debug;
use std::sync::Arc;

use tidegate_broker::Message;
use tidegate_cluster::handover::UnitId;

use super::gate::Busy;
use super::meter::Meter;

/// Takes the records of some topics and publishes what it makes of them.
pub trait Operate: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Whether it takes the records of a topic.
    fn covers(&self, topic: &str) -> bool;

    /// Whether it works on one record at a time.
    fn is_serial(&self) -> bool;

    /// Takes a record, which is counted by `meter`, and by `busy` where its topic moves between nodes. Never waits.
    fn take(self: Arc<Self>, message: &Arc<Message>, meter: &Arc<Meter>, busy: Option<Busy>);

    /// Works on what waits of a unit, by this operator and all others, before anything else.
    fn hurry(&self, unit: UnitId);
}
