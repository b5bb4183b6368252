//! `tidegate top`: the classes of a running node, from its HTTP status.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::cli::screen::Screen;
use crate::observe::status::table;
use crate::observe::status::view::NodeView;

/// Arguments of `top`.
#[derive(Clone, Debug, Args)]
pub struct TopArguments {
    /// Where the node's `[http]` listens
    #[arg(
        value_name = "ADDRESS",
        default_value = "127.0.0.1:7070",
        help = "Where the node's [http] listens"
    )]
    pub address: String,
    /// Print one table and end
    #[arg(long)]
    pub once: bool,
}

pub(super) const TOP_HELP: &str = "\
Examples:
  tidegate top                    the node on this machine
  tidegate top 10.0.0.7:7070      another one
  tidegate top --once             one table, for a script";

/// Longest answer that is read.
const ANSWER_MAX: u64 = 16 << 20;
/// A node answers from memory: one that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the table is printed where it cannot be refreshed in place.
const PACE_PRINTED: Duration = Duration::from_secs(5);

/// Shows the node until interrupted.
///
/// # Errors
/// No node answers there, or what answers is none.
pub async fn top(arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    let address = arguments.address.trim_start_matches("http://").trim_end_matches('/');
    let mut screen = Screen::stdout();
    let pace = if screen.is_terminal() { Duration::from_secs(1) } else { PACE_PRINTED };
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let view = fetch(address).await?;
        if screen.show(&table::render(&view, None)).is_err() || arguments.once {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The status of the node whose HTTP server listens at `address`.
///
/// # Errors
/// No node answers there, or what answers is none.
pub async fn fetch(address: &str) -> anyhow::Result<NodeView> {
    let json = timeout(PATIENCE, get(address)).await.context("it does not answer in time");
    let json = json.flatten().with_context(|| {
        format!("no node at {address}: is it running, and is that where its [http] listens?")
    })?;
    serde_json::from_str(&json).with_context(|| format!("{address} is not the status of a node"))
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
