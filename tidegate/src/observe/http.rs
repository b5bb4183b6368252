//! The HTTP server: health, status and metrics of the node, and a page for people.
//!
//! | path       | answers                                                                      |
//! |------------|------------------------------------------------------------------------------|
//! | `/`, `/page/...` | a page that shows the node live, its script and style                  |
//! | `/healthz` | 200 while the process and the node's loop live                               |
//! | `/readyz`  | 200 when all listeners are bound and each output has a lane up whose records are taken, else 503 |
//! | `/status`  | the node's status as JSON ([`NodeView`])                                     |
//! | `/metrics` | the metrics as text for Prometheus                                           |
//! | `/cameras/NAME` | frames of a camera with `preview = true`, as MJPEG                     |
//!
//! Everything is read-only. Connections are few: the eldest that is idle, or whose client reads nothing, makes room for
//! a new one, so that who watches is always answered.

mod page;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_node::status::NodeStatus;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::config::{HttpConfig, machine_name};
use crate::observe::metrics;
use crate::observe::status::StatusSource;
use crate::observe::status::view::NodeView;
use crate::services::cameras::{BOUNDARY, Preview};
use crate::support::http::{Answer, Busy, Meter, Patience, Watched, watch};
use crate::support::places::Places;

/// Clients at once.
const CONNECTIONS_MAX: u32 = 64;
/// Between two looks for a place.
const PLACE_PAUSE: Duration = Duration::from_millis(5);
/// Clients that look at a camera.
const FILMS_MAX: usize = 32;
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
        if let Some(page) = page::answer(path) {
            return page;
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
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A picture that moves.
fn moving(film: Film) -> Response<Film> {
    let mut response = Response::new(film);
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

/// How the clients of a status page are treated.
#[derive(Clone, Debug)]
pub struct Manner {
    patience: Patience,
    /// Names of this machine.
    hosts: Arc<[String]>,
}

impl From<&HttpConfig> for Manner {
    fn from(config: &HttpConfig) -> Manner {
        let own = machine_name();
        Manner {
            patience: Patience {
                header: config.header_timeout.0,
                keep_alive: config.keep_alive.0,
                write: config.write_timeout.0,
            },
            hosts: config.hosts.iter().cloned().chain((!own.is_empty()).then_some(own)).collect(),
        }
    }
}

/// Opens the site of a node whose other listeners are bound, at every address of `[http]`.
///
/// # Errors
/// An address cannot be bound.
pub async fn open(status: StatusSource, config: &HttpConfig) -> anyhow::Result<()> {
    if !config.listen.0.is_empty() {
        tokio::spawn(status.clone().keep_looking());
    }
    let site = Site::new(status);
    for address in &config.listen.0 {
        let cure = "choose another address in [http] listen, or listen = [] for none";
        let served = serve(*address, site.clone(), config.into()).await;
        let (bound, _) = served.with_context(|| format!("status server at {address} ({cure})"))?;
        tracing::info!("status page at http://{bound}");
    }
    site.listeners_are_bound();
    Ok(())
}

/// Listens at `address` and serves `site` until the returned task is aborted. Returns the address that
/// was bound, which differs for port 0.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    site: impl Answers,
    manner: Manner,
) -> io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((bound, tokio::spawn(accept(listener, site, manner))))
}

async fn accept(listener: TcpListener, site: impl Answers, manner: Manner) {
    let places = Places::new(CONNECTIONS_MAX, true);
    let films = Arc::new(Semaphore::new(FILMS_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "status server cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let meter = Meter::new(None);
        let place = loop {
            match places.enter(meter.clone()).await {
                Some(place) => break place,
                // Answers are made at once: soon somebody has his, or does not read it.
                None => tokio::time::sleep(PLACE_PAUSE).await,
            }
        };
        let (site, films, manner) = (site.clone(), films.clone(), manner.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = converse(stream, site, &meter, &films, &manner) => {}
                () = place.needed() => {}
            }
            drop(place);
        });
    }
}

/// A client that breaks off is its own business: nothing is logged.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    site: impl Answers,
    meter: &Arc<Meter>,
    films: &Arc<Semaphore>,
    manner: &Manner,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let (site, films, busy) = (site.clone(), films.clone(), Busy::begin(meter));
        async move {
            let response = match refusal(&request, &manner.hosts) {
                Some(refusal) => refusal.map(Either::Left),
                None => answer(&request, site, films).await,
            };
            Ok::<_, Infallible>(response.map(|body| Answer::new(body, None, busy)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // It runs while a connection is idle as well: the head's own clock is our meter's.
        .header_read_timeout(manner.patience.keep_alive + manner.patience.header)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(Watched::new(stream, meter.clone())), service);
    let connection = pin!(connection);
    let _ = watch(connection, meter, &manner.patience).await;
}

/// What is not answered. A page of somebody else could have his name lead to this address (DNS rebinding) and then
/// read what is here: the name that was asked for must be ours. That the process lives may be known to everybody.
fn refusal(request: &Request<Incoming>, own: &[String]) -> Option<Response<Full<Bytes>>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let words = "only GET and HEAD are answered\n";
        return Some(text(StatusCode::METHOD_NOT_ALLOWED, words));
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let is_lacking = request.version() == Version::HTTP_11 && host.is_none();
    if second.is_some() || is_lacking {
        return Some(text(StatusCode::BAD_REQUEST, "one Host, please\n"));
    }
    let named = match (request.uri().authority(), host) {
        (Some(authority), _) => Some(is_own(authority.as_str(), own)),
        // Browsers always say where they believe to be.
        (None, host) => host.map(|host| host.to_str().is_ok_and(|host| is_own(host, own))),
    };
    if request.uri().path() != "/healthz" && named == Some(false) {
        let words = "this name is not known here: [http] hosts takes more of them\n";
        return Some(text(StatusCode::MISDIRECTED_REQUEST, words));
    }
    None
}

/// Whether a host with a port or without is this machine, as far as names can tell: no name leads to an address that
/// was written as one.
fn is_own(host: &str, own: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_end_matches('.');
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || own.iter().any(|own| own == "*" || name.eq_ignore_ascii_case(own))
}

async fn answer(
    request: &Request<Incoming>,
    site: impl Answers,
    films: Arc<Semaphore>,
) -> Response<Either<Full<Bytes>, Film>> {
    let path = request.uri().path();
    let Some(preview) = site.preview(path).filter(|_| request.method() == Method::GET) else {
        return site.answer(path).await.map(Either::Left);
    };
    match films.try_acquire_owned() {
        Ok(place) => moving(Film { preview, _place: place }).map(Either::Right),
        Err(_) => {
            let words = "too many look at cameras here\n";
            text(StatusCode::SERVICE_UNAVAILABLE, words).map(Either::Left)
        }
    }
}

/// A picture that moves, in one of the places for such: others are left for who asks for less.
#[derive(Debug)]
struct Film {
    preview: Preview,
    _place: OwnedSemaphorePermit,
}

impl Body for Film {
    type Data = Bytes;
    type Error = <Preview as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.preview).poll_frame(context)
    }
}

#[cfg(test)]
mod tests;
