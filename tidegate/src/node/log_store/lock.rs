//! The lock of a log's folder: one process writes, whoever renames or deletes what.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use super::SpoolError;
use super::folder::failed;

/// The file whose lock says who writes.
pub(super) const LOCK: &str = "lock";
/// How often a standby looks whether the log is free.
const STANDBY_PERIOD: Duration = Duration::from_millis(100);

/// The locks of a folder: that of the file `lock`, which every version takes, and that of the folder itself, which
/// stays when the file is deleted. The kernel frees them when the process ends, however it does.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    folder: File,
}

/// A program that is being started has a copy of every open file until it runs, and with it the locks: so they are
/// given back, not only closed.
impl Drop for Lock {
    fn drop(&mut self) {
        // Where that fails, the end of the process does it.
        let _ = (self.file.unlock(), self.folder.unlock());
    }
}

/// Takes the locks; where `standby` says so, once nobody else has them.
///
/// # Errors
/// Somebody has them, or the system refuses.
pub(super) async fn lock(directory: &Path, standby: bool) -> Result<Lock, SpoolError> {
    let mut has_told = false;
    loop {
        if let Some(lock) = try_lock(directory)? {
            if has_told {
                tracing::info!("the other process ended: taking over");
            }
            return Ok(lock);
        }
        if !standby {
            return Err(SpoolError::InUse(directory.into()));
        }
        if !has_told {
            let directory = directory.display();
            tracing::info!(%directory, "standing by until the other process ends");
        }
        has_told = true;
        tokio::time::sleep(STANDBY_PERIOD).await;
    }
}

fn try_lock(directory: &Path) -> Result<Option<Lock>, SpoolError> {
    let path = directory.join(LOCK);
    let mut open = OpenOptions::new();
    // Neither what a link leads to, nor a pipe, whose reader would be waited for.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    open.create(true).truncate(false).write(true).mode(0o600).custom_flags(flags);
    let file = open.open(&path).map_err(|source| failed("open", &path, source))?;
    let folder = File::open(directory).map_err(|source| failed("open", directory, source))?;
    for (file, path, may_lack) in [(&file, path.as_path(), false), (&folder, directory, true)] {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Some network file systems lock no folders.
            Err(TryLockError::Error(_)) if may_lack => {}
            Err(TryLockError::Error(source)) => return Err(failed("lock", path, source)),
        }
        // Another file of this name would have a lock of its own.
        if !is_at(file, path).map_err(|source| failed("look at", path, source))? {
            return Ok(None);
        }
    }
    Ok(Some(Lock { file, folder }))
}

/// Whether an open file is the one that has this name now.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let name = format!("tidegate-lock-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn who_deletes_the_lock_admits_nobody() {
        let folder = folder("deleted");
        let first = try_lock(&folder).unwrap();
        assert!(first.is_some() && try_lock(&folder).unwrap().is_none());
        fs::remove_file(folder.join(LOCK)).unwrap();
        assert!(try_lock(&folder).unwrap().is_none(), "a second writer");
        fs::write(folder.join(LOCK), "").unwrap();
        assert!(try_lock(&folder).unwrap().is_none(), "a second writer");
        drop(first);
        assert!(try_lock(&folder).unwrap().is_some());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_lock_ends_with_its_holder_although_copies_of_its_files_are_open() {
        let path = folder("copied");
        let first = try_lock(&path).unwrap().unwrap();
        let copies = (first.file.try_clone().unwrap(), first.folder.try_clone().unwrap());
        assert!(try_lock(&path).unwrap().is_none(), "two writers");
        drop(first);
        assert!(try_lock(&path).unwrap().is_some());
        drop(copies);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_lock_that_is_a_link_is_not_followed() {
        let folder = folder("link");
        symlink(folder.join("other"), folder.join(LOCK)).unwrap();
        assert!(try_lock(&folder).is_err() && !folder.join("other").exists());
        // A pipe in its place is not waited for either.
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status();
        assert!(made.unwrap().success());
        fs::rename(folder.join("pipe"), folder.join(LOCK)).unwrap();
        assert!(try_lock(&folder).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
