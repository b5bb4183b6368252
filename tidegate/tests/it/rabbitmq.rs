//! The AMQP output against a real RabbitMQ.
//!
//! One broker serves all of it, since a start costs seconds; each step has queues of its own.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_types::headers;
use tidegate_types::record::DropReason;

use crate::support::consumer::{Consumer, Message};
use crate::support::logs::Logs;
use crate::support::node::{End, Node};
use crate::support::rabbit::Rabbit;
use amq_protocol::types::{AMQPValue, FieldTable};
use bytes::Bytes;
use tidegate::keys::url::Host;
use tidegate::output::amqp::AmqpOptions;
use tidegate::support::tls::{ClientFiles, ClientTls};
use tidegate_testbed::free_port;

#[tokio::test]
async fn records_reach_a_real_rabbitmq() {
    let Some(mut rabbit) = Rabbit::start().await else { return };
    let logs = Logs::collect();
    everything_arrives_once_with_its_identity(&rabbit).await;
    cuts_of_a_large_record_make_the_whole_over_ipv6(&rabbit).await;
    a_large_record_and_many_small_ones_go_over_tls(&rabbit).await;
    what_nobody_is_bound_for_is_unroutable(&rabbit).await;
    a_wrong_password_is_told_once(&rabbit, &logs).await;
    a_missing_exchange_is_told_before_anything_is_sent(&rabbit, &logs).await;
    a_blocked_broker_gets_nothing_twice(&rabbit, &logs).await;
    a_full_queue_is_told_once_and_loses_nothing(&rabbit, &logs).await;
    a_user_who_may_not_write_is_told_once(&rabbit, &logs).await;
    a_node_that_is_refused_is_not_ready(&rabbit);
    a_killed_broker_loses_nothing_that_was_confirmed(&mut rabbit).await;
}

fn seqs(messages: &[Message]) -> BTreeSet<u64> {
    messages.iter().map(|message| message.headers()[headers::SEQ].parse().unwrap()).collect()
}

async fn everything_arrives_once_with_its_identity(rabbit: &Rabbit) {
    let mut consumer = Consumer::connect(rabbit.port).await.unwrap();
    consumer.bind("all", "plant.#").await;
    let mut node = Node::start(rabbit.options(), 2, 100);
    for number in 1..=1000 {
        node.offer(number, &format!("plant/{}/alarm", number % 7), vec![b'x'; 200].into());
    }
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    println!("1000 records of 200 B, {} B handed over", node.handed);
    node.stop().await;
    let messages = consumer.take_all("all").await;
    assert_eq!((messages.len(), seqs(&messages).len()), (1000, 1000));
    for message in &messages {
        let all = message.headers();
        let seq: u64 = all[headers::SEQ].parse().unwrap();
        let class = if seq.is_multiple_of(2) { "ls" } else { "lt" };
        assert_eq!(all[headers::NODE], "gate-7");
        assert_eq!(all[headers::INCARNATION], "0000000000001c9f");
        assert_eq!(all[headers::STREAM], "12");
        assert_eq!((&*all[headers::CLASS], &*all[headers::BOUND]), (class, "50"));
        assert_eq!(all[headers::SOURCE_TIME], (1_700_000_000_000_000_000 + seq).to_string());
        assert_eq!(all.get(headers::AGAIN), None);
        assert_eq!(all["unit"], "celsius");
        assert_eq!(message.routing_key, format!("plant.{}.alarm", seq % 7));
        let id = message.properties.message_id().as_ref().unwrap();
        assert_eq!(id.as_str(), format!("gate-7/0000000000001c9f/12/{seq}"));
        assert_eq!(*message.properties.delivery_mode(), Some(2), "persistent");
        assert_eq!(message.payload, [b'x'; 200]);
    }
}

async fn cuts_of_a_large_record_make_the_whole_over_ipv6(rabbit: &Rabbit) {
    let mut consumer = Consumer::connect(rabbit.port).await.unwrap();
    consumer.bind("large", "large").await;
    let mut options = rabbit.options();
    options.hosts = vec![Host::new("::1", rabbit.port)];
    let mut node = Node::start(options, 1, 100);
    let payload: Vec<u8> = (0..700_000_u32).map(|place| (place % 251) as u8).collect();
    node.offer(1, "large", payload.clone().into());
    node.offer(2, "large", Bytes::new());
    node.run_until(Node::is_done).await;
    node.stop().await;
    let messages = consumer.take_all("large").await;
    assert_eq!(messages.len(), 2);
    assert!(messages[0].payload == payload && messages[1].payload.is_empty());
}

