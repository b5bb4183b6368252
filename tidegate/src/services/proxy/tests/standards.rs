//! What RFC 9110, 9112 and 9113 ask of a proxy, clause by clause, with bytes that no library would send.

use std::cell::RefCell;
use std::rc::Rc;

use http_body_util::StreamBody;
use http_body_util::combinators::BoxBody;
use hyper::body::Frame;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::spawn_local;

use super::peers::until;
use super::*;
use crate::services::proxy::connection::LocalExecutor;

/// The status of an answer, and why.
fn told(answer: &str) -> (u16, &str) {
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let reason = answer.lines().find_map(|line| line.strip_prefix("x-tidegate-reason: "));
    (status.unwrap_or_else(|| panic!("no answer: {answer:?}")), reason.unwrap_or_default())
}

/// What a proxy in front of `upstream` answers to a request whose connection ends with it.
async fn ask(proxy: &Running, first: &str, more: &str) -> String {
    raw(address(proxy), &format!("{first}\r\n{more}connection: close\r\n\r\n")).await
}

/// An upstream of HTTP/1.1 that answers with these bytes once it has read up to `end`, and what it read.
async fn scripted(end: &'static [u8], answer: &'static str) -> (SocketAddr, Rc<RefCell<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Rc::<RefCell<String>>::default());
    let shown = seen.clone();
    spawn_local(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = Vec::new();
            while !read.ends_with(end) && stream.read_buf(&mut read).await.unwrap() > 0 {}
            *shown.borrow_mut() = String::from_utf8(read).unwrap().to_lowercase();
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (address, seen)
}

type Sender = http2::SendRequest<BoxBody<Bytes, std::convert::Infallible>>;

async fn http2_client(address: SocketAddr) -> Sender {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(LocalExecutor, TokioIo::new(stream)).await.unwrap();
    spawn_local(connection);
    sender
}

#[test]
fn one_host_line_and_no_other_is_taken_rfc9112_3_2() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, ""));
        for hosts in [
            "",
            "host: a\r\nhost: a\r\n",
            "host: a\r\nhost: b\r\n",
            "host: a/b\r\n",
            "host: a b\r\n",
            "host: user@a\r\n",
            "host: a, b\r\n",
        ] {
            let answer = ask(&proxy, "GET / HTTP/1.1", hosts).await;
            assert_eq!(told(&answer), (400, "bad-host"), "{hosts:?}");
        }
        assert_eq!(told(&ask(&proxy, "GET / HTTP/1.1", "host: a:80\r\n").await).0, 200);
        assert_eq!(told(&ask(&proxy, "GET / HTTP/1.0", "").await).0, 200);
        assert_eq!(upstream.asked().len(), 2);
    });
}

#[test]
fn two_host_lines_are_refused_rfc9112_3_2() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, "queue = false"));
        let answer = ask(&proxy, "GET / HTTP/1.1", "host: a\r\nHost: b\r\n").await;
        assert_eq!(told(&answer), (400, "bad-host"));
        assert_eq!(upstream.asked().len(), 0);
    });
}

#[test]
fn the_target_replaces_the_host_rfc9112_3_2_2() {
    on_one_thread(async {
        let (open, closed) = (Upstream::start().await, Upstream::start().await);
        let proxy = proxy(&two_routes(&open, &closed, "host = [\"closed.example\"]"));
        for (target, host) in [
            ("http://open.example/x", "closed.example"),
            ("http://closed.example/x", "open.example"),
        ] {
            let first = format!("GET {target} HTTP/1.1");
            let answer = ask(&proxy, &first, &format!("host: {host}\r\n")).await;
            assert_eq!(told(&answer).0, 200, "{answer}");
        }
        assert_eq!(open.asked(), ["GET /x open.example"]);
        assert_eq!(closed.asked(), ["GET /x closed.example"]);
        let answer = ask(&proxy, "GET ftp://open.example/x HTTP/1.1", "host: a\r\n").await;
        assert_eq!(told(&answer), (400, "bad-target"));
    });
}

/// What `fits` goes to `closed`, all else to `open`.
fn two_routes(open: &Upstream, closed: &Upstream, fits: &str) -> String {
    format!(
        "[[proxy.listener]]\nlisten = \"PORT\"\n\
         [[proxy.upstream]]\nname = \"open\"\nto = [\"{}\"]\n\
         [[proxy.upstream]]\nname = \"closed\"\nto = [\"{}\"]\n\
         [[proxy.route]]\n{fits}\nto = \"closed\"\n[[proxy.route]]\nto = \"open\"\n",
        open.address, closed.address
    )
}

