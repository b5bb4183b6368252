//! Where requests go: an upstream, its endpoints, and whether they live.

mod again;
mod connect;
mod health;
mod io;
mod sockets;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::{Request, Response, StatusCode, Uri, Version};
use tidegate_node::io::OutputId;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use self::connect::{Endpoint, Manner, Sender};
use self::sockets::Sockets;
use super::answer::Failure;
use super::body::Passing;
use super::counts::ProxyCounts;
use super::hall::Hall;
use crate::config::network::address;
use crate::config::{HealthConfig, Protocol, UpstreamConfig};

/// Addresses that clients wanted to go to, of which connections are kept.
const ORIGINALS_MAX: usize = 1024;
/// Between two looks at the sockets of an upstream that is paced.
const LOOK_PACED: Duration = Duration::from_millis(10);
/// Between two looks where only scripts want to know.
const LOOK: Duration = Duration::from_millis(100);

/// See the file's header.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) name: Rc<str>,
    output: OutputId,
    manner: Manner,
    endpoints: Vec<Rc<Endpoint>>,
    next: Cell<usize>,
    /// Those that only clients name.
    originals: RefCell<BTreeMap<SocketAddr, Rc<Endpoint>>>,
    sockets: Rc<Sockets>,
    health: Option<HealthConfig>,
    is_down: Cell<bool>,
    /// An endpoint was found down.
    found_down: Notify,
    hall: Hall,
    counts: ProxyCounts,
}

/// A connection that a response comes by.
#[derive(Debug)]
pub(super) struct Lease {
    endpoint: Rc<Endpoint>,
    sender: http1::SendRequest<Passing>,
}

impl Lease {
    /// The response was read to its end.
    pub(super) fn give_back(self) {
        self.endpoint.keep(self.sender);
    }
}

impl Upstream {
    /// One of this configuration, which was checked.
    ///
    /// # Errors
    /// A file of its TLS cannot be used.
    pub(super) fn new(
        config: &UpstreamConfig,
        output: OutputId,
        hall: Hall,
        counts: ProxyCounts,
    ) -> anyhow::Result<Rc<Upstream>> {
        let (mut tls, mut name) = (None, None);
        if let Some(far) = &config.tls {
            if let Some(files) = far.files() {
                let mut client = (*crate::support::tls::client(&files)?).clone();
                let all: &[&[u8]] = match config.protocol {
                    Protocol::Auto => &[b"h2", b"http/1.1"],
                    Protocol::Http1 => &[b"http/1.1"],
                    Protocol::Http2 => &[b"h2"],
                };
                client.alpn_protocols = all.iter().map(|name| name.to_vec()).collect();
                tls = Some(Arc::new(client));
            }
            let named = far.name.as_deref().map(crate::support::tls::server_name).transpose();
            name = named.map_err(anyhow::Error::msg)?;
        }
        let manner = Manner {
            protocol: config.protocol,
            tls,
            name,
            connect_timeout: config.connect_timeout.0,
            idle_timeout: config.idle_timeout.0,
        };
        let named = config.to.iter().filter_map(|to| address(to));
        Ok(Rc::new(Upstream {
            name: config.label().into(),
            output,
            manner,
            endpoints: named.map(|(host, port)| Rc::new(Endpoint::new(host, port))).collect(),
            next: Cell::new(0),
            originals: RefCell::default(),
            sockets: Rc::default(),
            health: config.health.clone(),
            is_down: Cell::new(false),
            found_down: Notify::new(),
            hall,
            counts,
        }))
    }

