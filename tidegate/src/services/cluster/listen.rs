//! What other members say, and commands.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use tidegate_cluster::handover::wire::MemberFrame;
use tidegate_cluster::handover::{GroupMessage, Member};
use tidegate_types::account::{Account, Level};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::content;
use super::dial::common_name;
use super::talk::Talk;
use super::task::{Event, How};
use crate::support::complaints::Complaints;
use crate::support::talk::PATIENCE;
use crate::support::tls::{self, Stream};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 256;
/// Connections of one member: the present one, and those whose end is not known yet.
const OF_MEMBER_MAX: usize = 4;
/// A member that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// Waiting after an accept that failed.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);
/// Frames after which the other end hears that they came.
const RECEIVED_EACH: u64 = 256;

/// What proves who comes; without it only this host can come.
pub(crate) type Security = Option<Arc<ServerConfig>>;

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    life: u64,
    received: u64,
}

/// What all connections share.
pub(super) struct Listener {
    pub(super) names: Vec<String>,
    pub(super) incarnation: u64,
    pub(super) digest: u64,
    pub(super) tls: Security,
    pub(super) events: mpsc::Sender<Event>,
    /// What all members may make us hold.
    account: Account,
    known: Vec<Mutex<Known>>,
    complaints: Complaints,
    connections: Semaphore,
    /// Those of each member: each may hold a frame.
    of_members: Vec<Semaphore>,
}

impl Listener {
    pub(super) fn new(
        names: Vec<String>,
        (incarnation, digest): (u64, u64),
        tls: Security,
        events: mpsc::Sender<Event>,
        account: Account,
    ) -> Self {
        Listener {
            known: names.iter().map(|_| Mutex::default()).collect(),
            of_members: names.iter().map(|_| Semaphore::new(OF_MEMBER_MAX)).collect(),
            names,
            incarnation,
            digest,
            tls,
            events,
            account,
            complaints: Complaints::new(Instant::now()),
            connections: Semaphore::new(CONNECTIONS_MAX),
        }
    }

