//! The processor's stream, driven by a gRPC client that speaks as Envoy does.

mod bodies;
mod paper;

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::head::UPSTREAM;
use super::wire::*;
use crate::config::read;
use crate::services::proxy::listener::Guest;
use crate::services::proxy::run::{Running, start};
use crate::services::proxy::tests::{ScriptFile, is_settled, on_one_thread};

/// A processor of this configuration; `PORT` stands for a free port.
fn processor(text: &str) -> Running {
    let text = text.replace("PORT", "127.0.0.1:0");
    let reading = read(&text);
    assert_eq!(reading.counts().0, 0, "{}", reading.render("test", &text));
    let mut config = reading.config;
    config.proxy.threads = Some(1);
    start(&config, Guest::Envoy).unwrap()
}

/// Two upstreams and one route to the first, with more lines; nothing listens at the second's address.
fn simple(script: &ScriptFile, route: &str) -> String {
    format!(
        "{}[[proxy.listener]]\nlisten = \"PORT\"\n\
         [[proxy.upstream]]\nname = \"cloud\"\nto = [\"127.0.0.1:1\"]\nin_flight = 1\n\
         [[proxy.upstream]]\nname = \"edge\"\nto = [\"127.0.0.1:2\"]\n\
         [[proxy.route]]\nscript = \"s\"\n{route}\n",
        script.section("")
    )
}

/// Envoy.
struct Envoy(Grpc<Channel>);

impl Envoy {
    async fn connect(running: &Running) -> Envoy {
        let address: SocketAddr = running.listens()[0].0;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        Envoy(Grpc::new(endpoint.connect().await.unwrap()))
    }

    /// A stream for one exchange, with these modes of bodies.
    async fn begin(&mut self, modes: [BodySendMode; 2]) -> Exchange {
        let (asks, stream) = mpsc::channel(16);
        let codec = ProstCodec::<ProcessingRequest, ProcessingResponse>::default();
        self.0.ready().await.unwrap();
        let request = tonic::Request::new(ReceiverStream::new(stream));
        let path = PathAndQuery::from_static(PROCESS);
        let answers = self.0.streaming(request, path, codec).await.unwrap().into_inner();
        Exchange { asks, answers, modes: Some(modes) }
    }

    /// A request without a body, up to the answer to its head.
    async fn ask(&mut self, pairs: &[(&str, &str)]) -> (Exchange, Answer) {
        let mut exchange = self.begin([BodySendMode::None; 2]).await;
        exchange.say(Asked::RequestHeaders(head(pairs, true))).await;
        let answer = exchange.hear().await;
        (exchange, answer)
    }
}

struct Exchange {
    asks: mpsc::Sender<ProcessingRequest>,
    answers: Streaming<ProcessingResponse>,
    modes: Option<[BodySendMode; 2]>,
}

impl Exchange {
    async fn say(&mut self, asked: Asked) {
        let protocol_config = self.modes.take().map(|[request, response]| ProtocolConfiguration {
            request_body_mode: request as i32,
            response_body_mode: response as i32,
        });
        let request = ProcessingRequest {
            request: Some(asked),
            protocol_config,
            ..ProcessingRequest::default()
        };
        self.asks.send(request).await.unwrap();
    }

    async fn hear(&mut self) -> Answer {
        self.answers.message().await.unwrap().unwrap().response.unwrap()
    }

    /// A response without a body comes; what becomes of it.
    async fn respond(&mut self, pairs: &[(&str, &str)]) -> Answer {
        self.say(Asked::ResponseHeaders(head(pairs, true))).await;
        self.hear().await
    }
}

fn head(pairs: &[(&str, &str)], is_end: bool) -> HttpHeaders {
    let pair = |&(key, value): &(&str, &str)| HeaderValue {
        key: key.into(),
        value: String::new(),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
    };
    let headers = HeaderMap { headers: pairs.iter().map(pair).collect() };
    HttpHeaders { headers: Some(headers), end_of_stream: is_end }
}

const GET: &[(&str, &str)] = &[(":method", "GET"), (":path", "/a"), (":authority", "app.example")];
const OK: &[(&str, &str)] = &[(":status", "200"), ("x-envoy-upstream-service-time", "1")];

/// What is set in an answer that lets something go.
fn sets(answer: &Answer) -> Vec<(String, String)> {
    let (Answer::RequestHeaders(part)
    | Answer::ResponseHeaders(part)
    | Answer::RequestBody(part)
    | Answer::ResponseBody(part)) = answer
    else {
        panic!("{answer:?}")
    };
    let mutation = part.response.as_ref().unwrap().header_mutation.clone().unwrap_or_default();
    let pair = |option: HeaderValueOption| {
        let header = option.header.unwrap();
        (header.key, String::from_utf8(header.raw_value.to_vec()).unwrap())
    };
    mutation.set_headers.into_iter().map(pair).collect()
}

