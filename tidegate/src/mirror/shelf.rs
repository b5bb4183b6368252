//! Logs of other nodes on this node's disk: a folder each, named by which life of a log it is, and in it
//! the segments and the name of the node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tidegate_log::SegmentId;
use tidegate_log::mirror::SegmentLengths;
use tidegate_types::units::Size;

use crate::spool::folder::segment_path;
use crate::spool::look::segments;

/// The file with the name of the node.
const OWNER: &str = "owner";
/// The file with the letters by which its keeper may bring its records.
const LETTERS: &str = "letters";

/// A log that is kept: a node, and which life of its log.
pub(super) type LogOf = (Arc<str>, u64);

/// Its folder, for one user at a time.
#[derive(Debug)]
pub(super) struct Shelf {
    directory: PathBuf,
    lengths: SegmentLengths,
    /// Segments with bytes that are not safe yet.
    unsafe_yet: BTreeSet<SegmentId>,
    /// Whether names in the folder are not safe yet.
    has_new_names: bool,
}

/// The folder of a log.
fn folder(all: &Path, incarnation: u64) -> PathBuf {
    all.join(format!("{incarnation:016x}"))
}

/// The logs that a folder of folders has.
///
/// # Errors
/// It cannot be read.
pub(super) fn all(directory: &Path) -> io::Result<Vec<LogOf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok());
        let Some(incarnation) = number else { continue };
        if let Ok(node) = fs::read_to_string(folder(directory, incarnation).join(OWNER)) {
            found.push((node.into(), incarnation));
        }
    }
    Ok(found)
}

/// The letters that were kept with a log, if there are any.
pub(super) fn letters(all: &Path, (_, incarnation): &LogOf) -> Option<Bytes> {
    fs::read(folder(all, *incarnation).join(LETTERS)).ok().map(Bytes::from)
}

impl Shelf {
    /// Keeps the letters of its node.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn keep_letters(&mut self, letters: &[u8]) -> io::Result<()> {
        self.has_new_names = true;
        write_safely(&self.directory.join(LETTERS), letters)
    }

    /// The folder of a log among all of them; made if it is not there.
    ///
    /// # Errors
    /// What the system says, or it is of another node.
    pub(super) fn open(all: &Path, (node, incarnation): &LogOf) -> io::Result<Shelf> {
        let directory = folder(all, *incarnation);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let owner = directory.join(OWNER);
        match fs::read_to_string(&owner) {
            Ok(known) if *known == **node => {}
            Ok(known) => return Err(io::Error::other(format!("this log is {known}'s"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_safely(&owner, node.as_bytes())?;
                File::open(all)?.sync_all()?;
            }
            Err(error) => return Err(error),
        }
        let lengths = segments(&directory).map_err(io::Error::other)?;
        let unsafe_yet = lengths.keys().copied().collect();
        Ok(Shelf { directory, lengths, unsafe_yet, has_new_names: true })
    }

    /// Where its segments are.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What there is.
    pub(super) fn lengths(&self) -> &SegmentLengths {
        &self.lengths
    }

    /// Bytes of it all.
    pub(super) fn size(&self) -> Size {
        self.lengths.values().copied().sum()
    }

    /// Adds bytes to a segment, behind what there is of it.
    ///
    /// # Errors
    /// What the system says, or they would leave a gap.
    pub(super) fn add(&mut self, segment: SegmentId, from: Size, bytes: &[u8]) -> io::Result<()> {
        let length = self.lengths.get(&segment).copied().unwrap_or_default();
        if length != from {
            return Err(io::Error::other("bytes that do not follow those before them"));
        }
        let path = segment_path(&self.directory, segment);
        let mut open = OpenOptions::new();
        open.create(true).truncate(false).write(true).mode(0o600);
        open.open(path)?.write_all_at(bytes, from.0)?;
        self.has_new_names |= length == Size::ZERO;
        self.lengths.insert(segment, Size(from.0 + bytes.len() as u64));
        self.unsafe_yet.insert(segment);
        Ok(())
    }

    /// What was added and is not safe yet: from now on whoever has it answers for that.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn take_added(&mut self) -> io::Result<Added> {
        let mut files = Vec::new();
        for segment in std::mem::take(&mut self.unsafe_yet) {
            let file = File::open(segment_path(&self.directory, segment))?;
            files.extend(self.lengths.get(&segment).map(|length| (segment, *length, file)));
        }
        let has_new_names = std::mem::take(&mut self.has_new_names);
        let folder = has_new_names.then(|| File::open(&self.directory)).transpose()?;
        Ok(Added { files, folder })
    }

    /// Nobody needs these any more.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn release(&mut self, segments: &[SegmentId]) -> io::Result<()> {
        for segment in segments {
            if self.lengths.remove(segment).is_some() {
                self.unsafe_yet.remove(segment);
                fs::remove_file(segment_path(&self.directory, *segment))?;
            }
        }
        Ok(())
    }

    /// All of it goes.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.lengths = BTreeMap::new();
        self.unsafe_yet.clear();
        fs::remove_dir_all(&self.directory)
    }
}

