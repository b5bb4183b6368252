//! A node's streams to the orchestrators: it attends all of them, and whoever leads answers.
//!
//! Those that do not lead keep the call until they do. So a node needs no search and no handshake when another
//! one takes over; the connections to standbys cost a question every few seconds.

use std::time::Duration;

use tidegate_fleet::{Directive, Heartbeat};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::channel::FleetTls;
use super::codec::SmallCodec;
use super::wire::{
    ATTEND, BeatMessage, CLASSES_KEY, DirectiveMessage, LENDERS, LISTEN_KEY, LenderMessage,
    LendersReply, LendersRequest, SITE_KEY,
};
use crate::output::backoff::Backoff;

/// Beats that may wait for the wire: each one is the whole state, so more would say nothing.
const BEATS_MAX: usize = 4;
/// Waits between two tries of an orchestrator.
const WAITS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(3));

/// What is heard. Orchestrators are told apart by their place in the configuration.
#[derive(Debug)]
pub enum Heard {
    /// This one leads, and this is the way to it; beats that find no room are lost.
    Leader(usize, Way),
    /// It leads no longer, or is not reached any more.
    Lost(usize),
    /// A leader's.
    Directive(Directive),
    /// A leader names lenders.
    Lenders(Vec<LenderMessage>),
}

/// The way to a leader.
#[derive(Clone, Debug)]
pub struct Way {
    beats: mpsc::Sender<BeatMessage>,
    channel: Channel,
}

impl Way {
    /// Sends a beat, if there is room.
    pub fn send(&self, beat: &Heartbeat) {
        // One that is lost is repaired by the next.
        let _ = self.beats.try_send(beat.into());
    }

    /// Who could lend.
    ///
    /// # Errors
    /// No answer.
    pub async fn lenders(self) -> Result<Vec<LenderMessage>, Status> {
        let mut grpc = tonic::client::Grpc::new(self.channel);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<LendersRequest, LendersReply>::default();
        let path = PathAndQuery::from_static(LENDERS);
        let reply = grpc.unary(Request::new(LendersRequest {}), path, codec).await?;
        Ok(reply.into_inner().lenders)
    }
}

/// What a node says of itself when it comes.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// `host:port` where neighbours dial it.
    pub listen: Option<String>,
    /// Those of one site reach each other.
    pub site: String,
    /// Names of its classes, with commas between them.
    pub classes: String,
}

/// Attends all of `orchestrators` for ever, until nobody listens to `heard`.
pub async fn run(
    tls: FleetTls,
    orchestrators: Vec<String>,
    greeting: Greeting,
    heard: mpsc::Sender<Heard>,
) {
    let mut tasks = JoinSet::new();
    for (place, to) in orchestrators.into_iter().enumerate() {
        let (tls, greeting) = (tls.clone(), greeting.clone());
        let seat = Seat { tls, place, to, greeting, heard: heard.clone() };
        tasks.spawn(seat.run());
    }
    // Else the last of them would never see that nobody listens.
    drop(heard);
    while tasks.join_next().await.is_some() {}
}

/// The node is stopping.
struct Stopping;

/// One orchestrator, as a node attends it.
struct Seat {
    tls: FleetTls,
    place: usize,
    to: String,
    greeting: Greeting,
    heard: mpsc::Sender<Heard>,
}

impl Seat {
    /// Connects, and connects again whenever the connection is lost.
    async fn run(self) {
        let mut waits = Backoff::within(WAITS.0, WAITS.1);
        let mut complaint = None;
        loop {
            let why = tokio::select! {
                ended = self.attend(&mut waits) => match ended {
                    Ok(why) => why,
                    Err(Stopping) => return,
                },
                () = self.heard.closed() => return,
            };
            if complaint.as_ref() != Some(&why) {
                tracing::warn!(orchestrator = %self.to, "{why}");
                complaint = Some(why);
            }
            sleep(waits.next()).await;
        }
    }

    /// Attends over one connection as long as it lasts: an orchestrator that no longer leads is attended
    /// again, and answers when it leads again. Returns why the connection is over.
    async fn attend(&self, waits: &mut Backoff) -> Result<String, Stopping> {
        let channel = match self.tls.connect(&self.to).await {
            Ok(channel) => channel,
            Err(error) => return Ok(format!("{error:#}")),
        };
        loop {
            let mut grpc = tonic::client::Grpc::new(channel.clone());
            if let Err(error) = grpc.ready().await {
                return Ok(error.to_string());
            }
            let (sender, beats) = mpsc::channel(BEATS_MAX);
            let codec = SmallCodec::<BeatMessage, DirectiveMessage>::default();
            let path = PathAndQuery::from_static(ATTEND);
            let mut request = Request::new(ReceiverStream::new(beats));
            self.greet(request.metadata_mut());
            let directives = match grpc.streaming(request, path, codec).await {
                Ok(response) => response.into_inner(),
                Err(status) => return Ok(told(&status)),
            };
            waits.reset();
            tracing::info!(orchestrator = %self.to, "it leads");
            let way = Way { beats: sender, channel: channel.clone() };
            self.tell(Heard::Leader(self.place, way)).await?;
            let why = self.hear(directives).await?;
            tracing::info!(orchestrator = %self.to, "it is lost as the leader: {why}");
            self.tell(Heard::Lost(self.place)).await?;
            // Who steps down is not asked again in the same breath.
            sleep(WAITS.0).await;
        }
    }

    fn greet(&self, metadata: &mut MetadataMap) {
        let Greeting { listen, site, classes } = &self.greeting;
        let told =
            [(LISTEN_KEY, listen.as_ref()), (SITE_KEY, Some(site)), (CLASSES_KEY, Some(classes))];
        for (key, value) in told {
            if let Some(Ok(value)) = value.map(|value| MetadataValue::try_from(value.as_str())) {
                metadata.insert(key, value);
            }
        }
    }

    async fn hear(&self, mut directives: Streaming<DirectiveMessage>) -> Result<String, Stopping> {
        loop {
            match directives.message().await.map(|message| message.map(Directive::try_from)) {
                Ok(Some(Ok(directive))) => self.tell(Heard::Directive(directive)).await?,
                Ok(Some(Err(error))) => {
                    tracing::warn!(orchestrator = %self.to, "a directive: {error}");
                }
                Ok(None) => return Ok("it ended the stream".into()),
                Err(status) => return Ok(told(&status)),
            }
        }
    }

    async fn tell(&self, heard: Heard) -> Result<(), Stopping> {
        self.heard.send(heard).await.map_err(|_| Stopping)
    }
}

/// A status in words.
pub(super) fn told(status: &Status) -> String {
    match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    }
}
