//! BumbleBee's case studies (its section IV) with parts of the product, and its scripts where scripts run.

mod broker;
pub mod browser;
pub mod hostile;
mod http;
pub mod paper;
pub mod traffic;
mod welcome;
pub mod yahoo;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::report::Archive;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

pub(crate) use crate::report::Verdict;

/// Connects as soon as somebody listens: a node's outputs may be up before that.
async fn connect(to: SocketAddr, within: Duration) -> std::io::Result<TcpStream> {
    let until = Instant::now() + within;
    loop {
        match TcpStream::connect(to).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Where what was computed once is kept: `adapt` in cargo's target folder.
fn target_folder() -> PathBuf {
    let results = Archive::folder_of_target();
    results.parent().map(|target| target.join("adapt")).unwrap_or_else(|| "adapt".into())
}
