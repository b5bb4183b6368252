//! Each kind of change under many connections at work, in a whole node: nobody is lost who keeps his right, and whoever
//! has lost it is out.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::support::tls::{self, ClientFiles};
use tidegate_testbed::free_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::cloud::{Cloud, Rules, Seen, write_secret};
use crate::support::PATIENCE;
use crate::support::certificates::{Authority, Issued};
use crate::support::process::Node;

/// What a client says of itself.
#[derive(Debug)]
enum Said {
    /// A publish of it was acknowledged.
    Works(usize),
    /// Its connection is over.
    Ended(usize),
}

/// Clients that publish with QoS 1, one after the other, as long as they are let.
struct Crowd {
    sender: mpsc::UnboundedSender<Said>,
    said: mpsc::UnboundedReceiver<Said>,
    tasks: JoinSet<()>,
    count: usize,
    pause: Duration,
    here: BTreeSet<usize>,
    /// When the last one ended.
    last_end: Option<Instant>,
}

impl Crowd {
    fn new(pause: Duration) -> Crowd {
        let (sender, said) = mpsc::unbounded_channel();
        let here = BTreeSet::new();
        Crowd { sender, said, tasks: JoinSet::new(), count: 0, pause, here, last_end: None }
    }

    /// One more, by TLS with a certificate of its own; returns its number when it works.
    async fn join(&mut self, port: u16, config: &Arc<rustls::ClientConfig>) -> usize {
        let number = self.count;
        self.count += 1;
        let tcp = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let name = tls::server_name("localhost").unwrap();
        let mut stream = TlsConnector::from(config.clone()).connect(name, tcp).await.unwrap();
        let id = format!("client-{number:05}");
        let connect = [b"\x10\x18\0\x04MQTT\x04\x02\0\0\0\x0c", id.as_bytes()].concat();
        stream.write_all(&connect).await.unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [0x20, 2, 0, 0]);
        let (sender, pause) = (self.sender.clone(), self.pause);
        self.tasks.spawn(async move {
            loop {
                let sent = stream.write_all(b"\x32\x07\0\x01t\0\x01hi").await;
                if sent.is_err() || stream.read_exact(&mut answer).await.is_err() {
                    break;
                }
                assert_eq!(answer, [0x40, 2, 0, 1]);
                if sender.send(Said::Works(number)).is_err() {
                    return;
                }
                // Between two publishes it hears its end.
                let mut end = [0];
                if timeout(pause, stream.read(&mut end)).await.is_ok() {
                    break;
                }
            }
            let _ = sender.send(Said::Ended(number));
        });
        self.here.insert(number);
        number
    }

    /// Waits until each of `goes` has ended and all others have worked twice from now on: once is a publish that was under
    /// way.
    async fn go_on_without(&mut self, what: &str, goes: &[usize]) {
        let mut going: BTreeSet<usize> = goes.iter().copied().collect();
        let mut works: Vec<u8> = vec![0; self.count];
        let mut waiting = self.here.len() - going.len();
        // What was said before counts for nothing.
        while let Ok(said) = self.said.try_recv() {
            self.ended(what, &said, &mut going);
        }
        while waiting > 0 || !going.is_empty() {
            let said = timeout(PATIENCE, self.said.recv()).await;
            let Ok(Some(said)) = said else {
                panic!("{what}: {waiting} do not go on, {going:?} do not end")
            };
            match said {
                Said::Works(number) if !goes.contains(&number) => {
                    works[number] = works[number].saturating_add(1);
                    waiting -= usize::from(works[number] == 2);
                }
                said => self.ended(what, &said, &mut going),
            }
        }
    }

    /// For people: how long those took to end who had lost their right.
    fn tell(&mut self, what: &str, begun: Instant) {
        if let Some(last) = self.last_end.take() {
            println!("{what}: ended after {} ms", last.duration_since(begun).as_millis());
        }
    }

    fn ended(&mut self, what: &str, said: &Said, going: &mut BTreeSet<usize>) {
        if let Said::Ended(number) = said {
            assert!(going.remove(number), "{what}: {number} is lost, which keeps its right");
            self.here.remove(number);
            self.last_end = Some(Instant::now());
        }
    }
}

