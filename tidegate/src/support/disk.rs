//! Files, as the log and the sink use them: a trait so small that a test can stand in for the kernel, lose what
//! was not synced, and be stopped between any two calls.
//!
//! Nothing here is safe until it is synced: bytes by their file, names by their folder.

#[cfg(test)]
pub(crate) mod model;
mod real;

use std::fmt::Debug;
use std::io;
use std::path::Path;

pub use self::real::Real;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// To be read.
    Read,
    /// To be read and written; it is there.
    Write,
    /// To be read and written; it is made if it is not there, as everybody may read it.
    WriteOrMake,
    /// To be written; it must not be there, is nobody else's to read, and no link is followed.
    New,
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name; what is no UTF-8 in it is replaced.
    pub name: String,
    /// Bytes of the file.
    pub size: u64,
    /// Whether it is a file: no folder, no link.
    pub is_file: bool,
}

/// A disk.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>>;

    /// What a folder has.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self, folder: &Path) -> io::Result<Vec<Listed>>;

    /// Makes a folder and those above it, if they are not there, and makes their names safe. `mode`: who may
    /// read and write, of what the process's mask leaves.
    ///
    /// # Errors
    /// What the system says.
    fn make_folder(&self, folder: &Path, mode: u32) -> io::Result<()>;

    /// Gives a file another name; one that had it is gone.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes safe which names a folder has.
    ///
    /// # Errors
    /// What the system says.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// All of a file.
    ///
    /// # Errors
    /// What the system says.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path, How::Read)?;
        let length = file.length()?;
        read_at(&*file, 0, length as usize)
    }
}

/// An open file.
pub trait DiskFile: Debug + Send + Sync {
    /// Reads from a place on; fewer bytes than asked for do not mean that the file ends.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, bytes: &mut [u8], from: u64) -> io::Result<usize>;

    /// Writes all of the bytes at a place.
    ///
    /// # Errors
    /// What the system says: then nobody knows how many of them are there.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// How long it is.
    ///
    /// # Errors
    /// What the system says.
    fn length(&self) -> io::Result<u64>;

    /// Makes it so long.
    ///
    /// # Errors
    /// What the system says.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes safe what was written, and how long the file is.
    ///
    /// # Errors
    /// What the system says: then nobody knows what is safe, and what was written since the last sync must be
    /// written anew, elsewhere.
    fn sync(&self) -> io::Result<()>;
}

/// So many bytes from a place on, less only at the end of the file.
///
/// # Errors
/// What the system says.
pub fn read_at(file: &dyn DiskFile, mut from: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], from) {
            Ok(0) => break,
            Ok(read) => (filled, from) = (filled + read, from + read as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
