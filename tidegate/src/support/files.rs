//! Reads files that people name, whole.
//!
//! Somebody may put a pipe or a device in the place of one, by a slip or on purpose, also while the node works: a pipe
//! keeps its reader waiting, and a device may have no end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The bytes of a regular file that has at most `most`.
///
/// # Errors
/// What the system says, or it is no such file.
pub fn read(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe would be waited for before anybody knows that it is one.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file)?;
    let found = opened.metadata()?;
    if !found.is_file() && !found.is_dir() {
        return Err(io::Error::other("a pipe or a device, where a file is to be"));
    }
    all_of(opened, most)
}

/// The same as text.
///
/// # Errors
/// The same, or it is not UTF-8.
pub fn read_text(file: &Path, most: u64) -> io::Result<String> {
    text(read(file, most)?)
}

/// The bytes of a file or of a pipe: for a command that somebody gives and can end.
///
/// # Errors
/// What the system says, or there are more than `most`.
pub fn read_or_hear(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    all_of(File::open(file)?, most)
}

/// The same as text.
///
/// # Errors
/// The same, or it is not UTF-8.
pub fn hear_text(file: &Path, most: u64) -> io::Result<String> {
    text(read_or_hear(file, most)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn all_of(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {most} bytes, as no file of this kind is"),
        )),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_no_file_or_has_no_end_is_refused_at_once() {
        let folder = std::env::temp_dir().join(format!("tidegate-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, pipe) = (folder.join("file"), folder.join("pipe"));
        std::fs::write(&file, "tide").unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read(&file, 4).unwrap(), b"tide");
        assert_eq!(read(&file, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&folder, 4).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        for endless in [&*pipe, Path::new("/dev/zero")] {
            let told = read(endless, 4).unwrap_err().to_string();
            assert_eq!(told, "a pipe or a device, where a file is to be");
        }
        let zeros = read_or_hear(Path::new("/dev/zero"), 4);
        assert_eq!(zeros.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
