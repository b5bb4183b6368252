//! The listening sockets: accept, count, hand over to connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tidegate_broker::fair_queue::FairQueueLimits;
use tidegate_node::io::Control;
use tidegate_types::account::{Account, Level, Refusal};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{interval, sleep, timeout};

use super::clients::Registration;
use super::connection;
use super::options::MqttOptions;
use super::room::Room;
use super::session::{End, Limits, Memory};
use super::sockets::{Bound, MqttError, bound};
use super::terms::{MqttControl, Order, Word, over};
use crate::node::contract::Intake;
use crate::support::complaints::Complaints;
use crate::support::places::{Occupant, Place, Places};
use crate::support::tls::{Callers, Stream};
use crate::support::turns::Desk;

/// After this silence the kernel asks whether a client is still there: the only way to find a dead one
/// that wanted no keepalive.
const TCP_KEEPALIVE: Duration = Duration::from_secs(120);
/// Steps of TLS handshakes that may be due at a time; more wait for their turn, address by address, within
/// their connect timeout. Each costs up to a millisecond of a processor, and records of the clients that are
/// there must not wait for a crowd. Who has said nothing has no step to take.
const HANDSHAKES_MAX: usize = 32;
/// All who may connect may wait for one.
const HANDSHAKES_WAITING: FairQueueLimits =
    FairQueueLimits { all: usize::MAX, network: usize::MAX, name: usize::MAX };
/// Waiting after an accept that failed, doubled up to `ACCEPT_WAIT_MAX`.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);
const ACCEPT_WAIT_MAX: Duration = Duration::from_secs(1);
/// How often sessions are looked for whose time is over.
const TIDY_PERIOD: Duration = Duration::from_secs(1);
/// How long a stop waits for connections beyond their own grace.
const STOP_MARGIN: Duration = Duration::from_secs(2);

/// What all connections of a listener share.
pub(super) struct Shared {
    pub(super) options: MqttOptions,
    pub(super) limits: Limits,
    pub(super) intake: Intake,
    /// Who waits for room for a large packet.
    pub(super) room: Arc<Room>,
    /// Sessions without a connection that may wait for answers or with their will.
    pub(super) afterlives: Arc<Semaphore>,
    complaints: Complaints,
    /// What its clients together may make the broker hold.
    account: Account,
    /// Steps of TLS handshakes.
    pub(super) handshakes: Arc<Desk>,
    places: Arc<Places>,
    /// Its number among the listeners of the node.
    pub(super) door: u64,
}

impl Shared {
    /// The same listener on other terms. What it has together with others stays.
    fn on(&self, options: &MqttOptions) -> Shared {
        let options = MqttOptions { clients: self.options.clients.clone(), ..options.clone() };
        options.access.inherit(&self.options.access);
        Shared {
            limits: limits(&options, self.limits.keeps_subscriptions),
            options,
            intake: self.intake.clone(),
            room: self.room.clone(),
            afterlives: self.afterlives.clone(),
            complaints: Complaints::new(Instant::now()),
            account: self.account.clone(),
            handshakes: self.handshakes.clone(),
            places: self.places.clone(),
            door: self.door,
        }
    }

    /// Changes when clients that are in must be looked at again.
    fn edition(&self) -> (u64, u64) {
        let callers = self.options.callers.as_ref();
        (self.options.access.edition(), callers.map_or(0, Callers::edition))
    }

    /// What one user may make the broker hold, or an address where nobody says who he is.
    pub(super) fn account_of(&self, user: &str) -> Account {
        self.account.fair_named(Level::User, user)
    }

    /// Tells the node whose sessions are over.
    pub(super) async fn tell_gone(&self) {
        for client in self.options.clients.take_gone() {
            // An error means that the node is gone.
            let _ = self.intake.control(Control::SessionOver(client)).await;
        }
    }

    /// Keeps the session of a client that has gone.
    pub(super) fn keep(&self, registration: Registration, memory: Memory, lasting: Duration) {
        for _ in 0..registration.keep(memory, lasting) {
            self.intake.counts().over_quota("sessions");
        }
    }

    /// Logs that a session cannot be kept.
    pub(super) fn complain(&self, client: &str, refusal: &Refusal) {
        if let Some(withheld) = self.complaints.allow(Instant::now()) {
            tracing::warn!(client, withheld, "the session is not kept: {refusal}");
        }
    }

