//! The load: HTTP/1.1 over many kept connections, requests due at random times, and the server behind it all.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::load::{Arrivals, Share};

/// Bytes of an answer's body: the page that the first measurement used.
pub(in crate::bench) const BODY: usize = 612;

#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Load {
    pub(in crate::bench) to: SocketAddr,
    pub(in crate::bench) connections: u32,
    /// Requests a second, over all connections; 0: each asks again as soon as it is answered.
    pub(in crate::bench) per_second: f64,
    /// From the first request until counting begins.
    pub(in crate::bench) warm_up: Duration,
    /// How long is counted.
    pub(in crate::bench) counted: Duration,
    /// Of what is random.
    pub(in crate::bench) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(in crate::bench) struct Answered {
    /// Seconds from when a request was due to the last byte of its answer, sorted.
    pub(in crate::bench) took: Vec<f64>,
    /// Answers that were none: another status, a connection that ended.
    pub(in crate::bench) failed: u64,
    /// How many of each kind: the first line of an answer with its reason, or what the system said.
    pub(in crate::bench) why: BTreeMap<String, u64>,
}

impl Answered {
    fn fails(&mut self, why: String) {
        self.failed += 1;
        *self.why.entry(why).or_default() += 1;
    }

    /// The time within which this part was answered, in milliseconds.
    pub(in crate::bench) fn quantile(&self, part: f64) -> f64 {
        let place = (self.took.len() as f64 * part) as usize;
        self.took.get(place.min(self.took.len().saturating_sub(1))).map_or(f64::NAN, |s| s * 1e3)
    }
}

/// Sends all of it; `begins` is called when counting begins. A request that is due while its connection is
/// busy waits, and its time counts from when it was due.
pub(in crate::bench) async fn send(load: Load, begins: impl FnOnce()) -> anyhow::Result<Answered> {
    let mut tasks = JoinSet::new();
    let mut sockets = Vec::new();
    for _ in 0..load.connections {
        let stream = TcpStream::connect(load.to).await.context("connecting the load")?;
        stream.set_nodelay(true)?;
        sockets.push(stream);
    }
    let start = Instant::now() + Duration::from_millis(100);
    let counted_from = start + load.warm_up;
    let end = counted_from + load.counted;
    let mut all = Vec::new();
    let mut bells: Vec<mpsc::UnboundedSender<Instant>> = Vec::new();
    for (place, stream) in (0..).zip(sockets) {
        let share = Share {
            per_second: load.per_second,
            place,
            publishers: load.connections,
            seed: load.seed,
        };
        let is_steady = load.per_second > 0.0;
        if is_steady {
            let schedule = Arrivals::Poisson.schedule(share)?.map(|offset| start + offset);
            all.extend(schedule.take_while(|due| *due < end).map(|due| (due, place as usize)));
        }
        let (bell, mut rings) = mpsc::unbounded_channel();
        bells.push(bell);
        let mut next = async move || match is_steady {
            true => rings.recv().await,
            false => Some(Instant::now()).filter(|now| *now < end),
        };
        tasks.spawn(async move {
            let mut stream = stream;
            let mut answered = Answered::default();
            while let Some(due) = next().await {
                let said = ask(&mut stream).await;
                if due >= counted_from {
                    match &said {
                        Ok(None) => answered.took.push(due.elapsed().as_secs_f64()),
                        Ok(Some(other)) => answered.fails(other.clone()),
                        Err(error) => answered.fails(error.to_string()),
                    }
                }
                if said.is_err() {
                    break;
                }
            }
            answered
        });
    }
    all.sort_unstable();
    let ringing = std::thread::spawn(move || ring(&all, &bells));
    sleep_until(counted_from).await;
    begins();
    let mut all = Answered::default();
    while let Some(one) = tasks.join_next().await {
        let one = one?;
        all.took.extend(one.took);
        all.failed += one.failed;
        one.why.into_iter().for_each(|(why, count)| *all.why.entry(why).or_default() += count);
    }
    ringing.join().map_err(|_| anyhow::anyhow!("the load's clock broke"))?;
    all.took.sort_by(f64::total_cmp);
    ensure!(!all.took.is_empty(), "nothing was answered");
    Ok(all)
}

