//! A node's stream to whoever leads: it looks for the leader, and looks again whenever it is lost.

use std::time::Duration;

use tidegate_core::fleet::{Beat, Directive};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::channel::FleetTls;
use super::wire::{ATTEND, BeatMessage, DirectiveMessage};
use crate::output::backoff::Backoff;

/// Beats that may wait for the wire: each one is the whole state, so more would say nothing.
const BEATS_MAX: usize = 4;
/// Waits between two tries of all orchestrators.
const WAITS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(3));

/// What is heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// There is a leader, and this is the way to it; beats that find no room are lost.
    Leader(mpsc::Sender<BeatMessage>),
    /// There is none any more.
    Alone,
    /// The leader's.
    Directive(Directive),
}

/// Sends a beat, if there is room.
pub(super) fn send(way: &mpsc::Sender<BeatMessage>, beat: &Beat) {
    // One that is lost is repaired by the next.
    let _ = way.try_send(beat.into());
}

/// Looks for a leader among `orchestrators` for ever, until nobody listens to `heard`.
pub(super) async fn run(tls: FleetTls, orchestrators: Vec<String>, heard: mpsc::Sender<Heard>) {
    let mut waits = Backoff::within(WAITS.0, WAITS.1);
    let mut complaint = None;
    loop {
        for to in &orchestrators {
            let ended = attend(&tls, to, &heard, &mut waits).await;
            if heard.is_closed() {
                return;
            }
            match ended {
                Ended::Served(why) => {
                    tracing::info!(orchestrator = %to, "the leader is lost: {why}");
                    if heard.send(Heard::Alone).await.is_err() {
                        return;
                    }
                    complaint = None;
                }
                Ended::NoLeader => {}
                Ended::Unreachable(why) if complaint.as_ref() == Some(&why) => {}
                Ended::Unreachable(why) => {
                    tracing::warn!(orchestrator = %to, "{why}");
                    complaint = Some(why);
                }
            }
        }
        sleep(waits.next()).await;
    }
}

enum Ended {
    /// It was the leader, until this.
    Served(String),
    /// It does not lead.
    NoLeader,
    Unreachable(String),
}

async fn attend(
    tls: &FleetTls,
    to: &str,
    heard: &mpsc::Sender<Heard>,
    waits: &mut Backoff,
) -> Ended {
    let channel = match tls.connect(to).await {
        Ok(channel) => channel,
        Err(error) => return Ended::Unreachable(format!("{error:#}")),
    };
    let mut grpc = tonic::client::Grpc::new(channel);
    if let Err(error) = grpc.ready().await {
        return Ended::Unreachable(error.to_string());
    }
    let (way, beats) = mpsc::channel(BEATS_MAX);
    let codec = ProstCodec::<BeatMessage, DirectiveMessage>::default();
    let path = PathAndQuery::from_static(ATTEND);
    let streaming = grpc.streaming(Request::new(ReceiverStream::new(beats)), path, codec).await;
    let mut directives = match streaming {
        Ok(response) => response.into_inner(),
        Err(status) if status.code() == Code::FailedPrecondition => return Ended::NoLeader,
        Err(status) => return Ended::Unreachable(told(&status)),
    };
    waits.reset();
    tracing::info!(orchestrator = %to, "the leader is found");
    if heard.send(Heard::Leader(way)).await.is_err() {
        return Ended::Served("the node is stopping".into());
    }
    loop {
        let message = tokio::select! {
            message = directives.message() => message,
            () = heard.closed() => return Ended::Served("the node is stopping".into()),
        };
        match message.map(|message| message.map(Directive::try_from)) {
            Ok(Some(Ok(directive))) => {
                if heard.send(Heard::Directive(directive)).await.is_err() {
                    return Ended::Served("the node is stopping".into());
                }
            }
            Ok(Some(Err(error))) => tracing::warn!(orchestrator = %to, "a directive: {error}"),
            Ok(None) => return Ended::Served("it closed the stream".into()),
            Err(status) => return Ended::Served(told(&status)),
        }
    }
}

/// A status in words.
pub(super) fn told(status: &Status) -> String {
    match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    }
}
