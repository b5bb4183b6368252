//! The flows that somebody wants of this node's cameras: a task for each, as long as it is wanted.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::camera::Camera;
use super::replay;
use super::sender::{self, SendOptions};
use super::wire::{FlowMessage, NewsMessage};
use crate::node::contract::Intake;

/// Flows of one server at once: each costs an encoding a frame, at the worst.
const FLOWS_MAX: usize = 256;

/// The cameras of a node, by name. Cheap to clone.
pub(super) type Cameras = Arc<BTreeMap<Arc<str>, Arc<Camera>>>;

/// Starts flows and ends them.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) cameras: Cameras,
    pub(super) options: SendOptions,
    pub(super) intake: Intake,
    pub(super) news: mpsc::Sender<NewsMessage>,
    tasks: BTreeMap<u64, AbortHandle>,
}

impl Desk {
    pub(super) fn new(
        cameras: Cameras,
        options: SendOptions,
        intake: Intake,
        news: mpsc::Sender<NewsMessage>,
    ) -> Self {
        Desk { cameras, options, intake, news, tasks: BTreeMap::new() }
    }

    /// Whoever is behind this wants exactly these.
    pub(super) fn set(&mut self, wanted: &[FlowMessage]) {
        let wanted: BTreeMap<u64, &FlowMessage> =
            wanted.iter().take(FLOWS_MAX).map(|flow| (flow.flow, flow)).collect();
        self.tasks.retain(|flow, task| {
            let stays = wanted.contains_key(flow);
            if !stays {
                task.abort();
            }
            stays
        });
        for (number, flow) in wanted {
            if self.tasks.contains_key(&number) {
                continue;
            }
            let Some(camera) = self.cameras.get(flow.camera.as_str()) else { continue };
            let (flow, camera, intake) = (flow.clone(), camera.clone(), self.intake.clone());
            let (options, news) = (self.options, self.news.clone());
            let task = tokio::spawn(async move {
                // It ends with the node, or when it is not wanted any more.
                let _ = match flow.is_replay() {
                    true => replay::run(flow, camera, options, intake, news).await,
                    false => sender::run(flow, camera, options, intake, news).await,
                };
            });
            self.tasks.insert(number, task.abort_handle());
        }
    }

    /// Serves whoever changes `wanted`, until that is gone.
    pub(super) async fn serve(mut self, mut wanted: watch::Receiver<Vec<FlowMessage>>) {
        loop {
            let flows = wanted.borrow_and_update().clone();
            self.set(&flows);
            if wanted.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.tasks.values().for_each(AbortHandle::abort);
    }
}
