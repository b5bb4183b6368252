//! Clients and servers of the tests.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;

use crate::services::proxy::connection::LocalExecutor;

/// A server that says what it was asked: method, path, host and body.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    /// What it was asked, in order.
    pub(super) asked: Rc<RefCell<Vec<String>>>,
    /// It answers as often as there are permits.
    pub(super) may_answer: Rc<Semaphore>,
}

impl Upstream {
    /// One that answers at once.
    pub(super) async fn start() -> Upstream {
        let upstream = Upstream::start_silent().await;
        upstream.may_answer.add_permits(1 << 20);
        upstream
    }

    pub(super) async fn start_silent() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, may_answer) =
            (Rc::<RefCell<Vec<String>>>::default(), Rc::new(Semaphore::new(0)));
        let (seen, may) = (asked.clone(), may_answer.clone());
        spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, may) = (seen.clone(), may.clone());
                let service = service_fn(move |request| {
                    let (seen, may) = (seen.clone(), may.clone());
                    async move { Ok::<_, Infallible>(echo(request, &seen, &may).await) }
                });
                spawn_local(async move {
                    let io = TokioIo::new(stream);
                    let _ = auto::Builder::new(LocalExecutor).serve_connection(io, service).await;
                });
            }
        });
        Upstream { address, asked, may_answer }
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }
}

async fn echo(
    request: Request<Incoming>,
    asked: &RefCell<Vec<String>>,
    may: &Semaphore,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let header = |name: &str| {
        parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let path = parts.uri.path_and_query().unwrap();
    let text =
        format!("{} {path} {} {}", parts.method, header("host"), String::from_utf8_lossy(&body));
    asked.borrow_mut().push(text.trim_end().to_owned());
    may.acquire().await.unwrap().forget();
    let text = if path == "/event" { String::from_utf8_lossy(&body).into_owned() } else { text };
    let response = Response::builder().header("x-tag", header("x-tag"));
    response.body(Full::from(Bytes::from(text.trim_end().to_owned()))).unwrap()
}

/// A client with one kept connection.
pub(super) struct Client(http1::SendRequest<Full<Bytes>>);

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        spawn_local(connection.with_upgrades());
        Client(sender)
    }

    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        self.0.ready().await.unwrap();
        self.0.send_request(request).await.unwrap()
    }

    /// Whether the connection ends.
    pub(super) async fn is_over(&mut self) -> bool {
        while self.0.ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
        true
    }

    /// Sends and does not wait.
    pub(super) fn begin(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + use<> {
        self.0.send_request(request)
    }
}

/// Gives others their turn until something is so.
pub(super) async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}
