//! MQTT over WebSocket: another library's client, one that is not well-behaved, and pages in a browser.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};
use serde_json::json;
use tidegate::input::mqtt::WebSocketOptions;
use tidegate::support::tls::{self, ClientFiles, ServerFiles};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Bytes, Error, Message, WebSocket};

use crate::mqtt::client::{connect_v311, publish_v311};
use crate::mqtt::node::Node;
use crate::mqtt::{PATIENCE, soon};
use crate::support::browser::Browser;
use crate::support::certificates::Authority;

async fn node(origins: &[&str]) -> Node {
    let origins = origins.iter().map(|&origin| origin.into()).collect();
    Node::with(|options| options.websocket = Some(WebSocketOptions { origins })).await
}

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A client that asks for the subprotocol, as a page of `origin`.
fn open<S: Read + Write>(stream: S, origin: Option<&str>) -> Result<WebSocket<S>, Box<Error>> {
    let mut request = "ws://gate-7/mqtt".into_client_request().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", "mqtt".parse().unwrap());
    if let Some(origin) = origin {
        request.headers_mut().insert("Origin", origin.parse().unwrap());
    }
    match tungstenite::client(request, stream) {
        Ok((socket, answer)) => {
            assert_eq!(answer.headers()["Sec-WebSocket-Protocol"], "mqtt");
            Ok(socket)
        }
        Err(tungstenite::HandshakeError::Failure(error)) => Err(Box::new(error)),
        Err(tungstenite::HandshakeError::Interrupted(_)) => panic!("the stream blocks"),
    }
}

fn send<S: Read + Write>(socket: &mut WebSocket<S>, bytes: &[u8]) {
    socket.send(Message::Binary(Bytes::copy_from_slice(bytes))).unwrap();
}

/// So many bytes of packets, from however many frames.
fn receive<S: Read + Write>(socket: &mut WebSocket<S>, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        if let Message::Binary(more) = socket.read().unwrap() {
            bytes.extend_from_slice(&more);
        }
    }
    bytes
}

/// What the listener answers to these bytes until it closes.
fn told(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = tcp(address);
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Runs what blocks beside the node.
async fn beside<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    soon("the client's end", tokio::task::spawn_blocking(run)).await.unwrap()
}

#[tokio::test]
async fn packets_may_begin_and_end_anywhere_in_frames() {
    let mut node = node(&[]).await;
    let address = node.address();
    let large = vec![b'x'; 300_000];
    let client = beside({
        let large = large.clone();
        move || {
            let mut socket = open(tcp(address), None).unwrap();
            for byte in connect_v311("page", 0) {
                send(&mut socket, &[byte]);
            }
            assert_eq!(receive(&mut socket, 4), [0x20, 2, 0, 0]);
            let (one, two) =
                (publish_v311("a/b", Some(1), b"1"), publish_v311("a/b", Some(2), b"2"));
            let rest = publish_v311("a/b", Some(3), &large);
            send(&mut socket, &[&one[..], &two, &rest[..70_000]].concat());
            assert_eq!(receive(&mut socket, 8), [0x40, 2, 0, 1, 0x40, 2, 0, 2]);
            socket.send(Message::Ping(Bytes::from_static(b"there?"))).unwrap();
            assert_eq!(socket.read().unwrap(), Message::Pong(Bytes::from_static(b"there?")));
            send(&mut socket, &rest[70_000..]);
            assert_eq!(receive(&mut socket, 4), [0x40, 2, 0, 3]);
            // Subscribes, and is told all of it, in frames of the node's choice.
            send(&mut socket, &[0x82, 6, 0, 4, 0, 1, b't', 0]);
            assert_eq!(receive(&mut socket, 5), [0x90, 3, 0, 4, 0]);
            let publish = publish_v311("t", None, &large);
            send(&mut socket, &publish);
            assert_eq!(receive(&mut socket, publish.len()), publish);
            socket.close(None).unwrap();
            while socket.read().is_ok() {}
        }
    });
    client.await;
    node.opened().await;
    for payload in [b"1", b"2", &large[..]] {
        assert_eq!(node.record().await.payload, payload);
    }
    node.record().await;
    node.closed().await;
    node.stop().await;
}