    /// Logs the end of a connection; warnings are bounded.
    pub(super) fn report(&self, end: &End, client: &str, peer: SocketAddr) {
        if matches!(end, End::Revoked(_)) {
            self.intake.counts().denied("revoked");
        }
        if !end.is_worth_a_warning() {
            tracing::debug!(client, %peer, "{end}");
        } else if let Some(withheld) = self.complaints.allow(Instant::now()) {
            let topic =
                if let End::Violation { topic, .. } = end { topic.as_deref() } else { None };
            tracing::warn!(client, %peer, topic, withheld, "mqtt connection closed: {end}");
        }
    }
}

/// What decides over a connection's place: one without a CONNECT makes room for others.
#[derive(Debug)]
pub(super) struct Arrival {
    at: tokio::time::Instant,
    is_known: AtomicBool,
}

impl Arrival {
    /// It has said who it is: its place is its own.
    pub(super) fn becomes_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }
}

impl Occupant for Arrival {
    fn idle_since(&self) -> Option<(bool, tokio::time::Instant)> {
        (!self.is_known.load(Ordering::Relaxed)).then_some((false, self.at))
    }
}

/// A connection that begins.
pub(super) struct Call {
    pub(super) stream: Stream,
    pub(super) peer: SocketAddr,
    pub(super) shared: Arc<Shared>,
    pub(super) word: watch::Receiver<Word>,
    /// The look that it began after.
    pub(super) look: u64,
    pub(super) place: Place,
    pub(super) arrival: Arc<Arrival>,
}

/// Binds every address of the options.
///
/// # Errors
/// An option is out of range, or an address cannot be listened on.
pub async fn bind(options: MqttOptions) -> Result<MqttListener, MqttError> {
    let options = options.speaking();
    let listeners = bound(&options, |_| true)?;
    let (control, orders) = mpsc::unbounded_channel();
    Ok(MqttListener { listeners, options, control: MqttControl(control), orders })
}

/// Bound sockets that do not accept yet.
#[derive(Debug)]
pub struct MqttListener {
    listeners: Vec<Bound>,
    options: MqttOptions,
    control: MqttControl,
    orders: mpsc::UnboundedReceiver<Order>,
}

impl MqttListener {
    /// The addresses that clients can connect to, with the ports that the system chose.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(_, listener)| listener.local_addr().ok()).collect()
    }

    /// What changes it while it runs.
    pub fn control(&self) -> MqttControl {
        self.control.clone()
    }

    /// Accepts clients until `stop` is true or its sender is gone, then ends all connections: clients
    /// get the answers that come within the grace of the options, and MQTT 5 clients the reason.
    pub async fn run(self, intake: Intake, mut stop: watch::Receiver<bool>) {
        let MqttListener { listeners, options, control, mut orders } = self;
        let places = Places::new(whole(options.connections_max), false);
        let door = options.clients.door(options.connections_max);
        let keeps_subscriptions = intake.hub().journal().is_some();
        let limits = limits(&options, keeps_subscriptions);
        let patience = options.stop_grace + STOP_MARGIN;
        let afterlives = Arc::new(Semaphore::new(options.sessions_max));
        let mut shared = Arc::new(Shared {
            options,
            limits,
            afterlives,
            account: intake.hub().account_of_listener(),
            intake,
            room: Arc::default(),
            complaints: Complaints::new(Instant::now()),
            handshakes: Desk::new(HANDSHAKES_MAX, HANDSHAKES_WAITING),
            places: places.clone(),
            door,
        });
        let word = watch::Sender::new(Word { over: None, terms: shared.clone(), look: 0 });
        let mut accepting = Accepting::default();
        accepting.begin(listeners, &word);
        let mut tidying = interval(TIDY_PERIOD);
        let mut edition = shared.edition();
        loop {
            tokio::select! {
                accepted = accepting.tasks.join_next() => {
                    if accepted.is_none() {
                        break;
                    }
                }
                () = stopped(&mut stop), if word.borrow().over.is_none() => {
                    word.send_modify(|word| word.over = Some(End::Stopping));
                }
                // Never nothing: `control` is held here.
                Some(order) = orders.recv() => match order {
                    Order::Change(options, added) => {
                        accepting.begin(added, &word);
                        accepting.retain(&options.listen);
                        places.resize(whole(options.connections_max));
                        shared.options.clients.resize_door(door, options.connections_max);
                        shared = Arc::new(shared.on(&options));
                        edition = shared.edition();
                        word.send_modify(|word| {
                            word.terms = shared.clone();
                            word.look += 1;
                        });
                    }
                    Order::Remove => word.send_modify(|word| word.over = Some(End::Removed)),
                },
                // What subscribers that never come back left would be added to for ever.
                _ = tidying.tick() => {
                    shared.options.clients.tidy(shared.options.sessions_max);
                    shared.tell_gone().await;
                    let now = shared.edition();
                    if std::mem::replace(&mut edition, now) != now {
                        word.send_modify(|word| word.look += 1);
                    }
                }
            }
        }
        drop(control);
        let ended = timeout(patience, places.emptied()).await;
        if ended.is_err() {
            tracing::warn!("some mqtt connections did not end in time");
        }
        shared.options.clients.close_door(door);
    }
}

