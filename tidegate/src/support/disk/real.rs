//! The files of the operating system.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use super::{Disk, DiskFile, How, Listed};

/// The file systems of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

impl Disk for Real {
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>> {
        let mut open = OpenOptions::new();
        open.read(true).write(how != How::Read).mode(0o600);
        match how {
            How::Read | How::Write => {}
            How::WriteOrMake => _ = open.create(true).mode(0o666),
            How::New => _ = open.create_new(true),
        }
        Ok(Box::new(open.open(path)?))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Listed>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // Of a link, not of what it leads to.
            let known = match entry.metadata() {
                Ok(known) => known,
                // It has gone meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            all.push(Listed { name, size: known.len(), is_file: known.is_file() });
        }
        Ok(all)
    }

    fn make_folder(&self, folder: &Path, mode: u32) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        let make = || DirBuilder::new().mode(mode).create(folder);
        let made = match (make(), above) {
            (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => {
                self.make_folder(above, mode)?;
                make()
            }
            (made, _) => made,
        };
        match made {
            Err(error) if !folder.is_dir() => return Err(error),
            _ => {}
        }
        // Who may not read the folder above cannot make its names safe either.
        match self.sync_folder(above.unwrap_or(Path::new("."))) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
            _ => Ok(()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

impl DiskFile for File {
    fn read_at(&self, bytes: &mut [u8], from: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, from)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
