//! The access log: a line for each exchange, written by another thread.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::Notify;

use super::exit::AccessEntry;
use crate::config::AccessFormat;
use crate::support::time::Moment;

/// Bytes that wait to be written at most: a disk that is slower loses lines, and says so.
const WAITING_MAX: usize = 4 << 20;
/// Bytes from which on they are written at once.
const FULL: usize = 64 << 10;
/// Otherwise they are written so often.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Inner {
    waiting: Mutex<Waiting>,
    full: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: String,
    lost: u64,
}

/// See the file's header. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct AccessLog {
    inner: Arc<Inner>,
    format: AccessFormat,
    path: Arc<PathBuf>,
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    at: String,
    client: String,
    method: &'a str,
    path: &'a str,
    protocol: String,
    status: u16,
    bytes: u64,
    route: &'a str,
    upstream: &'a str,
    waited_ms: f64,
    took_ms: f64,
    is_whole: bool,
    reason: &'a str,
}

impl AccessLog {
    /// Opens the file; `-` is standard output.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn open(path: &Path, format: AccessFormat) -> io::Result<AccessLog> {
        drop(open(path)?);
        Ok(AccessLog { inner: Arc::default(), format, path: Arc::new(path.to_owned()) })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An exchange is over.
    pub(super) fn write(&self, story: &AccessEntry, bytes: u64, is_whole: bool, took: Duration) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = Moment(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        let line = Line {
            at: at.to_string(),
            client: story.peer.address.ip().to_string(),
            method: story.method.as_str(),
            path: story.uri.path_and_query().map_or("/", |path| path.as_str()),
            protocol: format!("{:?}", story.version),
            status: story.status.as_u16(),
            bytes,
            route: story.route.as_ref().map_or("-", |route| &route.name),
            upstream: story.upstream.as_deref().unwrap_or("-"),
            waited_ms: millis(story.waited),
            took_ms: millis(took),
            is_whole,
            reason: story.reason.unwrap_or("-"),
        };
        let mut text = String::new();
        line.write(self.format, &mut text);
        // All threads write: nothing is made while they wait.
        let waiting = &mut *self.waiting();
        if waiting.lines.len() + text.len() > WAITING_MAX {
            waiting.lost += 1;
            return;
        }
        waiting.lines.push_str(&text);
        if waiting.lines.len() >= FULL {
            self.inner.full.notify_one();
        }
    }

    /// Writes what waits, now and then, for ever. The file is opened anew each time, so that it can be
    /// moved away.
    pub(super) async fn flush_for_ever(self) {
        loop {
            tokio::select! {
                () = self.inner.full.notified() => {}
                () = tokio::time::sleep(PERIOD) => {}
            }
            self.flush().await;
        }
    }

    /// Writes what waits.
    pub(super) async fn flush(&self) {
        let Waiting { lines, lost } = std::mem::take(&mut *self.waiting());
        if lines.is_empty() {
            return;
        }
        let path = self.path.to_path_buf();
        let writing = move || open(&path)?.write_all(lines.as_bytes());
        let written = tokio::task::spawn_blocking(writing).await;
        if let Ok(Err(error)) = written {
            tracing::warn!("lines of the access log are lost: {error}");
        }
        match lost {
            0 => {}
            _ => {
                tracing::warn!(lost, "the access log cannot be written as fast: lines are lost")
            }
        }
    }
}

impl Line<'_> {
    fn write(&self, format: AccessFormat, to: &mut String) {
        match format {
            AccessFormat::Json => to.push_str(&serde_json::to_string(self).unwrap_or_default()),
            AccessFormat::Text => {
                let Line { at, client, method, path, protocol, status, bytes, .. } = self;
                let Line { route, upstream, waited_ms, took_ms, reason, .. } = self;
                let broken = if self.is_whole { "" } else { " broken" };
                // Writing to a text does not fail.
                let _ = write!(
                    to,
                    "{at} {client} \"{method} {path} {protocol}\" {status} {bytes} route={route} \
                     upstream={upstream} waited={waited_ms}ms took={took_ms}ms reason={reason}{broken}"
                );
            }
        }
        to.push('\n');
    }
}

/// Milliseconds with three digits behind the point.
fn millis(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}

fn open(path: &Path) -> io::Result<Box<dyn io::Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    Ok(Box::new(File::options().append(true).create(true).open(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_for_people_or_for_programs() {
        let line = Line {
            at: "2026-11-22T10:00:00.000Z".into(),
            client: "::1".into(),
            method: "GET",
            path: "/a",
            protocol: "HTTP/1.1".into(),
            status: 503,
            bytes: 7,
            route: "app",
            upstream: "-",
            waited_ms: 0.25,
            took_ms: 1.5,
            is_whole: false,
            reason: "script",
        };
        let mut text = String::new();
        line.write(AccessFormat::Text, &mut text);
        let wanted = "2026-11-22T10:00:00.000Z ::1 \"GET /a HTTP/1.1\" 503 7 route=app upstream=- \
                      waited=0.25ms took=1.5ms reason=script broken\n";
        assert_eq!(text, wanted);
        text.clear();
        line.write(AccessFormat::Json, &mut text);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&read["status"], &read["route"]), (&503.into(), &"app".into()));
    }
}
