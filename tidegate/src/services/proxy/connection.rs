//! One connection of a client: TLS, HTTP of either version, and its clocks.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::{self, HttpServerConnExec};
use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::envoy;
use super::exchange::exchange;
use super::listener::{Guest, ListenerSettings, Peer};
use super::other;
use super::starts::{Line, Starts};
use super::worker::WorkerContext;
use crate::support::http::{Answer, Busy, Meter, Over, Pace, Patience, Watched, watch};
use crate::support::places::Occupant;

/// Exchanges of one Envoy at once: all that it carries come by one connection or a few.
const DIALOGS_MAX: u32 = 16_384;
/// Room for one request's head.
pub(super) const HEAD_MAX: usize = 64 * 1024;
/// What a client may send of one body of HTTP/2 before we read it, and what of it is held where nobody reads it.
pub(super) const STREAM_WINDOW: u32 = 64 * 1024;
/// The same of all bodies of a connection: no more than what its bodies are charged for.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;
/// What of an answer waits in one stream of HTTP/2.
const SEND_MAX: usize = 64 * 1024;
/// What of an answer waits in TLS: a record.
const TLS_MAX: usize = 16 * 1024;
/// How long a client of HTTP/2 may take to say that it is there.
const PONG: Duration = Duration::from_secs(20);

/// Runs hyper's own tasks on this thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(async move {
            future.await;
        });
    }
}

/// Runs the streams of one connection, each when it has its turn, and ends those whose client takes nothing.
#[derive(Clone, Debug)]
struct Streams {
    write: Duration,
    line: Rc<Line>,
    /// Of the stream that begins: hyper hands it over as soon as its service was called.
    newest: Rc<RefCell<Option<Arc<Pace>>>>,
}

impl<F: Future + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, future: F) {
        let (pace, write) = (self.newest.take(), self.write);
        match pace {
            None => _ = spawn_local(async move { _ = future.await }),
            Some(pace) => self.line.begin(async move {
                tokio::select! {
                    _ = future => {}
                    () = pace.stalls(write) => {}
                }
            }),
        }
    }
}

/// A client that breaks off is its own business: nothing is logged.
pub(super) async fn converse(
    stream: TcpStream,
    peer: Rc<Peer>,
    settings: &ListenerSettings,
    worker: &Rc<WorkerContext>,
    stopping: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &settings.tls else {
        return match settings.other {
            Some(upstream) if !other::is_http(&stream, settings).await => {
                other::pass(stream, &peer, worker, upstream).await;
            }
            _ => serve(stream, peer, settings, worker, stopping).await,
        };
    };
    let bound = |connection: &mut ServerConnection| connection.set_buffer_limit(Some(TLS_MAX));
    let accepting = TlsAcceptor::from(tls.clone()).accept_with(stream, bound);
    if let Ok(Ok(stream)) = timeout(settings.patience.header, accepting).await {
        serve(stream, peer, settings, worker, stopping).await;
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    peer: Rc<Peer>,
    settings: &ListenerSettings,
    worker: &Rc<WorkerContext>,
    stopping: watch::Receiver<bool>,
) {
    let meter = peer.meter.clone();
    match settings.guest {
        Guest::Client => {
            let exchange = move |request| exchange(worker.clone(), peer.clone(), request);
            answer(stream, (settings, &worker.starts), &meter, exchange, stopping).await;
        }
        Guest::Envoy => {
            let dialog = move |request| envoy::answer(worker.clone(), peer.clone(), request);
            answer(stream, (settings, &worker.starts), &meter, dialog, stopping).await;
        }
    }
}

/// Answers every request of a connection until it is over.
pub(super) async fn answer<S, A, F, B>(
    stream: S,
    (settings, starts): (&ListenerSettings, &Rc<Starts>),
    meter: &Arc<Meter>,
    ask: A,
    stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>> + 'static,
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let newest: Rc<RefCell<Option<Arc<Pace>>>> = Rc::default();
    let line = Rc::new(starts.line(settings.streams));
    let streams = Streams { write: settings.patience.write, line, newest: newest.clone() };
    let service = service_fn(|request| {
        let busy = Busy::begin(meter);
        let pace = (meter.is_http2() && settings.guest == Guest::Client).then(Pace::new);
        newest.replace(pace.clone());
        let is_newer = meter.is_newer();
        let own = if meter.is_http2() { Version::HTTP_2 } else { Version::HTTP_11 };
        let response = ask(request);
        async move {
            let mut response = response.await;
            // Our own, whatever the upstream speaks (RFC 9112, 2.3).
            *response.version_mut() = own;
            if is_newer {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| Answer::new(body, pace, busy)))
        }
    });
    let io = TokioIo::new(Watched::new(stream, meter.clone()));
    run(builder(settings, streams), io, service, meter, &settings.patience, stopping).await;
}

fn builder(settings: &ListenerSettings, streams: Streams) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        // It runs while a connection is idle as well: the head's own clock is our meter's.
        .header_read_timeout(settings.patience.keep_alive + settings.patience.header)
        .max_buf_size(HEAD_MAX);
    let is_envoy = settings.guest == Guest::Envoy;
    let mut http2 = builder.http2();
    http2
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_MAX as u32)
        .keep_alive_interval(settings.ping)
        .keep_alive_timeout(PONG)
        .max_concurrent_streams(if is_envoy { DIALOGS_MAX } else { settings.streams });
    match is_envoy {
        true => http2.adaptive_window(true),
        false => http2
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_MAX),
    };
    builder
}

async fn run<S, Q, B>(
    builder: auto::Builder<Streams>,
    io: TokioIo<Watched<S>>,
    service: Q,
    meter: &Meter,
    patience: &Patience,
    mut stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    Q: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    Q::Future: 'static,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    Streams: HttpServerConnExec<Q::Future, B>,
{
    let connection = builder.serve_connection_with_upgrades(io, service);
    tokio::pin!(connection);
    let has_told = Cell::new(false);
    loop {
        let over = tokio::select! {
            over = watch(connection.as_mut(), meter, patience) => over,
            _ = stopping.wait_for(|stops| *stops), if !has_told.get() => {
                // What is under way is finished.
                has_told.set(true);
                connection.as_mut().graceful_shutdown();
                continue;
            }
        };
        match over {
            Err(Over::Idle) => break,
            _ => return,
        }
    }
    // One of HTTP/2 says goodbye, and answers what its client asked for in the same moment.
    connection.as_mut().graceful_shutdown();
    while timeout(patience.header, connection.as_mut()).await.is_err() {
        if meter.idle_since().is_some() || meter.blocked_since().is_some() {
            return;
        }
    }
}
