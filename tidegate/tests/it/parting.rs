//! A connection that is gone while its last records wait for room.

use crate::backlog::confirm;
use crate::support::PATIENCE;

use bytes::Bytes;
use tidegate::config::read;
use tidegate::node::contract::Source;
use tidegate::{assembly, link};
use tidegate_types::record::{Offered, Properties, Token};
use tokio::sync::mpsc;
use tokio::time::timeout;

const RECORDS: usize = 16;

fn record(source: &Source, token: Option<Token>) -> Offered {
    Offered {
        source: source.id(),
        token,
        key: "plant".into(),
        properties: Properties::default(),
        payload: Bytes::from(vec![7; 1024]),
        read_at: source.now(),
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}

#[tokio::test]
async fn the_last_records_of_a_connection_that_is_gone_get_the_room_that_they_wait_for() {
    let text = "[node]\nname = \"gate\"\n[http]\nlisten = []\n\
                [[stream]]\nmemory = \"8KiB\"\nfull = \"block\"\nblock_max = \"60s\"\n\
                [[output]]\nname = \"far\"\nsink = { discard = true }\n";
    let reading = read(text);
    assert_eq!(reading.render("gate.toml", text), "");
    let (give, mut ports) = mpsc::unbounded_channel();
    let node = assembly::start_with(&reading.config, link::Links::default(), |_, port, _| {
        give.send(port).unwrap();
        Ok(())
    });
    let node = node.await.unwrap();
    let source = node.running.intake.open("hasty".into()).await.unwrap();
    let mut records = vec![record(&source, None); RECORDS];
    // Of these the client was told nothing: it sends them again on its next connection.
    records.extend((0..3).map(|number| record(&source, Some(Token(number)))));
    source.offer(records).await.unwrap();
    drop(source);
    // Whoever comes behind it is heard behind its end.
    let _next = node.running.intake.open("next".into()).await.unwrap();
    let counts = node.running.status.get().await.unwrap().counts;
    assert!(counts.records < RECORDS as u64 && counts.refused == 3, "the others wait: {counts:?}");
    let (sender, mut records) = mpsc::unbounded_channel();
    tokio::spawn(confirm(ports.recv().await.unwrap(), sender));
    for _ in 0..RECORDS {
        timeout(PATIENCE, records.recv()).await.expect("a record").unwrap();
    }
    assert!(records.try_recv().is_err(), "what is asked for again is not there already");
}
