//! Where requests go: an upstream, its endpoints, and whether they live.

mod again;
mod connect;
mod health;
mod io;
mod shared;
mod sockets;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::{Request, Response, StatusCode, Uri, Version};
use tokio::net::TcpStream;

use self::connect::{Address, Endpoint, Sender};
pub(super) use self::shared::Shared;
use super::answer::Failure;
use super::body::Passing;
use crate::config::Protocol;

/// Addresses that clients wanted to go to, of which connections are kept.
const ORIGINALS_MAX: usize = 1024;

/// An upstream as one thread has it, with its connections.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) shared: Arc<Shared>,
    endpoints: Vec<Rc<Endpoint>>,
    /// Those that only clients name.
    originals: RefCell<BTreeMap<SocketAddr, Rc<Endpoint>>>,
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
    /// Without a connection.
    pub(super) fn new(shared: Arc<Shared>) -> Rc<Upstream> {
        let endpoints = shared.addresses.iter().cloned().map(Endpoint::new).map(Rc::new).collect();
        Rc::new(Upstream { shared, endpoints, originals: RefCell::default() })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.shared.name
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
        let Shared { settings, .. } = &*self.shared;
        let wants_http2 = match settings.protocol {
            Protocol::Auto => is_grpc || settings.tls.is_some(),
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
                    self.shared.note_unreachable(&endpoint.address, &error);
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
        let counts = self.shared.all_counts.clone();
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
        let may_differ = wants_http2 && may_be_kept && self.shared.settings.tls.is_some();
        if may_differ && let Some(sender) = endpoint.kept(false).await {
            return Ok((sender, true));
        }
        let Shared { settings, sockets, counts, .. } = &*self.shared;
        let made = endpoint.connect(settings, sockets, wants_http2).await;
        counts.note_connect(made.is_ok());
        if made.is_ok() && endpoint.address.is_down.swap(false, Ordering::Relaxed) {
            self.shared.refresh();
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
            let address = || Address::new(original.ip().to_string(), original.port());
            let make = || Rc::new(Endpoint::new(address()));
            return Ok(originals.entry(original).or_insert_with(make).clone());
        }
        let count = self.endpoints.len();
        let first = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let places = (0..count).map(|step| first.wrapping_add(step) % count);
        let mut all = places.map(|place| &self.endpoints[place]);
        let any = self.endpoints[first % count].clone();
        Ok(all.find(|endpoint| !endpoint.address.is_down()).cloned().unwrap_or(any))
    }

    /// A connection for what is no HTTP, to the next endpoint that answers.
    ///
    /// # Errors
    /// None does.
    pub(super) async fn tunnel(&self, original: Option<SocketAddr>) -> Result<TcpStream, Failure> {
        for _ in 0..self.endpoints.len().max(1) {
            let endpoint = self.endpoint(original)?;
            match endpoint.tunnel(&self.shared.settings).await {
                Ok(stream) => return Ok(stream),
                Err(error) => self.shared.note_unreachable(&endpoint.address, &error),
            }
        }
        Err(Failure::Unreachable)
    }

    /// Who else carries its requests did not reach it: its addresses are looked at from now on.
    pub(super) fn note_failed(&self) {
        let Shared { addresses, found_down, .. } = &*self.shared;
        addresses.iter().for_each(|address| address.is_down.store(true, Ordering::Relaxed));
        if !addresses.is_empty() {
            self.shared.refresh();
            found_down.notify_one();
        }
    }

    /// Closes what was idle for too long.
    pub(super) fn sweep(&self) {
        let idle_timeout = self.shared.settings.idle_timeout;
        self.endpoints.iter().for_each(|endpoint| endpoint.sweep(idle_timeout));
        self.originals.borrow().values().for_each(|endpoint| endpoint.sweep(idle_timeout));
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
