//! Where damaged files of the log go: into a folder of their own, for people to look at. Nothing is ever removed
//! from there.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_log::SegmentId;

use super::folder::{number_of, segment_name};
use crate::support::disk::{Disk, How};

/// The folder's name within that of the log.
pub(super) const QUARANTINE: &str = "quarantine";
/// What the name of a note ends with: the segment is damaged and still in use.
const NOTE: &str = ".damaged";

/// What lies in quarantine, or will.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    /// Numbers of the files that are there.
    pub(super) held: BTreeSet<SegmentId>,
    /// Their number.
    pub(super) files: u64,
    /// Segments that go there when nothing needs them any more.
    pub(super) noted: BTreeSet<SegmentId>,
}

impl Quarantine {
    /// What a log's folder has of it. A quarantine that cannot be read is empty.
    pub(super) fn read(disk: &dyn Disk, log: &Path) -> Quarantine {
        let mut read = Quarantine::default();
        for listed in disk.list(&log.join(QUARANTINE)).unwrap_or_default() {
            let number = |name: &str| name.parse().ok().map(SegmentId);
            match listed.name.strip_suffix(NOTE).and_then(number) {
                Some(noted) => _ = read.noted.insert(noted),
                None => {
                    read.files += 1;
                    let name = listed.name.split_once('+').map_or(&*listed.name, |(name, _)| name);
                    read.held.extend(number_of(name));
                }
            }
        }
        read
    }

    /// Notes, over a restart too, that a segment is damaged; false if that was known.
    pub(super) fn note(&mut self, disk: &dyn Disk, log: &Path, segment: SegmentId) -> bool {
        if !self.noted.insert(segment) {
            return false;
        }
        let folder = log.join(QUARANTINE);
        let made = disk.make_folder(&folder, 0o700).and_then(|()| {
            disk.open(&note_path(&folder, segment), How::New)?;
            disk.sync_folder(&folder)
        });
        if let Err(error) = made {
            tracing::warn!(%error, %segment, "that it is damaged is known to this process only");
        }
        true
    }

    /// Moves a file there, and makes that safe.
    ///
    /// # Errors
    /// What the system says: then it stays.
    pub(super) fn take(
        &mut self,
        disk: &dyn Disk,
        log: &Path,
        (segment, path): (SegmentId, &Path),
    ) -> io::Result<PathBuf> {
        let folder = log.join(QUARANTINE);
        disk.make_folder(&folder, 0o700)?;
        let known: BTreeSet<String> =
            disk.list(&folder)?.into_iter().map(|listed| listed.name).collect();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| segment_name(segment));
        let mut free = (1..).map(|copy| format!("{name}+{copy}"));
        let to = std::iter::once(name.clone()).chain(free.by_ref());
        let to = to.into_iter().find(|name| !known.contains(name)).unwrap_or(name);
        let to = folder.join(to);
        disk.rename(path, &to)?;
        self.held.insert(segment);
        self.files += 1;
        if self.noted.remove(&segment) {
            // A note that stays is about a segment that is not there.
            let _ = disk.remove(&note_path(&folder, segment));
        }
        disk.sync_folder(&folder)?;
        disk.sync_folder(log)?;
        Ok(to)
    }
}

fn note_path(folder: &Path, segment: SegmentId) -> PathBuf {
    folder.join(format!("{:010}{NOTE}", segment.0))
}