/// What the configuration says at the time.
struct Setting {
    ports: Vec<u16>,
    /// Of the listener from which they go to the other.
    others: Vec<u16>,
    allow: &'static str,
    far: u16,
    rate: &'static str,
    rest: String,
}

impl Setting {
    fn text(&self, authority: &Authority, own: &Issued, (ca, crl): &(PathBuf, PathBuf)) -> String {
        let listener = |ports: &[u16]| {
            let all: Vec<String> =
                ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
            format!(
                "[[input]]\n[input.mqtt]\nlisten = [{}]\nuser_from = \"certificate\"\nallow = [{}]\n\
                 tls = {{ certificate = {:?}, key = {:?}, client_ca = {ca:?}, crl = {crl:?} }}\n",
                all.join(", "),
                self.allow,
                own.certificate,
                own.key,
            )
        };
        let others = if self.others.is_empty() { String::new() } else { listener(&self.others) };
        format!(
            "[node]\nname = \"gate\"\n[http]\nlisten = []\n{}{others}[[output]]\nname = \"far\"\nrate = \"{}\"\n\
             [output.mqtt]\n\
             url = \"mqtts://127.0.0.1:{}\"\nca = {:?}\nclient_id = \"gate\"\nconnections = \"one\"\n\
             user = \"gate\"\npassword_file = {:?}\n{}",
            listener(&self.ports),
            self.rate,
            self.far,
            authority.ca(),
            authority.file("password"),
            self.rest,
        )
    }
}

const NEAR: &str = "[[output]]\nname = \"near\"\nsink = { discard = true }\n";
const ALL: &str = "{ user = \"*\", topics = [\"#\"] }";
const NOT_WRITERS: &str =
    "{ user = \"plc\", topics = [\"#\"] }, { user = \"writer\", subscribe = [\"#\"] }";

async fn far_end(authority: &Authority) -> Cloud {
    let (_, password) = tokio::sync::watch::channel("secret".to_owned());
    Cloud::start(authority, Rules { login: Some(("gate", password)), ..Rules::of(&["gate"]) }).await
}

/// What comes up to the first record.
async fn first_record(cloud: &mut Cloud) {
    while !matches!(cloud.next().await, Seen::Publish(..)) {}
}

/// A node with a crowd at work.
struct Scene {
    name: String,
    authority: Authority,
    other: Authority,
    own: Issued,
    /// Authorities of clients, and revocation lists.
    files: (PathBuf, PathBuf),
    setting: Setting,
    node: Node,
    crowd: Crowd,
    /// The far end at the start, and the one that comes.
    far: [Cloud; 2],
    /// Ports that stay, that go from one listener to the other, and of the other.
    ports: [u16; 3],
}

impl Scene {
    async fn new(name: &str, clients: usize) -> Scene {
        let authority = Authority::new(name);
        let other = Authority::new(&format!("{name}-other"));
        let own = authority.issue("node");
        write_secret(&authority.file("password"), "secret\n");
        let mut far = [far_end(&authority).await, far_end(&authority).await];
        let files = (authority.file("clients.pem"), authority.file("lists.pem"));
        std::fs::write(&files.0, text_of(authority.ca()) + &text_of(other.ca())).unwrap();
        std::fs::write(&files.1, lists(&authority, &other, &[])).unwrap();
        let ports = [free_port(), free_port(), free_port()];
        let [first, moves, goes] = ports;
        let setting = Setting {
            ports: vec![first, moves],
            others: vec![goes],
            allow: ALL,
            far: far[0].port,
            rate: "auto",
            rest: String::new(),
        };
        let mut node = Node::start(name, &setting.text(&authority, &own, &files));
        node.wait_for("ready");
        let mut crowd = Crowd::new(Duration::from_millis(clients as u64 / 5));
        let plc = config(&authority, &authority, "plc");
        for number in 0..clients {
            crowd.join([first, moves][number % 2], &plc).await;
        }
        crowd.go_on_without("the start", &[]).await;
        first_record(&mut far[0]).await;
        let name = name.to_owned();
        Scene { name, authority, other, own, files, setting, node, crowd, far, ports }
    }