/// Bytes that the disk may not have yet.
#[derive(Debug)]
pub(super) struct Added {
    files: Vec<(SegmentId, Size, File)>,
    folder: Option<File>,
}

impl Added {
    /// Waits for the disk. Answers with how far each segment has got.
    ///
    /// # Errors
    /// What the system says: then nobody knows what is safe.
    pub(super) fn sync(self) -> io::Result<Vec<(SegmentId, Size)>> {
        for (_, _, file) in &self.files {
            file.sync_data()?;
        }
        if let Some(folder) = &self.folder {
            folder.sync_all()?;
        }
        Ok(self.files.into_iter().map(|(segment, length, _)| (segment, length)).collect())
    }
}

fn write_safely(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()?;
    fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("tidegate-shelf-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn what_was_added_is_there_after_a_restart() {
        let all_of_them = directory("added");
        let log = ("hall/gate-7".into(), 0x1c9f);
        let mut shelf = Shelf::open(&all_of_them, &log).unwrap();
        let segment = SegmentId(3);
        shelf.add(segment, Size::ZERO, b"head").unwrap();
        shelf.add(segment, Size(4), b"entry").unwrap();
        assert_eq!(shelf.take_added().unwrap().sync().unwrap(), [(segment, Size(9))]);
        assert_eq!(shelf.take_added().unwrap().sync().unwrap(), []);
        assert_eq!(all(&all_of_them).unwrap(), std::slice::from_ref(&log));
        let mut again = Shelf::open(&all_of_them, &log).unwrap();
        assert_eq!((again.size(), again.lengths()), (Size(9), shelf.lengths()));
        assert_eq!(fs::read(segment_path(again.directory(), segment)).unwrap(), b"headentry");
        again.release(&[segment, SegmentId(99)]).unwrap();
        assert!(again.lengths().is_empty() && !segment_path(again.directory(), segment).exists());
        again.remove().unwrap();
        assert_eq!(all(&all_of_them).unwrap(), []);
        fs::remove_dir_all(all_of_them).unwrap();
    }

    #[test]
    fn gaps_and_other_nodes_are_refused() {
        let all_of_them = directory("gaps");
        let mut shelf = Shelf::open(&all_of_them, &("gate-7".into(), 1)).unwrap();
        shelf.add(SegmentId(1), Size::ZERO, b"head").unwrap();
        for from in [0, 3, 5] {
            assert!(shelf.add(SegmentId(1), Size(from), b"entry").is_err(), "{from}");
        }
        assert_eq!(shelf.size(), Size(4));
        let error = Shelf::open(&all_of_them, &("gate-8".into(), 1)).unwrap_err();
        assert_eq!(error.to_string(), "this log is gate-7's");
        fs::remove_dir_all(all_of_them).unwrap();
    }
}
