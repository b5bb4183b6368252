//! What clients may take: clocks that stand still, connections in memory, and places for connections.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_types::account::Account;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep};

use super::peers::until;
use super::*;
use crate::config::{ProxyConfig, ProxyListenerConfig};
use crate::services::proxy::connection::{LocalExecutor, answer};
use crate::services::proxy::plan::Outputs;
use crate::services::proxy::sockets::settings;
use crate::services::proxy::starts::Starts;
use crate::support::http::Meter;

/// A test whose time passes when nobody has anything to do.
fn on_a_still_clock(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// A client of a listener with its defaults, whose answers have so many bytes; and when it is over.
fn client(bytes: usize, length: Option<usize>) -> (DuplexStream, JoinHandle<u64>) {
    let (near, far) = duplex(bytes);
    let begin = Instant::now();
    let served = spawn_local(async move {
        let proxy = ProxyConfig {
            listener: vec![ProxyListenerConfig::default()],
            ..ProxyConfig::default()
        };
        let outputs = Outputs::default().with(&proxy);
        let room = Account::new(1 << 20);
        let settings = settings(Guest::Client, &proxy.listener[0], &outputs, room).unwrap();
        let (_stop, stopping) = watch::channel(false);
        let ask = move |_: Request<Incoming>| async move {
            match length {
                None => std::future::pending().await,
                Some(length) => Response::new(Full::<Bytes>::from(vec![b'x'; length])),
            }
        };
        answer(far, (&settings, &Starts::new()), &Meter::new(None), ask, stopping).await;
        begin.elapsed().as_secs()
    });
    (near, served)
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

async fn ask(client: &mut DuplexStream) {
    client.write_all(GET).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nx") {
        answer.push(client.read_u8().await.unwrap());
    }
}

#[test]
fn an_idle_connection_is_kept_for_75_s_and_a_head_has_10_s() {
    on_a_still_clock(async {
        let (mut client, served) = client(4096, Some(1));
        for _ in 0..3 {
            ask(&mut client).await;
            sleep(Duration::from_secs(74)).await;
        }
        client.write_all(b"GET / HT").await.unwrap();
        sleep(Duration::from_secs(9)).await;
        client.write_all(&GET[8..]).await.unwrap();
        let mut answer = [0; 15];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        client.read_buf(&mut Vec::with_capacity(4096)).await.unwrap();
        client.write_all(b"GET / HT").await.unwrap();
        let over = served.await.unwrap();
        assert!((3 * 74 + 9 + 10..3 * 74 + 9 + 12).contains(&over), "{over}");
    });
}

#[test]
fn a_silent_connection_and_half_a_preface_end() {
    on_a_still_clock(async {
        for first in [&b""[..], b"PRI * HT"] {
            let (mut client, served) = client(4096, Some(1));
            client.write_all(first).await.unwrap();
            let over = served.await.unwrap();
            assert!((75..87).contains(&over), "{over}");
        }
        let (mut client, served) = client(4096, Some(1));
        client.write_all(b"P").await.unwrap();
        let over = served.await.unwrap();
        assert!((10..12).contains(&over), "{over}");
    });
}

#[test]
fn a_client_that_reads_nothing_is_cut_off() {
    on_a_still_clock(async {
        let (mut client, served) = client(64, Some(1 << 20));
        client.write_all(GET).await.unwrap();
        let over = served.await.unwrap();
        assert!((60..62).contains(&over), "{over}");
    });
}

#[test]
fn an_idle_http2_connection_ends_with_a_goodbye_and_not_while_it_is_used() {
    on_a_still_clock(async {
        let (near, served) = client(1 << 16, Some(1));
        let shaken = http2::handshake(LocalExecutor, TokioIo::new(near)).await;
        let (mut sender, connection) = shaken.unwrap();
        let closed = spawn_local(connection);
        for _ in 0..3 {
            let request = Request::get("http://a/").body(Full::<Bytes>::default()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            response.into_body().collect().await.unwrap();
            sleep(Duration::from_secs(70)).await;
        }
        let over = served.await.unwrap();
        assert!((2 * 70 + 75..2 * 70 + 87).contains(&over), "{over}");
        closed.await.unwrap().expect("it ended in good order");
    });
}

/// The preface, settings, and `GET /` of the authority `app` as a whole request.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
                       \0\0\x08\x01\x05\0\0\0\x01\x82\x86\x84\x41\x03app";

#[test]
fn an_http2_client_that_is_gone_is_noticed_by_pings() {
    on_a_still_clock(async {
        let (mut client, served) = client(1 << 16, None);
        client.write_all(HTTP2).await.unwrap();
        // A request is under way, and nobody answers the ping.
        let over = served.await.unwrap();
        assert!((30..=60).contains(&over), "{over}");
        drop(client);
    });
}

#[test]
fn a_stream_whose_client_takes_nothing_is_reset_and_its_connection_goes_on() {
    on_a_still_clock(async {
        let (near, _served) = client(1 << 20, Some(1 << 20));
        let mut builder = http2::Builder::new(LocalExecutor);
        builder.timer(TokioTimer::new()).initial_stream_window_size(1000);
        let (mut sender, connection) = builder.handshake(TokioIo::new(near)).await.unwrap();
        spawn_local(connection);
        let request = || Request::get("http://a/").body(Full::<Bytes>::default()).unwrap();
        let stalled = sender.send_request(request()).await.unwrap();
        sleep(Duration::from_secs(130)).await;
        assert!(stalled.into_body().collect().await.is_err(), "it was reset");
        let read = sender.send_request(request()).await.unwrap();
        let length = read.into_body().collect().await.unwrap().to_bytes().len();
        assert_eq!(length, 1 << 20);
    });
}

#[test]
fn a_full_proxy_gives_the_place_of_the_eldest_idle_and_says_503_where_all_are_busy() {
    on_one_thread(async {
        let upstream = Upstream::start_silent().await;
        let proxy = proxy(&format!("[limits]\nconnections = 2\n{}", simple(upstream.address, "")));
        let silent = TcpStream::connect(address(&proxy)).await.unwrap();
        let mut clients = Vec::new();
        let mut answers = Vec::new();
        for path in ["/1", "/2"] {
            let mut client = Client::connect(address(&proxy)).await;
            answers.push(client.begin(get(path)));
            clients.push(client);
            until(|| upstream.asked().len() == answers.len()).await;
        }
        // The silent one has left.
        assert_eq!({ silent }.read(&mut [0]).await.unwrap_or(0), 0);
        let mut late = TcpStream::connect(address(&proxy)).await.unwrap();
        let mut told = String::new();
        late.read_to_string(&mut told).await.unwrap();
        assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("retry-after: 1"), "{told}");
        upstream.may_answer.add_permits(2);
        for answer in answers {
            assert_eq!(answer.await.unwrap().status(), 200);
        }
        assert_eq!(proxy.counts.read().turned_away, 2);
    });
}

#[test]
fn a_body_that_stops_is_408() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let text = simple(upstream.address, "queue = false");
        let text =
            text.replace("[[proxy.upstream]]", "body_timeout = \"50ms\"\n[[proxy.upstream]]");
        let proxy = proxy(&text);
        let told = raw(address(&proxy), "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nx");
        let told = told.await;
        assert!(told.starts_with("HTTP/1.1 408 ") && told.contains("body-timeout"), "{told}");
    });
}

#[test]
fn bodies_are_charged_before_they_are_read_and_what_does_not_fit_is_503() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let script = ScriptFile::new("charged", "function on_message(h) end");
        let route = "script = \"s\"\nbody = \"whole\"";
        let text = format!("{}{}", script.section(""), simple(upstream.address, route));
        let proxy = proxy(&format!("[limits]\nmemory = \"2MiB\"\n{text}"));
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let used = Rc::new(Cell::new(0));
        let mut held = Vec::new();
        // Nothing of them has come yet: a body may have as much as a message.
        for _ in 0..4 {
            let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            until(|| proxy.room.used() > used.get()).await;
            used.set(proxy.room.used());
            held.push(stream);
        }
        assert_eq!(used.get(), 1 << 20);
        let told = raw(address(&proxy), head).await;
        assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("retry-after"), "{told}");
        // One whose length is known is charged for that.
        drop(held.pop());
        until(|| proxy.room.used() < used.get()).await;
        let mut client = Client::connect(address(&proxy)).await;
        assert_eq!(client.send(post("/", "short")).await.status(), 200);
        drop(held);
        until(|| proxy.room.used() == 0 && is_settled(&proxy)).await;
    });
}
