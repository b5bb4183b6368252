//! A folder of our own for the files of a run, removed at its end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{NetError, is_alive};

/// Folders of ours: this, the process's id, and a number.
const PREFIX: &str = "tidegate-lab-";

/// The folder. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder that only this user can read, after removing what dead runs left.
    pub fn new() -> Result<Scratch, NetError> {
        use std::os::unix::fs::DirBuilderExt;
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        remove_stale();
        let path = std::env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        let doing = || format!("could not make the folder {}", path.display());
        made.map_err(|source| NetError::Io { doing: doing(), source })?;
        Ok(Scratch(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it and returns its path.
    pub fn file(&self, name: &str, text: &str) -> Result<PathBuf, NetError> {
        let path = self.0.join(name);
        let doing = || format!("could not write {}", path.display());
        let written = std::fs::write(&path, text);
        written.map_err(|source| NetError::Io { doing: doing(), source })?;
        Ok(path)
    }
}

/// Removes the folders of lab processes that are no more.
fn remove_stale() {
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if owner.and_then(|id| id.parse().ok()).is_some_and(|id| !is_alive(id)) {
            // Another user's folder resists, and is not ours to remove.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is small and in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_gone_after_its_owner() {
        let scratch = Scratch::new().unwrap();
        let file = scratch.file("a.conf", "text").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
        drop(scratch);
        assert!(!file.exists());
    }

    #[test]
    fn what_a_dead_run_left_is_removed() {
        // No process has this id: the kernel's largest is 2^22.
        let left = std::env::temp_dir().join(format!("{PREFIX}4294967295-0"));
        std::fs::create_dir_all(&left).unwrap();
        let _scratch = Scratch::new().unwrap();
        assert!(!left.exists());
    }
}
