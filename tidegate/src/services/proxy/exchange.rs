//! The life of one request, from its head to its response: read [`exchange`] and [`Exchange::run`].

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use tidegate_node::io::OutputId;
use tidegate_types::record::{DropReason, Properties, Record};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::answer::{Failure, is_grpc};
use super::body::{Gathered, Passing, gather};
use super::exit::{AccessEntry, Exit};
use super::hall::{Ending, Entry, Passed, Ticket};
use super::listener::Peer;
use super::room::Share;
use super::routes::{self, Route};
use super::upload::Upload;
use super::worker::{WorkerContext, WorkerRoutes};
use super::{message, target, upgrade};
use crate::config::WhenDown;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Of a request whose client went away before there was a response: what nginx logs.
const CLIENT_GONE: u16 = 499;
/// Bytes of a head of HTTP/2 that need no room of their own.
const HEAD_FREE: usize = 8 << 10;

/// Answers a request. Where the client goes away this is dropped, and takes everything back.
pub(super) async fn exchange(
    worker: Rc<WorkerContext>,
    peer: Rc<Peer>,
    request: Request<Incoming>,
) -> Response<Passing> {
    let is_grpc = is_grpc(request.headers());
    let story = AccessEntry {
        peer: peer.clone(),
        method: request.method().clone(),
        uri: request.uri().clone(),
        version: request.version(),
        begun: worker.hall.clock().now(),
        route: None,
        upstream: None,
        waited: Duration::ZERO,
        reason: None,
        status: StatusCode::from_u16(CLIENT_GONE).unwrap_or(StatusCode::BAD_REQUEST),
    };
    let registry = worker.registry.clone();
    let routes_now = worker.routes_now();
    let exit = Exit {
        registry,
        _table: routes_now.table.clone(),
        story,
        ticket: None,
        lease: None,
        upload: None,
        bytes: 0,
        is_complete: false,
    };
    let mut exchange =
        Exchange { worker: &worker, routes_now: &routes_now, peer: &peer, is_grpc, exit };
    let response = match exchange.run(request).await {
        Ok(response) => response,
        Err(failure) => {
            exchange.exit.story.reason = Some(failure.name());
            failure.answer(is_grpc)
        }
    };
    let Exchange { mut exit, .. } = exchange;
    exit.story.status = response.status();
    response.map(|body| body.with_exit(exit))
}

struct Exchange<'a> {
    worker: &'a WorkerContext,
    /// What was in force when it began.
    routes_now: &'a WorkerRoutes,
    peer: &'a Peer,
    is_grpc: bool,
    exit: Exit,
}

/// What a client wants its connection to become.
struct Switch {
    client: OnUpgrade,
    protocol: HeaderValue,
    place: OwnedSemaphorePermit,
}

/// A request that may go.
struct Ready {
    parts: request::Parts,
    body: Passing,
    to: OutputId,
    ticket: Option<Ticket>,
}

