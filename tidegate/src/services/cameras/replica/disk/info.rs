//! The file that says what a camera is, in its folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use prost::Message;
use tidegate_frames::archive::scan;
use tidegate_log::Key;

use super::super::super::sealed::FileKey;
use super::super::super::wire::CameraInfo;

/// Its name.
pub(super) const INFO: &str = "camera";

/// `None` where there is none, or nothing of it can be read.
pub(super) fn read_info(path: &Path, keys: &[Key]) -> io::Result<Option<CameraInfo>> {
    let content = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        content => content?,
    };
    let (entries, _) = scan(&content);
    let Some(first) = entries.first() else { return Ok(None) };
    let of =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let key = FileKey::find(keys, &content, first).map_err(of)?;
    let bytes = key.read(&File::open(path)?, first).map_err(of)?;
    CameraInfo::decode(bytes).map(Some).map_err(io::Error::other)
}

/// It is on the disk when this ends: who may see a camera is not lost, and without it the frames are.
pub(super) fn write_info(folder: &Path, keys: &[Key], info: &CameraInfo) -> io::Result<()> {
    let path = folder.join(INFO);
    let written = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&written)?;
    let (key, _) = FileKey::begin(keys, &mut file)?;
    file.write_all(&key.entry(1, &info.encode_to_vec())?)?;
    file.sync_all()?;
    fs::rename(&written, path)?;
    File::open(folder)?.sync_all()
}
