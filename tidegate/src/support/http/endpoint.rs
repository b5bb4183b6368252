//! Endpoints that are asked by HTTP, in the clear or by TLS: addresses of the configuration only, on connections that are
//! kept for the next request. Scripts post to theirs (`transform` and `notify`); logins ask for keys and rights.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::support::tls::{self, ClientTls};

/// Requests under way at once, of all scripts of a node: more are not made.
const UNDER_WAY_MAX: usize = 256;
/// How long an endpoint may take to hear of a notice.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections that are kept of one endpoint, and for how long.
const IDLE_MAX: usize = 8;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// What is written where an address is wrong.
const EXAMPLE: &str = "write http://host:port/path, or https:// with tls = { ca = ... }";

/// Where to post to. Clones share what is kept.
#[derive(Clone, Debug)]
pub struct Endpoint {
    host: String,
    port: u16,
    uri: Uri,
    is_tls: bool,
    /// What TLS needs, and the name that the certificate must have, where that is not the host.
    tls: Option<(ClientTls, Option<String>)>,
    idle: Arc<Mutex<VecDeque<Kept>>>,
}

/// Why an endpoint did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Too many requests are under way.
    #[error("{UNDER_WAY_MAX} requests are under way already")]
    Busy,
    /// It took too long.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// It is not there, or not who it should be.
    #[error("connecting: {0}")]
    Connect(#[from] io::Error),
    /// It speaks no HTTP.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// It answered with another code than 2xx.
    #[error("it answered {0}")]
    Refused(u16),
    /// Its answer is longer than a record may be, or broke off.
    #[error("its answer is too long or broke off")]
    Body,
}

