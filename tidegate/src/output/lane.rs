//! One lane of an output: keeps one TCP connection to the far end, for ever.
//!
//! It connects at once, so that the first alarm never waits for a login, and again after every loss,
//! with doubling waits. Of several hosts the next one is tried at once when one fails, and a wait comes when all
//! have failed; a lane stays where it is until its connection ends. The node hears `Up` when the login is done and `Down` exactly once after it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::PathState;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::connection::Connection;
use super::hosts::{Far, FarHost, Turns};
use super::protocol::{Protocol, ProtocolError};
use crate::keys::url::Host;
use crate::node::contract::{Feedback, Order, Stopping};
use crate::support::backoff::Backoff;
use crate::support::dial::connect;
use crate::support::tls::{self, Stream};

/// A connection that held this long was no failed attempt: the next waits begin short again.
const STABLE: Duration = Duration::from_secs(5);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("stopped")]
    Stopped,
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("no TLS: {0}")]
    Untrusted(String),
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match tls::explain(&error) {
            Some(words) => End::Untrusted(words),
            None => End::Io(error),
        }
    }
}

impl From<Stopping> for End {
    fn from(_: Stopping) -> Self {
        End::Stopped
    }
}

/// What a lane is made of.
pub(super) struct Lane<P> {
    pub(super) number: u8,
    /// What people call the output.
    pub(super) output: Arc<str>,
    pub(super) far: Arc<Far>,
    pub(super) protocol: P,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    pub(super) feedback: Feedback,
}

/// What a connection came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    /// When the login was done, if it was.
    pub(super) up_since: Option<Instant>,
    /// Whether the far end has taken anything.
    pub(super) has_confirmed: bool,
    /// Whether a record has got its fate, be it to be dropped.
    pub(super) has_judged: bool,
}

impl<P: Protocol> Lane<P> {
    /// Keeps a connection until it is told to stop.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new();
        let mut turns = Turns::new(self.far.hosts.len());
        let mut epoch = 0;
        loop {
            let far = self.far.clone();
            let FarHost { host, complaint, .. } = &far.hosts[turns.place()];
            let protocol = &mut self.protocol;
            let connecting = async {
                protocol.prepare().await.map_err(io::Error::other)?;
                connect(host.name.as_str().into(), host.port).await
            };
            let opened = match unless_stopped(&mut self.orders, connecting).await {
                Ok(opened) => opened.map_err(End::Io),
                Err(Stopping) => return,
            };
            let mut past = Past::default();
            if far.hosts.len() > 1 && opened.is_ok() {
                self.feedback.leads_to(self.number, Some(&host.to_string()));
            }
            let end = match opened {
                Ok(stream) => self.serve(stream, turns.place(), epoch, &mut past).await,
                Err(end) => end,
            };
            self.feedback.leads_to(self.number, None);
            let was_stable = past.up_since.is_some_and(|since| since.elapsed() >= STABLE);
            if past.up_since.is_some() {
                epoch += 1;
                if was_stable {
                    backoff.reset();
                    turns.worked();
                }
                if self.feedback.path_state(self.number, PathState::Down).await.is_err() {
                    return;
                }
            }
            if matches!(end, End::Stopped) {
                return;
            }
            let is_over = matches!(end, End::Protocol(ProtocolError::Over));
            if is_over && past.has_judged {
                backoff.reset();
                continue;
            }
            // Left for being idle: a connection that is closed as soon as it is open was never of use.
            let was_idle = is_over && was_stable;
            if !was_idle {
                let words = end.to_string();
                self.feedback.trouble(&at_far_end(host, &words));
                if complaint.is_new(&words) {
                    let (output, name, port) = (&self.output, &host.name, host.port);
                    tracing::warn!(%output, host = %name, port, "no connection: {words}; trying again");
                }
            }
            // Whoever is asked for an older version has not failed either.
            let has_failed = !was_idle && !matches!(end, End::Protocol(ProtocolError::Older(_)));
            let is_due = !has_failed || turns.failed();
            if is_due && unless_stopped(&mut self.orders, sleep(backoff.next())).await.is_err() {
                return;
            }
        }
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, stream: TcpStream, place: usize, epoch: u64, past: &mut Past) -> End {
        let far = self.far.clone();
        let FarHost { host, complaint, .. } = &far.hosts[place];
        let stream = match far.tls(place) {
            None => Ok(Stream::from(stream)),
            Some((config, name)) => Stream::client(stream, config, name),
        };
        self.protocol.leads_to(host);
        let opened = stream.and_then(|stream| Connection::new(self, stream, epoch));
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(error) => return End::Io(error),
        };
        let end = connection.serve().await;
        *past = connection.past();
        use ProtocolError::{Older, Refused, Rejected, Unusable};
        let is_refusal = matches!(
            end,
            End::Untrusted(_) | End::Protocol(Rejected(_) | Refused(_) | Older(_) | Unusable(_))
        );
        let is_old = is_refusal && !past.has_confirmed;
        if past.up_since.is_some() && !is_old && !matches!(end, End::Stopped) {
            // What comes next is a new story, even if it ends by the same words.
            complaint.is_new("");
        } else if matches!(end, End::Stopped) {
            connection.close().await;
        }
        end
    }
}

/// Waits for `future`, deaf to all orders but to stop: orders for a lane that is down are void.
async fn unless_stopped<T>(
    orders: &mut mpsc::UnboundedReceiver<Order>,
    future: impl Future<Output = T>,
) -> Result<T, Stopping> {
    tokio::pin!(future);
    loop {
        tokio::select! {
            value = &mut future => return Ok(value),
            order = orders.recv() => match order {
                None | Some(Order::Stop) => return Err(Stopping),
                Some(_) => {}
            },
        }
    }
}

/// Words about a connection, with where it leads to. An attempt that failed names its address already.
fn at_far_end(host: &Host, words: &str) -> String {
    let far = format!("{}:{}: ", host.name, host.port);
    if words.starts_with(&far) { words.to_owned() } else { far + words }
}
