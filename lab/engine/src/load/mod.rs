//! Load and its receiver: clients that run as processes of their own, beside a contestant.
//!
//! A job is one argument of JSON after the hidden command [`COMMAND`]; what a client has to tell it
//! prints, one line each. So the same client runs in any network namespace.

pub mod amqp;
mod arrivals;
mod book;
mod consume;
mod datagrams;
mod forward;
mod insist;
pub mod mqtt;
pub mod nats;
mod pass;
mod publish;
pub mod raw;
pub mod records;
mod sequence;
pub mod sets;
mod sink;
pub mod stamp;
pub mod subscriber;
mod tally;

use std::net::SocketAddr;
use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use self::records::{ReceiveRecords, SendRecords};
pub use arrivals::{Arrivals, Share};
pub use book::{Account, Book};
pub(crate) use consume::MARKED;
pub use consume::{Arrival, Consume, Source};
pub use datagrams::{ReceiveDatagrams, SendDatagrams};
pub use forward::Forward;
pub use insist::Insist;
pub use nats::Ask;
pub use pass::Pass;
pub use publish::{Acked, DUE_PROPERTY, Payload, Publish, SEQ_PROPERTY, STREAM_PROPERTY, Stream};
pub use tally::{Tally, plots};

/// The hidden command of the lab's program that does a job.
pub const COMMAND: &str = "client";
/// What a consumer prints when everything published from now on will reach it.
pub const READY: &str = "ready";
/// How a publisher's line begins that says when its load began, in nanoseconds since 1970.
pub const BEGAN: &str = "began ";

/// What a client process is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Job {
    /// Publish streams over MQTT, open loop.
    Publish(Publish),
    /// Publish a stream over MQTT whatever happens.
    Insist(Insist),
    /// Print what comes, wherever it comes from.
    Consume(Consume),
    /// Forward from an MQTT broker to RabbitMQ.
    Forward(Forward),
    /// Pass connections on to a server.
    Pass(Pass),
    /// Set something up at a NATS server.
    Ask(Ask),
    /// Print the status of the node whose HTTP server listens at this address, in one line.
    Status(String),
    /// Send records of the link's benchmarks.
    SendRecords(SendRecords),
    ReceiveRecords(ReceiveRecords),
    /// Datagrams of bare QUIC, at a rate.
    SendDatagrams(SendDatagrams),
    /// Their receiver.
    ReceiveDatagrams(ReceiveDatagrams),
}

impl Job {
    /// Adds what makes the lab's program do this job.
    pub(crate) fn add_to(&self, command: &mut Command) {
        let text = serde_json::to_string(self).expect("a job has only plain values");
        command.args([COMMAND, &text]);
    }

    /// Does the job that [`Job::add_to`] wrote; returns when it is done.
    ///
    /// # Errors
    /// Not a job, or a broker that cannot be reached or says no.
    pub async fn run(text: &str) -> anyhow::Result<()> {
        let job = serde_json::from_str(text).with_context(|| format!("no job: {text}"))?;
        match job {
            Job::Publish(job) => job.run().await,
            Job::Insist(job) => job.run().await,
            Job::Consume(job) => job.run().await,
            Job::Forward(job) => job.run().await,
            Job::Pass(job) => job.run().await,
            Job::Ask(job) => job.run().await,
            Job::Status(address) => {
                let view = tidegate::cli::top::fetch(&address).await?;
                say(&serde_json::to_string(&view)?);
                Ok(())
            }
            // These block, and have their process for themselves.
            Job::SendRecords(job) => job.run(),
            Job::ReceiveRecords(job) => job.run(),
            Job::SendDatagrams(job) => job.run(),
            Job::ReceiveDatagrams(job) => job.run(),
        }
    }
}

/// Tells the parent a line.
#[expect(clippy::print_stdout, reason = "a client tells its parent by lines")]
fn say(line: &str) {
    println!("{line}");
}

/// Connects as soon as somebody listens.
async fn connect(address: SocketAddr) -> anyhow::Result<tokio::net::TcpStream> {
    const ATTEMPTS: u32 = 100;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match tokio::net::TcpStream::connect(address).await {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(last.expect("there was an attempt")).with_context(|| format!("nobody listens at {address}"))
}
