//! A lane against a far end on loopback that says what the test wants.

use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::{Input, OutputId, PathState, Refusal};
use tidegate_types::record::{DeliveryId, DropReason};
use tidegate_types::units::Size;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::hosts::Far;
use super::lane::Lane;
use super::test_protocol::{Plain, transmit, whole};
use crate::keys::url::Host;
use crate::node::contract::{Arrival, Clock, Feedback, Order, Transmit, Troubles};

/// Long enough for any machine; reached only where a test fails.
const PATIENCE: Duration = Duration::from_secs(90);

/// A lane, its far end's listener, and both ends of its channels.
struct Stage {
    listener: TcpListener,
    orders: mpsc::UnboundedSender<Order>,
    reports: mpsc::Receiver<Arrival>,
    task: tokio::task::JoinHandle<()>,
}

impl Stage {
    async fn new(address: &str) -> Stage {
        Stage::behind(&[], address, &Troubles::default()).await
    }

    /// The listener is the last of several hosts.
    async fn behind(more: &[Host], address: &str, troubles: &Troubles) -> Stage {
        let listener = TcpListener::bind(address).await.unwrap();
        let local = listener.local_addr().unwrap();
        let (orders, inbox) = mpsc::unbounded_channel();
        let (sender, reports) = mpsc::channel(64);
        let hosts = [more, &[Host::new(local.ip().to_string(), local.port())]].concat();
        let lane = Lane {
            number: 0,
            output: "far".into(),
            far: Far::new(&hosts, None).into(),
            protocol: Plain::default(),
            orders: inbox,
            feedback: Feedback::new(sender, OutputId(0), Clock::start()).with_troubles(troubles),
        };
        Stage { listener, orders, reports, task: tokio::spawn(lane.run()) }
    }

    /// Takes the lane's next connection and lets it in.
    async fn welcome(&mut self) -> TcpStream {
        let far = let_in(&self.listener).await;
        assert_eq!(self.heard().await, Heard::State(PathState::Up));
        far
    }

    fn order(&self, order: Transmit) {
        self.orders.send(Order::Transmit(order)).unwrap();
    }

    /// The next report that is no sample.
    async fn heard(&mut self) -> Heard {
        loop {
            let arrival = timeout(PATIENCE, self.reports.recv()).await.unwrap().unwrap();
            let Arrival::Input(input) = arrival else { panic!("no input: {arrival:?}") };
            return match input {
                Input::PathSample { .. } => continue,
                Input::PathState { state, .. } => Heard::State(state),
                Input::Sent { id, bytes: Size(bytes) } => Heard::Sent(id.0, bytes),
                Input::Confirmed { ids, .. } => {
                    Heard::Confirmed(ids.iter().map(|id| id.0).collect())
                }
                Input::Refused { ids, reason, .. } => Heard::Refused(ids[0].0, reason),
                other => panic!("{other:?}"),
            };
        }
    }
}

#[derive(Debug, PartialEq)]
enum Heard {
    State(PathState),
    Sent(u64, u64),
    Confirmed(Vec<u64>),
    Refused(u64, Refusal),
}

