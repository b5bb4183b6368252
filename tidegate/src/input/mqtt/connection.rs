//! The loop around one client's socket.
//!
//! It reads only while the node has room, so that a slow uplink holds the client up and not our memory;
//! an idle client has no read buffer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rmqtt_codec::v5::DisconnectReasonCode as Reason;
use tidegate_core::record::Offered;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::MqttOptions;
use super::listener::Clients;
use super::login::Login;
use super::session::{Batch, Ending, Fault, Session};
use crate::port::{Intake, Notice, Source, Stopping};

/// How long a client may take to log in.
const LOGIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may take to read its last words.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes read at once.
const READ_SIZE: usize = 16 * 1024;
/// Answers that may wait for the client to read them before we stop reading it.
const OUT_MAX: usize = 64 * 1024;

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The client said so.
    Client(Ending),
    /// The socket broke, or was closed without a word.
    Lost(io::Error),
    /// The client broke the rules, or its record was refused and it cannot be told.
    Fault(Fault),
    /// Nothing was heard for one and a half times its keepalive.
    Silent,
    /// A client of the same name logged in.
    TakenOver,
    /// The node stops.
    Stopping,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        End::Lost(error)
    }
}

impl From<Stopping> for End {
    fn from(_: Stopping) -> Self {
        End::Stopping
    }
}

/// Serves a client from its first byte to its last.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    options: Arc<MqttOptions>,
    clients: Clients,
    intake: Intake,
) {
    let mut input = BytesMut::new();
    let login = match timeout(LOGIN_PATIENCE, log_in(&stream, &options, &clients, &mut input)).await
    {
        Ok(Ok(login)) => login,
        Ok(Err(End::Fault(fault))) => {
            tracing::warn!(%peer, "refused: {fault}");
            farewell(&stream, &fault.reply).await;
            return;
        }
        // Gone, or silent, before it said who it is.
        _ => return,
    };
    let client = login.client_id.clone();
    let (number, taken_over) = clients.enter(client.clone());
    if let Ok(source) = intake.open(client.clone()).await {
        let connection = Connection::new(stream, &options, login, source, input);
        connection.run(peer, &client, &taken_over, &options).await;
    }
    clients.leave(&client, number);
}

async fn log_in(
    stream: &TcpStream,
    options: &MqttOptions,
    clients: &Clients,
    input: &mut BytesMut,
) -> Result<Login, End> {
    loop {
        stream.readable().await?;
        read(stream, input)?;
        if let Some(login) =
            Login::read(options, input, &clients.fresh_name()).map_err(End::Fault)?
        {
            return Ok(login);
        }
    }
}

