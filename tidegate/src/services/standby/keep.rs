//! The keeper's part: a listener, the logs that are kept, and who watches over those whose owner is away.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use tidegate_log::mirror::MirrorMessage;
use tidegate_log::{Key, SegmentId};
use tidegate_types::account::{Account, Level};
use tidegate_types::units::Size;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use super::inherit::{Ended, inherit};
use super::seat::{Seat, lock};
use super::shelf::{self, LogOf, Shelf};
use super::talk::Talk;
use super::{MirrorBoard, PROTOCOL_LETTERS};
use crate::input::streams::Streams;
use crate::link::Letters;
use crate::link::wire::Met;
use crate::node::contract::Intake;
use crate::support::complaints::Complaints;
use crate::support::talk::PATIENCE;
use crate::support::tls::{self, Stream, Trust};

/// Connections at a time, those under way with them.
const CONNECTIONS_MAX: usize = 64;
/// Logs of all nodes.
const LOGS_MAX: usize = 256;
/// How often it is looked whose owner is away for too long.
const LOOK: Duration = Duration::from_millis(500);
/// How long what this node refused, or could not read, is left alone.
const AGAIN: Duration = Duration::from_secs(60);
/// Waiting after an accept that failed.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// What is kept for others.
#[derive(Clone, Debug)]
pub(crate) struct KeeperOptions {
    /// What we prove, and whose proof we believe.
    pub(crate) tls: Arc<ServerConfig>,
    /// Whose letters we believe, and where they are kept.
    pub(crate) trust: Trust,
    pub(crate) letters: Letters,
    /// Names of the nodes that may come; all with a certificate if empty.
    pub(crate) from: Vec<String>,
    /// Folder of all logs.
    pub(crate) directory: PathBuf,
    /// How long an owner may be away before its records are sent from here.
    pub(crate) after: Duration,
    /// Bytes of all logs.
    pub(crate) bound: Size,
    /// Keys of sealed logs.
    pub(crate) keys: Vec<Key>,
}

/// All logs, and what connections share.
struct Keeper {
    options: KeeperOptions,
    streams: Streams,
    board: MirrorBoard,
    /// What all owners may make us hold.
    account: Account,
    seats: Mutex<BTreeMap<LogOf, Arc<Seat>>>,
    connections: Semaphore,
    complaints: Complaints,
}

/// Keeps logs until the node is gone.
///
/// # Errors
/// The folder cannot be used.
pub(crate) async fn run(
    listeners: Vec<TcpListener>,
    options: KeeperOptions,
    streams: Streams,
    board: MirrorBoard,
    intake: Intake,
) -> io::Result<()> {
    let seats = found(&options, &board)?;
    let keeper = Arc::new(Keeper {
        options,
        streams,
        board,
        account: intake.hub().account_of_listener(),
        seats: Mutex::new(seats),
        connections: Semaphore::new(CONNECTIONS_MAX),
        complaints: Complaints::new(Instant::now()),
    });
    // With it all that was begun ends: nothing outlives the keeper.
    let mut tasks = JoinSet::new();
    for listener in listeners {
        tasks.spawn(accept(listener, keeper.clone()));
    }
    tasks.spawn(watch_over(keeper));
    intake.closed().await;
    tasks.shutdown().await;
    Ok(())
}

/// What an earlier process kept.
fn found(options: &KeeperOptions, board: &MirrorBoard) -> io::Result<BTreeMap<LogOf, Arc<Seat>>> {
    let mut seats = BTreeMap::new();
    for log in shelf::all(&options.directory)? {
        let shelf = Shelf::open(&options.directory, &log)?;
        if let Some(letters) = shelf::letters(&options.directory, &log) {
            options.letters.remember(&letters);
        }
        board.kept(&log, |figures| figures.bytes = shelf.size().0);
        seats.insert(log, Arc::new(Seat::new()));
    }
    Ok(seats)
}

async fn accept(listener: TcpListener, keeper: Arc<Keeper>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((socket, peer)) => {
                let keeper = keeper.clone();
                connections.spawn(async move {
                    let Ok(_one_of_few) = keeper.connections.try_acquire() else {
                        return keeper.complain(peer, "there are too many connections");
                    };
                    let Err(error) = keeper.serve(socket).await;
                    let why = tls::explain(&error).unwrap_or_else(|| error.to_string());
                    keeper.complain(peer, &why);
                });
            }
            Err(error) => {
                tracing::warn!("mirrors cannot be accepted: {error}");
                tokio::time::sleep(ACCEPT_WAIT).await;
            }
        }
    }
}

/// Looks after the logs whose owners are away.
async fn watch_over(keeper: Arc<Keeper>) {
    let mut looks = interval(LOOK);
    let mut heirs = JoinSet::new();
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            Some(_) = heirs.join_next() => continue,
        }
        for (log, seat) in keeper.due() {
            let keeper = keeper.clone();
            heirs.spawn(async move { keeper.take_over(log, &seat).await });
        }
    }
}

