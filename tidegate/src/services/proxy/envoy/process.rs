//! The life of one exchange that Envoy carries: read [`process`] and [`Talk::run`].

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use tidegate_node::rules::RuleId;
use tidegate_types::record::{DropReason, Properties};

use super::dialog::{Dialog, Gone};
use super::head::{self, UPSTREAM};
use super::held::{Held, length_of};
use super::wire::{
    Answer, Asked, CommonResponse, GrpcStatus, HeaderMutation, HttpHeaders, HttpStatus,
    ImmediateResponse,
};
use crate::config::WhenDown;
use crate::script::Side;
use crate::services::proxy::answer::{Failure, is_grpc};
use crate::services::proxy::exchange::Waiting;
use crate::services::proxy::exit::{AccessEntry, Exit};
use crate::services::proxy::hall::{Ending, Entry, Passed, Ticket};
use crate::services::proxy::listener::Peer;
use crate::services::proxy::routes::{self, Route};
use crate::services::proxy::sources::Name;
use crate::services::proxy::worker::{WorkerContext, WorkerRoutes};
use crate::services::proxy::{message, upgrade};

/// Of a request whose client went away before there was a response.
const CLIENT_GONE: u16 = 499;

/// Why an exchange ends before its time.
pub(super) enum Stop {
    Gone(Gone),
    /// Envoy is to answer this itself.
    Answer(Failure),
}

impl From<Gone> for Stop {
    fn from(gone: Gone) -> Stop {
        Stop::Gone(gone)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Answer(failure)
    }
}

/// Speaks with Envoy until the exchange is over.
pub(super) async fn process(worker: Rc<WorkerContext>, peer: Rc<Peer>, dialog: Dialog) {
    let routes_now = worker.routes_now();
    let mut talk = Talk {
        worker: &worker,
        routes_now: &routes_now,
        peer: &peer,
        dialog,
        is_grpc: false,
        exit: None,
    };
    let end = match talk.run().await {
        Ok(never) => match never {},
        Err(Stop::Gone(gone)) => gone,
        Err(Stop::Answer(failure)) => {
            talk.refuse(failure).await;
            Gone::Well
        }
    };
    if let (Gone::Well, Some(exit)) = (end, talk.exit.take()) {
        exit.complete();
    }
}

enum Never {}

pub(super) struct Talk<'a> {
    pub(super) worker: &'a Rc<WorkerContext>,
    /// What was in force when it began.
    routes_now: &'a WorkerRoutes,
    pub(super) peer: &'a Rc<Peer>,
    pub(super) dialog: Dialog,
    is_grpc: bool,
    /// What is told when it is over; none before the head of the request.
    exit: Option<Exit>,
}

/// A request that went.
struct Sent<'a> {
    route: &'a Route,
    key: Bytes,
    source: Name,
    ticket: Option<Ticket>,
}

impl<'a> Talk<'a> {
    async fn run(&mut self) -> Result<Never, Stop> {
        let head = match self.dialog.next().await? {
            Asked::RequestHeaders(head) => head,
            // Where Envoy is told to skip requests there is nothing that could wait.
            other => return self.pass_all(Some(other)).await,
        };
        let Some(sent) = self.request(head).await? else { return self.pass_all(None).await };
        let head = match self.until_response().await {
            Ok(head) => head,
            Err(gone) => {
                if let (Gone::Well, Some(ticket)) = (gone, sent.ticket) {
                    // It does not ask about responses.
                    ticket.end(Ending::Answered);
                }
                return Err(gone.into());
            }
        };
        self.response(sent, head).await?;
        self.pass_all(None).await
    }

    /// Everything that comes goes as it is, until the stream ends.
    async fn pass_all(&mut self, first: Option<Asked>) -> Result<Never, Stop> {
        let mut next = first;
        loop {
            let asked = match next.take() {
                Some(asked) => asked,
                None => self.dialog.next().await?,
            };
            self.pass_one(asked).await?;
        }
    }

    pub(super) async fn pass_one(&mut self, asked: Asked) -> Result<(), Gone> {
        match asked {
            Asked::RequestHeaders(_) => {
                self.dialog.head(Side::Request, CommonResponse::default()).await
            }
            Asked::ResponseHeaders(head) => {
                let parts = head::of_response(&head.headers.unwrap_or_default());
                self.note_status(parts.status);
                self.dialog.head(Side::Response, CommonResponse::default()).await
            }
            Asked::RequestBody(body) => self.dialog.pass_body(Side::Request, body).await,
            Asked::ResponseBody(body) => {
                if let Some(exit) = &mut self.exit {
                    exit.bytes += body.body.len() as u64;
                }
                self.dialog.pass_body(Side::Response, body).await
            }
            Asked::RequestTrailers(_) => self.dialog.trailers(Side::Request).await,
            Asked::ResponseTrailers(_) => self.dialog.trailers(Side::Response).await,
        }
    }

