//! What is read from files, and read again when they have changed: the next user gets the new, and a mistake changes
//! nothing.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Files that belong together come one after the other: a mistake that is gone by then is none.
const PATIENCE: Duration = Duration::from_secs(1);

/// When a file was changed, which file it is (a new one comes by a rename), how long, and when who may read it changed. `None` where it is gone.
type Stamp = Option<(SystemTime, u64, u64, (i64, i64))>;

type Read<T> = dyn Fn() -> Result<T, String> + Send + Sync;

/// See the file's header.
pub struct Followed<T> {
    /// What it is, for people: "users".
    what: &'static str,
    files: Vec<PathBuf>,
    read: Box<Read<T>>,
    state: Mutex<State<T>>,
}

struct State<T> {
    stamps: Vec<Stamp>,
    value: Arc<T>,
    /// How often it was read.
    edition: u64,
    failing: Option<Failing>,
}

/// Files as they are cannot be used.
struct Failing {
    stamps: Vec<Stamp>,
    since: Instant,
    is_told: bool,
}

impl<T> Followed<T> {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// What `read` fails with.
    pub fn new<E: fmt::Display>(
        what: &'static str,
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Followed<T>, E> {
        let stamps = stamps(&files);
        let value = Arc::new(read()?);
        let state = Mutex::new(State { stamps, value, edition: 1, failing: None });
        let read = Box::new(move || read().map_err(|error| error.to_string()));
        Ok(Followed { what, files, read, state })
    }

    /// What the files say now, or said last when they were right. What is wrong with them is told once, when it stays.
    pub fn current(&self) -> Arc<T> {
        self.edition().1
    }

    /// The same, and how often it was read until it was this.
    pub fn edition(&self) -> (u64, Arc<T>) {
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamps(&self.files);
        if now == state.stamps {
            state.failing = None;
        } else {
            self.look_into(now, state);
        }
        (state.edition, state.value.clone())
    }

    fn look_into(&self, now: Vec<Stamp>, state: &mut State<T>) {
        let failing = state.failing.take_if(|failing| failing.stamps == now);
        if let Some(known) = failing {
            let may_wait = known.is_told || known.since.elapsed() < PATIENCE;
            if may_wait {
                state.failing = Some(known);
                return;
            }
            self.renew(now, state, Some(known.since));
        } else {
            self.renew(now, state, None);
        }
    }

    fn renew(&self, now: Vec<Stamp>, state: &mut State<T>, failed_at: Option<Instant>) {
        let what = self.what;
        match (self.read)() {
            Ok(value) => {
                tracing::info!(files = ?self.files, "{what} are read again");
                let edition = state.edition + 1;
                *state = State { stamps: now, value: Arc::new(value), edition, failing: None };
            }
            Err(error) => {
                if failed_at.is_some() {
                    tracing::warn!("{what} stay as they were: {error}");
                }
                let since = failed_at.unwrap_or_else(Instant::now);
                let is_told = failed_at.is_some();
                state.failing = Some(Failing { stamps: now, since, is_told });
            }
        }
    }
}

impl<T> fmt::Debug for Followed<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Followed").field("files", &self.files).finish_non_exhaustive()
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let of = |file: &PathBuf| {
        let found = std::fs::metadata(file).ok()?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some((found.modified().ok()?, found.ino(), found.len(), changed))
    };
    files.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(file: &std::path::Path) -> Result<u32, String> {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        text.parse().map_err(|_| format!("{text:?} is no number"))
    }

    #[test]
    fn a_changed_file_is_read_and_a_wrong_one_changes_nothing() {
        let file = std::env::temp_dir().join(format!("tidegate-followed-{}", std::process::id()));
        std::fs::write(&file, "1").unwrap();
        let path = file.clone();
        let followed = Followed::new("numbers", vec![file.clone()], move || number(&path)).unwrap();
        assert_eq!(followed.edition(), (1, Arc::new(1)));
        std::fs::write(&file, "22").unwrap();
        assert_eq!(followed.edition(), (2, Arc::new(22)));
        for wrong in ["three", "-4444"] {
            std::fs::write(&file, wrong).unwrap();
            assert_eq!(followed.edition(), (2, Arc::new(22)), "{wrong}");
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(followed.edition(), (2, Arc::new(22)), "it is being replaced");
        std::fs::write(&file, "55555").unwrap();
        assert_eq!(followed.edition(), (3, Arc::new(55_555)));
        std::fs::remove_file(&file).unwrap();
    }
}