/// Takes the next connection of a listener, and lets it in.
async fn let_in(listener: &TcpListener) -> TcpStream {
    let (mut far, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    assert_eq!(read(&mut far, 6).await, b"hello ");
    far.write_all(b"w").await.unwrap();
    far
}

async fn read(far: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    timeout(PATIENCE, far.read_exact(&mut bytes)).await.unwrap().unwrap();
    bytes
}

#[tokio::test]
async fn a_record_goes_cut_by_cut_and_every_byte_is_reported() {
    let mut stage = Stage::new("127.0.0.1:0").await;
    let mut far = stage.welcome().await;
    stage.order(transmit(1, b"abcdef", 0..12, 24));
    assert_eq!(stage.heard().await, Heard::Sent(1, 6));
    stage.order(transmit(1, b"abcdef", 12..24, 24));
    assert_eq!(stage.heard().await, Heard::Sent(1, 6));
    assert_eq!(read(&mut far, 12).await, b"begin abcdef");
    far.write_all(b"c").await.unwrap();
    assert_eq!(stage.heard().await, Heard::Confirmed(vec![1]));
}

#[tokio::test]
async fn ipv6_serves_as_well() {
    if TcpListener::bind("[::1]:0").await.is_err() {
        println!("skipped: needs IPv6 on loopback, not found");
        return;
    }
    let mut stage = Stage::new("[::1]:0").await;
    stage.welcome().await;
}

#[tokio::test]
async fn a_lost_connection_is_told_once_and_old_orders_are_void() {
    let mut stage = Stage::new("127.0.0.1:0").await;
    let far = stage.welcome().await;
    drop(far);
    assert_eq!(stage.heard().await, Heard::State(PathState::Down));
    stage.order(whole(1, b"given before the node knew"));
    let mut far = stage.welcome().await;
    stage.order(Transmit { epoch: 1, ..whole(2, b"new") });
    assert_eq!(stage.heard().await, Heard::Sent(2, 9));
    assert_eq!(read(&mut far, 9).await, b"begin new");
}

/// Two hosts: each is left when it fails, and the status names where the lane leads to.
#[tokio::test]
async fn the_next_host_is_tried_when_one_fails() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other_at = other.local_addr().unwrap();
    let gone = tidegate_testbed::free_address();
    let hosts = [gone, other_at].map(|at| Host::new(at.ip().to_string(), at.port()));
    let troubles = Troubles::default();
    let mut stage = Stage::behind(&hosts, "127.0.0.1:0", &troubles).await;
    let named = |at: std::net::SocketAddr| [(OutputId(0), [at.to_string().into()].into())].into();
    let first = let_in(&other).await;
    assert_eq!(stage.heard().await, Heard::State(PathState::Up));
    assert_eq!(troubles.hosts(), named(other_at), "nobody listens at the first host");
    drop(first);
    assert_eq!(stage.heard().await, Heard::State(PathState::Down));
    let second = stage.welcome().await;
    assert_eq!(troubles.hosts(), named(stage.listener.local_addr().unwrap()));
    drop(second);
    assert_eq!(stage.heard().await, Heard::State(PathState::Down));
    // Nobody listens at the first one yet: it is the second's turn again.
    let _third = let_in(&other).await;
    assert_eq!(stage.heard().await, Heard::State(PathState::Up));
    assert_eq!(troubles.hosts(), named(other_at));
    assert!(troubles.read().is_empty(), "it sends: nothing is wrong");
}

/// What stands before a server that is gone may take connections, and close them.
#[tokio::test]
async fn a_host_that_closes_at_once_makes_room_for_the_next_one() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = other.local_addr().unwrap();
    let hosts = [Host::new(at.ip().to_string(), at.port())];
    let mut stage = Stage::behind(&hosts, "127.0.0.1:0", &Troubles::default()).await;
    let closing = tokio::spawn(async move {
        loop {
            // Whoever gave up meanwhile has not to be told.
            let _ = let_in(&other).await.write_all(b"o").await;
        }
    });
    let mut second = let_in(&stage.listener).await;
    closing.abort();
    while stage.heard().await != Heard::State(PathState::Up) {}
    stage.orders.send(Order::Stop).unwrap();
    assert_eq!(read(&mut second, 3).await, b"bye");
}