async fn a_large_record_and_many_small_ones_go_over_tls(rabbit: &Rabbit) {
    let mut consumer = Consumer::connect(rabbit.port).await.unwrap();
    consumer.bind("tls", "tls").await;
    let own = rabbit.authority.issue("gate-7");
    let files = ClientFiles { ca: rabbit.authority.ca(), own: Some((own.certificate, own.key)) };
    let tls = Some(ClientTls::new(files).unwrap());
    // Nobody listens at the first of its hosts.
    let hosts = [free_port(), rabbit.tls_port].map(|port| Host::new("localhost", port)).to_vec();
    let options = AmqpOptions { hosts, tls, ..rabbit.options() };
    let mut node = Node::start(options, 2, 100);
    let payload: Vec<u8> = (0..400_000_u32).map(|place| (place % 251) as u8).collect();
    node.offer(1, "tls", payload.clone().into());
    for number in 2..=300 {
        node.offer(number, "tls", vec![b'x'; 200].into());
    }
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    assert!(node.samples > 0, "the kernel's counts are seen under TLS too");
    node.stop().await;
    let messages = consumer.take_all("tls").await;
    assert_eq!((messages.len(), seqs(&messages).len()), (300, 300));
    assert!(messages.iter().any(|message| message.payload == payload));
}

async fn what_nobody_is_bound_for_is_unroutable(rabbit: &Rabbit) {
    let mut consumer = Consumer::connect(rabbit.port).await.unwrap();
    consumer.bind("some", "known").await;
    let mut node = Node::start(rabbit.options(), 1, 100);
    for number in 1..=100_u64 {
        let key = if number.is_multiple_of(3) { "unknown" } else { "known" };
        node.offer(number, key, vec![0; 5000].into());
    }
    node.run_until(Node::is_done).await;
    for (number, end) in &node.fates {
        let unroutable = End::Dropped(DropReason::Unroutable);
        assert_eq!(
            *end,
            if number.is_multiple_of(3) { unroutable } else { End::Confirmed },
            "{number}"
        );
    }
    node.stop().await;
    assert_eq!(consumer.take_all("some").await.len(), 67);
}

async fn a_wrong_password_is_told_once(rabbit: &Rabbit, logs: &Logs) {
    let mut options = rabbit.options();
    options.password = "wrong".into();
    let mut node = Node::start(options, 2, 100);
    node.run_until(|_| logs.count("ACCESS_REFUSED") > 0).await;
    node.stop().await;
    assert_eq!(logs.count("ACCESS_REFUSED"), 1, "two lanes, one complaint");
}

async fn a_missing_exchange_is_told_before_anything_is_sent(rabbit: &Rabbit, logs: &Logs) {
    let mut options = rabbit.options();
    options.exchange = "nowhere".into();
    let mut node = Node::start(options, 1, 100);
    node.offer(1, "known", Bytes::from_static(b"x"));
    node.run_until(|_| logs.count("no exchange 'nowhere' in vhost '/'") > 0).await;
    assert_eq!(node.handed, 0);
    node.stop().await;
}

async fn a_blocked_broker_gets_nothing_twice(rabbit: &Rabbit, logs: &Logs) {
    let mut consumer = Consumer::connect(rabbit.port).await.unwrap();
    consumer.bind("blocked", "blocked").await;
    rabbit.control(&["set_vm_memory_high_watermark", "0"]);
    let mut node = Node::start(rabbit.options(), 1, 100);
    for number in 1..=500 {
        node.offer(number, "blocked", vec![0; 100].into());
    }
    let is_blocked = |_: &Node| logs.count("the broker is blocked") > 0;
    node.run_until(is_blocked).await;
    // What was on the way before the broker said so may still be confirmed.
    assert!(node.fates.len() <= 100, "no more than one window");
    rabbit.control(&["set_vm_memory_high_watermark", "0.4"]);
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    node.stop().await;
    let messages = consumer.take_all("blocked").await;
    assert_eq!((messages.len(), seqs(&messages).len()), (500, 500));
}

async fn a_full_queue_is_told_once_and_loses_nothing(rabbit: &Rabbit, logs: &Logs) {
    let mut consumer = Consumer::connect(rabbit.port).await.unwrap();
    let mut bound = FieldTable::default();
    bound.insert("x-max-length".into(), AMQPValue::LongInt(1));
    bound.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    consumer.bind_with("full", "full", bound).await;
    let mut node = Node::start(rabbit.options(), 1, 100);
    for number in 1..=5 {
        node.offer(number, "full", vec![0; 100].into());
    }
    // The first refusals come for all that was under way, the others one at a time.
    node.run_until(|node| node.refused >= 8).await;
    let mut messages = Vec::new();
    while !node.is_done() {
        messages.append(&mut consumer.take_all("full").await);
        let before = node.fates.len();
        node.run_until(|node| node.fates.len() > before).await;
    }
    messages.append(&mut consumer.take_all("full").await);
    assert_eq!((node.downs(), logs.count("the broker refuses records")), (0, 1));
    node.stop().await;
    assert_eq!((messages.len(), seqs(&messages).len()), (5, 5));
}