    fn text(&self) -> String {
        self.setting.text(&self.authority, &self.own, &self.files)
    }

    /// Makes the change of the setting, by which these lose their right.
    async fn reload(&mut self, what: &str, goes: &[usize]) {
        let begun = Instant::now();
        self.node.reload(&self.name, &self.text());
        self.crowd.go_on_without(what, goes).await;
        self.crowd.tell(what, begun);
    }

    /// One more client, by a certificate of this name.
    async fn join(&mut self, port: u16, name: &str) -> usize {
        let config = config(&self.authority, &self.authority, name);
        self.crowd.join(port, &config).await
    }

    /// Followed: certificates, revocation lists, authorities.
    async fn files_change(&mut self) {
        let [first, moves, _] = self.ports;
        let renewed = self.authority.issue("renewed");
        std::fs::copy(&renewed.certificate, &self.own.certificate).unwrap();
        std::fs::copy(&renewed.key, &self.own.key).unwrap();
        self.node.wait_for("certificates are read again");
        self.crowd.go_on_without("a renewed certificate", &[]).await;
        let revoked = [self.join(first, "bad").await, self.join(moves, "bad").await];
        let begun = Instant::now();
        std::fs::write(&self.files.1, lists(&self.authority, &self.other, &["bad"])).unwrap();
        self.crowd.go_on_without("a revocation", &revoked).await;
        self.crowd.tell("a revocation", begun);
        let foreign = config(&self.authority, &self.other, "plc");
        let foreigner = self.crowd.join(first, &foreign).await;
        let begun = Instant::now();
        std::fs::write(&self.files.0, text_of(self.authority.ca())).unwrap();
        self.crowd.go_on_without("an authority less", &[foreigner]).await;
        self.crowd.tell("an authority less", begun);
    }

    /// Rights, an address that goes to another listener, a listener that ends, and one that begins.
    async fn listeners_change(&mut self) {
        let [first, moves, goes] = self.ports;
        let forbidden = self.join(first, "writer").await;
        self.setting.allow = NOT_WRITERS;
        self.reload("a right less", &[forbidden]).await;
        self.setting.ports = vec![first];
        self.setting.others = vec![goes, moves];
        self.reload("an address of another listener", &[]).await;
        let moved = [self.join(moves, "plc").await, self.join(goes, "plc").await];
        self.setting.others = Vec::new();
        self.reload("a listener less", &moved).await;
        self.setting.others = vec![goes];
        self.node.reload(&self.name, &self.text());
        self.join(goes, "plc").await;
        self.crowd.go_on_without("a listener more", &[]).await;
    }

    /// Outputs that come, take all records or a copy of each, and go.
    async fn outputs_change(&mut self) {
        for (what, rest) in [
            ("an output more", NEAR.to_owned()),
            ("records that go there", format!("{NEAR}[[stream]]\nto = [\"near\"]\n")),
            ("copies that go there", format!("{NEAR}[[stream]]\nto = [\"far\", \"near\"]\n")),
            ("an output less", String::new()),
            ("an output that is back", NEAR.to_owned()),
        ] {
            self.setting.rest = rest;
            self.reload(what, &[]).await;
        }
    }