/// Tells each connection when its requests are due. A thread of its own: the runtime's timers have whole
/// milliseconds, several times what is measured.
fn ring(all: &[(Instant, usize)], bells: &[mpsc::UnboundedSender<Instant>]) {
    for (due, place) in all {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // A connection that broke has told so already.
        let _ = bells[*place].send(*due);
    }
}

const REQUEST: &[u8] = b"GET /index.html HTTP/1.1\r\nhost: app.example\r\nuser-agent: lab\r\n\
                         accept: */*\r\n\r\n";

/// One request and its answer; what it was where it is not the right one.
async fn ask(stream: &mut TcpStream) -> io::Result<Option<String>> {
    stream.write_all(REQUEST).await?;
    let mut buffer = [0u8; 4096];
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
        if let Some(head) = head_of(&buffer[..filled]) {
            let length = length_of(&buffer[..head]).unwrap_or(BODY);
            if filled >= head + length {
                let is_good = buffer.starts_with(b"HTTP/1.1 200") && length == BODY;
                return Ok((!is_good).then(|| in_words(&buffer[..head])));
            }
        }
        if filled == buffer.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// The first line of a head, and the reason of our proxy.
fn in_words(head: &[u8]) -> String {
    let head = String::from_utf8_lossy(head);
    let is_told = |line: &&str| line.starts_with("x-tidegate-reason");
    let told = head.lines().take(1).chain(head.lines().filter(is_told));
    told.collect::<Vec<_>>().join(", ")
}

/// Where the head ends, if it does.
fn head_of(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// What `content-length` says.
fn length_of(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    let line = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    line?.trim().parse().ok()
}

/// The server behind the proxies: it answers every request with the same page. It ends with the set.
pub(in crate::bench) async fn serve(tasks: &mut JoinSet<()>) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            // Who goes away is no mistake.
            connections.spawn(async move { answer(stream).await.unwrap_or(()) });
        }
    });
    Ok(address)
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let body = "x".repeat(BODY);
    let page = format!(
        "HTTP/1.1 200 OK\r\nserver: lab\r\ndate: Sun, 22 Nov 2026 10:00:00 GMT\r\n\
         content-type: text/html\r\ncontent-length: {BODY}\r\n\r\n{body}"
    );
    let mut buffer = [0u8; 4096];
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).await?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        while let Some(head) = head_of(&buffer[..filled]) {
            stream.write_all(page.as_bytes()).await?;
            buffer.copy_within(head..filled, 0);
            filled -= head;
        }
        if filled == buffer.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_lengths_are_found() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nrest";
        assert_eq!(head_of(head), Some(head.len() - 4));
        assert_eq!(length_of(head), Some(12));
        let refused =
            b"HTTP/1.1 503 Service Unavailable\r\ndate: x\r\nx-tidegate-reason: full\r\n\r\n";
        assert_eq!(in_words(refused), "HTTP/1.1 503 Service Unavailable, x-tidegate-reason: full");
        assert_eq!((head_of(b"HTTP"), length_of(b"HTTP/1.1 200 OK\r\n")), (None, None));
    }

    #[tokio::test]
    async fn every_request_is_answered() {
        let mut tasks = JoinSet::new();
        let to = serve(&mut tasks).await.unwrap();
        let load = Load {
            to,
            connections: 4,
            per_second: 400.0,
            warm_up: Duration::ZERO,
            counted: Duration::from_millis(250),
            seed: 1,
        };
        let answered = send(load, || ()).await.unwrap();
        assert_eq!(answered.failed, 0);
        assert!(answered.took.len() > 40, "{}", answered.took.len());
        assert!(answered.quantile(0.5) <= answered.quantile(0.9));
    }
}
