//! The replay input: rows of files as records, when they are due.
//!
//! A replay does not slow down with the node: while it is paused, or a batch is not answered, records
//! become overdue, and go as soon as they may, as those of a real source would. Nothing is kept for
//! that but the place in the files.

mod csv;
mod error;
mod key;
mod options;
mod parser;
mod reader;
mod row;
mod senml;
mod time;

use std::collections::VecDeque;
use std::future::ready;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_types::record::{Offered, Properties, RefuseReason, Token};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

pub use self::error::{ReplayError, TemplateError};
pub use self::key::KeyTemplate;
pub use self::options::{Pace, ReplayFile, ReplayOptions, SourceTime};
pub use self::parser::{Format, Payload, Rules, exercise};
pub use self::reader::Item as Recorded;
use self::reader::{Batch, Item, read_all};
pub use self::row::RowError;
pub use self::time::parse as parse_time;
use super::kind::{Driver, Opened, Opening};
use crate::node::contract::{Intake, Notice, Source};
use crate::node::door::{Door, From, Plain};

/// Records of one offer.
const OFFER_MAX: usize = 256;
/// Waiting before a refused record is offered again, doubled up to `AGAIN_MAX`.
const AGAIN_MIN: Duration = Duration::from_millis(10);
const AGAIN_MAX: Duration = Duration::from_secs(1);

/// How a replay went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records that were offered, each counted once.
    pub offered: u64,
    /// Records that the node refused for good (`reliable` only; else nobody asks).
    pub refused: u64,
}

impl Driver for ReplayOptions {
    fn open(self: Box<Self>, intake: Intake) -> Opening {
        let serve = async move {
            let (stop, stopped) = watch::channel(false);
            let node_gone = intake.clone();
            tokio::select! {
                played = run(*self, intake, stopped) => {
                    played?;
                }
                () = node_gone.closed() => drop(stop),
            }
            Ok(())
        };
        Box::pin(ready(Ok(Opened::quiet(serve))))
    }
}

/// Replays until the files end or `stop` is true.
///
/// # Errors
/// A wrong option, a file that cannot be read, a wrong row, or the node is gone.
pub async fn run(
    options: ReplayOptions,
    intake: Intake,
    mut stop: watch::Receiver<bool>,
) -> Result<Replayed, ReplayError> {
    options.check()?;
    let (to, batches) = mpsc::channel(2);
    let (files, repeat) = (options.files.clone(), options.repeat);
    // It ends when `batches` is dropped: every send fails then.
    tokio::task::spawn_blocking(move || read_all(&files, repeat, &to));
    let source = intake.open(options.name.as_str().into()).await;
    let source = source.map_err(|_| ReplayError::Stopping)?;
    let mut replay = Replay::new(options, source, batches);
    let ended = tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => Ok(()),
        ended = replay.play() => ended,
    };
    ended.map(|()| replay.result)
}

/// The records of a file, in the order of their times. Not for async code: it blocks.
pub fn recorded(file: ReplayFile) -> impl Iterator<Item = Result<Recorded, ReplayError>> {
    let (to, mut batches) = mpsc::channel(2);
    // It ends when `batches` is dropped: every send fails then.
    std::thread::spawn(move || read_all(&[file], false, &to));
    let batches = std::iter::from_fn(move || batches.blocking_recv());
    batches.flat_map(|batch| match batch {
        Ok(items) => items.into_iter().map(Ok).collect::<Vec<_>>(),
        Err(error) => vec![Err(error)],
    })
}

struct Replay {
    options: ReplayOptions,
    source: Source,
    door: Door,
    batches: mpsc::Receiver<Batch>,
    waiting: VecDeque<Item>,
    began: Instant,
    began_unix: Duration,
    /// Records taken from the files so far.
    taken: u64,
    tokens: u64,
    paused: bool,
    result: Replayed,
}

impl Replay {
    fn new(options: ReplayOptions, source: Source, batches: mpsc::Receiver<Batch>) -> Self {
        Replay {
            options,
            door: Door::new(source.hub()),
            source,
            batches,
            waiting: VecDeque::new(),
            began: Instant::now(),
            began_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            taken: 0,
            tokens: 0,
            paused: false,
            result: Replayed::default(),
        }
    }

    async fn play(&mut self) -> Result<(), ReplayError> {
        while let Some(due) = self.next_due().await? {
            self.wait_until(self.began + due).await?;
            let mut records = self.take_due();
            self.result.offered += records.len() as u64;
            if self.options.reliable {
                self.offer_until_accepted(records).await?;
            } else {
                self.admit(&mut records).await?;
                self.offer(records).await?;
            }
        }
        Ok(())
    }

    /// When the next record is due; `None` at the end of the files.
    async fn next_due(&mut self) -> Result<Option<Duration>, ReplayError> {
        if self.waiting.is_empty() {
            match self.batches.recv().await {
                Some(batch) => self.waiting.extend(batch?),
                None => return Ok(None),
            }
        }
        Ok(self.waiting.front().map(|item| self.due(item, self.taken)))
    }

    /// When the record of this number is due, in the time of this replay.
    fn due(&self, item: &Item, number: u64) -> Duration {
        match self.options.pace {
            Pace::Recorded { speed } => scaled(item.due.as_secs_f64() / speed),
            Pace::Even { rate } => scaled(number as f64 / rate),
        }
    }

