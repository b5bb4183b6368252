//! Who may give a record which name: two holders of one log, of whom one has no right to it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate::assembly::read_with_files;
use tidegate::assembly::{self, Assembled};
use tidegate::config::read;
use tidegate::support::tls::{ClientFiles, Stream, client, server_name};
use tokio::net::TcpStream;

use crate::link::PATIENCE;
use crate::link::far::{Far, Sender, edge_with, files};
use crate::support::certificates::{Authority, Issued};

/// How often a count is looked at.
const POLL: Duration = Duration::from_millis(20);
/// Records that are sent at a time.
const SOME: usize = 10;

/// A far node, and two folders with one and the same log of `gate-7`, which has spoken to it before.
struct Copied {
    authority: Authority,
    far: Far,
    address: String,
}

impl Copied {
    /// `more` are further keys of the far node's link.
    async fn new(name: &str, more: &str) -> Copied {
        let authority = Authority::new(name);
        let own = files(&authority, &authority.issue("gate-7"));
        let mut far =
            Far::start(&files(&authority, &authority.issue("far")), "127.0.0.1:0", more).await;
        let address = far.address();
        let gate = edge_with(&own, &address, "", &log(&authority, "log")).await;
        send(&gate, SOME).await;
        for _ in 0..SOME {
            far.record().await;
        }
        gate.stop(PATIENCE).await;
        copy(&authority.file("log"), &authority.file("copy"));
        Copied { authority, far, address }
    }

    /// A node called `gate-7` with this certificate and log.
    async fn start(&self, certificate: &str, folder: &str) -> Assembled {
        let own = files(&self.authority, &self.authority.issue(certificate));
        edge_with(&own, &self.address, "", &log(&self.authority, folder)).await
    }

    /// Takes so many records and says under whose names they came.
    async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.far.record().await.identity.origin.node.to_string());
        }
        names
    }

    fn refused(&self) -> u64 {
        self.far.node.running.status.counts().read().refused["claim"]
    }
}

fn log(authority: &Authority, folder: &str) -> String {
    format!("[log]\ndirectory = {:?}\n", authority.file(folder))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy(&file.path(), &target);
        } else {
            std::fs::copy(file.path(), target).unwrap();
        }
    }
}

/// Sends records of one stream.
async fn send(node: &Assembled, count: usize) -> Sender {
    let mut sender = Sender::open(node, "plc").await;
    for _ in 0..count {
        sender.send("state/1", 100).await;
    }
    sender
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_log_under_another_certificate_makes_no_record_of_its_owner_vanish() {
    let mut all = Copied::new("identity-evil", "").await;
    let evil = all.start("evil", "copy").await;
    let mut forger = send(&evil, SOME).await;
    assert_eq!(
        all.names(SOME).await,
        ["far"; SOME],
        "a name that it has no right to goes no further"
    );
    // Its owner gives its next records the same numbers: all of them arrive.
    let gate = all.start("gate-7", "log").await;
    let mut owner = send(&gate, SOME).await;
    assert_eq!(all.names(SOME).await, ["gate-7"; SOME]);
    // Where the owner was first, the copy's records are not confirmed as if they were the same.
    for _ in 0..SOME {
        owner.send("state/1", 100).await;
    }
    assert_eq!(all.names(SOME).await, ["gate-7"; SOME]);
    for _ in 0..SOME {
        forger.send("state/1", 100).await;
    }
    let status = evil.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held), (SOME as u64, 0));
    assert_eq!((all.refused(), all.far.more()), (SOME as u64, 0));
    let status = gate.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held), (2 * SOME as u64, 0));
    all.far.node.stop(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_input_refuses_names_without_proof_and_takes_those_that_may_be_vouched_for() {
    let more = ", unproven = \"refuse\", vouches = { relay = [\"gate-7\"] }";
    let mut all = Copied::new("identity-strict", more).await;
    let evil = all.start("evil", "copy").await;
    send(&evil, SOME).await;
    let status = evil.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held), (0, 0));
    assert_eq!((all.refused(), all.far.more()), (SOME as u64, 0));
    let relay = all.start("relay", "log").await;
    send(&relay, SOME).await;
    assert_eq!(all.names(SOME).await, ["gate-7"; SOME]);
    let status = relay.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held), (SOME as u64, 0));
    all.far.node.stop(PATIENCE).await;
}

/// How often a connection was closed because its node's log is a copy.
fn clones(far: &Far) -> u64 {
    far.node.running.status.counts().read().denied["clone"]
}

