//! A client of an existing broker: subscribes to topics, and offers what comes as records.
//!
//! A record is acknowledged to the broker when the node has accepted it. While the node takes nothing, the
//! socket is not read, so that records wait at the broker, as many unacknowledged as its receive
//! maximum allows. The session is persistent: what comes while there is no connection waits at the
//! broker too, with QoS 1 and 2. A record that the node has no room for closes the connection, and comes
//! again; one that it will never take is acknowledged and counted as dropped.

mod trouble;

use std::future::{pending, ready};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_broker::Message;
use tidegate_mqtt::client as wire;
use tidegate_mqtt::client_session::{self, ClientSession, ClientStep, Options};
use tidegate_types::record::{Offered, RefuseReason, Token};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use self::trouble::Trouble;
use super::buffer::Buffer;
use super::clients::Clients;
use super::session::Effects;
use super::transport::Transport;
use crate::input::kind::{Driver, Opened, Opening};
use crate::node::broker::Subscriber;
use crate::node::contract::{Intake, Notice, Source};
use crate::node::door::{Bringer, Door, From};
use crate::support::backoff::Backoff;
use crate::support::complaints::Complaint;
use crate::support::dial::connect;
use crate::support::password::{Fresh, Password};
use crate::support::tls::{ClientTls, Stream, server_name};

/// How long login and subscription may take.
const LOGIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long the connection of an old password waits for answers of the node to what it has read.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a goodbye may take.
const CLOSE_WAIT: Duration = Duration::from_millis(500);
/// How long the log remembers the session if this input is no more: as long as the broker does.
const LASTS: Duration = Duration::from_secs(client_session::SESSION_EXPIRY as u64);
/// A connection that lasted this long was a good one: the next attempt comes soon.
const STABLE: Duration = Duration::from_secs(5);

type Session = ClientSession<Subscriber>;

/// Where and what to subscribe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttClientOptions {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// TLS, if the broker speaks it.
    pub tls: Option<ClientTls>,
    /// What to subscribe, and as whom.
    pub session: Options,
    /// The password of each connection.
    pub password: Option<Password>,
}

impl MqttClientOptions {
    /// Records that may be unacknowledged: what a client of the listener may have.
    pub const RECEIVE_MAXIMUM: u16 = 1024;
}

/// A client that is to be served, among the clients of a node.
#[derive(Clone, Debug)]
pub struct MqttClient {
    /// Where and what to subscribe.
    pub options: MqttClientOptions,
    /// Those whose client ids are taken.
    pub clients: Arc<Clients>,
}

impl Driver for MqttClient {
    fn open(self: Box<Self>, intake: Intake) -> Opening {
        let MqttClient { options, clients } = *self;
        let serve = async move {
            run(options, intake, clients).await;
            Ok(())
        };
        Box::pin(ready(Ok(Opened::quiet(serve))))
    }
}

/// Serves until the node is gone. Trouble is told once, and tried again with growing pauses.
pub async fn run(options: MqttClientOptions, intake: Intake, clients: Arc<Clients>) {
    let (host, port): (Arc<str>, u16) = (options.host.as_str().into(), options.port);
    let (tls, password) = (options.tls.clone(), options.password.clone());
    let client_id: Arc<str> = options.session.client_id.as_str().into();
    let memory = clients.reserve(&client_id);
    let Ok(source) = intake.open(client_id).await else { return };
    let session = Session::new(options.session, source.id(), memory);
    let effects = Effects::default();
    let door = Door::new(intake.hub());
    let mut client = Client {
        host: host.clone(),
        session,
        source,
        door,
        paused: false,
        has_asked: false,
        renews_at: None,
        effects,
    };
    if !client.go_on().await {
        return;
    }
    let mut backoff = Backoff::new();
    let complaint = Complaint::default();
    loop {
        let start = Instant::now();
        let trouble = tokio::select! {
            biased;
            () = intake.closed() => return,
            opened = client.open(&host, port, tls.as_ref(), password.as_ref()) => match opened {
                Ok(stream) => client.serve(stream, &complaint, &intake).await,
                Err(trouble) => trouble,
            },
        };
        if matches!(trouble, Trouble::Stopping) {
            return;
        }
        if matches!(trouble, Trouble::Renewing) {
            client.rest(Duration::ZERO).await;
            continue;
        }
        if complaint.is_new(&trouble.to_string()) {
            tracing::warn!(%host, port, "no records from the broker: {trouble}");
        }
        if start.elapsed() >= STABLE {
            backoff.reset();
        }
        tokio::select! {
            () = intake.closed() => return,
            () = client.rest(backoff.next()) => {}
        }
    }
}

