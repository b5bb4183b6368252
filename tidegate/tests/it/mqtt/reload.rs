//! Certificates, authorities, users, rights and listeners that change while clients are at work: who keeps his right
//! notices nothing, and who has lost it is told by the end of his connection.

use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use rmqtt_codec::v5;
use tidegate::input::mqtt::{Clients, MqttOptions};
use tidegate::support::access::users::{UserFile, Users};
use tidegate::support::access::{Access, Allow, Identification};
use tidegate::support::tls::{self, ClientFiles, ServerFiles, Stream};
use tidegate_testbed::free_address;
use tokio::net::TcpStream;

use crate::mqtt::client::{Client, connect_v311, publish_v311};
use crate::mqtt::node::Node;
use crate::mqtt::soon;
use crate::support::certificates::{Authority, Issued};

/// Clients that are at work while something changes.
const CLIENTS: usize = 100;

fn files(authority: &Authority, own: &Issued) -> ServerFiles {
    let (certificate, key) = (own.certificate.clone(), own.key.clone());
    ServerFiles { certificate, key, client_ca: Some(authority.ca()), crl: None }
}

async fn tls_node(files: &ServerFiles) -> Node {
    let (config, callers) = tls::serving(files).unwrap();
    Node::with(|options| {
        (options.tls, options.callers) = (Some(config), callers);
        options.access = Arc::new(Access::new(Identification::Certificate, None));
    })
    .await
}

/// A client over TLS, connected, with the certificate of the node that it saw.
struct Encrypted {
    stream: Stream,
    shown: Vec<u8>,
}

fn trusting(authority: &Authority, own: &Issued) -> Arc<rustls::ClientConfig> {
    let own = Some((own.certificate.clone(), own.key.clone()));
    tls::client(&ClientFiles { ca: authority.ca(), own }).unwrap()
}

impl Encrypted {
    async fn connect(node: &Node, config: &Arc<rustls::ClientConfig>, id: &str) -> Option<Self> {
        let tcp = TcpStream::connect(node.address()).await.unwrap();
        let name = tls::server_name("localhost").unwrap();
        let mut stream = Stream::client(tcp, config.clone(), name).unwrap();
        stream.handshake().await.ok()?;
        let shown = stream.peer_certificate().unwrap().to_vec();
        let mut client = Encrypted { stream, shown };
        client.stream.write_all(&connect_v311(id, 0)).await.ok()?;
        (client.read(4).await == [0x20, 2, 0, 0]).then_some(client)
    }

    /// The next bytes, or fewer where the connection ends.
    async fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = BytesMut::with_capacity(1000);
        soon("an answer", async {
            while bytes.len() < count {
                if self.stream.readable().await.is_err() {
                    break;
                }
                match self.stream.try_read(&mut bytes) {
                    Ok(0) => break,
                    Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
                    _ => {}
                }
            }
        })
        .await;
        bytes.to_vec()
    }

    /// Publishes, and sees that the node takes it.
    async fn works(&mut self) {
        self.stream.write_all(&publish_v311("a/b", Some(7), b"x")).await.unwrap();
        assert_eq!(self.read(4).await, [0x40, 2, 0, 7]);
    }
}

fn copy(from: &Issued, to: &Issued) {
    std::fs::copy(&from.certificate, &to.certificate).unwrap();
    std::fs::copy(&from.key, &to.key).unwrap();
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_from_the_next_handshake_and_ends_no_connection() {
    let authority = Authority::new("renewed");
    let (own, renewed) = (authority.issue("node"), authority.issue("renewed"));
    let node = tls_node(&files(&authority, &own)).await;
    let config = trusting(&authority, &authority.issue("plc"));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        clients.push(Encrypted::connect(&node, &config, &format!("c{number}")).await.unwrap());
    }
    let before = clients[0].shown.clone();
    // The certificate without its key is a mistake, and changes nothing.
    std::fs::copy(&renewed.certificate, &own.certificate).unwrap();
    let meanwhile = Encrypted::connect(&node, &config, "meanwhile").await.unwrap();
    assert_eq!(meanwhile.shown, before);
    copy(&renewed, &own);
    let after = Encrypted::connect(&node, &config, "after").await.unwrap();
    assert_ne!(after.shown, before);
    for client in &mut clients {
        client.works().await;
    }
    std::fs::write(&own.certificate, "no certificate").unwrap();
    let later = Encrypted::connect(&node, &config, "later").await.unwrap();
    assert_eq!(later.shown, after.shown);
    node.stop().await;
}

