//! The HTTP server: health, status and metrics of the node, and a page for people.
//!
//! | path       | answers                                                                      |
//! |------------|------------------------------------------------------------------------------|
//! | `/`        | a page that shows the classes live                                           |
//! | `/healthz` | 200 while the process and the node's loop live                               |
//! | `/readyz`  | 200 when all listeners are bound and each output has a lane up whose records are taken, else 503 |
//! | `/status`  | the node's status as JSON ([`NodeView`])                                     |
//! | `/metrics` | the metrics as text for Prometheus                                           |
//! | `/cameras/NAME` | frames of a camera with `preview = true`, as MJPEG                     |
//!
//! Everything is read-only. Connections are few and short: a slow or silent client is cut off.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_core::status::NodeStatus;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::frames::{BOUNDARY, Preview};
use crate::metrics;
use crate::status::StatusSource;
use crate::status::view::NodeView;

/// Clients at once; more wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 64;
/// A client that has not sent its request within this is cut off.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Room for one request's head.
const BUFFER_MAX: usize = 16 * 1024;
/// Pause after a failed accept (no descriptors left): the next one would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who answers.
pub trait Answers: Clone + Send + Sync + 'static {
    /// What is read at a path.
    fn answer(&self, path: &str) -> impl Future<Output = Response<Full<Bytes>>> + Send;

    /// Frames that are seen at a path, until who looks is gone.
    fn preview(&self, _path: &str) -> Option<Preview> {
        None
    }
}

impl Answers for Site {
    async fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        self.read(path).await
    }

    fn preview(&self, path: &str) -> Option<Preview> {
        self.status.frames().preview(path.strip_prefix("/cameras/")?)
    }
}

/// What the answers come from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Site {
    status: StatusSource,
    bound: Arc<AtomicBool>,
}

impl Site {
    /// A site about this node.
    pub fn new(status: StatusSource) -> Self {
        Site { status, bound: Arc::default() }
    }

    /// Every listener of the node is bound.
    pub fn listeners_are_bound(&self) {
        self.bound.store(true, Ordering::Relaxed);
    }

    async fn read(&self, path: &str) -> Response<Full<Bytes>> {
        if path == "/" {
            return page();
        }
        if !["/healthz", "/readyz", "/status", "/metrics"].contains(&path) {
            return text(StatusCode::NOT_FOUND, "try /, /status, /metrics, /healthz, /readyz\n");
        }
        let Ok(snapshot) = self.status.get().await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping\n");
        };
        match path {
            "/healthz" => text(StatusCode::OK, "alive\n"),
            "/readyz" => self.readiness(&snapshot.now),
            "/metrics" => {
                let metrics = metrics::encode(&snapshot, &self.status.counts().read());
                typed("text/plain; version=0.0.4", metrics)
            }
            _ => match serde_json::to_string(&NodeView::from(&snapshot)) {
                Ok(json) => typed("application/json", json),
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            },
        }
    }

    fn readiness(&self, status: &NodeStatus) -> Response<Full<Bytes>> {
        let mut missing = String::new();
        if !self.bound.load(Ordering::Relaxed) {
            missing.push_str("listeners are not bound yet\n");
        }
        for output in status.outputs.iter().filter(|output| output.lanes_up == 0) {
            missing.push_str(&format!("output {} has no connection\n", output.name));
        }
        for output in status.outputs.iter().filter(|output| output.is_refusing) {
            missing.push_str(&format!("output {}: the far end refuses its records\n", output.name));
        }
        match missing.is_empty() {
            true => text(StatusCode::OK, "ready\n"),
            false => text(StatusCode::SERVICE_UNAVAILABLE, missing),
        }
    }
}

/// An answer of this kind.
pub(crate) fn typed(kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A picture that moves.
fn moving(preview: Preview) -> Response<Preview> {
    let mut response = Response::new(preview);
    let kind = format!("multipart/x-mixed-replace; boundary={BOUNDARY}");
    if let Ok(kind) = HeaderValue::try_from(kind) {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer in words.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = typed("text/plain; charset=utf-8", body);
    *response.status_mut() = status;
    response
}

fn page() -> Response<Full<Bytes>> {
    let mut response = typed("text/html; charset=utf-8", include_str!("http/page.html"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                  connect-src 'self'; img-src data:";
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// Listens at `address` and serves `site` until the returned task is aborted. Returns the address that
/// was bound, which differs for port 0.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    site: impl Answers,
) -> io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((bound, tokio::spawn(accept(listener, site))))
}

async fn accept(listener: TcpListener, site: impl Answers) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = room.clone().acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let site = site.clone();
                tokio::spawn(async move {
                    converse(stream, site).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "status server cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A client that breaks off is its own business: nothing is logged.
async fn converse(stream: TcpStream, site: impl Answers) {
    let service = service_fn(|request: Request<Incoming>| {
        let site = site.clone();
        async move {
            if !matches!(*request.method(), Method::GET | Method::HEAD) {
                let words = "only GET and HEAD are answered\n";
                let refusal = text(StatusCode::METHOD_NOT_ALLOWED, words);
                return Ok::<_, Infallible>(refusal.map(Either::Left));
            }
            let path = request.uri().path();
            Ok(match site.preview(path).filter(|_| request.method() == Method::GET) {
                Some(preview) => moving(preview).map(Either::Right),
                None => site.answer(path).await.map(Either::Left),
            })
        }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
