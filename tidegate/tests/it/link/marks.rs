//! A queue between two nodes that marks packets in place of dropping them: here a relay that does what such a queue does.

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::link::PATIENCE;
use crate::link::far::{Checker, Far, Sender, edge, files};
use crate::support::certificates::Authority;

/// Of so many packets that can be marked one is.
const MARKED: u64 = 4;

/// A socket that shows codepoints.
struct Port {
    socket: UdpSocket,
    state: UdpSocketState,
}

struct Packets {
    bytes: Vec<u8>,
    meta: RecvMeta,
}

impl Port {
    fn open() -> Port {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let state = UdpSocketState::new((&socket).into()).unwrap();
        Port { socket: UdpSocket::from_std(socket).unwrap(), state }
    }

    async fn receive(&self) -> Packets {
        let (mut bytes, mut meta) = (vec![0; 1 << 16], [RecvMeta::default()]);
        let read = || {
            let mut buffers = [IoSliceMut::new(&mut bytes)];
            self.state.recv((&self.socket).into(), &mut buffers, &mut meta)
        };
        let read = self.socket.async_io(Interest::READABLE, read).await;
        assert_eq!(read.unwrap(), 1);
        bytes.truncate(meta[0].len);
        Packets { bytes, meta: meta[0] }
    }

    /// What finds no room is lost, as in any queue.
    fn send(&self, destination: SocketAddr, ecn: Option<EcnCodepoint>, contents: &[u8]) {
        let transmit = Transmit { destination, ecn, contents, segment_size: None, src_ip: None };
        drop(self.state.try_send((&self.socket).into(), &transmit));
    }
}

/// Packets of either end that came as ECT(1).
#[derive(Default)]
struct Seen {
    of_edge: AtomicU64,
    of_far: AtomicU64,
}

/// Hands packets on between whoever dials `front` and `far`, and marks some of those that can bear many marks.
async fn relay(front: Port, far: SocketAddr, seen: Arc<Seen>) {
    let back = Port::open();
    let mut edge = None;
    loop {
        let (packets, is_edges) = tokio::select! {
            packets = front.receive() => (packets, true),
            packets = back.receive() => (packets, false),
        };
        let Packets { bytes, meta } = packets;
        for packet in bytes.chunks(meta.stride) {
            let mut ecn = meta.ecn;
            if ecn == Some(EcnCodepoint::Ect1) {
                let count = if is_edges { &seen.of_edge } else { &seen.of_far };
                if count.fetch_add(1, Ordering::Relaxed) % MARKED == 0 {
                    ecn = Some(EcnCodepoint::Ce);
                }
            }
            match (is_edges, edge) {
                (true, _) => {
                    edge = Some(meta.addr);
                    back.send(far, ecn, packet);
                }
                (false, Some(edge)) => front.send(edge, ecn, packet),
                (false, None) => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_of_a_queue_on_the_way_are_told_to_the_end_that_sends() {
    let authority = Authority::new("link-marks");
    let mut far = Far::start(&files(&authority, &authority.issue("far")), "127.0.0.1:0", "").await;
    let front = Port::open();
    let door = front.socket.local_addr().unwrap().to_string();
    let seen = Arc::new(Seen::default());
    let relay = tokio::spawn(relay(front, far.address().parse().unwrap(), seen.clone()));
    let more = ", tcp = \"never\"";
    let gate = edge(&files(&authority, &authority.issue("gate-7")), &door, more).await;
    let mut sender = Sender::open(&gate, "plc").await;
    let mut checker = Checker::default();
    // At least so many, and until what comes back with them tells of marks.
    let marked = async {
        for turn in 1.. {
            sender.send("state/1", 5000).await;
            checker.take(&*far.record().await);
            let paths = gate.boards.links.paths_of("far");
            let counts = paths.first().map(|path| path.counts);
            if let Some(counts) = counts.filter(|counts| turn >= 40 && counts.marked > 0) {
                return counts;
            }
        }
        unreachable!("turns without end")
    };
    let counts = timeout(PATIENCE, marked).await.expect("the count of marks comes back");
    let sent = seen.of_edge.load(Ordering::Relaxed);
    assert!(sent > 100 && counts.marked <= sent.div_ceil(MARKED), "{sent} {counts:?}");
    assert_eq!(seen.of_far.load(Ordering::Relaxed), 0, "acknowledgements answer no marks");
    relay.abort();
    gate.stop(PATIENCE).await;
    far.node.stop(PATIENCE).await;
}