impl Endpoint {
    /// Reads `http://host[:port][/path]`, or `https://` and so on.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let uri: Uri = text.parse().map_err(|error| format!("{text:?}: {error}: {EXAMPLE}"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(format!("{text:?} is no http:// or https:// address: {EXAMPLE}")),
        };
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        if authority.contains('@') {
            return Err(format!("user and password do not belong in an address: {EXAMPLE}"));
        }
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(format!("{text:?} has no host: {EXAMPLE}"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Endpoint { host, port, uri, is_tls, tls: None, idle: Arc::default() })
    }

    /// The name or address that it leads to.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether it is an `https://` address.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// With what TLS needs; of no effect where the address is `http://`.
    #[must_use]
    pub fn with_tls(self, tls: Option<(ClientTls, Option<String>)>) -> Endpoint {
        let tls = tls.filter(|_| self.is_tls);
        Endpoint { tls, idle: Arc::default(), ..self }
    }

    /// A kept connection that seems to live: the one used last is the likeliest to.
    fn kept(&self) -> Option<Kept> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        idle.retain(|kept| !kept.sender.is_closed() && now < kept.since + IDLE_TIMEOUT);
        idle.pop_back()
    }

    fn keep(&self, kept: Kept) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= IDLE_MAX {
            idle.pop_front();
        }
        idle.push_back(Kept { since: Instant::now(), ..kept });
    }

    async fn connect(&self) -> Result<Kept, AskError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        if !self.is_tls {
            return shake_hands(stream).await;
        }
        let Some((tls, name)) = &self.tls else {
            return Err(io::Error::other("no authority is trusted: give tls = { ca = ... }").into());
        };
        let name = name.as_deref().unwrap_or(&self.host);
        let name = tls::server_name(name).map_err(io::Error::other)?;
        let stream = TlsConnector::from(tls.config()).connect(name, stream).await;
        let explained = |error: io::Error| match tls::explain(&error) {
            Some(words) => io::Error::other(words),
            None => error,
        };
        shake_hands(stream.map_err(explained)?).await
    }

    fn request(&self, (method, kind): Manner, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = match self.uri.path_and_query() {
            Some(path) => Uri::from(path.clone()),
            None => Uri::from_static("/"),
        };
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        if let Ok(host) = HeaderValue::from_str(authority) {
            request.headers_mut().insert(HOST, host);
        }
        if let Some(kind) = kind {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        request
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

/// The method of a request, and what its body is.
type Manner = (Method, Option<&'static str>);

/// A connection that is used for one request after the other. It ends when this is dropped.
#[derive(Debug)]
struct Kept {
    sender: SendRequest<Full<Bytes>>,
    _driver: JoinSet<()>,
    since: Instant,
}

impl Kept {
    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<hyper::body::Incoming>, hyper::Error> {
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }
}

async fn shake_hands(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Kept, AskError> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    // What breaks it is told to whoever waits for an answer.
    driver.spawn(async move { connection.await.unwrap_or(()) });
    Ok(Kept { sender, _driver: driver, since: Instant::now() })
}

/// Posts for scripts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Postman {
    under_way: Arc<Semaphore>,
    answer_max: usize,
}

impl Postman {
    /// One that takes answers up to this length.
    pub fn new(answer_max: usize) -> Postman {
        Postman { under_way: Arc::new(Semaphore::new(UNDER_WAY_MAX)), answer_max }
    }

    /// Posts a payload and waits for what comes back. A kept connection that ends without an answer may have been
    /// closed, for being idle or by a restart, before it was used: then it is posted once more, on a new one.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn ask(
        &self,
        endpoint: &Endpoint,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, AskError> {
        self.send(endpoint, (Method::POST, Some("application/octet-stream")), body, timeout).await
    }

    /// The same for a payload that is JSON.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn ask_json(
        &self,
        endpoint: &Endpoint,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, AskError> {
        self.send(endpoint, (Method::POST, Some("application/json")), body, timeout).await
    }

    /// Gets what is there.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn get(&self, endpoint: &Endpoint, timeout: Duration) -> Result<Bytes, AskError> {
        self.send(endpoint, (Method::GET, None), Bytes::new(), timeout).await
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        manner: Manner,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, AskError> {
        let _permit = self.under_way.try_acquire().map_err(|_| AskError::Busy)?;
        let asking = self.exchange(endpoint, manner, body);
        tokio::time::timeout(timeout, asking).await.map_err(|_| AskError::TimedOut(timeout))?
    }

    /// Posts a notice.
    ///
    /// # Errors
    /// It was not taken.
    pub async fn tell(&self, endpoint: &Endpoint, text: String) -> Result<(), AskError> {
        self.ask(endpoint, text.into(), NOTICE_TIMEOUT).await.map(|_| ())
    }

    async fn exchange(
        &self,
        endpoint: &Endpoint,
        manner: Manner,
        body: Bytes,
    ) -> Result<Bytes, AskError> {
        if let Some(mut kept) = endpoint.kept()
            && let Ok(response) = kept.send(endpoint.request(manner.clone(), body.clone())).await
        {
            return self.read(endpoint, kept, response).await;
        }
        let mut fresh = endpoint.connect().await?;
        let response = fresh.send(endpoint.request(manner, body)).await?;
        self.read(endpoint, fresh, response).await
    }

    async fn read(
        &self,
        endpoint: &Endpoint,
        connection: Kept,
        response: Response<hyper::body::Incoming>,
    ) -> Result<Bytes, AskError> {
        let status = response.status();
        if response.body().size_hint().lower() > self.answer_max as u64 {
            return Err(if status.is_success() {
                AskError::Body
            } else {
                AskError::Refused(status.as_u16())
            });
        }
        let answer = Limited::new(response.into_body(), self.answer_max).collect().await;
        if answer.is_ok() {
            endpoint.keep(connection);
        }
        match answer {
            _ if !status.is_success() => Err(AskError::Refused(status.as_u16())),
            Ok(answer) => Ok(answer.to_bytes()),
            Err(_) => Err(AskError::Body),
        }
    }
}

#[cfg(test)]
mod tests;
