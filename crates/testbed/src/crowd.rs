//! Clients of a broker that is killed under them, and what each of them must have got in the end.
//!
//! Publishers of QoS 1 and 2 insist until all is acknowledged. Persistent subscribers come and go: one in four has all
//! of a publisher with QoS 2, one a topic of all with QoS 1, and two do so as members of a group. Clients with wills go
//! without a word. All speak MQTT 3.1.1, whose sessions last for ever.

mod account;
mod broker;
mod client;
mod many;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

pub use self::account::CrowdAccount;
use self::account::Wish;
pub use self::broker::CrowdBroker;
use self::client::Client;
pub use self::many::{ManyAccount, ManyOptions, kill_with_many};

/// Every second one publishes with QoS 2.
const PUBLISHERS: u64 = 8;
/// Topics of each publisher; of so many messages one is retained, in the first topic.
const TOPICS: u64 = 16;
const RETAINED: u64 = 64;
/// Clients with wills.
const DYING: u64 = 8;
/// Messages of a publisher that wait for their acknowledgement.
const WINDOW: usize = 20;
const SIZE: usize = 256;
const RETRY: Duration = Duration::from_millis(5);
/// A silence after which nothing that is retained is missing.
const QUIET: Duration = Duration::from_secs(5);
/// How long a publisher's last messages may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Lives of the broker, and how long clients stay and are away: milliseconds.
const LIVES: std::ops::Range<u64> = 200..1500;
const STAYS: std::ops::Range<u64> = 300..3000;
const AWAY: std::ops::Range<u64> = 100..1500;

/// How many clients there are and what they do.
#[derive(Clone, Copy, Debug)]
pub struct CrowdOptions {
    /// Where the broker listens.
    pub address: SocketAddr,
    /// Persistent subscribers.
    pub subscribers: u64,
    /// Messages a second, of all publishers.
    pub per_second: u64,
    /// Whether the broker knows `$share`: else each subscriber is alone.
    pub has_groups: bool,
    /// A silence after which what is missing is lost: longer than the broker may take to send again.
    pub silence: Duration,
    /// Of all times.
    pub seed: u64,
}

/// What all clients share.
#[derive(Debug)]
struct Play {
    options: CrowdOptions,
    /// How often each message came, by subscriber; the last one hears of wills.
    seen: Vec<Mutex<BTreeMap<u64, u32>>>,
    came: AtomicU64,
    subscribed: AtomicU64,
    /// Sessions that were not there any more.
    forgotten: AtomicU64,
    is_over: AtomicBool,
    is_done: AtomicBool,
}

/// Wills that must be published, and those that may be: nobody told their client that it was let in.
type Wills = (Vec<u64>, Vec<u64>);

/// Clients at work.
#[derive(Debug)]
struct Crowd {
    play: Arc<Play>,
    wishes: Vec<Wish>,
    subscribers: Vec<JoinHandle<()>>,
    publishers: Vec<JoinHandle<Option<u64>>>,
    dying: Vec<JoinHandle<Wills>>,
}

/// Times of a client, repeatable.
struct Times(u64);

impl Times {
    fn some(&mut self, of: std::ops::Range<u64>) -> Duration {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(of.start + (self.0 >> 33) % (of.end - of.start))
    }
}

/// Lets a broker `fall` so often under a crowd, each time after some hundred milliseconds, and says what came of all.
///
/// # Errors
/// It cannot be started, or a publisher gets no answer.
///
/// # Panics
/// It does not come back.
pub fn kill_under_crowd<B>(
    options: CrowdOptions,
    kills: u32,
    start: impl Fn() -> io::Result<B>,
    mut fall: impl FnMut(B) -> io::Result<()>,
) -> io::Result<CrowdAccount> {
    let (mut broker, mut longest) = (start()?, Duration::ZERO);
    many::until_served(options.address)?;
    let crowd = Crowd::start(options);
    let mut times = crowd.play.times(0);
    for _ in 0..kills {
        sleep(times.some(LIVES));
        let begun = Instant::now();
        fall(broker)?;
        broker = start()?;
        many::until_served(options.address)?;
        longest = longest.max(begun.elapsed());
    }
    sleep(Duration::from_millis(LIVES.end));
    let account = crowd.finish()?;
    Ok(CrowdAccount { start: longest, ..account })
}

