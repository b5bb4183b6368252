//! A whole node with a log, offered records by this process: what a listener would do, without its
//! sockets.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use tidegate::node::contract::{Notice, Source};
use tidegate::{assembly, config};
use tidegate_types::record::{Offered, Properties, Token};

use super::AHEAD;
use super::payloads::Payloads;

/// Records a second that are acknowledged as durable.
pub(super) async fn run(
    folder: &Path,
    group: usize,
    time: Duration,
    is_sealed: bool,
) -> anyhow::Result<f64> {
    let key = folder.join("key");
    std::fs::write(&key, "5a".repeat(32))?;
    let sealed =
        if is_sealed { format!("key_file = \"{}\"\n", key.display()) } else { String::new() };
    let text = format!(
        "[node]\nname = \"bench\"\n[http]\nlisten = []\n\
         [log]\ndirectory = \"{}\"\ncommit_max = {group}\ncommit_delay = \"0s\"\n{sealed}\
         [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
         [[output]]\nsink = {{ discard = true }}\n",
        folder.join("log").display()
    );
    let reading = config::read(&text);
    let told = reading.render("bench", &text);
    anyhow::ensure!(told.is_empty(), "{told}");
    let node = assembly::start(&reading.config.completed()).await?;
    let intake = node.running.intake.clone();
    let mut source = intake.open("bench".into()).await.ok().context("the node is gone")?;
    let rate = offer(&mut source, group as u64, time).await;
    drop(source);
    let status = node.stop(Duration::from_secs(20)).await;
    anyhow::ensure!(status.counts.lost(status.held) == 0, "the node lost records");
    rate
}

async fn offer(source: &mut Source, group: u64, time: Duration) -> anyhow::Result<f64> {
    let payloads = Payloads::new(group as usize);
    let record = |source: &Source, number: u64| Offered {
        source: source.id(),
        token: Some(Token(number)),
        key: Bytes::from_static(b"bench"),
        properties: Properties::default(),
        payload: payloads.of(number),
        read_at: source.now(),
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    };
    let start = Instant::now();
    let (mut offered, mut accepted) = (0, 0);
    while start.elapsed() < time {
        while offered - accepted < AHEAD * group {
            let batch = (offered..offered + group).map(|number| record(source, number)).collect();
            source.offer(batch).await.ok().context("the node is gone")?;
            offered += group;
        }
        match source.notice().await.context("the node is gone")? {
            Notice::Accept(_, Ok(())) => accepted += 1,
            Notice::Accept(_, Err(reason)) => anyhow::bail!("refused: {}", reason.name()),
            Notice::Pause | Notice::Resume | Notice::Ready | Notice::Released(_) => {}
        }
        while let Some(Notice::Accept(_, result)) = source.try_notice() {
            anyhow::ensure!(result.is_ok(), "refused");
            accepted += 1;
        }
    }
    Ok(accepted as f64 / start.elapsed().as_secs_f64())
}
