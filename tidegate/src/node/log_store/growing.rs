//! The file of the segment that grows, with room ahead of what is written.

use std::io;
use std::path::Path;

use tidegate_log::preallocated_end;

use crate::support::disk::{Disk, DiskFile, How};

/// Zeros, as many as are written at once.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// A segment's file. Behind its bytes stand zeros that are already on disk: a sync that changes neither the
/// file's length nor its blocks has only the bytes themselves to make safe.
#[derive(Debug)]
pub(crate) struct Growing {
    file: Box<dyn DiskFile>,
    /// Where the next bytes go.
    end: u64,
    /// How long the file is.
    length: u64,
}

impl Growing {
    /// A new file.
    ///
    /// # Errors
    /// What the system says; there is a file of this name, for one.
    pub(crate) fn create(disk: &dyn Disk, path: &Path) -> io::Result<Growing> {
        let file = disk.open(path, How::New)?;
        Ok(Growing { file, end: 0, length: 0 })
    }

    /// Writes behind what is there.
    ///
    /// # Errors
    /// What the system says: then nobody knows what of the bytes is there.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        if self.end > self.length {
            self.length = self.end;
            if self.make_room(preallocated_end(bytes.len())).is_err() {
                // A disk that has no room ahead may still have room: each write then makes its own.
                self.cut();
            }
        }
        Ok(())
    }

    /// Bytes that were written.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Makes safe what was written.
    ///
    /// # Errors
    /// What the system says: then nobody knows what is safe.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Gives back the room that is left. Where that fails it stays: zeros behind the last entry are no
    /// damage.
    pub(crate) fn cut(&mut self) {
        if self.file.set_length(self.end).is_ok() {
            self.length = self.end;
        }
    }

    fn make_room(&mut self, mut left: usize) -> io::Result<()> {
        while left > 0 {
            let zeros = &ZEROS[..left.min(ZEROS.len())];
            self.file.write_at(zeros, self.length)?;
            self.length += zeros.len() as u64;
            left -= zeros.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::disk::Real;

    #[test]
    fn what_is_written_stands_before_zeros_until_they_are_cut() {
        let name = format!("tidegate-growing-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut growing = Growing::create(&Real, &path).unwrap();
        let mut written = Vec::new();
        for number in 1..=200_u8 {
            let bytes = vec![number; 1000];
            growing.write(&bytes).unwrap();
            written.extend(bytes);
            let content = std::fs::read(&path).unwrap();
            let (bytes, zeros) = content.split_at(written.len());
            assert!(bytes == written && zeros.iter().all(|&byte| byte == 0));
            assert!(
                number > 1 || zeros.len() == preallocated_end(1000),
                "{} bytes of room",
                zeros.len()
            );
        }
        growing.sync().unwrap();
        assert!(Growing::create(&Real, &path).is_err(), "the file is there");
        growing.cut();
        assert_eq!(std::fs::read(&path).unwrap(), written);
        std::fs::remove_file(path).unwrap();
    }
}