impl Crowd {
    /// Starts all clients, publishers when all have subscribed.
    ///
    /// # Panics
    /// The broker does not let them in.
    fn start(options: CrowdOptions) -> Crowd {
        let wishes: Vec<Wish> =
            (0..options.subscribers).map(|number| Wish::of(number, options.has_groups)).collect();
        let play = Arc::new(Play {
            options,
            seen: (0..=wishes.len()).map(|_| Mutex::default()).collect(),
            came: AtomicU64::new(0),
            subscribed: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
        });
        let asked = wishes.iter().map(|wish| (wish.filter.clone(), wish.qos));
        let subscribers = asked.chain([("w/#".into(), 2)]).enumerate().map(|(place, wish)| {
            let play = play.clone();
            spawn(move || play.subscribe(place, &wish))
        });
        let subscribers = subscribers.collect();
        super::wait_until("all to subscribe", || {
            play.subscribed.load(Relaxed) > options.subscribers
        });
        let publisher = |number| {
            let play = play.clone();
            spawn(move || play.publish(number))
        };
        let publishers = (0..PUBLISHERS).map(publisher).collect();
        let dying = |number| {
            let play = play.clone();
            spawn(move || play.die(number))
        };
        let dying = (0..DYING).map(dying).collect();
        Crowd { play, wishes, subscribers, publishers, dying }
    }

    /// Publishes nothing more, waits for what is on its way, and says what came of all.
    ///
    /// # Errors
    /// A publisher gets no acknowledgement.
    ///
    /// # Panics
    /// A client did.
    fn finish(self) -> io::Result<CrowdAccount> {
        let Crowd { play, wishes, subscribers, publishers, dying } = self;
        play.is_over.store(true, Relaxed);
        let mut sent = Vec::new();
        for publisher in publishers {
            let count = publisher.join().expect("a publisher does not panic");
            sent.push(count.ok_or_else(|| io::Error::other("a publisher gets no answer"))?);
        }
        let wills: Vec<Wills> =
            dying.into_iter().map(|one| one.join().expect("a client does not panic")).collect();
        let mut last = (0, Instant::now());
        while last.1.elapsed() < play.options.silence {
            sleep(RETRY);
            let came = play.came.load(Relaxed);
            last = if came > last.0 { (came, Instant::now()) } else { last };
        }
        play.is_done.store(true, Relaxed);
        subscribers.into_iter().for_each(|one| one.join().expect("a subscriber does not panic"));
        CrowdAccount::of(&play, &wishes, &sent, &wills)
    }
}

