//! The HTTP output against a real HTTP server.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tidegate::config::read;
use tidegate::link::Links;
use tidegate::output::http::HttpOptions;
use tidegate::output::kind::Surroundings;
use tidegate::support::tls::{self, ServerFiles};
use tidegate_types::headers;
use tidegate_types::record::DropReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::support::PATIENCE;
use crate::support::certificates::Authority;
use crate::support::logs::Logs;
use crate::support::node::{End, Node};

/// A request as the server saw it, and how it was answered.
#[derive(Clone, Debug)]
struct Seen {
    line: String,
    headers: HeaderMap,
    body: Bytes,
    status: StatusCode,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn seq(&self) -> u64 {
        self.header(headers::SEQ).parse().unwrap()
    }

    fn is_bulk(&self) -> bool {
        self.header(headers::CLASS) == "lt"
    }
}

type Answer = Response<Full<Bytes>>;
type Judge = dyn Fn(usize, &Seen) -> Answer + Send + Sync;

fn answer(status: u16, body: &'static str) -> Answer {
    let answer = Response::builder().status(status);
    answer.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
}

/// A server that judges each request by its number, and answers bulk only as the gate allows.
#[derive(Clone)]
struct Server {
    seen: Arc<Mutex<Vec<Seen>>>,
    judge: Arc<Judge>,
    gate: Arc<Semaphore>,
}

impl Server {
    fn new(judge: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static) -> Server {
        let gate = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Server { seen: Arc::default(), judge: Arc::new(judge), gate }
    }