#[test]
fn the_authority_replaces_the_host_rfc9113_8_3_1() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, ""));
        let mut client = http2_client(address(&proxy)).await;
        let request = Request::get("http://a.example/x").header("host", "b.example");
        let response = client.send_request(request.body(Full::default().boxed()).unwrap()).await;
        assert_eq!(response.unwrap().status(), 200);
        assert_eq!(upstream.asked(), ["GET /x a.example"]);
    });
}

#[test]
fn userinfo_is_refused_rfc9113_8_3_1() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, ""));
        // By hand: a library would not send it.
        let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        stream.write_all(b"\0\0\x08\x01\x05\0\0\0\x01\x82\x86\x84\x41\x03u@a").await.unwrap();
        let mut answer = Vec::new();
        // A status of 400 of the static table, or an error of the stream's.
        let is_refused = |answer: &[u8]| {
            answer.windows(9).any(|nine| nine[3] == 1 && nine[8] == 1) && answer.contains(&0x8c)
                || answer.windows(9).any(|nine| nine[..4] == *b"\0\0\x04\x03" && nine[8] == 1)
        };
        while !is_refused(&answer) {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{answer:?}");
        }
        let first = "GET http://user:word@a.example/ HTTP/1.1";
        assert_eq!(told(&ask(&proxy, first, "host: a\r\n").await), (400, "bad-host"));
        assert_eq!(upstream.asked().len(), 0);
    });
}

#[test]
fn one_path_decides_and_is_forwarded_rfc3986_5_2_4() {
    on_one_thread(async {
        let (open, closed) = (Upstream::start().await, Upstream::start().await);
        let proxy = proxy(&two_routes(&open, &closed, "path = \"/admin\""));
        for (path, status) in [
            ("/public/../admin/1?a=../b", 200),
            ("/public/%2e%2E/admin/2", 200),
            ("/./admin/3", 200),
            ("/admin/../public/4", 200),
            ("/public/..%2fadmin", 400),
            ("/public/..\\admin", 400),
            ("/@scope%2Fname", 200),
        ] {
            let answer = ask(&proxy, &format!("GET {path} HTTP/1.1"), "host: a\r\n").await;
            assert_eq!(told(&answer).0, status, "{path}: {answer}");
        }
        assert_eq!(closed.asked(), ["GET /admin/1?a=../b a", "GET /admin/2 a", "GET /admin/3 a"]);
        assert_eq!(open.asked(), ["GET /public/4 a", "GET /@scope%2Fname a"]);
    });
}

#[test]
fn an_asterisk_is_for_options_alone_rfc9112_3_2_4() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, ""));
        let answer = ask(&proxy, "GET * HTTP/1.1", "host: a\r\n").await;
        assert_eq!(told(&answer), (400, "bad-target"));
        assert_eq!(told(&ask(&proxy, "OPTIONS * HTTP/1.1", "host: a\r\n").await).0, 200);
        assert_eq!(upstream.asked(), ["OPTIONS * a"]);
    });
}

#[test]
fn h2c_is_never_passed_on_rfc9110_7_8() {
    on_one_thread(async {
        let (upstream, seen) =
            scripted(b"\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let proxy = proxy(&simple(upstream, ""));
        let head = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close, upgrade, http2-settings\r\n\
                    upgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n";
        assert_eq!(told(&raw(address(&proxy), head).await).0, 200);
        let seen = seen.borrow();
        assert!(!seen.contains("h2c") && !seen.contains("http2-settings"), "{seen}");
        assert!(!seen.contains("upgrade"), "{seen}");
    });
}

#[test]
fn a_route_may_allow_other_upgrades_than_websocket() {
    on_one_thread(async {
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                      upgrade: Telnet\r\n\r\nhello";
        let (upstream, seen) = scripted(b"\r\n\r\n", answer).await;
        let proxy = proxy(&simple(upstream, "upgrades = [\"telnet\"]"));
        let mut stream = TcpStream::connect(address(&proxy)).await.unwrap();
        let head =
            "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c, telnet\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        while !all.ends_with(b"\r\n\r\nhello") {
            assert!(stream.read_buf(&mut all).await.unwrap() > 0);
        }
        assert!(seen.borrow().contains("upgrade: telnet\r\n"), "{}", seen.borrow());
    });
}