/// Waits until a second holder of a log is told.
async fn told_of_clone(far: &Far) {
    let waits = async {
        while clones(far) == 0 {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.expect("the copy is seen in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_cloned_card_the_second_is_told_and_kept_out_and_nothing_vanishes() {
    let mut all = Copied::new("identity-clone", "").await;
    let original = all.start("gate-7", "log").await;
    let mut first = send(&original, SOME).await;
    all.names(SOME).await;
    // The same card in another machine: name, certificate and log.
    let clone = all.start("gate-7", "copy").await;
    send(&clone, SOME).await;
    told_of_clone(&all.far).await;
    for _ in 0..SOME {
        first.send("state/1", 100).await;
    }
    assert_eq!(all.names(SOME).await, ["gate-7"; SOME], "who came first goes on");
    let status = original.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held), (2 * SOME as u64, 0));
    let status = clone.stop(Duration::ZERO).await;
    assert_eq!((status.counts.confirmed, status.held), (0, SOME as u64), "it keeps what it has");
    assert_eq!(all.far.more(), 0);
    all.far.node.stop(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_log_in_use_is_seen_when_its_owner_comes_back() {
    let mut all = Copied::new("identity-live", "").await;
    let original = all.start("gate-7", "log").await;
    let mut first = send(&original, SOME).await;
    all.names(SOME).await;
    copy(&all.authority.file("log"), &all.authority.file("later"));
    let clone = all.start("gate-7", "later").await;
    send(&clone, SOME).await;
    assert_eq!(all.names(SOME).await, ["gate-7"; SOME], "it looks like the next process");
    for _ in 0..SOME {
        first.send("state/1", 100).await;
    }
    told_of_clone(&all.far).await;
    let status = original.stop(Duration::ZERO).await;
    assert_eq!(status.counts.confirmed + status.held, 2 * SOME as u64, "nothing is lost");
    clone.stop(PATIENCE).await;
    all.far.node.stop(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_restarts_is_no_copy() {
    let mut all = Copied::new("identity-restart", "").await;
    for _ in 0..3 {
        let gate = all.start("gate-7", "log").await;
        send(&gate, SOME).await;
        assert_eq!(all.names(SOME).await, ["gate-7"; SOME]);
        gate.stop(PATIENCE).await;
    }
    assert_eq!((clones(&all.far), all.refused()), (0, 0));
    all.far.node.stop(PATIENCE).await;
}

/// A node that takes records by a link and hands them on by another.
async fn relay(authority: &Authority, to: &str) -> Assembled {
    let own = files(authority, &authority.issue("relay"));
    let text = format!(
        "[node]\nname = \"relay\"\n[http]\nlisten = []\n\
         [[input]]\nlink = {{ listen = \"127.0.0.1:0\", {own} }}\n\
         [[output]]\nname = \"far\"\nlink = {{ to = {to:?}, {own} }}\n"
    );
    let reading = read(&text);
    assert_eq!(reading.render("relay.toml", &text), "");
    assembly::start(&reading.config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_prove_the_names_of_relayed_records_to_a_strict_input() {
    let authority = Authority::new("identity-chain");
    let own = files(&authority, &authority.issue("far"));
    let mut far = Far::start(&own, "127.0.0.1:0", ", unproven = \"refuse\"").await;
    let relay = relay(&authority, &far.address()).await;
    let own = files(&authority, &authority.issue("gate-7"));
    let address = relay.links[0].to_string();
    for log in [String::new(), log(&authority, "log")] {
        // Without a log, and with one.
        let gate = edge_with(&own, &address, "", &log).await;
        send(&gate, SOME).await;
        for _ in 0..SOME {
            assert_eq!(&*far.record().await.identity.origin.node, "gate-7");
        }
        let status = gate.stop(PATIENCE).await;
        assert_eq!((status.counts.confirmed, status.held), (SOME as u64, 0));
    }
    let status = relay.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held), (2 * SOME as u64, 0));
    let counts = far.node.running.status.counts().read();
    assert_eq!((counts.refused["claim"], counts.unproven["taken"]), (0, 0));
    far.node.stop(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_the_version_before_is_met_without_letters() {
    let authority = Authority::new("identity-before");
    let far = Far::start(&files(&authority, &authority.issue("far")), "127.0.0.1:0", "").await;
    let Issued { certificate, key } = authority.issue("gate-7");
    let files = ClientFiles { ca: authority.ca(), own: Some((certificate, key)) };
    for (offered, agreed) in [
        (&[&b"tidegate-link/1"[..]][..], b"tidegate-link/1".as_slice()),
        (&[b"tidegate-link/1", b"tidegate-link/1+letters"], b"tidegate-link/1+letters"),
    ] {
        let mut tls = (*client(&files).unwrap()).clone();
        tls.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let socket = TcpStream::connect(far.address()).await.unwrap();
        let name = server_name("127.0.0.1").unwrap();
        let mut stream = Stream::client(socket, Arc::new(tls), name).unwrap();
        stream.handshake().await.unwrap();
        assert_eq!(stream.protocol(), Some(agreed));
    }
    far.node.stop(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_out_of_its_time_is_told_and_the_node_goes_on_logging() {
    let authority = Authority::new("identity-clock");
    let own = files(&authority, &authority.issue_until("gate-7", 2021));
    let text = format!("[[output]]\nlink = {{ to = \"127.0.0.1:1\", {own} }}\n");
    let reading = read_with_files(&text);
    assert_eq!(reading.counts().0, 0, "no error");
    let told = reading.render("node.toml", &text);
    assert!(told.contains("expired") && told.contains("clock of this machine"), "{told}");
    // Nobody believes it, and what clients send is safe all the same.
    let far = Far::start(&files(&authority, &authority.issue("far")), "127.0.0.1:0", "").await;
    let gate = edge_with(&own, &far.address(), "", &log(&authority, "log")).await;
    send(&gate, SOME).await;
    let status = gate.stop(Duration::ZERO).await;
    assert_eq!((status.counts.confirmed, status.held), (0, SOME as u64));
    far.node.stop(PATIENCE).await;
}