    /// Whether it is wherever a client wanted to go.
    pub(super) fn is_original(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// Sends a request and waits for the head of its response. An endpoint that cannot be connected to is
    /// passed by; what was sent in part is not sent again, but for what may be ([`again`]).
    ///
    /// # Errors
    /// There is no response.
    pub(super) async fn send(
        &self,
        mut request: Request<Passing>,
        original: Option<SocketAddr>,
        is_grpc: bool,
    ) -> Result<(Response<Incoming>, Option<Lease>), Failure> {
        let wants_http2 = match self.manner.protocol {
            Protocol::Auto => is_grpc || self.manner.tls.is_some(),
            Protocol::Http1 => false,
            Protocol::Http2 => true,
        };
        self.count_informational(&mut request);
        let mut left = self.endpoints.len().max(1);
        let mut may_be_kept = true;
        loop {
            let endpoint = self.endpoint(original)?;
            let (sender, is_kept) = match self.sender(&endpoint, wants_http2, may_be_kept).await {
                Ok(sender) => sender,
                Err(error) => {
                    left -= 1;
                    self.note_unreachable(&endpoint, &error);
                    match left {
                        0 => return Err(Failure::Unreachable),
                        _ => continue,
                    }
                }
            };
            let copy = if is_kept { again::copy(&request) } else { None };
            match send_by(sender, request).await {
                Ok((response, sender)) => {
                    let lease = sender.map(|sender| Lease { endpoint, sender });
                    return Ok((response, lease));
                }
                // The far end closed a kept connection: nothing of the request went.
                Err(Unanswered::Unsent(unsent)) if is_kept => request = *unsent,
                // It closed it at the same moment. All that are kept are as old, or nearly.
                Err(Unanswered::Cut) if copy.is_some() => {
                    let Some(copy) = copy else { return Err(Failure::Broken) };
                    (request, may_be_kept) = (copy, false);
                }
                Err(_) => return Err(Failure::Broken),
            }
        }
    }

    /// What an upstream says before its answer goes no further: hyper's server cannot send it. It is counted.
    fn count_informational(&self, request: &mut Request<Passing>) {
        let counts = self.counts.clone();
        hyper::ext::on_informational(request, move |response| {
            if response.status() != StatusCode::CONTINUE {
                counts.note_informational();
            }
        });
    }

    async fn sender(
        &self,
        endpoint: &Rc<Endpoint>,
        wants_http2: bool,
        may_be_kept: bool,
    ) -> std::io::Result<(Sender, bool)> {
        if may_be_kept && let Some(sender) = endpoint.kept(wants_http2).await {
            return Ok((sender, true));
        }
        // TLS may have agreed on HTTP/1.1.
        let may_differ = wants_http2 && may_be_kept && self.manner.tls.is_some();
        if may_differ && let Some(sender) = endpoint.kept(false).await {
            return Ok((sender, true));
        }
        let made = endpoint.connect(&self.manner, &self.sockets, wants_http2).await;
        self.counts.note_connect(usize::from(self.output.0), made.is_ok());
        if made.is_ok() && endpoint.is_down.replace(false) {
            self.refresh();
        }
        Ok((made?, false))
    }

    /// The next endpoint that lives, or any; or the one that the client wanted.
    fn endpoint(&self, original: Option<SocketAddr>) -> Result<Rc<Endpoint>, Failure> {
        if self.endpoints.is_empty() {
            let original = original.ok_or(Failure::Misdirected)?;
            let originals = &mut *self.originals.borrow_mut();
            if originals.len() >= ORIGINALS_MAX && !originals.contains_key(&original) {
                originals.pop_first();
            }
            let make = || Rc::new(Endpoint::new(original.ip().to_string(), original.port()));
            return Ok(originals.entry(original).or_insert_with(make).clone());
        }
        let count = self.endpoints.len();
        let first = self.next.get();
        self.next.set(first.wrapping_add(1));
        let places = (0..count).map(|step| first.wrapping_add(step) % count);
        let mut all = places.map(|place| &self.endpoints[place]);
        let any = self.endpoints[first % count].clone();
        Ok(all.find(|endpoint| !endpoint.is_down.get()).cloned().unwrap_or(any))
    }

    /// A connection for what is no HTTP, to the next endpoint that answers.
    ///
    /// # Errors
    /// None does.
    pub(super) async fn tunnel(&self, original: Option<SocketAddr>) -> Result<TcpStream, Failure> {
        for _ in 0..self.endpoints.len().max(1) {
            let endpoint = self.endpoint(original)?;
            match endpoint.tunnel(&self.manner).await {
                Ok(stream) => return Ok(stream),
                Err(error) => self.note_unreachable(&endpoint, &error),
            }
        }
        Err(Failure::Unreachable)
    }

    fn note_unreachable(&self, endpoint: &Rc<Endpoint>, error: &std::io::Error) {
        let (host, port) = (&endpoint.host, endpoint.port);
        let error = crate::support::tls::explain(error).unwrap_or_else(|| error.to_string());
        tracing::debug!(upstream = %self.name, "connecting to {host}:{port}: {error}");
        if self.endpoints.iter().any(|own| Rc::ptr_eq(own, endpoint)) && !endpoint.is_down.get() {
            endpoint.is_down.set(true);
            self.refresh();
            self.found_down.notify_one();
        }
    }

    /// Who else carries its requests did not reach it: its addresses are looked at from now on.
    pub(super) fn note_failed(&self) {
        self.endpoints.iter().for_each(|endpoint| endpoint.is_down.set(true));
        if !self.endpoints.is_empty() {
            self.refresh();
            self.found_down.notify_one();
        }
    }

    /// Tells the hall where it changed whether any endpoint lives.
    fn refresh(&self) {
        let is_down = self.endpoints.iter().all(|endpoint| endpoint.is_down.get());
        if is_down != self.is_down.replace(is_down) {
            match is_down {
                true => tracing::warn!(upstream = %self.name, "the upstream is down"),
                false => tracing::info!(upstream = %self.name, "the upstream is up"),
            }
            self.hall.set_up(self.output, !is_down);
        }
    }

    /// Looks at its sockets now and then, for the pacer and for scripts.
    pub(super) async fn watch(self: Rc<Self>, is_paced: bool) {
        let mut looks = tokio::time::interval(if is_paced { LOOK_PACED } else { LOOK });
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if self.sockets.count() > 0 {
                let (sample, rate) = self.sockets.figures(self.hall.clock().now());
                self.hall.sample(self.output, sample, rate.filter(|_| !is_paced));
            }
        }
    }
}

