//! Who is served meanwhile: one well-behaved client, asked at a steady rate before the attack and during it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::speak::{Hello, Peer, publish, subscribe};
use super::victim::{USERS, user};
use crate::bench::ingest::idle::log_in;

/// What an answer may take at most; beyond it the client was shut out.
const PATIENCE: Duration = Duration::from_secs(10);

/// What it does, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bystander {
    /// Publishes so many bytes with QoS 1 and gets them by a subscription, each 10 ms.
    Publish(usize),
    /// A new login, each 250 ms.
    Login,
    /// A new login with TLS, each 250 ms.
    TlsLogin,
    /// A new login with TLS and the password of a user who was not there before, each 500 ms.
    UserLogin,
    /// A request through the proxy on a new connection, each 20 ms.
    Request,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    /// Milliseconds of each answer, from when the question was due.
    pub(super) took: Vec<f64>,
    /// Questions without an answer, or with a refusal; the first one's reason.
    pub(super) failed: u64,
    /// Why the first one failed.
    pub(super) why: Option<String>,
    /// Publishes that were acknowledged and never came.
    pub(super) lost: u64,
}

impl Served {
    /// A quantile in milliseconds; NaN of nothing.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.took.clone();
        sorted.sort_by(f64::total_cmp);
        let place = (sorted.len() as f64 * part) as usize;
        sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }
}

/// A bystander at work; asks until it is told to stop.
pub(super) struct Watching {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Served>,
}

impl Bystander {
    fn period(self) -> Duration {
        Duration::from_millis(match self {
            Bystander::Publish(_) => 10,
            Bystander::Request => 20,
            Bystander::UserLogin => 500,
            Bystander::Login | Bystander::TlsLogin => 250,
        })
    }

    /// The most that the p99 may be while others push, in milliseconds.
    pub(super) fn limit(self) -> f64 {
        match self {
            Bystander::Publish(_) | Bystander::Request => 50.0,
            Bystander::Login | Bystander::TlsLogin | Bystander::UserLogin => 1000.0,
        }
    }

    /// Begins; `skip` users have logged in before.
    pub(super) fn watch(
        self,
        to: SocketAddr,
        trust: Option<Arc<ClientConfig>>,
        skip: usize,
    ) -> Watching {
        let stop = Arc::new(AtomicBool::new(false));
        let over = stop.clone();
        let thread = thread::spawn(move || {
            let mut client = Client { what: self, to, trust, number: skip, publishing: None };
            let (mut served, mut due) = (Served::default(), Instant::now());
            while !over.load(Ordering::Relaxed) && client.has_more() {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                match client.ask(&mut served) {
                    Ok(()) => served.took.push(due.elapsed().as_secs_f64() * 1e3),
                    Err(error) => {
                        served.failed += 1;
                        served.why.get_or_insert_with(|| error.to_string());
                        client.publishing = None;
                        due = Instant::now();
                    }
                }
                due += self.period();
            }
            served
        });
        Watching { stop, thread }
    }
}

impl Watching {
    /// Ends it and tells what came of it.
    pub(super) fn end(self) -> Served {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a bystander does not panic")
    }
}

struct Client {
    what: Bystander,
    to: SocketAddr,
    trust: Option<Arc<ClientConfig>>,
    number: usize,
    /// Publisher and subscriber, and the topic of both.
    publishing: Option<(Peer, Peer, String)>,
}

impl Client {
    fn has_more(&self) -> bool {
        self.what != Bystander::UserLogin || self.number < USERS
    }

    fn ask(&mut self, served: &mut Served) -> io::Result<()> {
        self.number += 1;
        match self.what {
            Bystander::Publish(bytes) => self.publish(bytes, served),
            Bystander::Login => {
                let id = format!("new-{}", self.number);
                match Peer::log_in(self.to, Hello { id: &id, ..Hello::default() })? {
                    (_, 0, _) => Ok(()),
                    (_, code, _) => Err(io::Error::other(format!("CONNACK {code:#04x}"))),
                }
            }
            Bystander::TlsLogin => self.tls_login(None),
            Bystander::UserLogin => {
                let name = user(self.number - 1);
                self.tls_login(Some(&name))
            }
            Bystander::Request => request(self.to),
        }
    }

    fn publish(&mut self, bytes: usize, served: &mut Served) -> io::Result<()> {
        if self.publishing.is_none() {
            self.publishing = Some(begin(self.to)?);
        }
        let (publisher, subscriber, topic) = self.publishing.as_mut().expect("it was set above");
        let mut payload = vec![0; bytes.max(8)];
        payload[..8].copy_from_slice(&(self.number as u64).to_be_bytes());
        publisher.say(&publish(topic, Some(1), false, &payload))?;
        let answer = publisher.hear_kind(0x40, |_, _| ())?;
        if answer.get(2).is_some_and(|code| *code >= 0x80) {
            return Err(io::Error::other(format!("PUBACK {:#04x}", answer[2])));
        }
        served.lost += 1;
        loop {
            let body = subscriber.hear_kind(0x30, |_, _| ())?;
            let tail = body.len().checked_sub(payload.len());
            if tail.is_some_and(|from| body[from..from + 8] == payload[..8]) {
                served.lost -= 1;
                return Ok(());
            }
        }
    }

    fn tls_login(&self, user: Option<&str>) -> io::Result<()> {
        let trust = self.trust.clone().ok_or(io::ErrorKind::InvalidInput)?;
        let id = format!("new-{}", self.number);
        let user = user.map(|name| (name, name));
        match log_in(self.to, trust, &Hello { id: &id, user, ..Hello::default() }.packet())?.1 {
            0 => Ok(()),
            code => Err(io::Error::other(format!("CONNACK {code:#04x}"))),
        }
    }
}

/// A publisher and its subscriber.
fn begin(to: SocketAddr) -> io::Result<(Peer, Peer, String)> {
    static PAIRS: AtomicU64 = AtomicU64::new(0);
    let number = PAIRS.fetch_add(1, Ordering::Relaxed);
    let topic = format!("served/{number}");
    let [ids, idp] = ["reads", "writes"].map(|what| format!("{what}-{number}"));
    let (mut subscriber, ..) = Peer::log_in(to, Hello { id: &ids, ..Hello::default() })?;
    // QoS 0: what is not acknowledged in time is not this client's measure.
    let mut asks = subscribe([&topic]);
    if let Some(qos) = asks.last_mut() {
        *qos = 0;
    }
    subscriber.say(&asks)?;
    subscriber.hear_kind(0x90, |_, _| ())?;
    let (publisher, ..) = Peer::log_in(to, Hello { id: &idp, ..Hello::default() })?;
    Ok((publisher, subscriber, topic))
}

fn request(to: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: app\r\nconnection: close\r\n\r\n")?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    match text.get(9..12) {
        Some(b"200") => Ok(()),
        Some(status) => Err(io::Error::other(String::from_utf8_lossy(status).into_owned())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