/// It never ends well: the owner's last word is that it closes the connection.
type Never = std::convert::Infallible;

impl Keeper {
    /// Warnings are bounded.
    fn complain(&self, peer: SocketAddr, why: &str) {
        if let Some(withheld) = self.complaints.allow(Instant::now()) {
            tracing::warn!(withheld, "a mirrored node at {peer} is gone: {why}");
        }
    }

    async fn serve(&self, socket: TcpStream) -> io::Result<Never> {
        socket.set_nodelay(true)?;
        let begin = async {
            let mut tls = (*self.options.tls).clone();
            tls.alpn_protocols = vec![PROTOCOL_LETTERS.to_vec()];
            let mut stream = Stream::server(socket, Arc::new(tls))?;
            stream.handshake().await?;
            let met = Met::of(&stream);
            let has_letters = stream.protocol().is_some();
            let mut talk = Talk::new(stream);
            let first = talk.hear().await?;
            if has_letters {
                self.believe(&met, talk.hear().await?);
            }
            io::Result::Ok((talk, met.name, first))
        };
        let (mut talk, name, first) =
            timeout(PATIENCE, begin).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let log = match (first, name) {
            (MirrorMessage::Hello { node, incarnation }, Some(name)) if *name == *node => {
                (node, incarnation)
            }
            _ => return refuse(&mut talk, "the name in the certificate is not the node's").await,
        };
        let from = &self.options.from;
        if !from.is_empty() && !from.iter().any(|name| **name == *log.0) {
            return refuse(&mut talk, "the node is not in [mirror] from there").await;
        }
        talk.trust_on(&self.account.fair_named(Level::User, &log.0));
        let Some((seat, coming)) = self.seat(&log) else {
            return refuse(&mut talk, "it keeps too many logs").await;
        };
        let mut comings = seat.comings.subscribe();
        // Whoever uses the folder gives it up now: an heir, or an earlier connection that nobody closed.
        let mut shelf = seat.shelf.lock().await;
        tracing::info!(node = %log.0, "its log is mirrored here");
        self.board.kept(&log, |figures| figures.is_connected = true);
        let ended = tokio::select! {
            ended = self.keep(&mut talk, &log, &mut shelf) => ended,
            _ = comings.wait_for(|last| *last != coming) => {
                Err(io::Error::other("it has come by another connection"))
            }
        };
        self.board.kept(&log, |figures| figures.is_connected = false);
        // What is safe of it is not known: it is asked anew.
        *shelf = None;
        seat.goes(coming);
        ended
    }

    /// Keeps what an owner lets us show, if it is its own.
    fn believe(&self, met: &Met, said: MirrorMessage) {
        let KeeperOptions { letters, trust, .. } = &self.options;
        if let (Some(name), Some(certificate), MirrorMessage::Letters(proof)) =
            (&met.name, &met.certificate, said)
        {
            letters.check(&proof, (name, certificate), trust);
        }
    }

    /// The seat of a log whose owner comes, and which of its comings that is. An earlier log of its node has
    /// no owner any more, and is taken over at once.
    fn seat(&self, log: &LogOf) -> Option<(Arc<Seat>, u64)> {
        let mut seats = lock(&self.seats);
        let of_node = seats.iter().filter(|((node, life), _)| *node == log.0 && *life != log.1);
        for (_, earlier) in of_node {
            let long_ago = Instant::now().checked_sub(self.options.after);
            if let Some(since) = &mut *lock(&earlier.away) {
                *since = long_ago.unwrap_or(*since);
            }
        }
        if seats.len() >= LOGS_MAX && !seats.contains_key(log) {
            return None;
        }
        let seat = seats.entry(log.clone()).or_insert_with(|| Arc::new(Seat::new()));
        // Under the lock: a seat that is taken is not forgotten.
        Some((seat.clone(), seat.comes()))
    }

    /// Writes what comes.
    async fn keep(
        &self,
        talk: &mut Talk,
        log: &LogOf,
        seat: &mut Option<Shelf>,
    ) -> io::Result<Never> {
        let shelf = match Shelf::open(&self.options.directory, log) {
            Ok(shelf) => seat.insert(shelf),
            Err(error) => return refuse(talk, &format!("its disk: {error}")).await,
        };
        if let Some(letters) = self.options.letters.about(&log.0, log.1) {
            shelf.keep_letters(&letters)?;
        }
        self.sync(shelf).await?;
        talk.say(&MirrorMessage::Kept(shelf.lengths().clone())).await?;
        loop {
            // An owner speaks once a second: one that is silent is as good as gone.
            let heard = timeout(self.options.after, talk.hear()).await;
            let mut next = Some(heard.map_err(|_| io::Error::other("it says nothing any more"))??);
            while let Some(message) = next {
                if let Err(why) = self.obey(talk, log, shelf, message).await? {
                    return refuse(talk, &why).await;
                }
                next = talk.try_hear()?;
            }
            // One sync for all that has come meanwhile.
            for (segment, upto) in self.sync(shelf).await? {
                talk.say(&MirrorMessage::Safe { segment, upto }).await?;
            }
            let bytes = shelf.size().0;
            self.board.kept(log, |figures| figures.bytes = bytes);
        }
    }

