//! The embedded sink: rotated files of JSON lines on this machine, or nothing at all.
//!
//! A record is confirmed when its line is on disk whole: all that waits is written together and made safe by one
//! sync, and `sync = false` confirms what is handed to the kernel. Where the disk takes no more, no
//! line stays half written, the lanes go down, and the sink tries until there is room again.

pub(crate) mod files;
mod keys;
pub(crate) mod lines;
pub(crate) mod mark;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::PathState;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::Size;
use tokio::sync::mpsc;
use tokio::time::sleep;

use self::files::{Files, Moment};
pub use self::keys::SinkConfig;
use super::kind::{Driver, Served};
use crate::node::contract::{Feedback, Order, OutputPort, Stopping, Transmit};
use crate::support::backoff::Backoff;
use crate::support::disk::Real;

/// Orders taken together at most. What is ordered meanwhile waits for the sync, and goes together then.
const BATCH_MAX: usize = 4096;
/// Of these, those that the loop hears of at once: it has others to hear.
const TOLD_MAX: usize = 256;

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkOptions {
    /// Counted, confirmed, forgotten.
    Discard,
    /// Into files.
    Files(FileOptions),
}

/// Files of JSON lines: `records.jsonl` is written, `records.1.jsonl` is the newest closed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Their folder, of this sink alone; made if missing.
    pub directory: PathBuf,
    /// A file that has grown to this is closed and a new one begun.
    pub file_max: Size,
    /// Files kept, the one that is written included; the oldest goes.
    pub files: u32,
    /// Whether lines are made safe on disk before their records are confirmed.
    pub sync: bool,
    /// Names of the classes.
    pub classes: Arc<[Arc<str>]>,
}

/// Takes any bytes for a file of a sink and for the mark beside it: for fuzzing. Whole lines, damaged ones and a torn end are
/// all there is, and no number is given twice.
pub fn exercise(bytes: &[u8]) {
    lines::exercise(bytes);
}

impl Driver for SinkOptions {
    fn run(self: Box<Self>, port: OutputPort) -> Served {
        Box::pin(run(*self, port))
    }
}

async fn run(options: SinkOptions, port: OutputPort) {
    let OutputPort { lanes, mut orders, feedback, .. } = port;
    let options = match options {
        SinkOptions::Discard => None,
        SinkOptions::Files(options) => Some(options),
    };
    let backoff = Backoff::new();
    let mut sink =
        Sink { options, lanes, feedback, epoch: 0, files: None, backoff, is_failing: false };
    // It ends only by being stopped.
    let _: Result<(), Stopping> = sink.serve(&mut orders).await;
}

/// What the disk said, and how much it was given.
struct Failure {
    error: io::Error,
    bytes: usize,
}

struct Sink {
    /// `None`: everything is discarded.
    options: Option<FileOptions>,
    lanes: u8,
    feedback: Feedback,
    /// How often it went down before.
    epoch: u64,
    files: Option<Files>,
    backoff: Backoff,
    /// Nothing was written since the last failure.
    is_failing: bool,
}

impl Sink {
    async fn serve(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>) -> Result<(), Stopping> {
        let mut batch = Vec::new();
        self.announce(PathState::Up).await?;
        loop {
            if orders.recv_many(&mut batch, BATCH_MAX).await == 0 {
                return Ok(());
            }
            let is_stopping = batch.iter().any(|order| matches!(order, Order::Stop));
            let whole = self.take(&mut batch).await?;
            let failed = self.write(whole).await?;
            if is_stopping {
                return Ok(());
            }
            if let Some(failure) = failed {
                self.recover(failure, orders).await?;
            }
        }
    }

    async fn announce(&self, state: PathState) -> Result<(), Stopping> {
        for lane in 0..self.lanes {
            self.feedback.path_state(lane, state).await?;
        }
        Ok(())
    }

    /// The records that are complete by these orders. A cut that is not the last needs no work.
    async fn take(&mut self, batch: &mut Vec<Order>) -> Result<Vec<Transmit>, Stopping> {
        let (mut whole, mut sent) = (Vec::new(), Vec::new());
        for order in batch.drain(..) {
            // What was ordered before the node knew that the sink was down is ordered again.
            let Order::Transmit(order) = order else { continue };
            if order.epoch != self.epoch {
                continue;
            }
            sent.push((order.id, Size(order.end - order.start)));
            if sent.len() == TOLD_MAX {
                self.feedback.all_sent(std::mem::take(&mut sent)).await?;
            }
            if order.end >= order.size {
                whole.push(order);
            }
        }
        if !sent.is_empty() {
            self.feedback.all_sent(sent).await?;
        }
        Ok(whole)
    }

    /// Writes records and confirms those that are written.
    async fn write(&mut self, mut whole: Vec<Transmit>) -> Result<Option<Failure>, Stopping> {
        if whole.is_empty() {
            return Ok(None);
        }
        let mut ids: Vec<DeliveryId> = whole.iter().map(|order| order.id).collect();
        let mut failure = None;
        if let Some(options) = &self.options {
            let (files, options) = (self.files.take(), options.clone());
            let moment = Moment::now(self.feedback.now());
            let work = tokio::task::spawn_blocking(move || {
                let opened = files.map_or_else(|| Files::open(Arc::new(Real), options), Ok);
                let (files, written, result) = match opened {
                    Ok(mut files) => {
                        let (written, result) = files.append(moment, &whole);
                        (Some(files), written, result)
                    }
                    Err(error) => (None, 0, Err(error)),
                };
                let left = whole.drain(written..).map(|order| order.record.payload.len());
                (files, written, result.map_err(|error| Failure { error, bytes: left.sum() }))
            });
            let (files, written, result) = work.await.map_err(|_| Stopping)?;
            ids.truncate(written);
            failure = result.err();
            self.files = files.filter(|_| failure.is_none());
        }
        if !ids.is_empty() {
            self.feedback.confirmed(ids).await?;
        }
        if failure.is_none() {
            if self.is_failing {
                tracing::info!("the sink is written again");
            }
            self.is_failing = false;
            self.backoff.reset();
        }
        Ok(failure)
    }

    /// Waits until the disk takes as much as it refused.
    async fn recover(
        &mut self,
        failure: Failure,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Result<(), Stopping> {
        if !self.is_failing {
            let error = &failure.error;
            tracing::warn!(%error, "the sink cannot be written: its records wait; trying again");
        }
        self.is_failing = true;
        self.feedback.trouble(&format!("the sink cannot be written: {}", failure.error));
        self.announce(PathState::Down).await?;
        self.epoch += 1;
        loop {
            wait(self.backoff.next(), orders).await?;
            let Some(options) = self.options.clone() else { break };
            // Lines are longer than payloads; a little more than what was refused must fit.
            let bytes = failure.bytes.clamp(4096, 1 << 20) * 2;
            let probe = tokio::task::spawn_blocking(move || files::probe(&Real, &options, bytes));
            if probe.await.map_err(|_| Stopping)?.is_ok() {
                break;
            }
        }
        self.announce(PathState::Up).await
    }
}

/// Waits, deaf to all orders but to stop.
async fn wait(span: Duration, orders: &mut mpsc::UnboundedReceiver<Order>) -> Result<(), Stopping> {
    let end = sleep(span);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return Ok(()),
            order = orders.recv() => match order {
                None | Some(Order::Stop) => return Err(Stopping),
                Some(_) => {}
            },
        }
    }
}