    /// What is left of the request passes, until there is a response.
    async fn until_response(&mut self) -> Result<HttpHeaders, Gone> {
        loop {
            match self.dialog.next().await? {
                Asked::ResponseHeaders(head) => return Ok(head),
                other => self.pass_one(other).await?,
            }
        }
    }

    /// The request waits and its script sees it; none where no route takes it.
    async fn request(&mut self, head: HttpHeaders) -> Result<Option<Sent<'a>>, Stop> {
        let mut parts = head::of_request(&head.headers.unwrap_or_default());
        let routes_now = self.routes_now;
        let route = routes::find(&routes_now.table.routes, self.peer.listener, &parts);
        self.begin(&parts, route.cloned());
        let Some(route) = route else {
            // What a client says of upstreams counts for nothing here either.
            let remove_headers = vec![UPSTREAM.to_owned()];
            let mutation = HeaderMutation { remove_headers, ..HeaderMutation::default() };
            let common = CommonResponse {
                header_mutation: Some(mutation),
                clear_route_cache: true,
                ..CommonResponse::default()
            };
            self.dialog.head(Side::Request, common).await?;
            return Ok(None);
        };
        let client = head::client(&parts).unwrap_or(self.peer.address.ip());
        let source = Name { client, original: None };
        let key = message::key_of(&parts.uri);
        // What belongs to the connection is none of a script's business; Envoy deals with it.
        upgrade::strip(&mut parts.headers);
        if !route.queues[0] {
            let common = self.changes(Side::Request, route.to, HeaderMutation::default());
            self.dialog.head(Side::Request, common).await?;
            return Ok(Some(Sent { route, key, source, ticket: None }));
        }
        let length = length_of(&parts.headers);
        let held = self.gather(Side::Request, route, head.end_of_stream, length).await?;
        let _place = Waiting::enter(route)?;
        let properties = match route.scripts[0] {
            true => message::of_request(&parts),
            false => Properties::default(),
        };
        let ticket = self.enter((source, route.requests), key.clone(), &properties, &held);
        if route.down == WhenDown::Refuse && ticket.waits_in_vain() {
            return Err(Failure::Down.into());
        }
        let begun = self.worker.hall.clock().now();
        let passed = self.dialog.while_there(ticket.pass()).await?;
        let waited = self.worker.hall.clock().now().since(begun);
        self.exit.iter_mut().for_each(|exit| exit.story.waited = waited);
        let Passed { output, record } =
            passed.map_err(|reason| Failure::refused(reason, route.dropped))?;
        let upstream = self.worker.upstream(self.routes_now, output).ok_or(Failure::Misdirected)?;
        let name = upstream.name().clone();
        self.exit.iter_mut().for_each(|exit| exit.story.upstream = Some(name.clone()));
        let mut mutation = match route.scripts[0] {
            true => head::mutation(&properties, &record.properties),
            false => HeaderMutation::default(),
        };
        if record.key != key {
            mutation.set_headers.push(head::set(":path", slashed(&record.key), true));
        }
        let common = self.changes(Side::Request, output, mutation);
        self.release(Side::Request, held, &record, common).await?;
        Ok(Some(Sent { route, key, source, ticket: Some(ticket) }))
    }

    /// The response waits and its script sees it.
    async fn response(&mut self, sent: Sent<'a>, head: HttpHeaders) -> Result<(), Stop> {
        let Sent { route, key, source, ticket } = sent;
        let parts = head::of_response(&head.headers.unwrap_or_default());
        self.note_status(parts.status);
        if let Some(ticket) = ticket {
            let is_unreachable = head::is_unreachable(&parts);
            if is_unreachable {
                self.note_unreachable();
            }
            ticket.end(match is_unreachable {
                true => Ending::Failed(DropReason::Refused),
                false => Ending::Answered,
            });
        }
        if !route.queues[1] {
            return Ok(self.dialog.head(Side::Response, CommonResponse::default()).await?);
        }
        let length = length_of(&parts.headers);
        let held = self.gather(Side::Response, route, head.end_of_stream, length).await?;
        let properties = match route.scripts[1] {
            true => message::of_response(&parts),
            false => Properties::default(),
        };
        let rule = route.responses_to(self.peer.listener).ok_or(Failure::Misdirected)?;
        let ticket = self.enter((source, rule), key, &properties, &held);
        let passed = self.dialog.while_there(ticket.pass()).await?;
        let Passed { output, record } =
            passed.map_err(|reason| Failure::refused(reason, route.dropped))?;
        if output != self.peer.listener {
            return Err(Failure::Misdirected.into());
        }
        let mutation = match route.scripts[1] {
            true => head::mutation(&properties, &record.properties),
            false => HeaderMutation::default(),
        };
        let common = self.changes(Side::Response, output, mutation);
        self.release(Side::Response, held, &record, common).await?;
        ticket.end(Ending::Answered);
        Ok(())
    }

    fn enter(
        &self,
        from: (Name, RuleId),
        key: Bytes,
        properties: &Properties,
        held: &Held,
    ) -> Ticket {
        let payload = if held.is_whole { held.data.clone() } else { Bytes::new() };
        self.worker.hall.enter(Entry { from, key, properties: properties.clone(), payload })
    }

    /// What Envoy changes of a head. On requests the header that names the upstream is always set or taken
    /// away: what a client says in it counts for nothing.
    fn changes(
        &self,
        side: Side,
        output: tidegate_node::io::OutputId,
        mut mutation: HeaderMutation,
    ) -> CommonResponse {
        if side == Side::Request {
            let upstream = self.worker.upstream(self.routes_now, output);
            match upstream.filter(|upstream| !upstream.is_original()) {
                Some(upstream) => {
                    let name = Bytes::copy_from_slice(upstream.name().as_bytes());
                    mutation.set_headers.push(head::set(UPSTREAM, name, true));
                }
                // Envoy's own routes say where.
                None => mutation.remove_headers.push(UPSTREAM.to_owned()),
            }
        }
        CommonResponse {
            header_mutation: Some(mutation),
            clear_route_cache: side == Side::Request,
            ..CommonResponse::default()
        }
    }

    fn begin(&mut self, parts: &hyper::http::request::Parts, route: Option<Arc<Route>>) {
        self.is_grpc = is_grpc(&parts.headers);
        let story = AccessEntry {
            peer: self.peer.clone(),
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            version: parts.version,
            begun: self.worker.hall.clock().now(),
            route,
            upstream: None,
            waited: Duration::ZERO,
            reason: None,
            status: StatusCode::from_u16(CLIENT_GONE).unwrap_or(StatusCode::BAD_REQUEST),
        };
        let registry = self.worker.registry.clone();
        let (ticket, lease) = (None, None);
        self.exit = Some(Exit {
            registry,
            _table: self.routes_now.table.clone(),
            story,
            ticket,
            lease,
            upload: None,
            bytes: 0,
            is_complete: false,
        });
    }

    fn note_status(&mut self, status: StatusCode) {
        self.exit.iter_mut().for_each(|exit| exit.story.status = status);
    }

    /// Envoy did not reach the upstream that it was told of.
    fn note_unreachable(&self) {
        let name = self.exit.as_ref().and_then(|exit| exit.story.upstream.clone());
        let upstreams = self.routes_now.upstreams.iter().flatten();
        let known = upstreams.filter(|upstream| Some(upstream.name()) == name.as_ref());
        known.for_each(|upstream| upstream.note_failed());
    }

    /// Has Envoy answer itself.
    async fn refuse(&mut self, failure: Failure) {
        let status = failure.status();
        if let Some(exit) = &mut self.exit {
            (exit.story.status, exit.story.reason) = (status, Some(failure.name()));
        }
        let mut headers = HeaderMutation::default();
        let reason = Bytes::from_static(failure.name().as_bytes());
        headers.set_headers.push(head::set("x-tidegate-reason", reason, true));
        if failure.may_pass() && !self.is_grpc {
            headers.set_headers.push(head::set("retry-after", Bytes::from_static(b"1"), true));
        }
        let code = if status == StatusCode::GATEWAY_TIMEOUT { 4 } else { 14 };
        let is_empty = status == StatusCode::NO_CONTENT;
        let words = if is_empty { Bytes::new() } else { failure.words().into() };
        let answer = ImmediateResponse {
            status: Some(HttpStatus { code: i32::from(status.as_u16()) }),
            headers: Some(headers),
            body: words,
            grpc_status: self.is_grpc.then_some(GrpcStatus { status: code }),
            details: format!("tidegate_{}", failure.name().replace('-', "_")),
        };
        // It fails only when Envoy is gone.
        let _ = self.dialog.say(Answer::Immediate(answer)).await;
    }
}

/// A path without its first slash, as in the paper's Fig. 13, is given it.
fn slashed(path: &Bytes) -> Bytes {
    match path.first() {
        Some(b'/' | b'*') => path.clone(),
        _ => Bytes::from([b"/", &path[..]].concat()),
    }
}