struct Client {
    /// For messages.
    host: Arc<str>,
    session: Session,
    source: Source,
    /// Who has subscribed here gets its records as well.
    door: Door,
    paused: bool,
    /// Whether the node was asked to forget the session of the present connection.
    has_asked: bool,
    /// When another connection with a newer password is to be made.
    renews_at: Option<Instant>,
    effects: Effects,
}

/// One connection.
struct Wire {
    stream: Transport,
    buffer: Buffer,
    /// When bytes came last, or when reading began again.
    heard: Instant,
}

impl Bringer for Session {
    fn qos_of(&self, record: &Offered) -> u8 {
        u8::from(record.token.is_some())
    }

    fn hold(&mut self, _token: Token, _published: (Option<u16>, Arc<Message>)) {}

    fn accepted(&mut self, token: Token) {
        self.answer(token, Ok(()));
    }
}

impl Client {
    /// Connects, with a password of today; TLS is agreed on later, with the login.
    async fn open(
        &mut self,
        host: &Arc<str>,
        port: u16,
        tls: Option<&ClientTls>,
        password: Option<&Password>,
    ) -> Result<Stream, Trouble> {
        if let Some(password) = password {
            let Fresh { password, renews_in } =
                password.now().await.map_err(Trouble::NoPassword)?;
            self.session.set_password(Some(password));
            self.renews_at = renews_in.and_then(at);
        }
        let tcp = connect(host.clone(), port).await?;
        match tls {
            None => Ok(tcp.into()),
            Some(tls) => {
                let name = server_name(host).map_err(io::Error::other)?;
                Ok(Stream::client(tcp, tls.config(), name)?)
            }
        }
    }

    /// Tells the node that the session of an earlier process goes on; false where it is stopping.
    async fn go_on(&mut self) -> bool {
        if self.source.session(LASTS, false).await.is_err() {
            return false;
        }
        loop {
            match self.source.notice().await {
                Some(Notice::Ready) => return true,
                Some(notice) => self.heed(notice),
                None => return false,
            }
        }
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, stream: Stream, told: &Complaint, intake: &Intake) -> Trouble {
        let mut wire = Wire {
            stream: Transport::new(stream, Arc::default()),
            buffer: Buffer::default(),
            heard: Instant::now(),
        };
        self.effects = Effects::default();
        self.has_asked = false;
        self.session.connect(&mut self.effects.out);
        let login = async {
            wire.stream.stream.handshake().await?;
            self.exchange(&mut wire, true).await
        };
        let end = match timeout(LOGIN_PATIENCE, login).await {
            Err(_) => Err(Trouble::NoLogin),
            Ok(Err(trouble)) => Err(trouble),
            Ok(Ok(())) => {
                told.is_new("");
                tracing::info!(host = &*self.host, "subscribed at the broker");
                tokio::select! {
                    biased;
                    () = intake.closed() => Err(Trouble::Stopping),
                    end = self.exchange(&mut wire, false) => end,
                }
            }
        };
        let farewell = async {
            wire.stream.write_all(&self.effects.out).await?;
            wire.stream.write_all(&wire::DISCONNECT).await?;
            wire.stream.shutdown().await
        };
        // Neither a broker that does not read nor one that is gone changes what follows.
        let _ = timeout(CLOSE_WAIT, farewell).await;
        end.err().unwrap_or(Trouble::Closed)
    }