/// Makes a user `reader` who may do all but publish.
fn reader(rabbit: &Rabbit) {
    rabbit.control(&["add_user", "reader", "reader"]);
    rabbit.control(&["set_permissions", "reader", ".*", "^$", ".*"]);
}

async fn a_user_who_may_not_write_is_told_once(rabbit: &Rabbit, logs: &Logs) {
    let mut consumer = Consumer::connect(rabbit.port).await.unwrap();
    consumer.bind("written", "written").await;
    reader(rabbit);
    let (user, password) = ("reader".into(), "reader".into());
    let options = AmqpOptions { user, password, ..rabbit.options() };
    let mut node = Node::start(options, 2, 100);
    for number in 1..=4 {
        node.offer(number, "written", vec![0; 100].into());
    }
    node.run_until(|node| node.downs() >= 6).await;
    assert!(node.refused >= 6, "each connection's records are refused, not lost");
    assert_eq!(logs.count("the far end rejects what it is sent: ACCESS_REFUSED"), 1);
    rabbit.control(&["set_permissions", "reader", ".*", ".*", ".*"]);
    node.run_until(Node::is_done).await;
    node.stop().await;
    let messages = consumer.take_all("written").await;
    assert_eq!((messages.len(), seqs(&messages).len()), (4, 4));
}

/// The program, whose records its broker refuses.
fn a_node_that_is_refused_is_not_ready(rabbit: &Rabbit) {
    rabbit.control(&["set_permissions", "reader", ".*", "^$", ".*"]);
    let (mqtt, http) = (tidegate_testbed::free_port(), tidegate_testbed::free_port());
    let config = format!(
        "[node]\nname = \"refused\"\n[[input]]\nmqtt = {{ listen = \"127.0.0.1:{mqtt}\" }}\n\
         [[output]]\namqp = {{ url = \"amqp://127.0.0.1:{}\", user = \"reader\", \
         password_env = \"READER\" }}\n[http]\nlisten = [\"127.0.0.1:{http}\"]\n",
        rabbit.port
    );
    let mut program = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    program.env("READER", "reader");
    let mut node = crate::support::process::Node::start_by(program, "refused", &config);
    node.wait_for("ready");
    let ready = || {
        let mut page = TcpStream::connect(("127.0.0.1", http)).unwrap();
        page.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        page.read_to_string(&mut answer).unwrap();
        answer
    };
    let until = Instant::now() + crate::support::PATIENCE;
    let wait_for = |words: &str| {
        while !ready().contains(words) {
            assert!(Instant::now() < until, "never {words:?}: {}", ready());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for("200 OK");
    let _client = crate::support::process::publish(&format!("127.0.0.1:{mqtt}"));
    wait_for("the far end refuses its records");
    rabbit.control(&["set_permissions", "reader", ".*", ".*", ".*"]);
    wait_for("200 OK");
}

async fn a_killed_broker_loses_nothing_that_was_confirmed(rabbit: &mut Rabbit) {
    const WINDOW: usize = 100;
    let mut consumer = Consumer::connect(rabbit.port).await.unwrap();
    consumer.bind("killed", "killed").await;
    let mut node = Node::start(rabbit.options(), 2, WINDOW);
    for number in 1..=3000 {
        node.offer(number, "killed", vec![0; 300].into());
    }
    node.run_until(|node| node.fates.len() >= 500).await;
    rabbit.kill();
    rabbit.serve().await;
    node.run_until(Node::is_done).await;
    let other: Vec<_> = node.fates.iter().filter(|(_, end)| **end != End::Confirmed).collect();
    assert!(other.is_empty(), "{} of {}: {other:?}", other.len(), node.fates.len());
    node.stop().await;
    let mut consumer = Consumer::connect(rabbit.port).await.unwrap();
    let messages = consumer.take_all("killed").await;
    let twice = messages.len() - seqs(&messages).len();
    let again = messages.iter().filter(|message| message.headers().contains_key(headers::AGAIN));
    println!("broker killed: {} of 3000 arrived, {twice} twice", seqs(&messages).len());
    assert_eq!(seqs(&messages).len(), 3000);
    assert!(twice <= 2 * WINDOW && again.count() >= twice, "marked, and within the window");
}
