//! TLS at the listener: who gets in, and who does not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tidegate::config;
use tidegate::input::mqtt::WebSocketOptions;
use tidegate::link::Links;
use tidegate::output::kind::Surroundings;
use tidegate::support::tls::{self, ClientFiles, ServerFiles, Stream};
use tokio::net::TcpStream;

use crate::mqtt::client::{Client, connect_v311, publish_v311};
use crate::mqtt::node::Node;
use crate::mqtt::soon;
use crate::support::certificates::{Authority, Issued};

async fn node(authority: &Authority, own: &Issued, client_ca: bool) -> Node {
    let files = ServerFiles {
        certificate: own.certificate.clone(),
        key: own.key.clone(),
        client_ca: client_ca.then(|| authority.ca()),
        crl: None,
    };
    Node::with(|options| {
        options.listen.push("[::1]:0".parse().unwrap());
        options.tls = Some(tls::server(&files).unwrap());
        options.connect_timeout = Duration::from_secs(2);
    })
    .await
}

/// A client that trusts `authority` and shows `own`.
async fn connect(address: SocketAddr, authority: &Authority, own: Option<&Issued>) -> Stream {
    let own = own.map(|own| (own.certificate.clone(), own.key.clone()));
    let config = tls::client(&ClientFiles { ca: authority.ca(), own }).unwrap();
    let tcp = TcpStream::connect(address).await.unwrap();
    let name = tls::server_name(&address.ip().to_string()).unwrap();
    Stream::client(tcp, config, name).unwrap()
}

/// What comes next, up to `count` bytes, or why nothing does.
async fn read(stream: &mut Stream, count: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = BytesMut::with_capacity(1000);
    soon("an answer", async {
        while bytes.len() < count {
            stream.readable().await?;
            match stream.try_read(&mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes.to_vec())
    })
    .await
}

/// How far a client gets: the answer to its CONNECT, or why there is none.
async fn greeted(stream: &mut Stream) -> Result<Vec<u8>, String> {
    let greet = async {
        stream.handshake().await?;
        stream.write_all(&connect_v311("plc-7", 0)).await?;
        read(stream, 4).await
    };
    greet.await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn clients_with_a_certificate_get_in_over_ipv4_and_ipv6() {
    let authority = Authority::new("in");
    let mut node = node(&authority, &authority.issue("node"), true).await;
    let own = authority.issue("plc-7");
    for address in node.addresses.clone() {
        let mut client = connect(address, &authority, Some(&own)).await;
        assert_eq!(greeted(&mut client).await, Ok(vec![0x20, 2, 0, 0]));
        let large = vec![5; 200_000];
        client.write_all(&publish_v311("a/b", Some(7), &large)).await.unwrap();
        node.opened().await;
        let record = node.record().await;
        assert_eq!((&record.key[..], record.payload.len() as u64), (&b"a/b"[..], 200_000));
        assert_eq!(read(&mut client, 4).await.unwrap(), [0x40, 2, 0, 7]);
        client.write_all(&[0xE0, 0]).await.unwrap();
        assert_eq!(read(&mut client, 1).await.unwrap(), b"");
        node.closed().await;
    }
    node.stop().await;
}

#[tokio::test]
async fn who_shows_nothing_or_the_wrong_thing_stays_outside() {
    let (authority, other) = (Authority::new("out"), Authority::new("other"));
    let node = node(&authority, &authority.issue("node"), true).await;
    let refused = |own: Option<Issued>| {
        let (address, authority) = (node.address(), &authority);
        async move {
            let mut client = connect(address, authority, own.as_ref()).await;
            greeted(&mut client).await.unwrap_err()
        }
    };
    let nothing = refused(None).await;
    assert!(nothing.contains("CertificateRequired"), "{nothing}");
    let foreign = refused(Some(other.issue("plc-7"))).await;
    assert!(foreign.contains("UnknownCA"), "{foreign}");
    let expired = refused(Some(authority.issue_until("old", 2021))).await;
    assert!(expired.contains("CertificateExpired"), "{expired}");
    let mut distrustful = connect(node.address(), &other, None).await;
    let why = greeted(&mut distrustful).await.unwrap_err();
    assert!(why.contains("UnknownIssuer"), "{why}");
    node.stop().await;
}

#[tokio::test]
async fn a_node_with_an_old_certificate_is_seen_through() {
    let authority = Authority::new("old-node");
    let node = node(&authority, &authority.issue_until("node", 2021), false).await;
    let mut client = connect(node.address(), &authority, None).await;
    let why = greeted(&mut client).await.unwrap_err();
    assert!(why.contains("xpired"), "{why}");
    node.stop().await;
}

#[tokio::test]
async fn who_does_not_speak_tls_is_closed_and_who_says_nothing_too() {
    let authority = Authority::new("plain");
    let node = node(&authority, &authority.issue("node"), false).await;
    let mut silent = Client::open(node.address()).await;
    let mut plain = Client::open(node.address()).await;
    plain.send(&connect_v311("plc-7", 0)).await;
    // A TLS alert, and the end: nothing of MQTT.
    assert_ne!(plain.next().await, Some(vec![0x20, 2, 0, 0]));
    // The same when the connect timeout is over; a node without one would never say anything.
    assert_ne!(silent.next().await, Some(vec![0x20, 2, 0, 0]));
    let mut good = connect(node.address(), &authority, None).await;
    assert_eq!(greeted(&mut good).await, Ok(vec![0x20, 2, 0, 0]));
    node.stop().await;
}

/// What a listener agrees on with a client that speaks these protocols.
async fn agreed(
    address: SocketAddr,
    authority: &Authority,
    protocols: &'static [&'static str],
) -> Result<Option<Vec<u8>>, String> {
    let mut config = tls::client(&ClientFiles { ca: authority.ca(), own: None }).unwrap();
    Arc::make_mut(&mut config).alpn_protocols =
        protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let agree = move || {
        let name = tls::server_name("127.0.0.1").unwrap();
        let mut connection = rustls::ClientConnection::new(config, name).unwrap();
        let mut tcp = std::net::TcpStream::connect(address).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut tcp).map_err(|error| error.to_string())?;
        }
        Ok(connection.alpn_protocol().map(<[u8]>::to_vec))
    };
    soon("an agreement", tokio::task::spawn_blocking(agree)).await.unwrap()
}