#[tokio::test]
async fn who_is_revoked_is_out_and_the_others_go_on() {
    let authority = Authority::new("revoked");
    let own = authority.issue("node");
    let files = ServerFiles { crl: Some(authority.revoke(&[])), ..files(&authority, &own) };
    let node = tls_node(&files).await;
    let [good, bad] = ["plc-7", "plc-8"].map(|name| trusting(&authority, &authority.issue(name)));
    let mut stay = Vec::new();
    for number in 0..CLIENTS {
        stay.push(Encrypted::connect(&node, &good, &format!("c{number}")).await.unwrap());
    }
    let mut goes = Encrypted::connect(&node, &bad, "bad").await.unwrap();
    goes.works().await;
    authority.revoke(&["plc-8"]);
    assert_eq!(goes.read(1).await, b"", "the end");
    // It has a session of TLS from before, too, and comes in by none.
    assert!(Encrypted::connect(&node, &bad, "bad").await.is_none());
    for client in &mut stay {
        client.works().await;
    }
    assert_eq!(node.counts.read().denied["revoked"], 1);
    node.stop().await;
}

#[tokio::test]
async fn who_has_the_certificate_of_an_authority_that_is_gone_is_out() {
    let (authority, other) = (Authority::new("stays"), Authority::new("goes"));
    let own = authority.issue("node");
    let both = authority.file("both.pem");
    let of = |authority: &Authority| std::fs::read_to_string(authority.ca()).unwrap();
    std::fs::write(&both, of(&authority) + &of(&other)).unwrap();
    let node =
        tls_node(&ServerFiles { client_ca: Some(both.clone()), ..files(&authority, &own) }).await;
    let good = trusting(&authority, &authority.issue("plc-7"));
    let own = other.issue("plc-8");
    let own = Some((own.certificate, own.key));
    let bad = tls::client(&ClientFiles { ca: authority.ca(), own }).unwrap();
    let mut stays = Encrypted::connect(&node, &good, "good").await.unwrap();
    let mut goes = Encrypted::connect(&node, &bad, "bad").await.unwrap();
    std::fs::write(&both, of(&authority)).unwrap();
    assert_eq!(goes.read(1).await, b"", "the end");
    assert!(Encrypted::connect(&node, &bad, "bad").await.is_none());
    stays.works().await;
    node.stop().await;
}

fn with_users(file: &Path, names: &[(&str, &str)]) {
    let mut users = Users::default();
    for (name, password) in names {
        users.add(name, password.as_bytes()).unwrap();
    }
    users.write(file).unwrap();
}

async fn login(node: &Node, id: &str, user: &str) -> Client {
    let connect = v5::Connect {
        clean_start: true,
        client_id: id.to_owned().into(),
        username: Some(user.to_owned().into()),
        password: Some(bytes::Bytes::from_static(b"secret")),
        ..v5::Connect::default()
    };
    let (client, ack) = Client::v5(node.address(), connect).await;
    assert_eq!(u8::from(ack.reason_code), 0);
    client
}

/// A QoS 1 publish that the node takes.
async fn works(client: &mut Client, topic: &str) {
    client.send(&publish_v311(topic, Some(7), b"\0x")).await;
    assert_eq!(client.packet().await[..4], [0x40, 2, 0, 7]);
}

async fn subscribe(client: &mut Client, filter: &str) {
    let mut body = vec![0, 1, 0];
    body.extend((filter.len() as u16).to_be_bytes());
    body.extend(filter.as_bytes());
    body.push(0);
    client.send(&crate::mqtt::client::packet(0x82, &body)).await;
    assert_eq!(client.packet().await[..], [0x90, 4, 0, 1, 0, 0]);
}

fn rule(user: &str, topics: &[&str], subscribe: &[&str]) -> Allow {
    let own = |filters: &[&str]| filters.iter().map(ToString::to_string).collect();
    Allow::new(Some(user.into()), own(topics), own(subscribe)).unwrap()
}

/// How the same listener is to be from now on.
fn change(node: &Node, change: impl FnOnce(&mut MqttOptions)) {
    let at = vec!["127.0.0.1:0".parse().unwrap()];
    let mut options = MqttOptions::new(at.clone());
    change(&mut options);
    node.control.as_ref().unwrap().change(options, &at).unwrap()();
}