#[test]
fn a_101_that_nobody_asked_for_is_502_rfc9110_15_2_2() {
    on_one_thread(async {
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                      upgrade: other\r\n\r\n";
        let (upstream, _) = scripted(b"\r\n\r\n", answer).await;
        let proxy = proxy(&simple(upstream, ""));
        let plain = ask(&proxy, "GET / HTTP/1.1", "host: a\r\n").await;
        assert_eq!(told(&plain), (502, "unasked"));
        let asked = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade, close\r\n\
                     upgrade: websocket\r\n\r\n";
        assert_eq!(told(&raw(address(&proxy), asked).await), (502, "unasked"));
    });
}

#[test]
fn a_tunnel_that_is_silent_for_too_long_ends() {
    on_one_thread(async {
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                      upgrade: websocket\r\n\r\n";
        let (upstream, _) = scripted(b"\r\n\r\n", answer).await;
        let text = simple(upstream, "");
        let text =
            text.replace("[[proxy.upstream]]", "tunnel_timeout = \"50ms\"\n[[proxy.upstream]]");
        let proxy = proxy(&text);
        let head = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
        assert!(raw(address(&proxy), head).await.starts_with("HTTP/1.1 101 "));
    });
}

#[test]
fn the_scheme_that_a_stranger_tells_is_not_believed() {
    on_one_thread(async {
        let (upstream, seen) =
            scripted(b"\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        for (trusted, scheme) in [("", "http"), ("trusted = [\"127.0.0.0/8\"]", "https")] {
            let text = simple(upstream, "");
            let text =
                text.replace("[[proxy.upstream]]", &format!("{trusted}\n[[proxy.upstream]]"));
            let proxy = proxy(&text);
            let more = "host: a\r\nx-forwarded-proto: https\r\n";
            assert_eq!(told(&ask(&proxy, "GET / HTTP/1.1", more).await).0, 200);
            let line = format!("x-forwarded-proto: {scheme}\r\n");
            assert!(seen.borrow().contains(&line), "{}", seen.borrow());
            assert_eq!(seen.borrow().matches("x-forwarded-proto").count(), 1);
        }
    });
}

#[test]
fn codings_that_are_not_known_are_501_rfc9112_6_1() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, ""));
        for codings in [
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked, chunked\r\n",
        ] {
            let head = format!(
                "POST / HTTP/1.1\r\nhost: a\r\n{codings}connection: close\r\n\r\n0\r\n\r\n"
            );
            assert_eq!(told(&raw(address(&proxy), &head).await), (501, "coding"), "{codings}");
        }
        assert_eq!(upstream.asked().len(), 0);
    });
}

#[test]
fn an_answer_in_chunks_has_no_length_rfc9112_6_3() {
    on_one_thread(async {
        let both = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n\
                    5\r\nhello\r\n0\r\n\r\n";
        let coded = "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
        for route in ["", "queue = false"] {
            let proxy = proxy(&simple(scripted(b"\r\n\r\n", both).await.0, route));
            let answer = ask(&proxy, "GET / HTTP/1.1", "host: a\r\n").await;
            assert!(answer.contains("hello") && !answer.contains("content-length"), "{answer}");
            let proxy = self::proxy(&simple(scripted(b"\r\n\r\n", coded).await.0, route));
            let answer = ask(&proxy, "GET / HTTP/1.1", "host: a\r\n").await;
            assert_eq!(told(&answer), (502, "broken"), "{answer}");
        }
    });
}

#[test]
fn nobody_takes_the_host_from_a_request_rfc9112_3_2() {
    on_one_thread(async {
        let (upstream, seen) =
            scripted(b"\r\n\r\nhi", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let proxy = proxy(&simple(upstream, ""));
        let lines = "connection: close, host, Content-Length, x-own\r\nx-own: 1\r\ncontent-length: 2\r\n\r\nhi";
        for (first, host) in [
            ("POST / HTTP/1.1\r\nhost: a\r\n", "host: a\r\n"),
            ("POST / HTTP/1.0\r\n", "host: \r\n"),
        ] {
            let answer = raw(address(&proxy), &format!("{first}{lines}")).await;
            assert_eq!(told(&answer).0, 200, "{answer}");
            let seen = seen.borrow();
            assert!(seen.contains(host) && seen.contains("content-length: 2\r\n"), "{seen}");
            assert!(!seen.contains("x-own"), "{seen}");
        }
    });
}

#[test]
fn a_bad_chunk_is_the_clients_mistake_rfc9112_7_1() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, ""));
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nx\r\n";
        assert_eq!(told(&raw(address(&proxy), head).await), (400, "body-broken"));
    });
}