#[tokio::test]
async fn a_listener_says_that_it_speaks_mqtt_and_nothing_else() {
    let authority = Authority::new("alpn");
    let node = node(&authority, &authority.issue("node"), false).await;
    for (protocols, chosen) in [
        (&["mqtt"][..], Some("mqtt")),
        (&["x-amzn-mqtt-ca"], Some("x-amzn-mqtt-ca")),
        (&["h2", "mqtt"], Some("mqtt")),
        (&[], None),
    ] {
        let found = agreed(node.address(), &authority, protocols).await.unwrap();
        assert_eq!(found.as_deref(), chosen.map(str::as_bytes), "{protocols:?}");
    }
    let refused = agreed(node.address(), &authority, &["h2", "http/1.1"]).await.unwrap_err();
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
    node.stop().await;
}

#[tokio::test]
async fn a_listener_for_websocket_says_that_it_speaks_http() {
    let authority = Authority::new("alpn-web");
    let own = authority.issue("node");
    let files =
        ServerFiles { certificate: own.certificate, key: own.key, client_ca: None, crl: None };
    let node = Node::with(|options| {
        options.websocket = Some(WebSocketOptions::default());
        options.tls = Some(tls::server(&files).unwrap());
    })
    .await;
    let found = agreed(node.address(), &authority, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(found.as_deref(), Some(&b"http/1.1"[..]));
    assert!(agreed(node.address(), &authority, &["mqtt"]).await.is_err());
    node.stop().await;
}

#[tokio::test]
async fn an_output_asks_for_the_protocol_that_its_far_end_wants() {
    let authority = Authority::new("alpn-out");
    let asked = |alpn: &str| {
        let ca = authority.ca();
        let text = format!("[[output]]\nmqtt = {{ url = \"mqtts://h\", ca = {ca:?}{alpn} }}\n");
        let config = config::read(&text).config;
        let surroundings = Surroundings {
            node: "gate-7".into(),
            output: "cloud".into(),
            classes: Arc::new([]),
            bounds: Vec::new(),
            unconfirmed_max: 1,
            links: Links::default(),
        };
        let options = config.output[0].mqtt.as_ref().unwrap().options(&surroundings).unwrap();
        options.tls.unwrap()
    };
    let (cloud, plain) = (asked(", alpn = \"x-amzn-mqtt-ca\""), asked(""));
    assert_eq!(cloud.config().alpn_protocols, [b"x-amzn-mqtt-ca"]);
    assert!(plain.config().alpn_protocols.is_empty() && cloud != plain);
}