    /// Takes connections until it is dropped.
    pub(super) async fn run(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((socket, peer)) => {
                    let shared = self.clone();
                    connections.spawn(async move {
                        let Ok(_one_of_few) = shared.connections.try_acquire() else { return };
                        if let Err(error) = shared.serve(socket).await {
                            shared.complain(peer, &error);
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!("members of the group cannot be accepted: {error}");
                    tokio::time::sleep(ACCEPT_WAIT).await;
                }
            }
        }
    }

    fn complain(&self, peer: SocketAddr, error: &io::Error) {
        let why = tls::explain(error).unwrap_or_else(|| error.to_string());
        if let Some(withheld) = self.complaints.allow(Instant::now()) {
            tracing::info!(withheld, "a connection of the group from {peer} ended: {why}");
        }
    }

    async fn serve(&self, socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let begin = async {
            let mut stream = match &self.tls {
                Some(tls) => Stream::server(socket, tls.clone())?,
                None => Stream::from(socket),
            };
            if stream.is_handshaking() {
                stream.handshake().await?;
            }
            let proven = self.tls.is_some().then(|| common_name(&stream));
            let mut talk = Talk::new(stream);
            let first = talk.hear().await?;
            io::Result::Ok((talk, proven, first))
        };
        let (mut talk, proven, first) =
            timeout(PATIENCE, begin).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let MemberFrame::Hello { node, incarnation, digest } = first else {
            return Err(io::Error::other("it does not say who it is"));
        };
        let is_proven = |name: &str| match &proven {
            Some(proven) => proven.as_deref() == Some(name),
            None => true,
        };
        if node.is_empty() {
            let is_member = proven
                .as_ref()
                .is_none_or(|proven| proven.as_ref().is_some_and(|name| self.names.contains(name)));
            return match is_member {
                true => self.obey(&mut talk).await,
                false => refuse(&mut talk, "commands need the certificate of a member").await,
            };
        }
        let Some(place) = self.names.iter().position(|name| **name == *node) else {
            return refuse(&mut talk, "it is no member of this group").await;
        };
        if !is_proven(&node) {
            return refuse(&mut talk, "the name in the certificate is not the node's").await;
        }
        if digest != self.digest {
            return refuse(&mut talk, "members and placed topics must be the same at all nodes")
                .await;
        }
        let Ok(_one_of_few) = self.of_members[place].try_acquire() else {
            return refuse(&mut talk, "it has other connections here that have not ended").await;
        };
        let received = self.meet(place, incarnation).await?;
        talk.trust_on(&self.account.fair_named(Level::User, &node));
        talk.say(&MemberFrame::Welcome { incarnation: self.incarnation, received }).await?;
        self.hear(&mut talk, place, incarnation, received).await
    }

    fn known(&self, place: usize) -> MutexGuard<'_, Known> {
        self.known[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member comes: how many frames of this life of it are here.
    async fn meet(&self, place: usize, life: u64) -> io::Result<u64> {
        let permit = self.events.reserve().await.map_err(|_| stopping())?;
        let mut known = self.known(place);
        if known.life != life {
            *known = Known { life, received: 0 };
            permit.send(Event::Met(Member(place as u16), life));
        }
        Ok(known.received)
    }

    async fn hear(
        &self,
        talk: &mut Talk,
        place: usize,
        life: u64,
        received: u64,
    ) -> io::Result<()> {
        let (mut next, mut told) = (received + 1, received);
        loop {
            let frame = match talk.heard()? {
                Some(frame) => frame,
                None => {
                    let received = next - 1;
                    talk.say(&MemberFrame::Received(received)).await?;
                    told = received;
                    let heard = timeout(SILENCE, talk.hear()).await;
                    heard.map_err(|_| io::ErrorKind::TimedOut)??
                }
            };
            if !matches!(frame, MemberFrame::Said(..) | MemberFrame::Greeted) {
                continue;
            }
            if let MemberFrame::Said(_, GroupMessage::Forward { content, .. }) = &frame
                && content::origin(content).is_some_and(|origin| *origin != *self.names[place])
            {
                return refuse(talk, "it forwards a record under the name of another node").await;
            }
            let permit = self.events.reserve().await.map_err(|_| stopping())?;
            self.came(permit, place, life, next, frame)?;
            next += 1;
            if next > told + RECEIVED_EACH {
                told = next - 1;
                talk.say(&MemberFrame::Received(told)).await?;
            }
        }
    }

    /// Takes the counted frame with this number: by an earlier connection it may have come already.
    fn came(
        &self,
        permit: mpsc::Permit<'_, Event>,
        place: usize,
        life: u64,
        number: u64,
        frame: MemberFrame,
    ) -> io::Result<()> {
        let mut known = self.known(place);
        if known.life != life {
            return Err(io::Error::other("another life of it has come"));
        }
        if number > known.received {
            known.received = number;
            permit.send(Event::Heard(Member(place as u16), life, frame));
        }
        Ok(())
    }

    /// Commands, one behind the other.
    async fn obey(&self, talk: &mut Talk) -> io::Result<()> {
        loop {
            let (reply, answer) = oneshot::channel();
            let said =
                timeout(SILENCE, talk.hear()).await.map_err(|_| io::ErrorKind::TimedOut)??;
            let event = match said {
                MemberFrame::Order { unit, to, seize, patient } => {
                    Event::Order { unit, to, how: How { seize, patient }, reply }
                }
                MemberFrame::Tell => Event::Tell { drain: None, reply },
                MemberFrame::Drain { is_over } => Event::Tell { drain: Some(!is_over), reply },
                _ => return refuse(talk, "only commands are taken here").await,
            };
            self.events.send(event).await.map_err(|_| stopping())?;
            let done = answer.await.map_err(|_| stopping())?;
            talk.say(&done).await?;
        }
    }
}

fn stopping() -> io::Error {
    io::Error::other("this node is stopping")
}

/// The last word.
async fn refuse(talk: &mut Talk, why: &str) -> io::Result<()> {
    talk.say(&MemberFrame::Refused(why.into())).await?;
    Err(io::Error::other(why.to_owned()))
}