#[test]
fn content_of_unknown_length_goes_out_chunked_rfc9112_6_3() {
    on_one_thread(async {
        let (upstream, seen) =
            scripted(b"0\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let script = ScriptFile::new("unknown", "function on_message(h) end");
        for route in ["", "queue = false", "script = \"s\""] {
            let proxy = proxy(&format!("{}{}", script.section(""), simple(upstream, route)));
            for method in ["GET", "HEAD", "DELETE", "POST"] {
                let head = format!(
                    "{method} / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
                     connection: close\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
                );
                assert_eq!(told(&raw(address(&proxy), &head).await).0, 200, "{method} {route}");
                let seen = seen.borrow();
                assert!(seen.contains("transfer-encoding: chunked\r\n"), "{seen}");
                assert!(seen.ends_with("\r\n2\r\nhi\r\n0\r\n\r\n"), "{seen}");
            }
        }
    });
}

#[test]
fn content_of_get_that_was_gathered_has_its_length_rfc9112_6_3() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let script = ScriptFile::new("gathered", "function on_message(h) end");
        let route = simple(upstream.address, "script = \"s\"\nbody = \"whole\"");
        let proxy = proxy(&format!("{}{route}", script.section("")));
        let head = "GET /q HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
                    connection: close\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        assert_eq!(told(&raw(address(&proxy), head).await).0, 200);
        assert_eq!(upstream.asked(), ["GET /q a hi"]);
    });
}

#[test]
fn trailers_pass_and_break_nothing_rfc9110_6_5() {
    on_one_thread(async {
        let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
                      2\r\nhi\r\n0\r\nx-sum: 7\r\n\r\n";
        let (upstream, seen) = scripted(b"x-sum: 1\r\n\r\n", answer).await;
        let proxy = proxy(&simple(upstream, ""));
        let head = "POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: close, te\r\n\
                    transfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n1\r\nx\r\n0\r\nx-sum: 1\r\n\r\n";
        let answer = raw(address(&proxy), head).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("x-sum: 7\r\n"), "{answer}");
        assert!(seen.borrow().ends_with("0\r\nx-sum: 1\r\n\r\n"));
        let mut client = http2_client(address(&proxy)).await;
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let frames = [Frame::data(Bytes::from_static(b"x")), Frame::trailers(trailers)];
        let body = BodyExt::boxed(StreamBody::new(tokio_stream::iter(frames.map(Ok))));
        let request = Request::post("http://a/").header("trailer", "x-sum").body(body).unwrap();
        let response = client.send_request(request).await.unwrap();
        let all = response.into_body().collect().await.unwrap();
        assert_eq!(all.trailers().unwrap()["x-sum"], "7");
        until(|| proxy.counts.read().routes[0].1[2] == 2).await;
        assert_eq!(proxy.counts.read().routes[0].2, 0, "none broke off");
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn a_103_goes_no_further_and_is_counted_rfc9110_15_2() {
    on_one_thread(async {
        let answer = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n\
                      HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
        let (upstream, _) = scripted(b"\r\n\r\n", answer).await;
        let proxy = proxy(&simple(upstream, ""));
        let answer = ask(&proxy, "GET / HTTP/1.1", "host: a\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hi"), "{answer}");
        assert!(!answer.contains("a.css"), "{answer}");
        assert_eq!(proxy.counts.read().informational, 1);
    });
}

#[test]
fn a_newer_minor_version_is_spoken_to_as_1_1_rfc9110_2_5() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, ""));
        let answer = raw(address(&proxy), "GET / HTTP/1.2\r\nhost: a\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        let answer = raw(address(&proxy), "GET / HTTP/2.1\r\nhost: a\r\n\r\n").await;
        assert!(!answer.contains(" 200 "), "{answer}");
        assert_eq!(upstream.asked(), ["GET / a"]);
    });
}