fn whole(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn limits(options: &MqttOptions, keeps_subscriptions: bool) -> Limits {
    Limits {
        max_packet_size: options.max_packet_size,
        receive_maximum: options.receive_maximum,
        topic_alias_maximum: options.topic_alias_maximum,
        session_expiry_max: u32::try_from(options.session_expiry_max.as_secs()).unwrap_or(u32::MAX),
        keepalive_max: u16::try_from(options.keepalive_max.as_secs()).unwrap_or(u16::MAX),
        refused: options.refused,
        keeps_subscriptions,
    }
}

/// Waits until the listener is to stop. An error means that whoever runs it is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The tasks that accept, by address.
#[derive(Default)]
struct Accepting {
    tasks: JoinSet<()>,
    of: Vec<(SocketAddr, AbortHandle)>,
}

impl Accepting {
    fn begin(&mut self, listeners: Vec<Bound>, word: &watch::Sender<Word>) {
        for (address, listener) in listeners {
            let task = self.tasks.spawn(accept_all(listener, word.subscribe()));
            self.of.push((address, task));
        }
    }

    /// Gives up the addresses that are not among these.
    fn retain(&mut self, addresses: &[SocketAddr]) {
        let (stay, go) = self.of.drain(..).partition(|(address, _)| addresses.contains(address));
        self.of = stay;
        let go: Vec<(SocketAddr, AbortHandle)> = go;
        go.iter().for_each(|(_, task)| task.abort());
    }
}

async fn accept_all(listener: Arc<TcpListener>, mut word: watch::Receiver<Word>) {
    let mut wait = Duration::ZERO;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = over(&mut word) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                if !wait.is_zero() {
                    tracing::info!("connections are accepted again");
                    wait = Duration::ZERO;
                }
                tokio::spawn(admit(stream, peer, word.clone()));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                if wait.is_zero() {
                    let cure = "raise the limit of open files (ulimit -n) or lower connections_max";
                    tracing::warn!(%error, cure, "connections cannot be accepted");
                }
                wait = (wait * 2).clamp(ACCEPT_WAIT, ACCEPT_WAIT_MAX);
                tokio::select! {
                    _ = over(&mut word) => return,
                    () = sleep(wait) => {}
                }
            }
        }
    }
}

/// Errors of accept that say nothing about the next one: the client was gone before we came.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Where all places are taken, the eldest connection without a CONNECT leaves for the new one.
async fn admit(stream: TcpStream, peer: SocketAddr, word: watch::Receiver<Word>) {
    let Word { terms: shared, look, .. } = word.borrow().clone();
    let arrival = Arc::new(Arrival { at: Instant::now().into(), is_known: AtomicBool::new(false) });
    let Some(place) = shared.places.enter(arrival.clone()).await else {
        if let Some(withheld) = shared.complaints.allow(Instant::now()) {
            let most = shared.options.connections_max;
            tracing::warn!(%peer, most, withheld, "refused: connections_max is reached");
        }
        return;
    };
    // Failures here are failures of the connection, which its first read reports.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE));
    let stream = match &shared.options.tls {
        None => Stream::from(stream),
        Some(config) => match Stream::server(stream, config.clone()) {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%peer, %error, "no TLS"),
        },
    };
    connection::run(Call { stream, peer, shared, word, look, place, arrival }).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_in_a_small_task() {
        fn size<F>(_: impl Fn(TcpStream, SocketAddr, watch::Receiver<Word>) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(admit) <= 4_000, "{} B", size(admit));
    }
}
