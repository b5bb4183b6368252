//! The handles of records that a machine keeps, so that a record has the same one in every call.

use mlua::AnyUserData;
use tidegate_node::io::QueueId;
use tidegate_types::record::DeliveryId;

use super::stage::Told;

/// Handles that are kept.
const HANDLES_MAX: usize = 4096;

/// See the file's header. By the place of a record's handle in its node, the last of those that share one.
#[derive(Debug, Default)]
pub(super) struct Handles(Vec<Option<(QueueId, DeliveryId, AnyUserData)>>);

impl Handles {
    /// The handle of a record that the script has, or a new one.
    pub(super) fn get(
        &mut self,
        queue: QueueId,
        id: DeliveryId,
        make: impl FnOnce() -> Told<AnyUserData>,
    ) -> Told<AnyUserData> {
        let place = (id.0 & u64::from(u32::MAX)) as usize % HANDLES_MAX;
        if let Some(Some((of, known, handle))) = self.0.get(place)
            && (*of, *known) == (queue, id)
        {
            return Ok(handle.clone());
        }
        let handle = make()?;
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some((queue, id, handle.clone()));
        Ok(handle)
    }
}