    /// Makes safe what was added; answers with how far each of these segments has got.
    async fn sync(&self, shelf: &mut Shelf) -> io::Result<Vec<(SegmentId, Size)>> {
        let added = shelf.take_added()?;
        tokio::task::spawn_blocking(move || added.sync()).await.map_err(io::Error::other)?
    }

    /// What one message wants; the reason where that cannot be.
    async fn obey(
        &self,
        talk: &mut Talk,
        log: &LogOf,
        shelf: &mut Shelf,
        message: MirrorMessage,
    ) -> io::Result<Result<(), String>> {
        match message {
            MirrorMessage::Alive => talk.say(&MirrorMessage::Alive).await?,
            MirrorMessage::Released(segments) => shelf.release(&segments)?,
            MirrorMessage::Piece { segment, from, bytes } => {
                if self.size_without(log) + shelf.size() + Size(bytes.len() as u64)
                    > self.options.bound
                {
                    return Ok(Err("[mirror] bound is reached there".into()));
                }
                if let Err(error) = shelf.add(segment, from, &bytes) {
                    return Ok(Err(format!("its disk: {error}")));
                }
            }
            _ => return Err(io::Error::other("it speaks out of turn")),
        }
        Ok(Ok(()))
    }

    /// Bytes of all other logs.
    fn size_without(&self, log: &LogOf) -> Size {
        let Some(figures) = self.board.read() else { return Size::ZERO };
        let others = figures.kept.iter().filter(|(name, _)| *name != log);
        Size(others.map(|(_, kept)| kept.bytes).sum())
    }

    /// Those whose owner is away for too long.
    fn due(&self) -> Vec<(LogOf, Arc<Seat>)> {
        let seats = lock(&self.seats);
        let due = seats.iter().filter(|(_, seat)| {
            seat.is_away_for(self.options.after) && seat.shelf.try_lock().is_ok()
        });
        due.map(|(log, seat)| (log.clone(), seat.clone())).collect()
    }

    async fn take_over(&self, log: LogOf, seat: &Seat) {
        let Ok(mut turn) = seat.shelf.try_lock() else { return };
        let stop = seat.comings.subscribe();
        if !seat.is_away_for(self.options.after) {
            return;
        }
        let node = &log.0;
        let ended = match Shelf::open(&self.options.directory, &log) {
            Ok(shelf) => self.inherit(&log, turn.insert(shelf), stop).await,
            Err(error) => Err(error),
        };
        *turn = None;
        match ended {
            Ok(Ended::Done(missing)) => {
                if missing > 0 {
                    tracing::error!(%node, missing, "records that it owed are not in the copy: only its own disk has them");
                }
                tracing::info!(%node, "all its records that are here are taken over");
                return self.forget(&log, seat);
            }
            Ok(Ended::Stopped) => tracing::info!(%node, "it is back: it sends the rest itself"),
            Ok(Ended::Refused(records)) => tracing::error!(
                %node, records,
                "records of it are not taken by this node's own rules: add a [[stream]] for them"
            ),
            Err(error) => tracing::error!(%node, "its log cannot be taken over: {error}"),
        }
        if let Some(since) = &mut *lock(&seat.away) {
            *since = Instant::now() + AGAIN;
        }
    }

    async fn inherit(
        &self,
        log: &LogOf,
        shelf: &mut Shelf,
        stop: watch::Receiver<u64>,
    ) -> io::Result<Ended> {
        if !shelf.lengths().is_empty() {
            tracing::warn!(node = %log.0, "it is away: its records are sent from here");
        }
        self.board.kept(log, |figures| figures.is_inherited = true);
        let count = |records| self.board.kept(log, |figures| figures.records += records);
        let ended = inherit(shelf, &self.options.keys, &self.streams, stop, count).await;
        let bytes = shelf.size().0;
        self.board.kept(log, |figures| {
            (figures.bytes, figures.is_inherited) = (bytes, false);
        });
        ended
    }

    /// Forgets a seat of which nothing is left, unless its owner has just come.
    fn forget(&self, log: &LogOf, seat: &Seat) {
        let mut seats = lock(&self.seats);
        if lock(&seat.away).is_some() {
            seats.remove(log);
            self.board.forget(log);
        }
    }
}

/// The last word, to the owner and to our own people.
async fn refuse(talk: &mut Talk, why: &str) -> io::Result<Never> {
    talk.say(&MirrorMessage::Refused(why.into())).await?;
    Err(io::Error::other(why.to_owned()))
}