impl Play {
    /// Connects with a session that lasts.
    fn enter(&self, name: &str, will: Option<u64>) -> io::Result<Client> {
        Client::connect(self.options.address, name, will)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn times(&self, client: u64) -> Times {
        Times(self.options.seed << 32 | client)
    }

    fn seen(&self, place: usize) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.seen[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes at a rate until the end, and all again that was not acknowledged. Says how many there were; none where
    /// the last are never acknowledged.
    fn publish(&self, publisher: u64) -> Option<u64> {
        let (mut next, begun, mut ended) = (0, Instant::now(), None);
        // Those that wait for an acknowledgement, and whether they only have to be released.
        let mut open: BTreeMap<u64, bool> = BTreeMap::new();
        loop {
            let until = if self.is_over() {
                *ended.get_or_insert(Instant::now() + PATIENCE)
            } else {
                begun + Duration::from_secs(86_400)
            };
            if Instant::now() > until {
                return None;
            }
            let Ok(mut client) = self.enter(&format!("p{publisher}"), None) else {
                sleep(RETRY);
                continue;
            };
            // Where the session is lost, what it received is its broker's.
            open.retain(|_, is_received| client.is_present || !*is_received);
            let again = open.iter().map(|(seq, is_received)| (*seq, *is_received)).collect();
            if self.serve(publisher, &mut client, (&mut next, begun), (&mut open, again)).is_ok() {
                return Some(next);
            }
        }
    }

    fn serve(
        &self,
        publisher: u64,
        client: &mut Client,
        (next, begun): (&mut u64, Instant),
        (open, mut again): (&mut BTreeMap<u64, bool>, Vec<(u64, bool)>),
    ) -> io::Result<()> {
        let qos = 1 + (publisher % 2) as u8;
        let rate = self.options.per_second as f64 / PUBLISHERS as f64;
        let id_of = |seq: u64| (seq % 65_000) as u16 + 1;
        let (mut ended, mut duplicate) = (None, 8);
        loop {
            let is_over = self.is_over();
            let due = (begun.elapsed().as_secs_f64() * rate) as u64;
            while duplicate == 0 && !is_over && *next < due && open.len() < WINDOW {
                open.insert(*next, false);
                again.push((*next, false));
                *next += 1;
            }
            for (seq, is_received) in again.drain(..) {
                if is_received {
                    client.send(0x62, &id_of(seq).to_be_bytes())?;
                    continue;
                }
                let topic = format!("s/{publisher}/{}", seq % TOPICS);
                let mut payload = (publisher << 32 | seq).to_be_bytes().to_vec();
                payload.resize(SIZE, 0);
                let flags = qos << 1 | u8::from(seq % RETAINED == 0);
                client.publish(&topic, flags | duplicate, id_of(seq), &payload)?;
            }
            duplicate = 0;
            if is_over && open.is_empty() {
                return Ok(());
            }
            if is_over && *ended.get_or_insert_with(Instant::now) + PATIENCE < Instant::now() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let Some((kind, body)) = client.next(RETRY)? else { continue };
            let id = body.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
            match (kind >> 4, open.keys().find(|seq| id_of(**seq) == id).copied()) {
                (4 | 7, Some(seq)) => _ = open.remove(&seq),
                (5, Some(seq)) => {
                    open.insert(seq, true);
                    again.push((seq, true));
                }
                _ => {}
            }
        }
    }

    /// Comes and goes, and stays when all was published.
    fn subscribe(&self, place: usize, (filter, qos): &(String, u8)) {
        // Identifiers of QoS 2 messages that it has and that are not released.
        let (mut known, mut was_there) = (BTreeSet::new(), false);
        let mut times = self.times(1 + place as u64);
        while !self.is_done.load(Relaxed) {
            let Ok(mut client) = self.enter(&format!("s{place}"), None) else {
                sleep(RETRY);
                continue;
            };
            if !client.is_present {
                self.forgotten.fetch_add(was_there.into(), Relaxed);
                known.clear();
                // Where that fails, the connection does.
                let _ = client.subscribe(filter, *qos);
            }
            let until = Instant::now() + times.some(STAYS);
            let served = self.hear(place, &mut client, until, (&mut known, &mut was_there));
            if served.is_ok() {
                if times.some(0..2).is_zero() {
                    let _ = client.send(0xe0, &[]);
                }
                drop(client);
                sleep(times.some(AWAY));
            }
        }
    }

    fn hear(
        &self,
        place: usize,
        client: &mut Client,
        until: Instant,
        (known, was_there): (&mut BTreeSet<u16>, &mut bool),
    ) -> io::Result<()> {
        while !self.is_done.load(Relaxed) {
            let stays = !*was_there || self.is_over();
            if !stays && Instant::now() > until {
                return Ok(());
            }
            let Some((kind, body)) = client.next(20 * RETRY)? else { continue };
            match (kind >> 4, body.first_chunk()) {
                (3, _) => self.take(place, kind, &body, known, client)?,
                (6, Some(id)) => {
                    known.remove(&u16::from_be_bytes(*id));
                    client.send(0x70, id)?;
                }
                (9, _) if !std::mem::replace(was_there, true) => {
                    self.subscribed.fetch_add(1, Relaxed);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take(
        &self,
        place: usize,
        kind: u8,
        body: &[u8],
        known: &mut BTreeSet<u16>,
        client: &mut Client,
    ) -> io::Result<()> {
        let (id, payload) = client::published(kind, body).ok_or(io::ErrorKind::InvalidData)?;
        let is_once = kind & 6 == 4;
        let is_news = !is_once || id.is_some_and(|id| known.insert(id));
        if let Some(number) = payload.first_chunk().filter(|_| is_news) {
            *self.seen(place).entry(u64::from_be_bytes(*number)).or_default() += 1;
            self.came.fetch_add(1, Relaxed);
        }
        match id {
            Some(id) => client.send(if is_once { 0x50 } else { 0x40 }, &id.to_be_bytes()),
            None => Ok(()),
        }
    }

    /// Goes without a word again and again.
    fn die(&self, number: u64) -> Wills {
        let (mut sure, mut open) = (Vec::new(), Vec::new());
        let mut times = self.times(1000 + number);
        for life in 0.. {
            let will = (PUBLISHERS + number) << 32 | life;
            match self.enter(&format!("w{number}"), Some(will)) {
                Ok(mut client) => {
                    sure.push(will);
                    let until = Instant::now() + times.some(STAYS);
                    while Instant::now() < until && client.next(10 * RETRY).is_ok() {}
                }
                Err(_) => {
                    open.push(will);
                    sleep(RETRY);
                }
            }
            if self.is_over() {
                break;
            }
        }
        (sure, open)
    }
}