    /// The loop of a connection. Returns by its error, or when the login is done.
    async fn exchange(&mut self, wire: &mut Wire, is_login: bool) -> Result<(), Trouble> {
        let keepalive = Duration::from_secs(self.session.keepalive().into());
        let mut pulse = interval((keepalive / 2).max(Duration::from_secs(1)));
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pulse.reset();
        let (mut leaves_at, mut is_leaving) = (self.renews_at.filter(|_| !is_login), false);
        loop {
            let step = self.step(wire).await?;
            if is_login && self.session.is_open() {
                return Ok(());
            }
            match step {
                ClientStep::Offer => continue,
                ClientStep::Wait if !self.paused && !self.session.must_wait() => continue,
                ClientStep::Read(_) | ClientStep::Wait => {}
            }
            let blocked = !self.effects.out.is_empty() || wire.stream.has_to_write();
            let has_handled_all = !blocked && matches!(step, ClientStep::Read(_));
            if is_leaving && has_handled_all && self.session.is_settled() {
                return Err(Trouble::Renewing);
            }
            // What is not read comes by the next connection.
            let reading = has_handled_all && !is_leaving;
            if !reading {
                wire.heard = Instant::now();
            }
            tokio::select! {
                biased;
                () = reached(leaves_at) => {
                    if is_leaving {
                        return Err(Trouble::Renewing);
                    }
                    (leaves_at, is_leaving) = (at(LEAVE_PATIENCE), true);
                }
                notice = self.source.notice() => self.heed(notice.ok_or(Trouble::Stopping)?),
                writable = wire.stream.writable(), if blocked => writable?,
                readable = wire.buffer.readable(&wire.stream), if reading => {
                    readable?;
                    match wire.buffer.read(&mut wire.stream)? {
                        Some(0) => return Err(Trouble::Closed),
                        Some(_) => wire.heard = Instant::now(),
                        None => {}
                    }
                }
                _ = pulse.tick() => {
                    if wire.heard.elapsed() > keepalive + keepalive / 2 {
                        return Err(Trouble::Silent);
                    }
                    if !blocked {
                        self.effects.out.extend(wire::PING);
                    }
                }
            }
        }
    }

    /// Does what can be done without waiting for the broker.
    async fn step(&mut self, wire: &mut Wire) -> Result<ClientStep, Trouble> {
        let step = if self.paused {
            ClientStep::Wait
        } else {
            let bytes = wire.buffer.bytes();
            let now = self.source.now();
            let (done, step) = self.session.receive(now, bytes, &mut self.effects);
            let wanted = if let Ok(ClientStep::Read(size)) = step { size } else { 0 };
            wire.buffer.handled(done, wanted);
            let records = &mut self.effects.records;
            let admitted =
                self.door.admit(&self.source, From::Outside, records, &mut self.session).await;
            admitted.map_err(|_| Trouble::Stopping)?;
            if !records.is_empty() {
                self.source.offer_all(records).await.map_err(|_| Trouble::Stopping)?;
            }
            if !self.effects.releases.is_empty() {
                let releases = &mut self.effects.releases;
                self.source.release(releases).await.map_err(|_| Trouble::Stopping)?;
            }
            step?
        };
        if self.session.is_forgetting() && !self.has_asked {
            self.has_asked = true;
            self.source.session(LASTS, true).await.map_err(|_| Trouble::Stopping)?;
        }
        while let Some(notice) = self.source.try_notice() {
            self.heed(notice);
        }
        let acknowledged = self.session.acknowledge(&mut self.effects.out);
        for reason in self.session.take_dropped() {
            self.source.counts().dropped(reason.name());
        }
        acknowledged?;
        let out = &mut self.effects.out;
        while !out.is_empty() || wire.stream.has_to_write() {
            match wire.stream.try_write(out) {
                Ok(written) => drop(out.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(step)
    }

    fn heed(&mut self, notice: Notice) {
        match notice {
            Notice::Accept(token, result) => self.session.answer(token, result),
            Notice::Pause => self.paused = true,
            Notice::Resume => self.paused = false,
            Notice::Released(ids) => self.session.released(&ids, &mut self.effects.out),
            Notice::Ready => self.session.forgotten(&mut self.effects.out),
        }
    }

    /// Waits between two connections; answers that come now are booked in the session.
    async fn rest(&mut self, pause: Duration) {
        let pause = sleep(pause);
        tokio::pin!(pause);
        // A connection may end while the node is busy: what it never heard of comes again.
        for token in self.effects.records.drain(..).filter_map(|record| record.token) {
            self.session.answer(token, Err(RefuseReason::Full));
        }
        self.session.end();
        loop {
            tokio::select! {
                () = &mut pause => return,
                notice = self.source.notice() => match notice {
                    Some(notice) => self.heed(notice),
                    None => return,
                },
            }
        }
    }
}

/// The time after so long; `None` is never: no clock shows it.
fn at(after: Duration) -> Option<Instant> {
    Instant::now().checked_add(after)
}

async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