    /// Serves at an address of its own until the test ends.
    async fn start(&self, tls: Option<ServerFiles>) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (address, self.serve(listener, tls))
    }

    fn serve(&self, listener: TcpListener, tls: Option<ServerFiles>) -> JoinHandle<()> {
        let server = self.clone();
        let acceptor = tls.map(|files| TlsAcceptor::from(tls::server(&files).unwrap()));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, acceptor) = (server.clone(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => server.connection(TokioIo::new(stream)).await,
                        Some(acceptor) => {
                            // Whoever is not trusted is gone.
                            let Ok(stream) = acceptor.accept(stream).await else { return };
                            server.connection(TokioIo::new(stream)).await;
                        }
                    }
                });
            }
        })
    }

    async fn connection<S>(self, stream: TokioIo<S>)
    where
        TokioIo<S>: hyper::rt::Read + hyper::rt::Write + Unpin,
    {
        let service = service_fn(|request| self.clone().request(request));
        // A client may go away at any time.
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await;
    }

    async fn request(self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        let line = format!("{} {}", request.method(), request.uri());
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let status = StatusCode::CONTINUE;
        let mut seen = Seen { line, headers: parts.headers, body, status };
        let (number, answer) = {
            let mut all = self.seen.lock().unwrap();
            let answer = (self.judge)(all.len(), &seen);
            seen.status = answer.status();
            all.push(seen.clone());
            (all.len(), answer)
        };
        assert!(number > 0);
        if seen.is_bulk() {
            self.gate.acquire().await.unwrap().forget();
        }
        Ok(answer)
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// What an output with these keys is told.
fn options(keys: &str) -> HttpOptions {
    let text = format!("[[output]]\nname = \"hook\"\n[output.http]\n{keys}\n");
    let reading = read(&text);
    assert_eq!(reading.render("node.toml", &text), "");
    let surroundings = Surroundings {
        node: "gate-7".into(),
        output: "hook".into(),
        classes: ["ls".into(), "lt".into()].into(),
        bounds: vec![Duration::from_millis(50); 2],
        unconfirmed_max: 32,
        links: Links::default(),
    };
    reading.config.output[0].http.as_ref().unwrap().options(&surroundings).unwrap()
}

/// All records once, each with what it had.
fn assert_whole(seen: &[Seen], records: u64, large: &[u8]) {
    let taken: Vec<&Seen> = seen.iter().filter(|seen| seen.status.is_success()).collect();
    let mut keys = BTreeMap::new();
    for seen in &taken {
        assert_eq!(seen.line, "POST /in?a=b");
        let seq = seen.seq();
        assert_eq!(
            keys.insert(seen.header("idempotency-key").to_owned(), seq),
            None,
            "{seq} twice"
        );
        assert_eq!(seen.header("idempotency-key"), format!("\"gate-7/0000000000001c9f/12/{seq}\""));
        assert_eq!(seen.header("tidegate-property-unit"), "celsius");
        assert_eq!(seen.header("content-type"), "application/octet-stream");
        assert_eq!(seen.is_bulk(), seq % 2 == 1);
        match seq {
            1 => assert!(seen.body == large && seen.header("tidegate-topic") == "large"),
            _ => assert_eq!(seen.header("tidegate-topic"), format!("plant/{}/alarm", seq % 7)),
        }
    }
    assert_eq!(keys.len() as u64, records);
}

/// Records of a lane come in their order.
fn assert_ordered(seen: &[Seen]) {
    for is_bulk in [false, true] {
        let taken = seen.iter().filter(|seen| seen.status.is_success());
        let lane = taken.filter(|seen| seen.is_bulk() == is_bulk).map(Seen::seq);
        assert!(lane.is_sorted());
    }
}

fn offer_all(node: &mut Node, records: u64) -> Vec<u8> {
    let large: Vec<u8> = (0..300_000_u32).map(|place| (place % 251) as u8).collect();
    node.offer(1, "large", large.clone().into());
    for number in 2..=records {
        node.offer(number, &format!("plant/{}/alarm", number % 7), vec![b'x'; 200].into());
    }
    large
}

#[tokio::test]
async fn records_reach_an_http_server_whole_and_in_order() {
    let server = Server::new(|_, _| answer(204, ""));
    let (address, _) = server.start(None).await;
    let mut node = Node::start(options(&format!("url = \"http://{address}/in?a=b\"")), 2, 32);
    let large = offer_all(&mut node, 300);
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    assert!(node.samples > 0 && node.downs() == 0 && node.handed > 300 * 200 + 300_000);
    node.stop().await;
    assert_whole(&server.seen(), 300, &large);
    assert_ordered(&server.seen());
    let host = address.to_string();
    assert!(server.seen().iter().all(|seen| seen.header("host") == host));
}

#[tokio::test]
async fn the_next_host_serves_where_one_is_down_or_ends_its_connections() {
    let (first, second) =
        (Server::new(|_, _| answer(204, "")), Server::new(|_, _| answer(204, "")));
    let [down, up] = [first.start(None).await, second.start(None).await];
    let url = format!("url = \"http://{},{}/in?a=b\"", down.0, up.0);
    down.1.abort();
    assert!(down.1.await.unwrap_err().is_cancelled(), "its socket is closed");
    let mut node = Node::start(options(&url), 2, 32);
    let large = offer_all(&mut node, 100);
    node.run_until(Node::is_done).await;
    node.stop().await;
    assert_whole(&second.seen(), 100, &large);
    assert_eq!(first.seen().len(), 0);
    let host = up.0.to_string();
    assert!(second.seen().iter().all(|seen| seen.header("host") == host));
}

#[tokio::test]
async fn records_reach_an_http_server_by_ipv6() {
    let Ok(listener) = TcpListener::bind("[::1]:0").await else {
        println!("skipped: needs IPv6 on loopback, not found");
        return;
    };
    let port = listener.local_addr().unwrap().port();
    let server = Server::new(|_, _| answer(200, "ok"));
    server.serve(listener, None);
    let mut node = Node::start(options(&format!("url = \"http://[::1]:{port}\"")), 1, 8);
    node.offer(1, "a", vec![b'x'; 10].into());
    node.run_until(Node::is_done).await;
    node.stop().await;
    let seen = server.seen();
    assert_eq!((seen[0].header("host"), &*seen[0].line), (&*format!("[::1]:{port}"), "POST /"));
}

#[tokio::test]
async fn records_reach_an_http_server_over_tls_with_a_certificate_of_our_own() {
    let authority = Authority::new("http-output");
    let own = authority.issue("server");
    let files = ServerFiles {
        certificate: own.certificate,
        key: own.key,
        client_ca: Some(authority.ca()),
        crl: None,
    };
    let server = Server::new(|_, _| answer(200, ""));
    let (address, _) = server.start(Some(files)).await;
    let (ca, own) = (authority.ca(), authority.issue("gate-7"));
    let url = format!("url = \"https://127.0.0.1:{}/in?a=b\"\nca = {ca:?}", address.port());
    let certificate = format!("\ncertificate = {:?}\nkey = {:?}", own.certificate, own.key);
    let mut node = Node::start(options(&(url.clone() + &certificate)), 2, 32);
    let large = offer_all(&mut node, 100);
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    assert!(node.samples > 0, "the kernel's counts are seen under TLS too");
    node.stop().await;
    assert_whole(&server.seen(), 100, &large);
    assert_ordered(&server.seen());
    let (logs, other) = (Logs::collect(), Authority::new("http-stranger"));
    let strange = url.replace(&format!("{ca:?}"), &format!("{:?}", other.ca()));
    for (keys, words) in [
        (strange, "not from an authority that is trusted here"),
        (url, "the far end wants a certificate"),
    ] {
        let mut node = Node::start(options(&keys), 1, 8);
        node.run_until(|_| logs.count(words) > 0).await;
        node.stop().await;
    }
    assert_eq!(server.seen().len(), 100, "who is not trusted gets nothing");
}

#[tokio::test]
async fn a_login_that_is_refused_drops_nothing_and_is_told() {
    let is_open = Arc::new(Mutex::new(false));
    let opened = is_open.clone();
    let server = Server::new(move |_, seen| {
        assert_eq!(seen.header("authorization"), "Basic Z2F0ZTo=");
        if *opened.lock().unwrap() { answer(200, "") } else { answer(401, "who are you?") }
    });
    let (address, _) = server.start(None).await;
    let logs = Logs::collect();
    let keys = format!("url = \"http://{address}/\"\nuser = \"gate\"");
    let mut node = Node::start(options(&keys), 1, 32);
    for number in 1..=20 {
        node.offer(number, "a", vec![b'x'; 20].into());
    }
    let words = "the far end refuses the login: 401 Unauthorized: who are you?";
    node.run_until(|_| logs.count(words) > 0).await;
    assert!(node.fates.is_empty() && server.seen().len() < 20, "no record is judged by it");
    *is_open.lock().unwrap() = true;
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    node.stop().await;
}

#[tokio::test]
async fn a_busy_server_loses_nothing() {
    // What was ordered behind a refused record goes before it comes again; one at a time keeps the order.
    for window in [1, 32] {
        let server = Server::new(|number, _| match number {
            0 => answer(503, "starting"),
            1 => answer(500, ""),
            2 => {
                let busy = Response::builder().status(429).header("retry-after", "0");
                busy.body(Full::default()).unwrap()
            }
            _ => answer(201, ""),
        });
        let (address, _) = server.start(None).await;
        let logs = Logs::collect();
        let keys = format!("url = \"http://{address}/in?a=b\"");
        let mut node = Node::start(options(&keys), 2, window);
        let large = offer_all(&mut node, 60);
        node.run_until(Node::is_done).await;
        assert!(node.fates.values().all(|end| *end == End::Confirmed));
        assert_eq!((node.refused, node.downs()), (3, 0));
        node.stop().await;
        assert_whole(&server.seen(), 60, &large);
        if window == 1 {
            assert_ordered(&server.seen());
        }
        assert!((1..=2).contains(&logs.count("the far end takes no records now")), "once a lane");
    }
}

#[tokio::test]
async fn a_record_that_the_server_does_not_want_is_dropped_in_its_words() {
    let server = Server::new(|_, seen| match seen.seq() {
        3 => answer(422, "no such unit\r\nfurlong"),
        4 => answer(413, ""),
        _ => answer(200, ""),
    });
    let (address, _) = server.start(None).await;
    let logs = Logs::collect();
    let mut node = Node::start(options(&format!("url = \"http://{address}\"")), 1, 32);
    for number in 1..=5 {
        node.offer(number, "a", vec![b'x'; 20].into());
    }
    node.run_until(Node::is_done).await;
    let fates: Vec<End> = node.fates.values().copied().collect();
    let [refused, oversize] = [DropReason::Refused, DropReason::Oversize].map(End::Dropped);
    assert_eq!(fates, [End::Confirmed, End::Confirmed, refused, oversize, End::Confirmed]);
    assert_eq!(logs.count("dropped: 422 Unprocessable Entity: no such unitfurlong"), 1);
    node.stop().await;
}

/// Reads a request up to the end of its body of `body` bytes.
async fn read_request(stream: &mut TcpStream, body: usize) -> String {
    let (mut text, mut part) = (Vec::new(), [0; 1024]);
    loop {
        let head = text.windows(4).position(|four| four == b"\r\n\r\n");
        if head.is_some_and(|end| text.len() >= end + 4 + body) {
            return String::from_utf8(text).unwrap();
        }
        let read = timeout(PATIENCE, stream.read(&mut part)).await.unwrap().unwrap();
        assert!(read > 0, "the request breaks off");
        text.extend_from_slice(&part[..read]);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_confirms_nothing_and_the_record_goes_again_marked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut node = Node::start(options(&format!("url = \"http://{address}\"")), 1, 1);
    node.offer(1, "a", vec![b'x'; 20].into());
    let dying = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream, 20).await;
        assert!(!request.contains(headers::AGAIN));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await.unwrap();
        listener
    });
    node.run_until(|node| node.downs() > 0).await;
    let listener = dying.await.unwrap();
    let server = Server::new(|_, _| answer(200, ""));
    server.serve(listener, None);
    node.run_until(Node::is_done).await;
    assert_eq!((node.fates[&1], node.downs()), (End::Confirmed, 1));
    node.stop().await;
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].header(headers::AGAIN)), (1, "1"));
    assert_eq!(seen[0].header("idempotency-key"), "\"gate-7/0000000000001c9f/12/1\"");
}

