//! The status page and its clients, on a clock that stands still and on real sockets.

use std::sync::Mutex;

use tidegate_types::account::Account;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::*;

/// Answers with so many bytes.
#[derive(Clone)]
struct Stub(Bytes);

impl Answers for Stub {
    async fn answer(&self, _path: &str) -> Response<Full<Bytes>> {
        text(StatusCode::OK, self.0.clone())
    }
}

fn manner() -> Manner {
    Manner::from(&HttpConfig::default())
}

/// A client of a connection that holds so many bytes on the way, and when it was over.
fn client(bytes: usize, answer: usize) -> (DuplexStream, JoinHandle<Duration>) {
    let (near, far) = duplex(bytes);
    let begin = Instant::now();
    let served = tokio::spawn(async move {
        let (meter, films) = (Meter::new(None), Arc::new(Semaphore::new(1)));
        let site = Stub(vec![b'x'; answer].into());
        converse(far, site, &meter, &films, &manner()).await;
        begin.elapsed()
    });
    (near, served)
}

async fn ask(client: &mut DuplexStream) {
    client.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nx") {
        answer.push(client.read_u8().await.unwrap());
    }
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_may_be_silent_for_its_time_and_then_ends() {
    let (mut client, served) = client(4096, 1);
    for _ in 0..3 {
        ask(&mut client).await;
        sleep(seconds(74)).await;
    }
    ask(&mut client).await;
    let over = served.await.unwrap();
    assert!((3 * 74 + 75..3 * 74 + 77).contains(&over.as_secs()), "{over:?}");
}

#[tokio::test(start_paused = true)]
async fn a_head_has_its_time_from_its_first_byte() {
    let (mut client, served) = client(4096, 1);
    ask(&mut client).await;
    sleep(seconds(60)).await;
    // A byte now and then does not help.
    for byte in b"GET / HTTP/1.1" {
        let _ = client.write_all(&[*byte]).await;
        sleep(seconds(1)).await;
    }
    let over = served.await.unwrap();
    assert!((70..72).contains(&over.as_secs()), "{over:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_given_up() {
    let (mut client, served) = client(64, 100_000);
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let over = served.await.unwrap();
    assert!((10..12).contains(&over.as_secs()), "{over:?}");
}

async fn fetch(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn who_watches_is_answered_while_all_places_are_held() {
    let answer = Bytes::from(vec![b'x'; 16 << 20]);
    for first in ["", "GET / HTTP/1.1\r\nx: ", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        let address = ([127, 0, 0, 1], 0).into();
        let (address, task) = serve(address, Stub(answer.clone()), manner()).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(first.as_bytes()).await.unwrap();
            held.push(stream);
        }
        let told = fetch(address, "HEAD /healthz HTTP/1.0\r\n\r\n").await;
        assert!(told.starts_with("HTTP/1.0 200"), "{first:?}: {told:?}");
        task.abort();
    }
}

#[tokio::test]
async fn a_name_that_is_not_ours_is_refused_against_dns_rebinding() {
    let config = HttpConfig { hosts: vec!["gate-7.example".into()], ..HttpConfig::default() };
    let site = Stub(Bytes::from_static(b"x"));
    let (address, task) = serve(([127, 0, 0, 1], 0).into(), site, (&config).into()).await.unwrap();
    for (path, hosts, status) in [
        ("/status", "host: localhost\r\n", 200),
        ("/status", "host: localhost.:7070\r\n", 200),
        ("/status", "host: x.localhost\r\n", 200),
        ("/status", "host: 10.0.0.7:7070\r\n", 200),
        ("/status", "host: [::1]:7070\r\n", 200),
        ("/status", "host: GATE-7.example:7070\r\n", 200),
        ("/status", "host: evil.example\r\n", 421),
        ("/metrics", "host: 127.0.0.1.evil.example:7070\r\n", 421),
        ("/", "host: user@evil.example\r\n", 421),
        ("/", "host: \r\n", 421),
        ("http://evil.example/status", "host: localhost\r\n", 421),
        ("/healthz", "host: pod.default.svc\r\n", 200),
        ("/status", "", 400),
        ("/status", "host: localhost\r\nhost: localhost\r\n", 400),
    ] {
        let head = format!("GET {path} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        let told = fetch(address, &head).await;
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {told}");
    }
    task.abort();
}

#[tokio::test]
async fn long_heads_are_charged_while_they_come() {
    let room = Account::new(64 << 10);
    let head = vec![b'x'; 9 << 10];
    let mut held = Vec::new();
    for fits in [true, false] {
        let (mut near, far) = duplex(1 << 20);
        let meter = Meter::new(Some((room.clone(), 64 << 10)));
        let mut watched = Watched::new(far, meter.clone());
        near.write_all(&head).await.unwrap();
        let read = watched.read_exact(&mut vec![0; head.len()]).await;
        assert_eq!(read.is_ok(), fits);
        held.push(meter);
    }
    assert_eq!(room.used(), 64 << 10);
    drop(Busy::begin(&held[0]));
    assert_eq!(room.used(), 0, "the exchange has it, and ends");
}

#[tokio::test]
async fn a_head_that_goes_on_in_frames_has_its_room_while_requests_are_under_way() {
    let room = Account::new(64 << 10);
    let head = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &[0, 0, 1, 1, 0, 0, 0, 0, 1, b'x']]
        .concat();
    let end = [0, 0, 0, 9, 4, 0, 0, 0, 1];
    let mut held = Vec::new();
    for fits in [true, false] {
        let (mut near, far) = duplex(1 << 20);
        let meter = Meter::new(Some((room.clone(), 64 << 10)));
        let mut watched = Watched::new(far, meter.clone());
        let busy = Busy::begin(&meter);
        near.write_all(&head[..2]).await.unwrap();
        watched.read_exact(&mut [0; 2]).await.unwrap();
        near.write_all(&head[2..]).await.unwrap();
        let read = watched.read_exact(&mut vec![0; head.len() - 2]).await;
        assert_eq!(read.is_ok(), fits);
        held.push((near, watched, busy));
    }
    assert_eq!(room.used(), 64 << 10);
    let (near, watched, _) = &mut held[0];
    near.write_all(&end).await.unwrap();
    watched.read_exact(&mut [0; 9]).await.unwrap();
    assert_eq!(room.used(), 0, "it has come whole");
}

#[tokio::test]
async fn long_heads_are_read_piece_by_piece_and_others_have_their_turn_between() {
    let read = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in [0, 1] {
        let (mut near, far) = duplex(1 << 20);
        near.write_all(&[b'x'; 64 << 10]).await.unwrap();
        let (mut watched, read) = (Watched::new(far, Meter::new(None)), read.clone());
        tasks.push(tokio::spawn(async move {
            let mut piece = [0; 8 << 10];
            for _ in 0..8 {
                watched.read_exact(&mut piece).await.unwrap();
                read.lock().unwrap().push(number);
            }
            near
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    // What a short head may have is read at once, and so is what tells that this one is longer.
    let turns = [[0, 0, 1, 1].as_slice(), &[0, 1].repeat(6)].concat();
    assert_eq!(*read.lock().unwrap(), turns);
}
