//! Pictures to calibrate with: JPEGs of a folder, or of a clip, which ffmpeg decodes.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use tidegate_frames::Splitter;

use crate::services::cameras::jpegs;

/// Bytes that are read at once.
const READ: usize = 1 << 16;

/// So many pictures of these, evenly spaced.
///
/// # Errors
/// They cannot be read, there are none, or ffmpeg is missing.
pub(super) fn read(from: &Path, count: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let name = || from.display().to_string();
    let metadata = std::fs::metadata(from).with_context(name)?;
    let pictures = match metadata.is_dir() {
        true => folder(from, count)?,
        false => clip(from, count)?,
    };
    ensure!(!pictures.is_empty(), "{}: no picture is in it", from.display());
    Ok(pictures)
}

/// Places of `count` of `all`, evenly spaced.
fn spaced(all: usize, count: usize) -> Vec<usize> {
    let count = count.min(all);
    (0..count).map(|at| at * all / count).collect()
}

fn folder(folder: &Path, count: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let files = jpegs(folder)?;
    ensure!(!files.is_empty(), "{}: no file *.jpg or *.jpeg is in it", folder.display());
    let chosen = spaced(files.len(), count)
        .into_iter()
        .map(|at| std::fs::read(&files[at]).with_context(|| files[at].display().to_string()));
    chosen.collect()
}

/// How long a clip is nobody knows before its end: every second picture that was kept is left out as soon
/// as there are twice as many as needed.
struct Thinned {
    kept: Vec<Vec<u8>>,
    count: usize,
    every: usize,
    seen: usize,
}

impl Thinned {
    fn push(&mut self, picture: Vec<u8>) {
        if self.seen.is_multiple_of(self.every) {
            self.kept.push(picture);
        }
        self.seen += 1;
        if self.kept.len() >= 2 * self.count {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every *= 2;
        }
    }

    fn chosen(mut self) -> Vec<Vec<u8>> {
        let places = spaced(self.kept.len(), self.count);
        places.into_iter().map(|at| std::mem::take(&mut self.kept[at])).collect()
    }
}

fn clip(file: &Path, count: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    // A path that begins like an option or a protocol is still a path.
    let input = std::path::absolute(file).with_context(|| file.display().to_string())?;
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-i"]).arg(input);
    command.args(["-an", "-c:v", "mjpeg", "-q:v", "2", "-f", "image2pipe", "-"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "{}: clips are read by ffmpeg, which is not installed (apt install ffmpeg); a folder of JPEGs needs none",
            file.display()
        ),
        child => child.context("ffmpeg")?,
    };
    let mut pipe = child.stdout.take().context("ffmpeg has no pipe")?;
    let mut thinned = Thinned { kept: Vec::new(), count, every: 1, seen: 0 };
    let (mut splitter, mut buffer) = (Splitter::default(), vec![0; READ]);
    loop {
        let length = pipe.read(&mut buffer).context("ffmpeg")?;
        if length == 0 {
            break;
        }
        let mut bytes = &buffer[..length];
        while let Some((picture, taken)) = splitter.push(bytes) {
            thinned.push(picture);
            bytes = &bytes[taken..];
        }
    }
    let status = child.wait().context("ffmpeg")?;
    ensure!(
        status.success() || thinned.seen > 0,
        "{}: ffmpeg cannot read it, and says why above ({status})",
        file.display()
    );
    Ok(thinned.chosen())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_evenly_spaced() {
        assert_eq!(spaced(10, 4), [0, 2, 5, 7]);
        assert_eq!(spaced(2, 4), [0, 1]);
        for all in 1..100 {
            let mut thinned = Thinned { kept: Vec::new(), count: 8, every: 1, seen: 0 };
            (0..all).for_each(|at| thinned.push(vec![at]));
            let chosen: Vec<u8> = thinned.chosen().into_iter().flatten().collect();
            assert_eq!(chosen.len(), usize::from(all.min(8)));
            let apart = |pair: &[u8]| pair[1] - pair[0];
            let (least, most) =
                chosen.windows(2).map(apart).fold((255, 0), |(a, b), one| (one.min(a), one.max(b)));
            assert!(all < 9 || most <= 2 * least.max(1), "{all}: {chosen:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let missing = read(Path::new("/nowhere/clip.mp4"), 3).unwrap_err();
        assert!(format!("{missing:#}").starts_with("/nowhere/clip.mp4: "), "{missing:#}");
        let folder = std::env::temp_dir().join(format!("tidegate-pictures-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let empty = read(&folder, 3).unwrap_err().to_string();
        std::fs::remove_dir(&folder).unwrap();
        assert!(empty.ends_with("no file *.jpg or *.jpeg is in it"), "{empty}");
    }
}
