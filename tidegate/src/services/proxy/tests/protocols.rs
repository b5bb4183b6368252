//! HTTP/2, gRPC, WebSocket, TLS, and bodies that are no part of a message.

use std::convert::Infallible;

use http_body_util::combinators::BoxBody;
use http_body_util::{Limited, StreamBody};
use hyper::HeaderMap;
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use super::peers::until;
use super::*;
use crate::services::proxy::connection::LocalExecutor;

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A server that answers as it is told.
async fn server<F: Future<Output = Answer> + 'static>(
    answer: impl Fn(Request<Incoming>) -> F + Clone + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    spawn_local(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            let service = service_fn(move |request| {
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            spawn_local(async move {
                let io = TokioIo::new(stream);
                let _ = auto::Builder::new(LocalExecutor).serve_connection(io, service).await;
            });
        }
    });
    address
}

/// A message of gRPC in a body with trailers.
fn grpc(payload: &'static [u8]) -> BoxBody<Bytes, Infallible> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [Frame::data(Bytes::from_static(payload)), Frame::trailers(trailers)];
    BodyExt::boxed(StreamBody::new(tokio_stream::iter(frames.map(Ok))))
}

async fn http2_client(address: SocketAddr) -> http2::SendRequest<BoxBody<Bytes, Infallible>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(LocalExecutor, TokioIo::new(stream)).await.unwrap();
    spawn_local(connection);
    sender
}

#[test]
fn grpc_passes_with_its_trailers() {
    on_one_thread(async {
        let upstream = server(|request: Request<Incoming>| async move {
            assert_eq!(request.version(), hyper::Version::HTTP_2);
            assert_eq!(request.headers()["te"], "trailers");
            let all = request.into_body().collect().await.unwrap();
            assert_eq!(all.to_bytes(), b"\0\0\0\0\x02hi"[..]);
            let response = Response::builder().header("content-type", "application/grpc");
            response.body(grpc(b"\0\0\0\0\x02yo")).unwrap()
        })
        .await;
        let script = ScriptFile::new(
            "grpc",
            "function on_message(h) local m = h:message() if m:header():get('x-tag') ~= nil \
             then m:drop() end end",
        );
        for (route, section) in
            [("", String::new()), ("script = \"s\"\nbody = \"whole\"", script.section(""))]
        {
            let proxy = proxy(&format!("{section}{}", simple(upstream, route)));
            let mut client = http2_client(address(&proxy)).await;
            let request = || {
                Request::post("http://app.example/pkg.Service/Method")
                    .header("content-type", "application/grpc")
                    .header("te", "trailers")
            };
            let plain = request().body(grpc(b"\0\0\0\0\x02hi")).unwrap();
            let response = client.send_request(plain).await.unwrap();
            let all = response.into_body().collect().await.unwrap();
            assert_eq!(all.trailers().unwrap()["grpc-status"], "0");
            assert_eq!(all.to_bytes(), b"\0\0\0\0\x02yo"[..]);
            if !section.is_empty() {
                let tagged = request().header("x-tag", "1").body(grpc(b"\0\0\0\0\x02hi")).unwrap();
                let response = client.send_request(tagged).await.unwrap();
                assert_eq!(response.status(), 200);
                assert_eq!(response.headers()["grpc-status"], "14", "unavailable");
            }
            until(|| is_settled(&proxy)).await;
        }
    });
}

#[test]
fn http2_clients_reach_servers_of_http1() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, "protocol = \"http1\"").replace(
            "[[proxy.route]]\nprotocol = \"http1\"",
            "protocol = \"http1\"\n[[proxy.route]]",
        ));
        let client = http2_client(address(&proxy)).await;
        let send = |path: &str| {
            let mut client = client.clone();
            let uri = format!("http://app.example{path}");
            let request = Request::get(uri).body(Full::default().boxed()).unwrap();
            async move { client.send_request(request).await.unwrap().status().as_u16() }
        };
        let statuses = tokio::join!(send("/1"), send("/2"), send("/3"));
        assert_eq!(statuses, (200, 200, 200), "at the same time by one connection");
        let mut asked = upstream.asked();
        asked.sort();
        assert_eq!(asked[0], "GET /1 app.example");
    });
}