#[tokio::test]
async fn what_a_page_says_before_it_closes_counts_and_a_goodbye_is_one() {
    let mut node = node(&["https://desk.example"]).await;
    let address = node.address();
    beside(move || {
        let mut socket = open(tcp(address), Some("https://desk.example")).unwrap();
        let all = [connect_v311("page", 0), publish_v311("a", None, b"last"), vec![0xE0, 0]];
        send(&mut socket, &all.concat());
        socket.close(None).unwrap();
        assert_eq!(receive(&mut socket, 4), [0x20, 2, 0, 0]);
        let end = loop {
            match socket.read() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(end, Error::ConnectionClosed), "{end}");
    })
    .await;
    node.opened().await;
    assert_eq!(&node.record().await.payload[..], b"last");
    node.closed().await;
    node.stop().await;
}

#[tokio::test]
async fn who_may_not_is_told_why_and_counted() {
    let node = node(&["https://desk.example"]).await;
    let address = node.address();
    beside(move || {
        let Error::Http(answer) = *open(tcp(address), Some("https://evil.example")).unwrap_err()
        else {
            panic!("an answer of HTTP")
        };
        assert_eq!(answer.status(), 403);
        let text = String::from_utf8(told(address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 426 ") && text.contains("MQTT over WebSocket"),
            "{text}"
        );
        let text = String::from_utf8(told(address, &connect_v311("tcp", 0))).unwrap();
        assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
        let long = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 9000]].concat();
        assert!(told(address, &long).starts_with(b"HTTP/1.1 431 "));
    })
    .await;
    assert_eq!(node.counts.read().denied["websocket"], 4);
    node.stop().await;
}

#[tokio::test]
async fn a_client_that_breaks_the_protocol_is_told_by_mqtt_and_by_a_code() {
    let node = node(&[]).await;
    let address = node.address();
    beside(move || {
        let mut socket = open(tcp(address), None).unwrap();
        // MQTT 5, clean start, no keepalive.
        send(&mut socket, b"\x10\x11\0\x04MQTT\x05\x02\0\0\0\0\x04page");
        assert!(matches!(socket.read().unwrap(), Message::Binary(ack) if ack[0] == 0x20));
        socket.send(Message::Text("hello".into())).unwrap();
        let Message::Binary(goodbye) = socket.read().unwrap() else { panic!("a packet") };
        assert_eq!((goodbye[0], goodbye[2]), (0xE0, 0x82), "a protocol error");
        let Message::Close(Some(close)) = socket.read().unwrap() else { panic!("a close") };
        assert_eq!(u16::from(close.code), 1003);
    })
    .await;
    node.stop().await;
}

#[tokio::test]
async fn a_listener_has_the_same_patience_with_a_request_as_with_a_connect() {
    let node = Node::with(|options| {
        options.websocket = Some(WebSocketOptions::default());
        options.connect_timeout = Duration::from_millis(100);
    })
    .await;
    let address = node.address();
    beside(move || {
        assert_eq!(told(address, b"GET /mqtt HTTP/1.1\r\nHost:"), b"");
        let mut socket = open(tcp(address), None).unwrap();
        // It closes without a word of MQTT, as it was told none.
        assert!(matches!(socket.read(), Ok(Message::Close(_))));
    })
    .await;
    node.stop().await;
}

