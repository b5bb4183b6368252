//! What one client may take of what all need: room for heads and bodies, and connections to upstreams.

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::spawn_local;

use super::peers::until;
use super::*;

/// A server that answers as soon as it has read a head; tells for each connection when it is over.
async fn hasty(over: std::rc::Rc<std::cell::Cell<u32>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    spawn_local(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let over = over.clone();
            spawn_local(async move {
                let mut seen = Vec::new();
                while stream.read_buf(&mut seen).await.is_ok_and(|count| count > 0) {
                    if let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
                        seen.drain(..end + 4);
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                        stream.write_all(answer).await.unwrap();
                    }
                }
                over.set(over.get() + 1);
            });
        }
    });
    address
}

/// A client that has sent these bytes from this address of loopback.
async fn from(host: u8, to: SocketAddr, text: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// What it hears until there is so much, or its connection ends.
async fn hear(stream: &mut TcpStream, least: usize) -> String {
    let mut heard = Vec::new();
    while heard.len() < least && stream.read_buf(&mut heard).await.is_ok_and(|count| count > 0) {}
    String::from_utf8_lossy(&heard).into_owned()
}

const SLOW: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nx";

#[test]
fn nobody_waits_for_a_connection_by_which_another_ones_body_is_still_sent() {
    on_one_thread(async {
        let upstream = hasty(Default::default()).await;
        let proxy = proxy(&simple(upstream, ""));
        let mut slow = Vec::new();
        for _ in 0..3 {
            let mut client = from(1, address(&proxy), SLOW).await;
            assert!(hear(&mut client, 60).await.starts_with("HTTP/1.1 200 "));
            slow.push(client);
        }
        let mut client = Client::connect(address(&proxy)).await;
        // Three times: each time by the same connection.
        for _ in 0..3 {
            assert_eq!(text(client.send(get("/")).await).await, (StatusCode::OK, "ok".to_owned()));
        }
        assert_eq!(proxy.counts.read().upstreams[0].1, 4);
    });
}

#[test]
fn a_body_whose_answer_is_over_has_only_so_long() {
    on_one_thread(async {
        let over = std::rc::Rc::<std::cell::Cell<u32>>::default();
        let upstream = hasty(over.clone()).await;
        let text = simple(upstream, "")
            .replace("[[proxy.upstream]]", "body_timeout = \"100ms\"\n[[proxy.upstream]]");
        let proxy = proxy(&text);
        let mut client = from(1, address(&proxy), SLOW).await;
        assert!(hear(&mut client, 60).await.starts_with("HTTP/1.1 200 "));
        // It never stops for as long as a part may take.
        while over.get() == 0 && client.write_all(b"x").await.is_ok() {
            tokio::task::yield_now().await;
        }
        until(|| over.get() == 1).await;
    });
}

#[test]
fn bodies_of_one_client_leave_room_for_those_of_others() {
    on_one_thread(async {
        let upstream = Upstream::start_silent().await;
        let text = simple(upstream.address, "queue = false");
        let proxy = proxy(&format!("[limits]\nmemory = \"2MiB\"\n{text}"));
        let mut held = Vec::new();
        let mut told = String::new();
        while told.is_empty() {
            let before = proxy.room.used();
            let mut stream = from(1, address(&proxy), SLOW).await;
            tokio::select! {
                answer = hear(&mut stream, 12) => told = answer,
                () = until(|| proxy.room.used() > before) => {}
            }
            held.push(stream);
        }
        assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
        assert!((10..24).contains(&held.len()), "{}", held.len());
        // Of the same address: a small one.
        upstream.may_answer.add_permits(2);
        let small = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";
        let mut client = from(1, address(&proxy), small).await;
        let told = hear(&mut client, 12).await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
        // Of another one: a large one.
        let large = format!(
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n{}",
            "x".repeat(100_000)
        );
        let mut client = from(2, address(&proxy), &large).await;
        let told = hear(&mut client, 12).await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    });
}

#[test]
fn heads_of_one_client_leave_room_for_those_of_others_and_are_answered_503() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&format!(
            "[limits]\nmemory = \"2MiB\"\n{}",
            simple(upstream.address, "queue = false")
        ));
        let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "y".repeat(20_000));
        let mut held = Vec::new();
        let mut told = String::new();
        while told.is_empty() {
            let before = proxy.room.used();
            let mut stream = from(1, address(&proxy), &long).await;
            tokio::select! {
                answer = hear(&mut stream, 12) => told = answer,
                () = until(|| proxy.room.used() > before) => {}
            }
            held.push(stream);
        }
        assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("full"), "{told}");
        assert!((10..24).contains(&held.len()), "{}", held.len());
        let whole = format!("{long}\r\n\r\n");
        for (host, request) in [(1, "GET / HTTP/1.1\r\nhost: a\r\n\r\n"), (2, &*whole)] {
            let mut client = from(host, address(&proxy), request).await;
            let told = hear(&mut client, 12).await;
            assert!(told.starts_with("HTTP/1.1 200 "), "{host}: {told}");
        }
        let body = format!(
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9000\r\n\r\n{}",
            "x".repeat(9000)
        );
        let mut client = from(1, address(&proxy), &body).await;
        let told = hear(&mut client, 12).await;
        assert!(
            told.starts_with("HTTP/1.1 200 "),
            "those that are complete have their own: {told}"
        );
    });
}