#[tokio::test]
async fn a_blocked_far_end_holds_new_records_and_a_stop_is_heard() {
    let mut stage = Stage::new("127.0.0.1:0").await;
    let mut far = stage.welcome().await;
    stage.order(transmit(1, b"abcdef", 0..12, 24));
    assert_eq!(stage.heard().await, Heard::Sent(1, 6));
    far.write_all(b"b").await.unwrap();
    // What is begun goes on; its answer shows that the word was heard before the next order.
    stage.order(transmit(1, b"abcdef", 12..24, 24));
    assert_eq!(stage.heard().await, Heard::Sent(1, 6));
    far.write_all(b"c").await.unwrap();
    assert_eq!(stage.heard().await, Heard::Confirmed(vec![1]));
    stage.order(whole(2, b"held"));
    stage.orders.send(Order::Stop).unwrap();
    timeout(PATIENCE, async {
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"begin abcdefbye");
        drop(far);
        stage.task.await.unwrap();
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn unblocked_records_go() {
    let mut stage = Stage::new("127.0.0.1:0").await;
    let mut far = stage.welcome().await;
    stage.order(whole(1, b"a"));
    assert_eq!(stage.heard().await, Heard::Sent(1, 7));
    far.write_all(b"bc").await.unwrap();
    assert_eq!(stage.heard().await, Heard::Confirmed(vec![1]));
    stage.order(whole(2, b"b"));
    far.write_all(b"u").await.unwrap();
    assert_eq!(stage.heard().await, Heard::Sent(2, 7));
}

#[tokio::test]
async fn what_is_not_begun_can_be_cancelled() {
    let mut stage = Stage::new("127.0.0.1:0").await;
    let mut far = stage.welcome().await;
    stage.order(whole(1, b"a"));
    assert_eq!(stage.heard().await, Heard::Sent(1, 7));
    far.write_all(b"bc").await.unwrap();
    assert_eq!(stage.heard().await, Heard::Confirmed(vec![1]));
    for order in [transmit(2, b"xyz", 0..5, 9), transmit(2, b"xyz", 5..9, 9), whole(3, b"z")] {
        stage.order(order);
    }
    stage.orders.send(Order::Cancel(DeliveryId(2))).unwrap();
    assert_eq!([stage.heard().await, stage.heard().await], [Heard::Sent(2, 0), Heard::Sent(2, 0)]);
    far.write_all(b"u").await.unwrap();
    assert_eq!(stage.heard().await, Heard::Sent(3, 7));
    assert_eq!(read(&mut far, 14).await, b"begin abegin z");
}

#[tokio::test]
async fn not_now_and_never_are_told_apart() {
    let mut stage = Stage::new("127.0.0.1:0").await;
    let mut far = stage.welcome().await;
    stage.order(transmit(1, b"poison", 0..6, 12));
    assert_eq!(stage.heard().await, Heard::Sent(1, 0));
    stage.order(transmit(1, b"poison", 6..12, 12));
    assert_eq!(stage.heard().await, Heard::Sent(1, 0));
    let never = Refusal::Final(DropReason::Oversize);
    assert_eq!(stage.heard().await, Heard::Refused(1, never));
    stage.order(whole(2, b"a"));
    assert_eq!(stage.heard().await, Heard::Sent(2, 7));
    far.write_all(b"r").await.unwrap();
    assert_eq!(stage.heard().await, Heard::Refused(2, Refusal::Retry));
    stage.order(whole(2, b"a"));
    assert_eq!(stage.heard().await, Heard::Sent(2, 7), "after a pause");
}

#[tokio::test]
async fn a_node_that_is_gone_ends_the_lane() {
    let mut stage = Stage::new("127.0.0.1:0").await;
    let mut far = stage.welcome().await;
    drop(stage.orders);
    assert_eq!(read(&mut far, 3).await, b"bye");
    drop(far);
    timeout(PATIENCE, stage.task).await.unwrap().unwrap();
}

/// A far end that does not read: little leaves the node's queues, and the samples say where it stands.
#[tokio::test]
async fn little_stands_below_the_scheduler_where_the_far_end_is_slow() {
    let mut stage = Stage::new("127.0.0.1:0").await;
    let far = stage.welcome().await;
    socket2::SockRef::from(&far).set_recv_buffer_size(4096).unwrap();
    let payload: Arc<[u8]> = vec![7; 64 * 1024].into();
    let (mut handed, mut newest) = (0, None);
    for id in 1..=256 {
        stage.order(whole(id, &payload));
    }
    // The kernel's buffers fill, then nothing is heard. The bounds below hold at any moment before, too.
    while let Ok(Some(arrival)) = timeout(Duration::from_millis(500), stage.reports.recv()).await {
        match arrival {
            Arrival::Input(Input::Sent { bytes, .. }) => handed += bytes.0,
            Arrival::Input(Input::PathSample { sample, .. }) => newest = Some(sample),
            other => panic!("{other:?}"),
        }
    }
    let sample = newest.expect("the first bytes were acknowledged");
    println!("handed {handed}, newest sample {sample:?}");
    // What has not left the host can still be overtaken by nobody: it is bounded by the option that the
    // lane sets, and one buffer of the kernel's own.
    assert!(sample.unsent.0 <= 128 * 1024, "{sample:?}");
    assert!(sample.in_flight.0 < 256 * 64 * 1024, "most of it waits above");
}
