//! What ffmpeg reads: RTSP, cameras of the machine (V4L2), clips. It is a child process that writes JPEGs into a
//! pipe; its arguments are given one by one, never through a shell. It ends when it is dropped.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use tidegate_frames::Splitter;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{SILENCE, Taker};

/// Bytes that are read at once.
const READ: usize = 1 << 16;
/// Quality of its JPEGs, 2 (best) to 31: what is lost here nobody can bring back.
const QUALITY: &str = "3";

/// A child that does not outlive us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads until ffmpeg ends or says nothing for long.
pub(super) async fn read(
    before: &[String],
    input: &str,
    rate: Option<f64>,
    taker: &mut Taker,
) -> anyhow::Result<()> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error"]);
    command.args(before).args(["-i", input]).arg("-an");
    if let Some(rate) = rate {
        command.args(["-r", &rate.to_string()]);
    }
    command.args(["-c:v", "mjpeg", "-q:v", QUALITY, "-f", "image2pipe", "-"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("ffmpeg reads it, and is not installed (apt install ffmpeg)")
        }
        child => child.context("ffmpeg")?,
    };
    let mut running = Running(child);
    let (pipe, words) = (running.0.stdout.take(), running.0.stderr.take());
    let (pipe, words) = (pipe.context("no pipe")?, words.context("no pipe")?);
    let said = Arc::new(Mutex::new(String::new()));
    let last = said.clone();
    // Both threads end with the child's pipes.
    std::thread::spawn(move || {
        for line in BufReader::new(words.take(1 << 30)).lines().map_while(Result::ok) {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = line;
        }
    });
    let (frames, mut heard) = mpsc::channel(1);
    std::thread::spawn(move || split(pipe, &frames));
    loop {
        match timeout(SILENCE, heard.recv()).await {
            Ok(Some(frame)) => taker.frame(frame),
            Ok(None) => {
                let status = running.0.wait().context("ffmpeg")?;
                let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
                bail!("ffmpeg ended ({status}): {said}");
            }
            Err(_) => bail!("nothing came for {SILENCE:?}"),
        }
    }
}

/// Frames of the pipe, until it ends or nobody wants them.
fn split(mut pipe: impl Read, frames: &mpsc::Sender<Vec<u8>>) {
    let (mut splitter, mut buffer) = (Splitter::default(), vec![0; READ]);
    while let Ok(length @ 1..) = pipe.read(&mut buffer) {
        let mut bytes = &buffer[..length];
        while let Some((frame, taken)) = splitter.push(bytes) {
            if frames.blocking_send(frame).is_err() {
                return;
            }
            bytes = &bytes[taken..];
        }
    }
}