#[tokio::test]
async fn an_urgent_record_does_not_wait_behind_bulk_at_a_slow_server() {
    const PIPELINE: usize = 4;
    let server = Server::new(|_, _| answer(200, ""));
    // Bulk is answered PIPELINE times, so that its window opens, and then not at all.
    let answered = 2 * PIPELINE;
    server.gate.forget_permits(Semaphore::MAX_PERMITS - answered);
    let (address, _) = server.start(None).await;
    let keys = format!("url = \"http://{address}\"\npipeline = {PIPELINE}");
    let mut node = Node::start(options(&keys), 2, 64);
    for number in 0..100 {
        node.offer(2 * number + 1, "bulk", vec![b'x'; 2000].into());
    }
    let bulk = |node: &Node| node.fates.keys().filter(|id| *id % 2 == 1).count();
    node.run_until(|node| bulk(node) == answered).await;
    for number in 1..=20 {
        node.offer(2 * number, "alarm", vec![b'!'; 20].into());
    }
    node.run_until(|node| node.fates.len() == answered + 20).await;
    assert_eq!(bulk(&node), answered, "all urgent records are there before the next of bulk");
    let seen = server.seen().iter().filter(|seen| seen.is_bulk()).count();
    assert!(seen <= answered + PIPELINE, "{seen} requests of bulk came");
    server.gate.add_permits(1000);
    node.run_until(Node::is_done).await;
    node.stop().await;
}

#[tokio::test]
async fn who_closes_after_each_answer_gets_each_record_once() {
    let server = Server::new(|_, _| {
        let last = Response::builder().header("connection", "close");
        last.body(Full::default()).unwrap()
    });
    let (address, _) = server.start(None).await;
    let logs = Logs::collect();
    let mut node = Node::start(options(&format!("url = \"http://{address}/in?a=b\"")), 2, 32);
    let large = offer_all(&mut node, 40);
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    node.stop().await;
    let seen = server.seen();
    assert_eq!(seen.len(), 40, "none is sent behind an answer that never comes");
    assert_whole(&seen, 40, &large);
    assert_ordered(&seen);
    assert_eq!(logs.count("trying again"), 0, "that is no trouble");
}