impl Exchange<'_> {
    async fn run(&mut self, request: Request<Incoming>) -> Result<Response<Passing>, Failure> {
        if request.method() == Method::CONNECT {
            return Err(Failure::NoTunnel);
        }
        let (mut parts, body) = request.into_parts();
        let head = self.head_share(&parts)?;
        target::settle(&mut parts)?;
        let routes_now = self.routes_now;
        if !routes_now.table.listeners.contains(&self.peer.listener) {
            // Its listener is gone.
            return Err(Failure::Stopping);
        }
        let route = routes::find(&routes_now.table.routes, self.peer.listener, &parts);
        let route = route.ok_or(Failure::NoRoute)?;
        self.exit.story.route = Some(route.clone());
        let client = parts.extensions.remove::<OnUpgrade>();
        let asked = client.zip(upgrade::wanted(&parts.headers, &route.upgrades));
        let switch = match asked {
            None => None,
            Some((client, protocol)) => {
                let place = self.worker.tunnels.clone().try_acquire_owned();
                Some(Switch { client, protocol, place: place.map_err(|_| Failure::Full)? })
            }
        };
        upgrade::strip(&mut parts.headers);
        if self.peer.is_explicit {
            self.note_client(&mut parts);
        }
        let key = message::key_of(&parts.uri);
        let mut ready = self.wait_to_go(route, parts, body).await?;
        if let Some(switch) = &switch {
            upgrade::restore(&mut ready.parts.headers, switch.protocol.clone());
        }
        drop(head);
        let mut response = self.send(route, ready).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch(switch, response);
        }
        if let Err(failure) = target::settle_answer(response.headers_mut()) {
            self.exit.lease = None;
            return Err(failure);
        }
        upgrade::strip(response.headers_mut());
        if !route.queues[1] {
            let (parts, body) = response.into_parts();
            let body = Gathered::streamed(body, &self.peer.room)?;
            return Ok(Response::from_parts(parts, Passing::gathered(body)));
        }
        self.wait_to_answer(route, key, response).await
    }

    /// Room for a long head; of HTTP/1.1 it was taken while the head came.
    fn head_share(&self, parts: &request::Parts) -> Result<Option<Share>, Failure> {
        if parts.version != Version::HTTP_2 {
            return Ok(None);
        }
        let fields = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        let length: usize = fields.sum();
        match length > HEAD_FREE {
            true => self.peer.room.hold(length as u64).map(Some),
            false => Ok(None),
        }
    }

    /// The request waits, and its script sees it.
    async fn wait_to_go(
        &mut self,
        route: &Route,
        mut parts: request::Parts,
        body: Incoming,
    ) -> Result<Ready, Failure> {
        if !route.queues[0] {
            let body = Passing::gathered(Gathered::streamed(body, &self.peer.room)?);
            return Ok(Ready { parts, body, to: route.to, ticket: None });
        }
        let is_scripted = route.scripts[0];
        let gathered = match is_scripted {
            true => self.gather(route, body, Failure::BodyTimeout, Failure::BodyBroken).await?,
            false => Gathered::streamed(body, &self.peer.room)?,
        };
        let _place = Waiting::enter(route)?;
        let properties = match is_scripted {
            true => message::of_request(&parts),
            false => Properties::default(),
        };
        let key = message::key_of(&parts.uri);
        let is_original = self.routes_now.upstream(route.to).is_some_and(|to| to.is_original());
        let from = (self.peer.source(is_original), route.requests);
        let payload = gathered.payload();
        let entry = Entry { from, key: key.clone(), properties: properties.clone(), payload };
        let begun = self.worker.hall.clock().now();
        let ticket = self.worker.hall.enter(entry);
        if route.down == WhenDown::Refuse && ticket.waits_in_vain() {
            return Err(Failure::Down);
        }
        let passed = ticket.pass().await;
        self.exit.story.waited = self.worker.hall.clock().now().since(begun);
        let Passed { output, record } =
            passed.map_err(|reason| Failure::refused(reason, route.dropped))?;
        if is_scripted {
            if record.properties != properties {
                message::change_request(&mut parts, &record.properties);
            }
            if record.key != key {
                message::change_path(&mut parts.uri, &record.key);
            }
        }
        let body = changed(gathered, &record, &mut parts.headers);
        Ok(Ready { parts, body, to: output, ticket: Some(ticket) })
    }

    /// The request goes, and the head of its response comes.
    async fn send(&mut self, route: &Route, ready: Ready) -> Result<Response<Incoming>, Failure> {
        let Ready { parts, body, to, ticket } = ready;
        let upstream = self.worker.upstream(self.routes_now, to).ok_or(Failure::Misdirected)?;
        self.exit.story.upstream = Some(upstream.name().clone());
        let body = match body.goes_on() {
            false => body,
            true => body.of_client(self.exit.upload.insert(Upload::new(self.peer.body_timeout))),
        };
        let request = Request::from_parts(parts, body);
        let sending = upstream.send(request, self.peer.original, self.is_grpc);
        let sent = timeout(route.timeout, sending).await.unwrap_or(Err(Failure::Timeout));
        let upload = self.exit.upload.as_ref();
        let blame = |failure| upload.map_or(failure, |upload| upload.blame(failure));
        let sent = sent.map_err(blame);
        if let Some(ticket) = ticket {
            ticket.end(match sent {
                Ok(_) => Ending::Answered,
                Err(_) => Ending::Failed(DropReason::Refused),
            });
        }
        let (response, lease) = sent?;
        upload.iter().filter(|_| self.is_grpc).for_each(|upload| upload.begin_dialog());
        self.exit.lease = lease;
        Ok(response)
    }

    /// The response waits, and its script sees it.
    async fn wait_to_answer(
        &mut self,
        route: &Route,
        key: bytes::Bytes,
        response: Response<Incoming>,
    ) -> Result<Response<Passing>, Failure> {
        let (mut parts, body) = response.into_parts();
        let is_scripted = route.scripts[1];
        let gathered = match is_scripted {
            true => self.gather(route, body, Failure::Timeout, Failure::Broken).await?,
            false => Gathered::streamed(body, &self.peer.room)?,
        };
        if gathered.is_whole()
            && let Some(lease) = self.exit.lease.take()
        {
            lease.give_back();
        }
        let properties = match is_scripted {
            true => message::of_response(&parts),
            false => Properties::default(),
        };
        let rule = route.responses_to(self.peer.listener).ok_or(Failure::Misdirected)?;
        let from = (self.peer.source(false), rule);
        let payload = gathered.payload();
        let entry = Entry { from, key, properties: properties.clone(), payload };
        let ticket = self.worker.hall.enter(entry);
        let passed = ticket.pass().await;
        let Passed { output, record } =
            passed.map_err(|reason| Failure::refused(reason, route.dropped))?;
        if output != self.peer.listener {
            return Err(Failure::Misdirected);
        }
        if is_scripted && record.properties != properties {
            message::change_response(&mut parts, &record.properties);
        }
        let body = changed(gathered, &record, &mut parts.headers);
        self.exit.ticket = Some(ticket);
        Ok(Response::from_parts(parts, body))
    }

    async fn gather(
        &self,
        route: &Route,
        body: Incoming,
        late: Failure,
        broken: Failure,
    ) -> Result<Gathered, Failure> {
        let room = &self.peer.room;
        let gathering = gather(body, route.body, route.message_max, room, broken);
        timeout(route.timeout, gathering).await.unwrap_or(Err(late))
    }

    /// The far end agrees to something else than HTTP.
    fn switch(
        &mut self,
        switch: Option<Switch>,
        mut response: Response<Incoming>,
    ) -> Result<Response<Passing>, Failure> {
        // The connection is the client's now, or of no use any more.
        self.exit.lease = None;
        let Switch { client, protocol, place } = switch.ok_or(Failure::Unasked)?;
        let asked = [protocol.to_str().unwrap_or_default()];
        let agreed = upgrade::wanted(response.headers(), &asked);
        let agreed = agreed.ok_or(Failure::Unasked)?;
        let upstream = hyper::upgrade::on(&mut response);
        let (mut parts, _) = response.into_parts();
        upgrade::strip(&mut parts.headers);
        let (meter, patience) = (self.peer.meter.clone(), self.peer.tunnel_timeout);
        upgrade::join(client, upstream, place, meter, patience);
        upgrade::restore(&mut parts.headers, agreed);
        Ok(Response::from_parts(parts, Passing::empty()))
    }

    /// Tells the upstream whose request it is.
    fn note_client(&self, parts: &mut request::Parts) {
        let own = &self.peer.forwarded;
        let value = match parts.headers.get(FORWARDED_FOR) {
            None => own.clone(),
            Some(before) => {
                let both = [before.as_bytes(), b", ", own.as_bytes()].concat();
                HeaderValue::from_bytes(&both).unwrap_or_else(|_| own.clone())
            }
        };
        parts.headers.insert(FORWARDED_FOR, value);
        let proto = if self.peer.is_tls { "https" } else { "http" };
        if !(self.peer.is_trusted && parts.headers.contains_key(FORWARDED_PROTO)) {
            parts.headers.insert(FORWARDED_PROTO, HeaderValue::from_static(proto));
        }
    }
}

/// A body as the script left it.
fn changed(gathered: Gathered, record: &Record, headers: &mut hyper::HeaderMap) -> Passing {
    let data = &record.payload;
    // What was handed to the hall comes back as the same piece of memory, unless it was replaced.
    let is_same = !gathered.is_whole()
        || (data.as_ptr() == gathered.data.as_ptr() && data.len() == gathered.data.len());
    if is_same {
        return Passing::gathered(gathered);
    }
    message::change_length(headers, data.len());
    Passing::gathered(gathered).with_data(data.clone())
}

/// A place among a route's waiting messages.
pub(super) struct Waiting<'a>(&'a Route);

impl Waiting<'_> {
    pub(super) fn enter(route: &Route) -> Result<Waiting<'_>, Failure> {
        let before = route.waits.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(route);
        if before < route.waiting { Ok(waiting) } else { Err(Failure::Full) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waits.fetch_sub(1, Ordering::Relaxed);
    }
}
