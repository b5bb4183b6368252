//! Clients behind a load balancer, which says from where they come (PROXY protocol, version 2).

use std::sync::Arc;
use std::time::Duration;

use tidegate::support::access::{Quota, QuotaRule, Quotas};

use crate::mqtt::client::{Client, connect_v311};
use crate::mqtt::node::Node;

/// A header that names this source.
fn header(source: [u8; 4]) -> Vec<u8> {
    let addresses = [&source[..], &[10, 0, 0, 1, 0xC3, 0x50, 7, 0x5B]].concat();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &addresses].concat()
}

/// A node that takes one connection of an address, behind load balancers of `network`.
async fn node(network: &str, patience: Duration) -> Node {
    Node::with(|options| {
        options.proxies = vec![network.parse().unwrap()];
        let quota = Quota { connections: Some(1), ..Quota::default() };
        options.quotas = Arc::new(Quotas(vec![QuotaRule { user: None, quota }]));
        options.connect_timeout = patience;
    })
    .await
}

/// What a client is answered that says these bytes first, and stays.
async fn greeted(node: &Node, first: &[u8], id: &str) -> (Client, Option<Vec<u8>>) {
    let mut client = Client::open(node.address()).await;
    client.send(&[first, &connect_v311(id, 0)].concat()).await;
    let answer = client.next().await;
    (client, answer)
}

const IN: Option<&[u8]> = Some(&[0x20, 2, 0, 0]);
/// Server unavailable: the address has as many connections as it may.
const FULL: Option<&[u8]> = Some(&[0x20, 2, 0, 3]);

#[tokio::test]
async fn a_client_counts_by_the_address_that_its_load_balancer_names() {
    let node = node("127.0.0.0/8", Duration::from_secs(10)).await;
    let (seven, eight) = (header([192, 0, 2, 7]), header([192, 0, 2, 8]));
    let first = greeted(&node, &seven, "a").await;
    assert_eq!(first.1.as_deref(), IN);
    assert_eq!(greeted(&node, &seven, "b").await.1.as_deref(), FULL, "the same client's address");
    let other = greeted(&node, &eight, "c").await;
    assert_eq!(other.1.as_deref(), IN);
    // The load balancer's own look at whether we are there counts as its own.
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let own = greeted(&node, local, "d").await;
    assert_eq!(own.1.as_deref(), IN);
    drop((first, other, own));
    node.stop().await;
}

#[tokio::test]
async fn a_load_balancer_says_it_right_and_in_time_or_nothing_comes_of_it() {
    let node = node("127.0.0.1", Duration::from_millis(200)).await;
    for wrong in [&b""[..], b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 1883\r\n", &header([0; 4])[..13]]
    {
        let (_, answer) = greeted(&node, wrong, "a").await;
        assert_eq!(answer, None, "{wrong:?}");
    }
    let mut silent = Client::open(node.address()).await;
    silent.send(&header([192, 0, 2, 7])[..20]).await;
    assert_eq!(silent.next().await, None);
    node.stop().await;
}

#[tokio::test]
async fn nobody_else_may_name_an_address() {
    let node = node("192.0.2.0/24", Duration::from_secs(10)).await;
    assert_eq!(greeted(&node, &header([192, 0, 2, 7]), "a").await.1, None);
    let (_client, answer) = greeted(&node, b"", "a").await;
    assert_eq!(answer.as_deref(), IN, "who is no load balancer comes as it is");
    node.stop().await;
}
