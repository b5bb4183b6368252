//! The status of a node, by HTTP.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cli::screen::plain;
use crate::observe::status::view::NodeView;

/// Longest answer that is read.
const ANSWER_MAX: u64 = 16 << 20;
/// A node answers from memory: one that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// The status of the node whose HTTP server listens at `address`.
///
/// # Errors
/// No node answers there, or what answers is none.
pub async fn fetch(address: &str) -> anyhow::Result<NodeView> {
    parse(&fetch_text(address).await?, address)
}

/// The same as the JSON that it is.
///
/// # Errors
/// No node answers there.
pub(super) async fn fetch_text(address: &str) -> anyhow::Result<String> {
    let json = timeout(PATIENCE, get(address)).await.context("it does not answer in time");
    json.flatten().with_context(|| {
        format!("no node at {address}: is it running, and is that where its [http] listens?")
    })
}

/// What it says.
///
/// # Errors
/// It is not the status of a node.
pub(super) fn parse(json: &str, address: &str) -> anyhow::Result<NodeView> {
    let told = serde_json::from_str(json).map(plain_in).and_then(serde_json::from_value);
    told.with_context(|| format!("{address} is not the status of a node"))
}

/// The same with texts that a terminal may show: clients choose their names, and who answers may be no node.
fn plain_in(told: Value) -> Value {
    match told {
        Value::String(text) => Value::String(plain(&text)),
        Value::Array(all) => all.into_iter().map(plain_in).collect(),
        Value::Object(all) => {
            all.into_iter().map(|(name, value)| (plain(&name), plain_in(value))).collect()
        }
        other => other,
    }
}

/// One HTTP/1.0 request: the answer ends with the connection.
async fn get(address: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /status HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => bail!("it answers {status:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_strangers_steer_no_terminal() {
        let told = r#"{"a\u001b[2J": ["red\u001b[31m\u0007", "gpj.\u202egro", 7], "\u00e4": null}"#;
        let shown = plain_in(serde_json::from_str(told).unwrap()).to_string();
        assert_eq!(
            shown,
            "{\"a\u{fffd}[2J\":[\"red\u{fffd}[31m\u{fffd}\",\"gpj.\u{fffd}gro\",7],\"ä\":null}"
        );
    }
}