    /// Waits until `due`, and for the end of a pause.
    async fn wait_until(&mut self, due: Instant) -> Result<(), ReplayError> {
        loop {
            while let Some(notice) = self.source.try_notice() {
                self.heed(&notice);
            }
            if !self.paused && Instant::now() >= due {
                return Ok(());
            }
            tokio::select! {
                notice = self.source.notice() => {
                    self.heed(&notice.ok_or(ReplayError::Stopping)?);
                }
                () = sleep_until(due), if !self.paused => {}
            }
        }
    }

    fn heed(&mut self, notice: &Notice) {
        match notice {
            Notice::Pause => self.paused = true,
            Notice::Resume => self.paused = false,
            Notice::Accept(..) | Notice::Ready | Notice::Released(_) => {}
        }
    }

    /// The records that are due, as many as one offer takes.
    fn take_due(&mut self) -> Vec<Offered> {
        let elapsed = self.began.elapsed();
        let mut records = Vec::new();
        while records.len() < OFFER_MAX
            && let Some(item) = self.waiting.front()
        {
            let due = self.due(item, self.taken);
            if due > elapsed {
                break;
            }
            if let Some(item) = self.waiting.pop_front() {
                records.push(self.record(item, due));
                self.taken += 1;
            }
        }
        records
    }

    fn record(&mut self, item: Item, due: Duration) -> Offered {
        let source_time = match self.options.source_time {
            SourceTime::Due => u64::try_from((self.began_unix + due).as_nanos()).ok(),
            SourceTime::Recorded => Some(item.recorded),
        };
        let token = self.options.reliable.then_some(Token(self.tokens));
        self.tokens += 1;
        Offered {
            source: self.source.id(),
            token,
            key: item.key,
            properties: Properties::default(),
            payload: item.payload,
            read_at: self.source.now(),
            source_unix_ns: source_time,
            ttl: None,
            foreign: None,
            packet: None,
        }
    }

    /// Lets records in, once. Returns those that are accepted already.
    async fn admit(&mut self, records: &mut Vec<Offered>) -> Result<Vec<Token>, ReplayError> {
        let mut plain = Plain::new(1);
        let admitted = self.door.admit(&self.source, From::Outside, records, &mut plain).await;
        admitted.map_err(|_| ReplayError::Stopping)?;
        Ok(plain.accepted)
    }

    async fn offer(&mut self, records: Vec<Offered>) -> Result<(), ReplayError> {
        match records.is_empty() {
            true => Ok(()),
            false => self.source.offer(records).await.map_err(|_| ReplayError::Stopping),
        }
    }

    /// Offers records, and those that are refused for lack of room again, until all are answered for
    /// good.
    async fn offer_until_accepted(&mut self, mut left: Vec<Offered>) -> Result<(), ReplayError> {
        let mut again = AGAIN_MIN;
        let mut records = left.clone();
        let accepted = self.admit(&mut records).await?;
        left.retain(|record| record.token.is_none_or(|token| !accepted.contains(&token)));
        loop {
            self.offer(records).await?;
            left = self.refused(left).await?;
            if left.is_empty() {
                return Ok(());
            }
            sleep(again).await;
            again = (again * 2).min(AGAIN_MAX);
            self.wait_until(Instant::now()).await?;
            records = left.clone();
            let plain = Plain::new(1);
            let handed =
                self.door.hand_over(&self.source, From::Outside, &mut records, &plain).await;
            handed.map_err(|_| ReplayError::Stopping)?;
        }
    }

    /// Waits for the answers to `offered`; returns what is worth another attempt.
    async fn refused(&mut self, offered: Vec<Offered>) -> Result<Vec<Offered>, ReplayError> {
        let mut unanswered = offered.len();
        let mut waiting: Vec<Option<Offered>> = offered.into_iter().map(Some).collect();
        let mut again = Vec::new();
        while unanswered > 0 {
            let notice = self.source.notice().await.ok_or(ReplayError::Stopping)?;
            self.heed(&notice);
            let Notice::Accept(token, result) = notice else { continue };
            let mine = |record: &&mut Option<Offered>| {
                record.as_ref().is_some_and(|record| record.token == Some(token))
            };
            let Some(record) = waiting.iter_mut().find(mine).and_then(Option::take) else {
                continue;
            };
            unanswered -= 1;
            match result {
                Ok(()) => {}
                Err(reason) if may_pass(reason) => again.push(record),
                Err(reason) => {
                    if self.result.refused == 0 {
                        let key = String::from_utf8_lossy(&record.key);
                        let reason = reason.name();
                        tracing::warn!(%key, reason, "a replayed record is refused for good");
                    }
                    self.result.refused += 1;
                }
            }
        }
        again.sort_by_key(|record| record.token);
        Ok(again)
    }
}

/// Seconds as a duration; far away where they are too many.
fn scaled(seconds: f64) -> Duration {
    const YEAR: f64 = 365.0 * 24.0 * 3600.0;
    Duration::from_secs_f64(seconds.clamp(0.0, YEAR))
}

/// Whether a refusal may be different later.
fn may_pass(reason: RefuseReason) -> bool {
    match reason {
        RefuseReason::Full | RefuseReason::TooManyStreams | RefuseReason::Storage => true,
        RefuseReason::NoRule | RefuseReason::Forbidden | RefuseReason::Oversize => false,
        RefuseReason::Stopping | RefuseReason::Dropped(_) => false,
    }
}