#[test]
fn a_stream_that_the_client_resets_is_taken_back() {
    on_one_thread(async {
        let upstream = Upstream::start_silent().await;
        let text = simple(upstream.address, "")
            .replace("[[proxy.route]]", "in_flight = 1\n[[proxy.route]]");
        let proxy = proxy(&text);
        let client = http2_client(address(&proxy)).await;
        let send = |path: &str| {
            let uri = format!("http://app.example{path}");
            client.clone().send_request(Request::get(uri).body(Full::default().boxed()).unwrap())
        };
        let first = spawn_local(send("/1"));
        until(|| upstream.asked().len() == 1).await;
        let second = spawn_local(send("/2"));
        until(|| proxy.hall.status().held == 2).await;
        second.abort();
        until(|| proxy.hall.status().held == 1).await;
        upstream.may_answer.add_permits(1);
        assert_eq!(first.await.unwrap().unwrap().status(), 200);
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn a_websocket_passes_through() {
    on_one_thread(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = listener.local_addr().unwrap();
        spawn_local(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            assert!(
                head.contains("upgrade: websocket\r\n") && head.contains("connection: upgrade")
            );
            let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n\
                          upgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
            let mut frame = [0; 5];
            stream.read_exact(&mut frame).await.unwrap();
            frame.reverse();
            stream.write_all(&frame).await.unwrap();
        });
        let script =
            ScriptFile::new("websocket", "function on_message(h) end function on_response(h) end");
        let proxy = proxy(&format!("{}{}", script.section(""), simple(upstream, "script = \"s\"")));
        let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
        let request = "GET /chat HTTP/1.1\r\nhost: h\r\nconnection: keep-alive, Upgrade\r\n\
                       upgrade: websocket\r\nsec-websocket-key: y\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        assert!(head.contains("upgrade: websocket") && head.contains("sec-websocket-accept: x"));
        stream.write_all(b"hello").await.unwrap();
        let mut frame = [0; 5];
        stream.read_exact(&mut frame).await.unwrap();
        assert_eq!(&frame, b"olleh");
        drop(stream);
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn long_bodies_stream_through() {
    on_one_thread(async {
        let upstream = server(|request: Request<Incoming>| async move {
            let body =
                Limited::new(request.into_body(), 1 << 24).collect().await.unwrap().to_bytes();
            Response::new(Full::from(body).boxed())
        })
        .await;
        let script = ScriptFile::new(
            "long",
            "function look(h) local m = h:message() if m:size() > 0 then m:setBody('seen') end end\n\
             on_message = look on_response = look",
        );
        let route = simple(upstream, "script = \"s\"\nmessage_max = \"4KiB\"");
        let proxy = proxy(&format!("{}{route}", script.section("")));
        let mut client = Client::connect(address(&proxy)).await;
        let long: &'static str = String::leak("x".repeat(3 << 20));
        let (status, body) = text(client.send(post("/", long)).await).await;
        assert_eq!((status.as_u16(), body.len()), (200, long.len()));
        let (_, body) = text(client.send(post("/", "short")).await).await;
        assert_eq!(body, "seen");
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn tls_comes_in_and_goes_out() {
    let folder = std::env::temp_dir().join(format!("tidegate-proxy-pki-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let authority = crate::support::tls::authority::Authority::at(&folder);
    authority.init().unwrap();
    let hosts = ["127.0.0.1".to_owned()];
    authority.issue("proxy", &hosts, 10).unwrap();
    let pem = |name: &str| folder.join(name).display().to_string();
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let inner = proxy(&simple(upstream.address, "").replace(
            "[[proxy.upstream]]",
            &format!(
                "tls = {{ certificate = {:?}, key = {:?} }}\n[[proxy.upstream]]",
                pem("proxy.pem"),
                pem("proxy.key")
            ),
        ));
        for protocol in ["auto", "http1", "http2"] {
            let outer = proxy(&simple(address(&inner), "").replace(
                "[[proxy.route]]",
                &format!(
                    "protocol = \"{protocol}\"\ntls = {{ ca = {:?} }}\n[[proxy.route]]",
                    pem("ca.pem")
                ),
            ));
            let mut client = Client::connect(address(&outer)).await;
            for _ in 0..2 {
                let (status, body) = text(client.send(get("/a")).await).await;
                assert_eq!((status.as_u16(), &*body), (200, "GET /a app.example"), "{protocol}");
            }
            assert_eq!(outer.counts.read().upstreams[0].1, 1, "one connection");
        }
    });
    std::fs::remove_dir_all(&folder).unwrap();
}