#[tokio::test]
async fn pages_and_certificates_come_in_by_tls() {
    let authority = Authority::new("wss");
    let own = authority.issue("node");
    let files = ServerFiles {
        certificate: own.certificate,
        key: own.key,
        client_ca: Some(authority.ca()),
        crl: None,
    };
    let mut node = Node::with(|options| {
        options.websocket = Some(WebSocketOptions::default());
        options.tls = Some(tls::server(&files).unwrap());
    })
    .await;
    let plc = authority.issue("plc-7");
    let config =
        tls::client(&ClientFiles { ca: authority.ca(), own: Some((plc.certificate, plc.key)) });
    let (config, address) = (config.unwrap(), node.address());
    let large = vec![b'x'; 100_000];
    let publish = publish_v311("a/b", Some(1), &large);
    beside(move || {
        let name = tls::server_name("127.0.0.1").unwrap();
        let connection = ClientConnection::new(Arc::clone(&config), name).unwrap();
        let mut socket = open(StreamOwned::new(connection, tcp(address)), None).unwrap();
        send(&mut socket, &connect_v311("plc-7", 0));
        assert_eq!(receive(&mut socket, 4), [0x20, 2, 0, 0]);
        send(&mut socket, &publish);
        assert_eq!(receive(&mut socket, 4), [0x40, 2, 0, 1]);
    })
    .await;
    node.opened().await;
    assert_eq!(node.record().await.payload, large);
    node.closed().await;
    node.stop().await;
}

/// A page without anything, at an address of its own, until the test ends.
fn page() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let body = "<!doctype html><title>desk</title><link rel=icon href=data:,>";
            let head = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    address
}

/// The library, as browsers load it.
fn bundle() -> Option<String> {
    let modules: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/javascript/node_modules");
    std::fs::read_to_string(modules.join("mqtt/dist/mqtt.min.js")).ok()
}

#[tokio::test]
async fn a_page_in_a_browser_publishes_and_subscribes_with_mqtt_js() {
    let Some(bundle) = bundle() else {
        println!("skipped: needs the package mqtt of Node.js (scripts/setup.sh), not found");
        return;
    };
    let page = page();
    let mut node = node(&[&format!("http://{page}")]).await;
    let address = node.address();
    let seen = beside(move || {
        let mut browser = Browser::start("websocket")?;
        browser.open(&format!("http://{page}/"));
        browser.wait_for("document.title === 'desk'");
        browser.value(&format!("{bundle}; typeof mqtt.connect"));
        let talk = |version: u8| {
            format!(
                "new Promise((done, failed) => {{
                    const url = 'ws://{address}/mqtt';
                    const client = mqtt.connect(url, {{ protocolVersion: {version}, clientId: 'desk' }});
                    client.on('error', failed);
                    client.on('connect', async () => {{
                        await client.subscribeAsync('desk/#', {{ qos: 2 }});
                        await client.publishAsync('desk/{version}', 'x'.repeat(100000), {{ qos: 2 }});
                    }});
                    client.on('message', async (topic, payload) => {{
                        await client.endAsync();
                        done(topic + ' ' + payload.length);
                    }});
                }})"
            )
        };
        let heard = [5, 4].map(|version| browser.value(&talk(version)));
        // Another page: the same machine by its other name.
        browser.open(&format!("http://localhost:{}/", page.port()));
        browser.wait_for("location.hostname === 'localhost' && document.title === 'desk'");
        let refused = browser.value(&format!(
            "new Promise(done => {{
                const socket = new WebSocket('ws://{address}/mqtt', 'mqtt');
                socket.onopen = () => done('open');
                socket.onerror = () => done('refused');
            }})"
        ));
        Some((heard, refused))
    })
    .await;
    let Some((heard, refused)) = seen else {
        println!(
            "skipped: needs chromium-headless-shell or chromium (scripts/setup.sh), not found"
        );
        return;
    };
    assert_eq!(heard, [json!("desk/5 100000"), json!("desk/4 100000")]);
    assert_eq!(refused, "refused");
    assert_eq!(node.counts.read().denied["websocket"], 1);
    for _ in [5, 4] {
        assert_eq!(&*node.opened().await.1, "desk");
        assert_eq!(node.record().await.payload.len(), 100_000);
        node.closed().await;
    }
    node.stop().await;
}
