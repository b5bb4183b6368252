//! Folders of cameras of which nothing can be read any more: their frames are kept, under names that are no camera's, as
//! long as there is room.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::super::store::UNREADABLE;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Whose frames they were.
    pub camera: String,
    /// Where they are.
    pub folder: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Renames the folder of a camera.
pub(super) fn set_aside(folder: &Path) -> io::Result<PathBuf> {
    let mut names = (1..).map(|turn: u32| folder.with_extension(format!("{UNREADABLE}-{turn}")));
    let aside = names.find(|name| !name.exists()).ok_or(io::ErrorKind::AlreadyExists)?;
    fs::rename(folder, &aside)?;
    Ok(aside)
}

/// What a folder is, with when it was written; `None` for one that was not set aside.
pub(super) fn look(folder: PathBuf) -> io::Result<Option<(SystemTime, SetAside)>> {
    let name = folder.file_name().and_then(|name| name.to_str());
    let camera = name.and_then(|name| name.split_once('.'));
    let camera = camera.filter(|(_, kind)| kind.starts_with(UNREADABLE));
    let Some(camera) = camera.and_then(|(digits, _)| camera_of(digits)) else { return Ok(None) };
    let mut bytes = 0;
    for file in fs::read_dir(&folder)? {
        bytes += file?.metadata()?.len();
    }
    let written_at = fs::metadata(&folder)?.modified()?;
    tracing::error!(
        "what is known of the camera {camera:?} is damaged: its frames ({bytes} bytes) are kept in {}",
        folder.display()
    );
    Ok(Some((written_at, SetAside { camera, folder, bytes })))
}

/// The camera whose folder has this name.
fn camera_of(digits: &str) -> Option<String> {
    let digit = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(digit).collect();
    String::from_utf8(bytes?).ok()
}
