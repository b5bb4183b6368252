//! One lane of an output: keeps one TCP connection to the far end, for ever.
//!
//! It connects at once, so that the first alarm never waits for a login, and again after every loss,
//! with doubling waits. The node hears `Up` when the login is done and `Down` exactly once after it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tidegate_node::io::PathState;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::connection::Connection;
use super::protocol::{Protocol, ProtocolError};
use crate::node::contract::{Feedback, Order, Stopping};
use crate::support::backoff::Backoff;
use crate::support::complaints::Complaint;
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
    /// Name or address of the far end, for connecting and for messages.
    pub(super) host: Arc<str>,
    pub(super) port: u16,
    /// TLS, and who the far end must be.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub(super) protocol: P,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    pub(super) feedback: Feedback,
    pub(super) complaint: Complaint,
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
        let mut epoch = 0;
        loop {
            let opened = match self.unless_stopped(connect(self.host.clone(), self.port)).await {
                Ok(opened) => opened.map_err(End::Io),
                Err(Stopping) => return,
            };
            let mut past = Past::default();
            let end = match opened {
                Ok(stream) => self.serve(stream, epoch, &mut past).await,
                Err(end) => end,
            };
            if let Some(since) = past.up_since {
                epoch += 1;
                if since.elapsed() >= STABLE {
                    backoff.reset();
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
            if !is_over {
                self.feedback.trouble(&self.at_far_end(&end.to_string()));
            }
            if !is_over && self.complaint.is_new(&end.to_string()) {
                let (output, host, port) = (&self.output, &self.host, self.port);
                tracing::warn!(%output, %host, port, "no connection: {end}; trying again");
            }
            if self.unless_stopped(sleep(backoff.next())).await.is_err() {
                return;
            }
        }
    }

    /// Words about a connection, with where it leads to. An attempt that failed names its address already.
    fn at_far_end(&self, words: &str) -> String {
        let far = format!("{}:{}: ", self.host, self.port);
        if words.starts_with(&far) { words.to_owned() } else { far + words }
    }

    /// Waits for `future`, deaf to all orders but to stop: orders for a lane that is down are void.
    async fn unless_stopped<T>(&mut self, future: impl Future<Output = T>) -> Result<T, Stopping> {
        tokio::pin!(future);
        loop {
            tokio::select! {
                value = &mut future => return Ok(value),
                order = self.orders.recv() => match order {
                    None | Some(Order::Stop) => return Err(Stopping),
                    Some(_) => {}
                },
            }
        }
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, stream: TcpStream, epoch: u64, past: &mut Past) -> End {
        let stream = match &self.tls {
            None => Ok(Stream::from(stream)),
            Some((config, name)) => Stream::client(stream, config.clone(), name.clone()),
        };
        let opened = stream.and_then(|stream| Connection::new(self, stream, epoch));
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(error) => return End::Io(error),
        };
        let end = connection.serve().await;
        *past = connection.past();
        use ProtocolError::{Refused, Rejected, Unusable};
        let is_refusal = matches!(
            end,
            End::Untrusted(_) | End::Protocol(Rejected(_) | Refused(_) | Unusable(_))
        );
        let is_old = is_refusal && !past.has_confirmed;
        if past.up_since.is_some() && !is_old && !matches!(end, End::Stopped) {
            // What comes next is a new story, even if it ends by the same words.
            self.complaint.is_new("");
        } else if matches!(end, End::Stopped) {
            connection.close().await;
        }
        end
    }
}
