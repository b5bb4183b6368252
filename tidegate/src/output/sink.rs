//! The embedded sink: rotated files of JSON lines on this machine, or nothing at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use tidegate_core::io::PathState;
use tidegate_core::record::{Body, DeliveryId};
use tidegate_core::units::Size;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::backoff::Backoff;
use crate::port::{Feedback, Order, OutputPort, Stopping, Transmit};

/// Records written and flushed together at most.
const BATCH_MAX: usize = 256;

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
    /// Their folder; made if missing.
    pub directory: PathBuf,
    /// A file that has grown to this is closed and a new one begun.
    pub file_max: Size,
    /// Files kept, the one that is written included; the oldest goes.
    pub files: u32,
    /// Names of the classes.
    pub classes: Arc<[Arc<str>]>,
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    id: String,
    class: &'a str,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<(String, String)>,
    /// The payload, where it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// The payload in base64, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    again: bool,
}

/// Serves the output until it is told to stop.
pub(super) async fn run(options: SinkOptions, port: OutputPort) {
    let OutputPort { lanes, mut orders, feedback, .. } = port;
    let mut sink = Sink { lanes, feedback, epoch: 0, files: None };
    // It ends only by being stopped.
    let _: Result<(), Stopping> = sink.serve(&options, &mut orders).await;
}

struct Sink {
    lanes: u8,
    feedback: Feedback,
    /// How often it went down before.
    epoch: u64,
    files: Option<Files>,
}

impl Sink {
    async fn serve(
        &mut self,
        options: &SinkOptions,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Result<(), Stopping> {
        let mut backoff = Backoff::new();
        loop {
            self.announce(PathState::Up).await?;
            let Err(error) = self.write_all(options, orders).await? else { return Ok(()) };
            tracing::warn!(%error, "the sink cannot be written: its records wait; trying again");
            self.announce(PathState::Down).await?;
            self.epoch += 1;
            self.files = None;
            while let Err(error) = open_again(options).await {
                tracing::debug!(%error, "the sink still cannot be written");
                wait(backoff.next(), orders).await?;
            }
            backoff.reset();
            tracing::info!("the sink can be written again");
        }
    }

    async fn announce(&self, state: PathState) -> Result<(), Stopping> {
        for lane in 0..self.lanes {
            self.feedback.path_state(lane, state).await?;
        }
        Ok(())
    }

    /// Writes batch after batch; the inner error is the disk's.
    async fn write_all(
        &mut self,
        options: &SinkOptions,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Result<io::Result<()>, Stopping> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            if orders.recv_many(&mut batch, BATCH_MAX).await == 0 {
                return Ok(Ok(()));
            }
            let (mut whole, mut is_stopping) = (Vec::new(), false);
            for order in batch.drain(..) {
                match order {
                    Order::Transmit(order) if order.epoch == self.epoch => {
                        self.feedback.sent(order.id, Size(order.end - order.start)).await?;
                        if order.end == order.size {
                            whole.push(order);
                        }
                    }
                    Order::Transmit(_) | Order::Cancel(_) => {}
                    Order::Stop => is_stopping = true,
                }
            }
            let ids: Vec<DeliveryId> = whole.iter().map(|order| order.id).collect();
            if let SinkOptions::Files(options) = options
                && let Err(error) = self.write(options, whole).await
            {
                return Ok(Err(error));
            }
            self.feedback.confirmed(ids).await?;
            if is_stopping {
                return Ok(Ok(()));
            }
        }
    }

    /// Writes and flushes a batch on a thread that may block.
    async fn write(&mut self, options: &FileOptions, batch: Vec<Transmit>) -> io::Result<()> {
        let (files, options) = (self.files.take(), options.clone());
        let work = tokio::task::spawn_blocking(move || {
            let mut files = match files {
                Some(files) => files,
                None => Files::open(&options)?,
            };
            files.append(&options, &batch)?;
            Ok::<Files, io::Error>(files)
        });
        let files = work.await.map_err(io::Error::other)?;
        self.files = Some(files?);
        Ok(())
    }
}

/// Waits, deaf to all orders but to stop.
async fn wait(
    span: std::time::Duration,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> Result<(), Stopping> {
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

/// Whether the folder takes a block of data: opening alone works on a full disk.
async fn open_again(options: &SinkOptions) -> io::Result<()> {
    let SinkOptions::Files(options) = options.clone() else { return Ok(()) };
    let attempt = move || {
        let path = options.directory.join("probe");
        let written = fs::write(&path, [b' '; 4096]).and_then(|()| File::open(&path)?.sync_all());
        fs::remove_file(&path)?;
        written
    };
    tokio::task::spawn_blocking(attempt).await.map_err(io::Error::other)?
}

/// The file that is written.
#[derive(Debug)]
struct Files {
    file: File,
    length: u64,
}

impl Files {
    fn open(options: &FileOptions) -> io::Result<Self> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", options.directory.display()))
        };
        fs::create_dir_all(&options.directory).map_err(named)?;
        let path = current(&options.directory);
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(named)?;
        let length = file.metadata()?.len();
        Ok(Files { file, length })
    }

    fn append(&mut self, options: &FileOptions, batch: &[Transmit]) -> io::Result<()> {
        if self.length >= options.file_max.0 {
            rotate(options)?;
            *self = Files::open(options)?;
        }
        let mut text = Vec::new();
        for order in batch {
            serde_json::to_writer(&mut text, &line(options, order))?;
            text.push(b'\n');
        }
        if let Err(error) = self.file.write_all(&text) {
            // Half a line would spoil the next one.
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += text.len() as u64;
        Ok(())
    }
}

fn current(directory: &Path) -> PathBuf {
    directory.join("records.jsonl")
}

fn rotate(options: &FileOptions) -> io::Result<()> {
    let closed = |number: u32| options.directory.join(format!("records.{number}.jsonl"));
    if options.files <= 1 {
        return fs::remove_file(current(&options.directory));
    }
    for number in (1..options.files - 1).rev() {
        match fs::rename(closed(number), closed(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(current(&options.directory), closed(1))
}

fn line<'a>(options: &'a FileOptions, order: &'a Transmit) -> Line<'a> {
    let record = &*order.record;
    let payload: &[u8] = match &record.body {
        Body::Resident(payload) => payload,
        _ => &[],
    };
    let text = std::str::from_utf8(payload).ok();
    let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Line {
        id: record.identity.to_string(),
        class: &options.classes[order.class.index()],
        key: std::str::from_utf8(&record.key).unwrap_or_default(),
        source_unix_ns: record.source_unix_ns,
        properties: record
            .properties
            .iter()
            .map(|(name, value)| (owned(name), owned(value)))
            .collect(),
        text,
        base64: text.is_none().then(|| STANDARD.encode(payload)),
        again: order.again,
    }
}