/// Reads what is there. No bytes at all is the end of the connection.
fn read(stream: &TcpStream, input: &mut BytesMut) -> Result<(), End> {
    input.reserve(READ_SIZE);
    match stream.try_read_buf(input) {
        Ok(0) => Err(End::Lost(io::ErrorKind::UnexpectedEof.into())),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn farewell(stream: &TcpStream, words: &[u8]) {
    let mut left = words;
    let say = async {
        while !left.is_empty() && stream.writable().await.is_ok() {
            match stream.try_write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    };
    // A client that does not read its last words does without.
    let _ = timeout(FAREWELL_PATIENCE, say).await;
}

struct Connection {
    stream: TcpStream,
    session: Session,
    source: Source,
    input: BytesMut,
    out: BytesMut,
    is_paused: bool,
    /// Silence that ends the connection; zero for never.
    silence_max: Duration,
    heard_at: Instant,
}

impl Connection {
    fn new(
        stream: TcpStream,
        options: &MqttOptions,
        mut login: Login,
        source: Source,
        input: BytesMut,
    ) -> Self {
        let mut out = BytesMut::new();
        login.accept(options, &mut out);
        let silence_max = login.keep_alive.mul_f64(1.5);
        let session = Session::new(options, login, source.id());
        let heard_at = Instant::now();
        Connection { stream, session, source, input, out, is_paused: false, silence_max, heard_at }
    }

    async fn run(
        mut self,
        peer: SocketAddr,
        client: &str,
        taken_over: &Notify,
        options: &MqttOptions,
    ) {
        let end = match self.serve(taken_over).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        let mut wants_will = true;
        let words = match &end {
            End::Client(ending) => {
                wants_will = *ending == Ending::GoodbyeWithWill;
                BytesMut::new()
            }
            End::Lost(error) => {
                tracing::debug!(client, %peer, %error, "client is gone");
                BytesMut::new()
            }
            End::Fault(fault) => {
                let topic = self.session.last_topic();
                tracing::warn!(client, %peer, topic, packet_max = options.packet_max, "closed: {fault}");
                fault.reply.clone()
            }
            End::Silent => {
                tracing::info!(client, %peer, "closed: nothing heard for 1.5 times its keepalive");
                self.session.farewell(Reason::KeepAliveTimeout)
            }
            End::TakenOver => {
                tracing::info!(client, %peer, "closed: a client of the same name logged in");
                self.session.farewell(Reason::SessionTakenOver)
            }
            End::Stopping => self.session.farewell(Reason::ServerShuttingDown),
        };
        if wants_will && let Some(will) = self.session.take_will(self.source.now()) {
            // The loop may be gone with the node.
            let _ = self.source.offer(vec![will]).await;
        }
        self.out.extend_from_slice(&words);
        farewell(&self.stream, &self.out).await;
    }

    async fn serve(&mut self, taken_over: &Notify) -> Result<std::convert::Infallible, End> {
        let silence = sleep_until(self.heard_at + self.silence_max);
        tokio::pin!(silence);
        // What came with the CONNECT in one packet.
        self.understand().await?;
        loop {
            self.write()?;
            let may_read = !self.is_paused && self.session.may_read() && self.out.len() < OUT_MAX;
            tokio::select! {
                notice = self.source.notice() => self.obey(notice).await?,
                ready = self.stream.readable(), if may_read => {
                    ready?;
                    read(&self.stream, &mut self.input)?;
                    self.heard_at = Instant::now();
                    self.understand().await?;
                }
                ready = self.stream.writable(), if !self.out.is_empty() => ready?,
                () = &mut silence, if !self.silence_max.is_zero() => {
                    let due = self.heard_at + self.silence_max;
                    // While we do not read it, its silence is ours.
                    if due <= Instant::now() && may_read {
                        return Err(End::Silent);
                    }
                    silence.as_mut().reset(due.max(Instant::now() + self.silence_max / 4));
                }
                () = taken_over.notified() => return Err(End::TakenOver),
            }
        }
    }

    /// Takes every packet that is there, and offers its records in one batch.
    async fn understand(&mut self) -> Result<(), End> {
        if self.input.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        let now = self.source.now();
        let understood = self.session.receive(now, &mut self.input, &mut self.out, &mut batch);
        if !batch.records.is_empty() {
            self.offer(batch.records).await?;
        }
        understood.map_err(End::Fault)?;
        if self.input.is_empty() {
            // An idle client costs no buffer.
            self.input = BytesMut::new();
        }
        match batch.ending {
            Some(ending) => Err(End::Client(ending)),
            None => Ok(()),
        }
    }

    async fn offer(&mut self, records: Vec<Offered>) -> Result<(), End> {
        Ok(self.source.offer(records).await?)
    }

    /// Takes a notice and all that are already there: one write for many answers.
    async fn obey(&mut self, notice: Option<Notice>) -> Result<(), End> {
        let mut next = Some(notice.ok_or(End::Stopping)?);
        let could_read = self.session.may_read();
        while let Some(notice) = next {
            match notice {
                Notice::Accept(token, answer) => {
                    let answered = self.session.answered(token, answer, &mut self.out);
                    answered.map_err(End::Fault)?;
                }
                Notice::Pause => self.is_paused = true,
                Notice::Resume => {
                    self.is_paused = false;
                    self.heard_at = Instant::now();
                }
            }
            next = self.source.try_notice();
        }
        if !could_read && self.session.may_read() && !self.is_paused {
            // Packets may wait in the buffer with nothing more to come from the socket.
            self.understand().await?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), End> {
        while !self.out.is_empty() {
            match self.stream.try_write(&self.out) {
                Ok(written) => self.out.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        if self.out.capacity() > 0 {
            self.out = BytesMut::new();
        }
        Ok(())
    }
}
