//! QoS 2 over connections that break.

use std::time::Duration;

use tidegate::input::mqtt::Refused;
use tidegate_types::record::RefuseReason;

use crate::mqtt::client::{Client, publish_once};
use crate::mqtt::node::{Node, Policy};

#[tokio::test]
async fn a_publish_is_offered_once_through_broken_connections() {
    let mut node = Node::start().await;
    let (mut client, is_present) = Client::again(node.address(), "plc").await;
    assert!(!is_present);
    let (first, _) = node.opened().await;
    client.send(&publish_once("t", 7, false)).await;
    assert_eq!(node.record().await.source, first);
    // The PUBREC is lost with the connection.
    drop(client);
    assert_eq!(node.closed().await, first);
    for _ in 0..2 {
        let (mut client, is_present) = Client::again(node.address(), "plc").await;
        assert!(is_present);
        let (source, _) = node.opened().await;
        client.send(&publish_once("t", 7, true)).await;
        assert_eq!(client.packet().await, [0x50, 2, 0, 7]);
        drop(client);
        assert_eq!(node.closed().await, source, "and nothing was offered");
    }
    let (mut client, _) = Client::again(node.address(), "plc").await;
    node.opened().await;
    client.send(&[0x62, 2, 0, 7]).await;
    assert_eq!(client.packet().await, [0x70, 2, 0, 7]);
    client.send(&publish_once("t", 7, false)).await;
    node.record().await;
}

#[tokio::test]
async fn an_answer_that_comes_after_the_connection_is_booked() {
    let mut node = Node::start().await;
    node.policy(Policy::Hold);
    let (mut client, _) = Client::again(node.address(), "plc").await;
    let (source, _) = node.opened().await;
    client.send(&[publish_once("t", 7, false), publish_once("t", 8, false)].concat()).await;
    let records = [node.record().await, node.record().await];
    drop(client);
    // The node is not told of an end: the newer connection goes on with the source.
    let (mut client, is_present) = Client::again(node.address(), "plc").await;
    assert!(is_present);
    client.send(&[publish_once("t", 7, true), publish_once("t", 8, true)].concat()).await;
    client.send(&[0xC0, 0]).await;
    assert_eq!(client.packet().await, [0xD0, 0], "both are read");
    node.answer(&records[1], Err(RefuseReason::Full));
    node.answer(&records[0], Ok(()));
    assert_eq!(client.packet().await, [0x50, 2, 0, 7]);
    assert_eq!(client.next().await, None, "a refusal closes");
    assert_eq!(node.closed().await, source);
    let (mut client, _) = Client::again(node.address(), "plc").await;
    node.opened().await;
    client.send(&publish_once("t", 8, true)).await;
    assert_eq!(node.record().await.key, "t", "what was refused is offered again");
}

#[tokio::test]
async fn an_answer_is_booked_while_the_client_is_away() {
    let mut node = Node::start().await;
    node.policy(Policy::Hold);
    let (mut client, _) = Client::again(node.address(), "plc").await;
    let (source, _) = node.opened().await;
    client.send(&publish_once("t", 7, false)).await;
    let record = node.record().await;
    client.send(&[0xE0, 0]).await;
    assert_eq!(client.next().await, None);
    node.answer(&record, Ok(()));
    assert_eq!(node.closed().await, source, "with the last answer the source ends");
    let (mut client, is_present) = Client::again(node.address(), "plc").await;
    assert!(is_present);
    node.opened().await;
    client.send(&publish_once("t", 7, true)).await;
    assert_eq!(client.packet().await, [0x50, 2, 0, 7]);
}

#[tokio::test]
async fn a_session_goes_through_a_take_over() {
    let mut node = Node::start().await;
    let (mut older, _) = Client::again(node.address(), "plc").await;
    node.opened().await;
    older.send(&publish_once("t", 7, false)).await;
    node.record().await;
    let (mut newer, is_present) = Client::again(node.address(), "plc").await;
    assert!(is_present);
    node.closed().await;
    node.opened().await;
    newer.send(&publish_once("t", 7, true)).await;
    assert_eq!(newer.packet().await, [0x50, 2, 0, 7]);
    let _clean = Client::v311(node.address(), "plc").await;
    let (_, is_present) = Client::again(node.address(), "plc").await;
    assert!(!is_present, "a clean session is the end of the older one");
}

#[tokio::test]
async fn sessions_end_with_their_time() {
    let node = Node::with(|options| options.session_expiry_max = Duration::from_secs(1)).await;
    drop(Client::again(node.address(), "plc").await);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!Client::again(node.address(), "plc").await.1);
    let node = Node::with(|options| options.sessions_max = 0).await;
    drop(Client::again(node.address(), "plc").await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!Client::again(node.address(), "plc").await.1, "no sessions are kept");
}

#[tokio::test]
async fn a_refused_publish_may_be_dropped() {
    let mut node = Node::with(|options| options.refused = Refused::Drop).await;
    node.policy(Policy::Refuse(RefuseReason::NoRule));
    let (mut client, _) = Client::again(node.address(), "plc").await;
    node.opened().await;
    client.send(&publish_once("t", 7, false)).await;
    node.record().await;
    assert_eq!(client.packet().await, [0x50, 2, 0, 7]);
    client.send(&[0x62, 2, 0, 7]).await;
    assert_eq!(client.packet().await, [0x70, 2, 0, 7]);
}
