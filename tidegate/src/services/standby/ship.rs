//! The owner's part: what each commit made safe here goes to the keeper.
//!
//! It reads the files of the log behind the thread that writes them, and stands in nobody's way: a keeper
//! that is slow or away only falls behind.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::ClientConfig;
use tidegate_log::SegmentId;
use tidegate_log::mirror::{CopyProgress, CopyStep, MirrorMessage, SegmentLengths};
use tidegate_types::record::Origin;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::talk::Talk;
use super::{MirrorBoard, PROTOCOL_LETTERS};
use crate::link::Letters;
use crate::link::letters::key_of;
use crate::node::log_store::folder::segment_path;
use crate::support::backoff::Backoff;
use crate::support::disk::read_at;
use crate::support::talk::PATIENCE;
use crate::support::tls::{self, Certificate, Stream};

/// How often the keeper hears that we live: a keeper's shortest patience is three of them.
const BEAT: Duration = Duration::from_secs(1);
/// A keeper that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// Waits before the next attempt to reach it.
const WAITS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// A log that is mirrored.
#[derive(Debug)]
pub(crate) struct Owner {
    /// The node's name.
    pub(crate) node: Arc<str>,
    /// Which life of its log.
    pub(crate) incarnation: u64,
    /// The log's folder.
    pub(crate) directory: PathBuf,
    /// What of it is safe on our disk.
    pub(crate) lengths: watch::Receiver<SegmentLengths>,
    /// Host and port of the keeper.
    pub(crate) to: (String, u16),
    /// What we show, and whose proof we believe.
    pub(crate) tls: Arc<ClientConfig>,
    /// What the keeper may show to others for us.
    pub(crate) letters: Letters,
    pub(crate) board: MirrorBoard,
}

impl Owner {
    /// Copies until the node is gone.
    pub(crate) async fn run(mut self) {
        let mut waits = Backoff::within(WAITS.0, WAITS.1);
        let mut told = String::new();
        loop {
            let begun = Instant::now();
            let Err(error) = self.copy().await else { return };
            self.board.is_away();
            if begun.elapsed() > SILENCE {
                waits.reset();
            }
            let why = tls::explain(&error).unwrap_or_else(|| error.to_string());
            if why != told {
                let (host, port) = &self.to;
                tracing::warn!("the mirror at {host}:{port} does not keep our log: {why}");
                told = why;
            }
            tokio::select! {
                () = sleep(waits.next()) => {}
                () = node_is_gone(&mut self.lengths) => return,
            }
        }
    }

    /// A connection, and the letter for who keeps our log there, if it reads one.
    async fn connect(&self) -> io::Result<(Talk, Option<Bytes>)> {
        let (host, port) = &self.to;
        let name = tls::server_name(host).map_err(io::Error::other)?;
        let begin = async {
            let socket = TcpStream::connect((&**host, *port)).await?;
            socket.set_nodelay(true)?;
            let mut tls = (*self.tls).clone();
            tls.alpn_protocols = vec![PROTOCOL_LETTERS.to_vec()];
            let mut stream = Stream::client(socket, Arc::new(tls), name)?;
            stream.handshake().await?;
            io::Result::Ok(stream)
        };
        let stream = timeout(PATIENCE, begin).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let reads_letters = stream.protocol() == Some(PROTOCOL_LETTERS);
        let letter = reads_letters.then(|| self.letter(&stream).unwrap_or_default());
        Ok((Talk::new(stream), letter))
    }

    fn letter(&self, stream: &Stream) -> Option<Bytes> {
        let keeper = Certificate::read(stream.peer_certificate()?).ok()?.common_name?;
        let origin = Origin { node: self.node.clone(), incarnation: self.incarnation };
        self.letters.proof(&origin, &*key_of(&self.tls)?, &keeper)
    }

    /// Until the connection ends; `Ok` when the node is gone.
    async fn copy(&mut self) -> io::Result<()> {
        let (mut talk, letter) = self.connect().await?;
        let ended = self.copy_by(&mut talk, letter).await;
        let is_cut = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
        };
        if ended.as_ref().is_err_and(is_cut) {
            // Who refuses says why and closes: nothing can be written any more, and the words are still there to be read.
            while let Ok(Some(message)) = talk.try_hear() {
                if matches!(message, MirrorMessage::Refused(_)) {
                    return Err(unexpected(message));
                }
            }
        }
        ended
    }

    async fn copy_by(&mut self, talk: &mut Talk, letter: Option<Bytes>) -> io::Result<()> {
        // The name of the keeper is proven; it may have many segments.
        talk.trust(usize::MAX);
        let (node, incarnation) = (self.node.clone(), self.incarnation);
        talk.say(&MirrorMessage::Hello { node, incarnation }).await?;
        if let Some(letter) = letter {
            talk.say(&MirrorMessage::Letters(letter)).await?;
        }
        let first = timeout(PATIENCE, talk.hear()).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let MirrorMessage::Kept(kept) = first else { return Err(unexpected(first)) };
        let (host, port) = &self.to;
        tracing::info!("the mirror at {host}:{port} keeps our log");
        let mut copying = CopyProgress::new(kept);
        self.board.has_got(&copying, &self.lengths);
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard_at = Instant::now();
        loop {
            let log = self.lengths.borrow_and_update().clone();
            let step = copying.next(&log);
            let is_idle = step.is_none();
            match step {
                Some(CopyStep::Release(segments)) => {
                    talk.say(&MirrorMessage::Released(segments)).await?
                }
                Some(CopyStep::Piece { segment, from, length }) => {
                    if let Some(bytes) = self.read(segment, from.0, length).await? {
                        talk.say(&MirrorMessage::Piece { segment, from, bytes }).await?;
                    }
                }
                None => {}
            }
            let mut heard = talk.try_hear()?;
            if heard.is_none() && is_idle {
                heard = tokio::select! {
                    heard = talk.hear() => Some(heard?),
                    changed = self.lengths.changed() => match changed {
                        Ok(()) => None,
                        Err(_) => return Ok(()),
                    },
                    _ = beat.tick() => {
                        talk.say(&MirrorMessage::Alive).await?;
                        None
                    }
                };
            }
            while let Some(message) = heard {
                heard_at = Instant::now();
                match message {
                    MirrorMessage::Safe { segment, upto } => {
                        copying.is_safe(segment, upto);
                        self.board.has_got(&copying, &self.lengths);
                    }
                    MirrorMessage::Alive => {}
                    other => return Err(unexpected(other)),
                }
                heard = talk.try_hear()?;
            }
            if heard_at.elapsed() > SILENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Bytes of a segment; `None` where nothing needs it any more.
    async fn read(
        &self,
        segment: SegmentId,
        from: u64,
        length: usize,
    ) -> io::Result<Option<Bytes>> {
        let path = segment_path(&self.directory, segment);
        let read = move || {
            let file = match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let bytes = read_at(&file, from, length)?;
            if bytes.len() < length {
                return Err(io::Error::other("a segment of the log is shorter than it was"));
            }
            Ok(Some(Bytes::from(bytes)))
        };
        tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
    }
}

/// Ends with the log.
async fn node_is_gone(lengths: &mut watch::Receiver<SegmentLengths>) {
    while lengths.changed().await.is_ok() {}
}

fn unexpected(message: MirrorMessage) -> io::Error {
    match message {
        MirrorMessage::Refused(why) => io::Error::other(format!("it refuses: {why}")),
        _ => io::Error::other("it speaks out of turn: is a Tidegate mirror there?"),
    }
}