/// Why a connection brought no answer.
enum Unanswered {
    /// Nothing of the request went.
    Unsent(Box<Request<Passing>>),
    /// The connection of HTTP/1.1 ended.
    Cut,
    /// What came was no answer, or a stream of HTTP/2 ended.
    Broken,
}

/// Sends a request by a connection.
async fn send_by(
    sender: Sender,
    mut request: Request<Passing>,
) -> Result<(Response<Incoming>, Option<http1::SendRequest<Passing>>), Unanswered> {
    match sender {
        Sender::Http1(mut sender) => {
            as_http1(&mut request);
            match sender.try_send_request(request).await {
                Ok(response) => Ok((response, Some(sender))),
                Err(mut error) => Err(match error.take_message() {
                    Some(unsent) => Unanswered::Unsent(Box::new(unsent)),
                    None if error.error().is_parse() => Unanswered::Broken,
                    None => Unanswered::Cut,
                }),
            }
        }
        Sender::Http2(mut sender) => {
            as_http2(&mut request);
            match sender.try_send_request(request).await {
                Ok(response) => Ok((response, None)),
                Err(mut error) => {
                    let unsent = error.take_message().map(Box::new);
                    Err(unsent.map_or(Unanswered::Broken, Unanswered::Unsent))
                }
            }
        }
    }
}

/// The first line of HTTP/1.1 has the path; the host is a header.
fn as_http1(request: &mut Request<Passing>) {
    *request.version_mut() = Version::HTTP_11;
    if let Some(authority) = request.uri().authority() {
        let host = HeaderValue::from_str(authority.as_str());
        let path = request.uri().path_and_query().cloned();
        if let (false, Ok(host)) = (request.headers().contains_key(HOST), host) {
            request.headers_mut().insert(HOST, host);
        }
        *request.uri_mut() = path.map_or(Uri::from_static("/"), Uri::from);
    }
    // hyper takes a body of unknown length of GET, HEAD and CONNECT for none.
    if !request.body().is_end_stream() && request.body().size_hint().exact().is_none() {
        request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// HTTP/2 has the host in the address.
fn as_http2(request: &mut Request<Passing>) {
    *request.version_mut() = Version::HTTP_2;
    let host = request.headers_mut().remove(HOST);
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    let host = host.and_then(|host| host.to_str().ok()?.parse().ok());
    parts.authority = host.or(parts.authority);
    if parts.authority.is_some() {
        parts.scheme = parts.scheme.or(Some(hyper::http::uri::Scheme::HTTP));
    }
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_change_their_form_with_the_version() {
        let request = Request::get("http://h:1/p?q").body(Passing::empty());
        let mut request = request.unwrap();
        as_http1(&mut request);
        assert_eq!(
            (request.uri().to_string().as_str(), &request.headers()["host"]),
            ("/p?q", &"h:1".parse().unwrap())
        );
        as_http2(&mut request);
        assert_eq!(request.uri().to_string(), "http://h:1/p?q");
        assert!(!request.headers().contains_key("host"));
    }
}