#[tokio::test]
async fn users_that_are_gone_or_have_another_password_are_out_and_the_others_go_on() {
    let authority = Authority::new("users");
    let file = authority.file("users");
    with_users(&file, &[("stays", "secret"), ("goes", "secret"), ("changes", "secret")]);
    let users = UserFile::open(&file).unwrap();
    let by_password = Identification::Password { users, anonymous: false };
    let node =
        Node::with(|options| options.access = Arc::new(Access::new(by_password, None))).await;
    let mut stay = Vec::new();
    for number in 0..CLIENTS {
        stay.push(login(&node, &format!("c{number}"), "stays").await);
    }
    let mut goes = login(&node, "goes", "goes").await;
    let mut changes = login(&node, "changes", "changes").await;
    // A mistake changes nothing: another login makes the node look.
    let right = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, right.clone() + "no colon\n").unwrap();
    works(&mut login(&node, "another", "goes").await, "a").await;
    std::fs::write(&file, right.replace("goes:", "gone:")).unwrap();
    assert_eq!(goes.dismissed().await, 0x87);
    let mut users = Users::read(&file).unwrap();
    users.add("changes", b"another").unwrap();
    users.write(&file).unwrap();
    assert_eq!(changes.dismissed().await, 0x87);
    for client in &mut stay {
        works(client, "a").await;
    }
    node.stop().await;
}

#[tokio::test]
async fn rights_change_for_who_is_in() {
    let authority = Authority::new("rights");
    let file = authority.file("users");
    with_users(&file, &[("plc", "secret"), ("board", "secret"), ("panel", "secret")]);
    let access = |allow: Vec<Allow>| {
        let users = UserFile::open(&file).unwrap();
        Arc::new(Access::new(Identification::Password { users, anonymous: false }, Some(allow)))
    };
    let plc = rule("plc", &["a/#"], &[]);
    let before = access(vec![plc.clone(), rule("*", &[], &["a/#"])]);
    let node = Node::with(|options| options.access = before).await;
    let mut plc_client = login(&node, "plc", "plc").await;
    let mut board = login(&node, "board", "board").await;
    let mut panel = login(&node, "panel", "panel").await;
    subscribe(&mut board, "a/#").await;
    subscribe(&mut panel, "a/b").await;
    works(&mut plc_client, "a/b").await;
    for client in [&mut board, &mut panel] {
        assert_eq!(client.packet().await[0], 0x30);
    }
    let after = access(vec![rule("plc", &["a/b"], &[]), rule("*", &[], &["a/b"])]);
    change(&node, |options| options.access = after);
    assert_eq!(board.dismissed().await, 0x87, "it had a/#");
    works(&mut plc_client, "a/b").await;
    assert_eq!(panel.packet().await[0], 0x30, "it has a/b as before");
    plc_client.send(&publish_v311("a/c", Some(8), b"\0x")).await;
    assert_eq!(plc_client.packet().await[2..5], [0, 8, 0x87]);
    node.stop().await;
}

#[tokio::test]
async fn an_address_goes_from_one_listener_to_another_with_who_waits_there() {
    let (one, other) = (Node::start().await, Node::start().await);
    let clients = Arc::new(Clients::new());
    let moves = free_address();
    let any = "127.0.0.1:0".parse().unwrap();
    let with = |listen| MqttOptions { clients: clients.clone(), ..MqttOptions::new(listen) };
    let (from, to) = (one.control.clone().unwrap(), other.control.clone().unwrap());
    from.change(with(vec![any, moves]), &[any]).unwrap()();
    let mut before = Client::v311(moves, "before").await;
    // Both are prepared before anything changes, as a reload does it.
    let takes = to.change(with(vec![any, moves]), &[any]).unwrap();
    let leaves = from.change(with(vec![any]), &[any, moves]).unwrap();
    leaves();
    takes();
    before.send(&publish_v311("a", Some(1), b"x")).await;
    assert_eq!(before.packet().await, [0x40, 2, 0, 1]);
    from.remove();
    assert_eq!(before.next().await, None, "it came by the first");
    let mut after = Client::v311(moves, "after").await;
    after.send(&publish_v311("a", Some(2), b"x")).await;
    assert_eq!(after.packet().await, [0x40, 2, 0, 2]);
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_listener_takes_new_addresses_and_leaves_old_ones_and_its_clients_stay() {
    let node = Node::start().await;
    let mut client = Client::v311(node.address(), "stays").await;
    let new = free_address();
    let control = node.control.clone().unwrap();
    let taken = MqttOptions::new(vec![node.address()]);
    assert!(control.change(taken, &[]).is_err(), "somebody listens there");
    control.change(MqttOptions::new(vec![new]), &["127.0.0.1:0".parse().unwrap()]).unwrap()();
    // The old address is given up when the new one is served.
    let mut moved = Client::v311(new, "moved").await;
    client.send(&publish_v311("a", Some(1), b"x")).await;
    assert_eq!(client.packet().await, [0x40, 2, 0, 1]);
    control.remove();
    assert_eq!(client.next().await, None);
    assert_eq!(moved.next().await, None);
    assert!(TcpStream::connect(node.address()).await.is_err());
}