fn refused(answer: &Answer) -> (i32, String) {
    let Answer::Immediate(answer) = answer else { panic!("{answer:?}") };
    let reason = answer.headers.as_ref().unwrap().set_headers[0].header.clone().unwrap();
    (answer.status.unwrap().code, String::from_utf8(reason.raw_value.to_vec()).unwrap())
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

async fn settled(running: &Running) {
    while !is_settled(running) {
        tokio::task::yield_now().await;
    }
}

#[test]
fn requests_go_where_their_route_or_their_script_says() {
    on_one_thread(async {
        let script = ScriptFile::new(
            "envoy-redirect",
            "function on_message(h)\n if h:header():get('x-to') then h:redirect(h:header():get('x-to')) end\n\
             h:header():set('x-seen', 'yes') end",
        );
        let running = processor(&simple(&script, ""));
        let mut envoy = Envoy::connect(&running).await;
        let (mut exchange, answer) = envoy.ask(GET).await;
        assert_eq!(sets(&answer), [pair("x-seen", "yes"), pair(UPSTREAM, "cloud")]);
        let Answer::RequestHeaders(part) = &answer else { panic!("{answer:?}") };
        assert!(part.response.as_ref().unwrap().clear_route_cache);
        assert!(matches!(exchange.respond(OK).await, Answer::ResponseHeaders(_)));
        let forged = [GET, &[("x-to", "edge"), (UPSTREAM, "cloud")]].concat();
        let (mut exchange, answer) = envoy.ask(&forged).await;
        assert!(sets(&answer).contains(&pair(UPSTREAM, "edge")), "{answer:?}");
        exchange.respond(OK).await;
        let (_, answer) = envoy.ask(&[GET, &[("x-to", "nowhere")]].concat()).await;
        assert_eq!(
            refused(&answer),
            (503, "script".into()),
            "what it should have changed is dropped"
        );
        settled(&running).await;
    });
}

#[test]
fn what_is_dropped_is_answered_by_envoy() {
    on_one_thread(async {
        let script = ScriptFile::new(
            "envoy-drop",
            "function on_message(h) if h:header():get('path') == '/drop' then h:drop() end end\n\
             function on_response(h) if h:header():get('x-old') then h:drop() end end",
        );
        let running = processor(&simple(&script, "dropped = 429"));
        let mut envoy = Envoy::connect(&running).await;
        let drop = [(":method", "GET"), (":path", "/drop"), (":authority", "a")];
        let (_, answer) = envoy.ask(&drop).await;
        assert_eq!(refused(&answer), (429, "script".into()));
        let (_, answer) =
            envoy.ask(&[&drop[..], &[("content-type", "application/grpc")]].concat()).await;
        let Answer::Immediate(immediate) = &answer else { panic!("{answer:?}") };
        assert_eq!(immediate.grpc_status.unwrap().status, 14);
        let (mut exchange, _) = envoy.ask(GET).await;
        let answer = exchange.respond(&[OK, &[("x-old", "1")]].concat()).await;
        assert_eq!(refused(&answer), (429, "script".into()));
        settled(&running).await;
        assert_eq!(running.counts.read().routes[0].1[4], 3);
    });
}

#[test]
fn messages_wait_and_who_leaves_takes_his_back() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-wait", "function on_message(h) end");
        let running = processor(&simple(&script, ""));
        let mut envoy = Envoy::connect(&running).await;
        // One may be under way: the second waits, and so does the third.
        let (mut first, _) = envoy.ask(GET).await;
        let mut second = envoy.begin([BodySendMode::None; 2]).await;
        second.say(Asked::RequestHeaders(head(GET, true))).await;
        let mut third = envoy.begin([BodySendMode::None; 2]).await;
        third.say(Asked::RequestHeaders(head(GET, true))).await;
        while running.hall.status().counts.records < 3 {
            tokio::task::yield_now().await;
        }
        drop(second);
        let withdrawn = tidegate_types::record::DropReason::Withdrawn.index();
        while running.hall.status().counts.dropped[withdrawn] == 0 {
            tokio::task::yield_now().await;
        }
        first.respond(OK).await;
        assert_eq!(sets(&third.hear().await), [pair(UPSTREAM, "cloud")]);
        third.respond(OK).await;
        settled(&running).await;
    });
}

#[test]
fn an_upstream_that_envoy_cannot_reach_is_down() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-down", "function on_message(h) end");
        let running = processor(&simple(&script, ""));
        let mut envoy = Envoy::connect(&running).await;
        let (mut exchange, _) = envoy.ask(GET).await;
        exchange.respond(&[(":status", "503")]).await;
        let (_, answer) = envoy.ask(GET).await;
        assert_eq!(refused(&answer), (503, "down".into()));
        settled(&running).await;
    });
}

#[test]
fn what_no_route_takes_goes_as_envoy_wants() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-none", "function on_message(h) h:drop() end");
        let running = processor(&simple(&script, "path = \"/api\""));
        let mut envoy = Envoy::connect(&running).await;
        let (mut exchange, answer) = envoy.ask(&[GET, &[(UPSTREAM, "edge")]].concat()).await;
        let Answer::RequestHeaders(part) = &answer else { panic!("{answer:?}") };
        let mutation = part.response.clone().unwrap().header_mutation.unwrap();
        assert_eq!(mutation.remove_headers, [UPSTREAM], "a client does not choose");
        exchange.respond(OK).await;
    });
}

#[test]
fn observing_is_refused() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-observe", "function on_message(h) end");
        let running = processor(&simple(&script, ""));
        let mut envoy = Envoy::connect(&running).await;
        let mut exchange = envoy.begin([BodySendMode::None; 2]).await;
        let request = Some(Asked::RequestHeaders(head(GET, true)));
        let asked = ProcessingRequest { request, observability_mode: true, protocol_config: None };
        exchange.asks.send(asked).await.unwrap();
        let status = exchange.answers.message().await.unwrap_err();
        assert!(status.message().contains("observability_mode"), "{status}");
    });
}
