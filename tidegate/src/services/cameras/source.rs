//! Where a camera's frames come from, if nobody publishes them: files, MJPEG over HTTP, and what ffmpeg reads.
//!
//! Each camera with a source has one task. A source that ends or breaks is opened again, with waits.

mod ffmpeg;
mod files;
mod http;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

pub(crate) use self::files::jpegs;
use super::camera::Camera;
use super::publish::take;
pub use crate::config::frames::source::Source;
use crate::node::contract::Intake;

/// First and longest wait before a source is opened again.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A source of which nothing comes for so long is opened again.
const SILENCE: Duration = Duration::from_secs(10);
/// A frame may come a little before its time.
const EARLY: f64 = 0.8;

/// A source, and how many frames of it are taken.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceOptions {
    /// Where.
    pub source: Source,
    /// Frames a second at most; those of a folder: 5 where nothing is said.
    pub rate: Option<f64>,
}

/// For logs: without a password.
fn name(source: &Source) -> String {
    match source {
        Source::Folder(folder) => folder.display().to_string(),
        Source::Http(uri) => without_user(&uri.to_string()),
        Source::Ffmpeg(_, input) => without_user(input),
    }
}

/// An address without what stands before its `@`.
fn without_user(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host..])
}

/// Takes the frames of a source for its camera.
#[derive(Debug)]
struct Taker {
    camera: Arc<Camera>,
    intake: Intake,
    /// Shortest time between two frames.
    apart: Option<Duration>,
    last: Option<Instant>,
    /// Frames taken since the source was opened.
    taken: u64,
}

impl Taker {
    /// A frame came. It is taken if it is due and is one.
    fn frame(&mut self, jpeg: Vec<u8>) {
        let now = Instant::now();
        let since = self.last.map(|last| now.duration_since(last));
        if let (Some(apart), Some(since)) = (self.apart, since)
            && since < apart.mul_f64(EARLY)
        {
            return;
        }
        self.last = Some(now);
        match take(&self.camera, &self.intake, Bytes::from(jpeg), 0, Duration::ZERO) {
            Ok(_) => self.taken += 1,
            Err(error) => {
                tracing::debug!(camera = %self.camera.options.name, "a frame is refused: {error}")
            }
        }
    }
}

/// Takes frames until the node stops.
pub(super) async fn run(options: SourceOptions, camera: Arc<Camera>, intake: Intake) {
    let closed = intake.clone();
    tokio::select! {
        () = closed.closed() => {}
        () = again(&options, &camera, &intake) => {}
    }
}

async fn again(options: &SourceOptions, camera: &Arc<Camera>, intake: &Intake) {
    let mut wait = WAITS.0;
    let apart = options.rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
    let name = name(&options.source);
    loop {
        let (camera, intake) = (camera.clone(), intake.clone());
        let mut taker = Taker { camera, intake, apart, last: None, taken: 0 };
        let ended = match &options.source {
            Source::Folder(folder) => files::read(folder, &mut taker).await,
            Source::Http(uri) => http::read(uri, &mut taker).await,
            Source::Ffmpeg(before, input) => {
                ffmpeg::read(before, input, options.rate, &mut taker).await
            }
        };
        if taker.taken > 0 {
            wait = WAITS.0;
        }
        let why = match ended {
            Ok(()) => "it ended".to_owned(),
            Err(error) => format!("{error:#}").replace(&*address(&options.source), &name),
        };
        tracing::warn!(camera = %taker.camera.options.name, source = %name, "no frames: {why}; again in {wait:?}");
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(WAITS.1);
    }
}

/// As it is configured.
fn address(source: &Source) -> String {
    match source {
        Source::Folder(folder) => folder.display().to_string(),
        Source::Http(uri) => uri.to_string(),
        Source::Ffmpeg(_, input) => input.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_known_by_how_they_begin() {
        let ffmpeg = |text: &str| match Source::parse(text) {
            Ok(Source::Ffmpeg(options, input)) if input == text => options.join(" "),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(ffmpeg("rtsp://cam/1"), "-rtsp_transport tcp");
        assert_eq!(ffmpeg("/dev/video0"), "-f v4l2");
        assert_eq!(ffmpeg("/srv/gate.mp4"), "-re -stream_loop -1");
        assert_eq!(ffmpeg("https://cam/mjpeg"), "");
        assert!(matches!(Source::parse("http://cam:81/mjpeg"), Ok(Source::Http(_))));
        let folder = std::env::temp_dir();
        assert_eq!(Source::parse(folder.to_str().unwrap()), Ok(Source::Folder(folder.clone())));
        for (wrong, word) in [
            ("ftp://cam/1", "no source is read by ftp"),
            ("shots", "from the root"),
            ("-i", "from the root"),
            ("concat:/a|/b", "from the root"),
        ] {
            let error = Source::parse(wrong).unwrap_err();
            assert!(error.contains(word), "{wrong}: {error}");
        }
    }

    #[test]
    fn logs_have_no_passwords() {
        assert_eq!(without_user("rtsp://me:p@ss@cam:554/a@b"), "rtsp://cam:554/a@b");
        assert_eq!(without_user("/srv/a@b.mp4"), "/srv/a@b.mp4");
    }
}