    /// The rate of the output, and its far end; limits; quotas; and a mistake, which changes nothing.
    async fn the_rest_changes(&mut self) {
        self.setting.rate = "50mbit";
        self.reload("another rate", &[]).await;
        assert!(!self.far[0].has_left(), "the output does not notice");
        self.setting.far = self.far[1].port;
        self.node.reload(&self.name, &self.text());
        first_record(&mut self.far[1]).await;
        self.crowd.go_on_without("another far end", &[]).await;
        self.setting.rest = "[limits]\nmemory = \"96MiB\"\nconnections = 5000\n".into();
        self.reload("other limits", &[]).await;
        self.setting.rest = "[[quota]]\nuser = \"plc\"\nconnections = 1\nstreams = 9000\n".into();
        self.reload("a quota that is used up", &[]).await;
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let wrong = self.text() + "[limits]\nmemroy = \"1MiB\"\n";
        std::fs::write(folder.join(format!("{}.toml", self.name)), wrong).unwrap();
        self.node.wait_for("the new configuration is not used");
        self.crowd.go_on_without("a mistake", &[]).await;
    }
}

fn text_of(file: PathBuf) -> String {
    std::fs::read_to_string(file).unwrap()
}

/// A list of each authority; the first one's revokes these.
fn lists(authority: &Authority, other: &Authority, revoked: &[&str]) -> String {
    text_of(authority.revoke(revoked)) + &text_of(other.revoke(&[]))
}

/// A client that trusts `authority` and shows a certificate of `by`.
fn config(authority: &Authority, by: &Authority, name: &str) -> Arc<rustls::ClientConfig> {
    let Issued { certificate, key } = by.issue(name);
    tls::client(&ClientFiles { ca: authority.ca(), own: Some((certificate, key)) }).unwrap()
}

async fn each_kind_of_reload(name: &str, clients: usize) {
    let mut scene = Scene::new(name, clients).await;
    scene.files_change().await;
    scene.listeners_change().await;
    scene.outputs_change().await;
    scene.the_rest_changes().await;
    println!("{} clients went on through 17 changes", scene.crowd.here.len());
    assert_eq!(scene.crowd.here.len(), clients + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_clients_at_work_lose_nothing_by_a_reload() {
    each_kind_of_reload("reloads", 100).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a thousand clients over TLS take a minute of two processors"]
async fn a_thousand_clients_at_work_lose_nothing_by_a_reload() {
    each_kind_of_reload("reloads-1000", 1000).await;
}

/// Somebody may log in; whether he is answered at all is in question.
fn log_in(port: u16) -> [u8; 4] {
    use std::io::{Read, Write};
    let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"\x10\x17\0\x04MQTT\x04\xc2\0\0\0\x01c\0\x03plc\0\x03pwd").unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    answer
}

fn put_a_pipe_in_the_place_of(file: &std::path::Path) {
    let pipe = file.with_extension("pipe");
    let _ = std::fs::remove_file(&pipe);
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::rename(&pipe, file).unwrap();
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_up_nobody() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (name, port) = ("pipe-for-file", free_port());
    let (users, script) = (folder.join("pipe-users"), folder.join("pipe-script.luau"));
    let mut list = tidegate::support::access::users::Users::default();
    list.add("plc", b"pwd").unwrap();
    list.write(&users).unwrap();
    // An earlier run has left pipes in their places.
    let file = folder.join(format!("{name}.toml"));
    [&script, &file].into_iter().for_each(|left| _ = std::fs::remove_file(left));
    std::fs::write(&script, "function on_message(h) end\n").unwrap();
    let config = format!(
        "[node]\nname = \"gate\"\n[http]\nlisten = []\n\
         [[input]]\nmqtt = {{ listen = \"127.0.0.1:{port}\", users = {users:?} }}\n[[stream]]\nto = []\n\
         [[script]]\nname = \"s\"\nfile = {script:?}\n"
    );
    let mut node = Node::start(name, &config);
    node.wait_for("ready");
    assert_eq!(log_in(port), [0x20, 2, 0, 0]);
    put_a_pipe_in_the_place_of(&users);
    assert_eq!(log_in(port), [0x20, 2, 0, 0], "who was a user is one");
    put_a_pipe_in_the_place_of(&script);
    node.wait_for("the new configuration is not used");
    put_a_pipe_in_the_place_of(&file);
    node.wait_for("the new configuration is not used");
    assert_eq!(log_in(port), [0x20, 2, 0, 0]);
    node.signal();
    assert!(node.end().success(), "it hears that it is to end");
}
