//! A thread for each topic, as the paper's broker has it: for comparison.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::Bytes;
use tidegate_stream::OperatorId;

use super::engine::{Engine, Job};
use crate::node::broker::DropWhy;
use crate::node::door::Door;

/// Topics that get a thread.
const THREADS_MAX: usize = 512;

/// The threads, by what they work on.
#[derive(Debug, Default)]
pub(super) struct Threads(Mutex<BTreeMap<(OperatorId, Bytes), SyncSender<Job>>>);

impl Threads {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(OperatorId, Bytes), SyncSender<Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a record to the thread of its topic; gives back what finds no room.
    pub(super) fn offer(&self, engine: &Engine, job: Job) -> Option<(Job, DropWhy)> {
        let name = (job.operator.id, job.message.topic.clone());
        let mut all = self.all();
        if !all.contains_key(&name) {
            if all.len() >= THREADS_MAX {
                return Some((job, DropWhy::Threads));
            }
            let (sender, inbox) = sync_channel(job.operator.limits().waiting.max(1));
            let engine = engine.clone();
            let topic = thread::Builder::new().name("operator-topic".into());
            if topic.spawn(move || work(&engine, &inbox)).is_err() {
                return Some((job, DropWhy::Threads));
            }
            all.insert(name.clone(), sender);
        }
        match all.get(&name)?.try_send(job) {
            Ok(()) => None,
            Err(TrySendError::Full(job)) => Some((job, DropWhy::Full)),
            Err(TrySendError::Disconnected(job)) => Some((job, DropWhy::Threads)),
        }
    }

    /// An operator is over: its threads end when they have nothing any more.
    pub(super) fn end(&self, id: OperatorId) {
        self.all().retain(|(operator, _), _| *operator != id);
    }

    /// All of them are over.
    pub(super) fn stop(&self) {
        self.all().clear();
    }
}

fn work(engine: &Engine, inbox: &Receiver<Job>) {
    let mut door = Door::of_owner(engine.hub());
    let mut memory = None;
    while let Ok(job) = inbox.recv() {
        let (remembered, busy) = engine.run(job, memory, &mut door);
        memory = remembered;
        drop(busy);
        engine.close_one();
    }
}
