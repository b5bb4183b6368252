//! Two nodes in this process.

use std::time::Duration;

use tidegate_types::account::Kind;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::link::PATIENCE;
use crate::link::far::{Checker, Far, Sender, edge, files};
use crate::support::certificates::Authority;

/// How often a port is asked for.
const POLL: Duration = Duration::from_millis(20);

/// Two nodes carry records of several streams and all sizes by paths of these kinds.
async fn carries(name: &str, listen: &str, more: &str, count: usize) {
    let authority = Authority::new(name);
    let far = Far::start(&files(&authority, &authority.issue("far")), listen, "").await;
    let address = far.address();
    carries_to(&authority, far, &address, more, count).await;
}

/// The same to a far node that is dialed at `address`.
async fn carries_to(authority: &Authority, mut far: Far, address: &str, more: &str, count: usize) {
    let gate = edge(&files(authority, &authority.issue("gate-7")), address, more).await;
    let mut senders = Vec::new();
    for stream in 0..8 {
        senders.push(Sender::open(&gate, &format!("plc-{stream}")).await);
    }
    let publish = async {
        for round in 0..count {
            for (stream, sender) in senders.iter_mut().enumerate() {
                let size = [16, 300, 5000, 70_000][(round + stream) % 4];
                let kind = if stream % 4 == 0 { "alarm" } else { "state" };
                sender.send(&format!("{kind}/{stream}"), size).await;
            }
        }
    };
    let mut checker = Checker::default();
    let check = async {
        while checker.count < 8 * count {
            let record = far.record().await;
            checker.take(&record);
        }
    };
    timeout(PATIENCE, async { tokio::join!(publish, check) }).await.expect("in time");
    assert_eq!(far.more(), 0);
    let status = gate.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held), (8 * count as u64, 0));
    let status = far.node.stop(PATIENCE).await;
    assert_eq!(
        (status.counts.records, status.counts.confirmed),
        (8 * count as u64, 8 * count as u64)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn records_arrive_once_and_in_order_by_three_paths() {
    let paths = ", paths = [\"127.0.0.2\", \"127.0.0.3\", \"127.0.0.4\"]";
    carries("link-three", "127.0.0.1:0", paths, 60).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_arrive_by_an_interface_and_ipv6() {
    carries("link-v6", "[::1]:0", ", paths = [\"lo\"]", 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_arrive_by_tcp() {
    let paths = ", tcp = \"always\", paths = [\"127.0.0.2\", \"127.0.0.3\"]";
    carries("link-tcp", "127.0.0.1:0", paths, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_arrive_by_tcp_where_udp_is_blocked() {
    let authority = Authority::new("link-blocked");
    let far = Far::start(&files(&authority, &authority.issue("far")), "127.0.0.1:0", "").await;
    // Only TCP passes here.
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, behind) = (door.local_addr().unwrap().to_string(), far.address());
    let passing = tokio::spawn(async move {
        while let Ok((mut outside, _)) = door.accept().await {
            let mut inside = TcpStream::connect(&behind).await.unwrap();
            tokio::spawn(async move {
                let _ = copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    carries_to(&authority, far, &address, "", 5).await;
    passing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_far_node_that_begins_anew_gets_what_the_old_one_did_not_take() {
    let authority = Authority::new("link-anew");
    let (own, other) = (authority.issue("gate-7"), authority.issue("far"));
    let (own, other) = (files(&authority, &own), files(&authority, &other));
    // By its log it knows what it has accepted before.
    let log = format!("[log]\ndirectory = {:?}\n", authority.file("log"));
    let mut far = Far::start_with(&other, "127.0.0.1:0", "", &log).await;
    let address = far.address();
    let gate = edge(&own, &address, ", paths = [\"127.0.0.2\", \"127.0.0.3\"]").await;
    let mut sender = Sender::open(&gate, "plc").await;
    let mut checker = Checker::default();
    for _ in 0..3 {
        for _ in 0..20 {
            sender.send("state/1", 2000).await;
            checker.take(&*far.record().await);
        }
        far.node.stop(PATIENCE).await;
        // These wait for a far node.
        for _ in 0..5 {
            sender.send("state/1", 2000).await;
        }
        // The socket closes with the last of its tasks.
        while std::net::UdpSocket::bind(&address).is_err() {
            tokio::time::sleep(POLL).await;
        }
        far = Far::start_with(&other, &address, "", &log).await;
        for _ in 0..5 {
            checker.take(&*far.record().await);
        }
    }
    let status = gate.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held, far.more()), (75, 0, 0));
    far.node.stop(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_charged_for_its_windows_and_refused_where_there_is_no_room() {
    let authority = Authority::new("link-charged");
    let (own, other) = (authority.issue("gate-7"), authority.issue("far"));
    let (own, other) = (files(&authority, &own), files(&authority, &other));
    for (memory, has_room) in [("64MiB", true), ("1MiB", false)] {
        let limits = format!("[limits]\nmemory = \"{memory}\"\nrecord_max = \"64KiB\"\n");
        let mut far = Far::start_with(&other, "127.0.0.1:0", ", tcp = true", &limits).await;
        let account = far.node.running.intake.hub().account().clone();
        let gate = edge(&own, &far.address(), "").await;
        let mut sender = Sender::open(&gate, "plc").await;
        sender.send("state/1", 2000).await;
        if has_room {
            Checker::default().take(&*far.record().await);
            let held = account.figures().of(Kind::Windows);
            assert!((900 << 10..2 << 20).contains(&held), "{held}");
        } else {
            let refused = async {
                while account.figures().refused(Kind::Windows) == 0 {
                    tokio::time::sleep(POLL).await;
                }
            };
            timeout(PATIENCE, refused).await.expect("it is refused");
            assert_eq!(far.more(), 0);
        }
        gate.stop(Duration::ZERO).await;
        far.node.stop(Duration::ZERO).await;
    }
}
