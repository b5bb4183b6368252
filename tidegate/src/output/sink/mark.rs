//! How far the sink's lines are safe, in the file `records.mark` beside them: so lines that a disk takes from the very
//! end are missed, and no number is given twice.
//!
//! The number of the last safe line stands there as `{"safe":12,"crc":"0123abcd"}`, in one of two blocks in turn: a write
//! that is torn leaves the other. A disk that writes it to a place among the lines makes no line of it.
//!
//! It is written when lines are safe, and synced only at the next start: a power cut may take its last steps back, and
//! then it tells less.

use std::io;
use std::path::{Path, PathBuf};

use super::lines;
use crate::support::disk::{Disk, DiskFile, How, read_at};

pub(super) const BEGIN: &[u8] = b"{\"safe\":";

/// From one block to the next: blocks of a file system, so that one of them rots alone.
const BLOCK: u64 = 4096;
/// Bytes of a number with its checksum, at most.
const LINE_MAX: usize = 64;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Mark {
    file: Box<dyn DiskFile>,
    /// The number in each block; 0 where there is none.
    blocks: [u64; 2],
}

impl Mark {
    /// Opens the mark of a folder; makes it if it is not there.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(disk: &dyn Disk, folder: &Path) -> io::Result<Self> {
        let file = disk.open(&path(folder), How::WriteOrMake)?;
        let blocks = [of_block(&*file, 0)?, of_block(&*file, 1)?];
        Ok(Mark { file, blocks })
    }

    /// The last line that was safe.
    pub(super) fn last(&self) -> u64 {
        self.blocks[0].max(self.blocks[1])
    }

    /// Lines up to this one are safe.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn note(&mut self, line: u64) -> io::Result<()> {
        if line <= self.last() {
            return Ok(());
        }
        // Never in the place of the last one.
        let place = usize::from(self.blocks[0] > self.blocks[1]);
        let mut text = [BEGIN, format!("{line}}}").as_bytes()].concat();
        lines::finish(&mut text, 0)?;
        self.blocks[place] = 0;
        self.file.write_at(&text, place as u64 * BLOCK)?;
        self.blocks[place] = line;
        Ok(())
    }

    /// Makes safe what was noted.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// The last line that was safe in a folder; 0 where nothing tells.
///
/// # Errors
/// What the system says.
pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> io::Result<u64> {
    let file = match disk.open(&path(folder), How::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    Ok(of_block(&*file, 0)?.max(of_block(&*file, 1)?))
}

fn path(folder: &Path) -> PathBuf {
    folder.join("records.mark")
}

fn of_block(file: &dyn DiskFile, place: u64) -> io::Result<u64> {
    let bytes = read_at(file, place * BLOCK, LINE_MAX)?;
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(lines::number(BEGIN, line).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::disk::model::Memory;

    const FOLDER: &str = "/sink";

    fn opened(disk: &Memory) -> Mark {
        Mark::open(disk, Path::new(FOLDER)).unwrap()
    }

    #[test]
    fn a_mark_only_rises_and_either_block_that_is_left_is_read() {
        let (disk, folder) = (Memory::default(), Path::new(FOLDER));
        disk.make_folder(folder, 0).unwrap();
        assert_eq!(read(&disk, folder).unwrap(), 0);
        let mut mark = opened(&disk);
        for line in [3, 7, 5, u64::MAX - 1] {
            mark.note(line).unwrap();
        }
        assert_eq!(mark.last(), u64::MAX - 1);
        assert_eq!(
            (opened(&disk).last(), read(&disk, folder).unwrap()),
            (u64::MAX - 1, u64::MAX - 1)
        );
        let mut content = disk.content(&path(folder));
        let text = content.split(|&byte| byte == b'\n').next().unwrap();
        assert!(text.starts_with(BEGIN) && lines::find(text).is_none(), "it is no line");
        content[10] ^= 1;
        disk.rot(&path(folder), Some(content.clone()));
        assert_eq!(read(&disk, folder).unwrap(), 7, "the step before");
        opened(&disk).note(8).unwrap();
        assert_eq!(read(&disk, folder).unwrap(), 8);
        content[BLOCK as usize + 3] ^= 1;
        disk.rot(&path(folder), Some(content));
        assert_eq!(read(&disk, folder).unwrap(), 0);
    }
}
