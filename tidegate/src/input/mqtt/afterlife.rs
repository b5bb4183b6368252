//! What follows the end of a connection: its will, the answers that its session is still owed, and the
//! session itself, until the client comes back or its time is over.

use std::sync::Arc;
use std::time::Duration;

use tidegate_broker::journal::Note;
use tidegate_types::account::Account;
use tidegate_types::ids::SessionId;
use tidegate_types::record::{Offered, SourceId};
use tidegate_types::units::Time;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use super::clients::{Estate, Line, Registration, Takeover};
use super::listener::Shared;
use super::session::{End, Memory, Session, Will};
use super::terms::{Ending, Word};
use crate::node::broker::{Hub, Subscriber};
use crate::node::contract::Notice;
use crate::node::door::{Door, From, Plain};

/// A connection that ended, and what it had.
pub(super) struct Left<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) session: &'a mut Session,
    pub(super) account: &'a Account,
    pub(super) end: &'a End,
    /// `None` if the connection ended before it had one.
    pub(super) line: Option<Line>,
    pub(super) registration: Registration,
    /// Set where a newer connection ended it.
    pub(super) takeover: Option<Takeover>,
    pub(super) word: &'a watch::Receiver<Word>,
}

/// Settles what a connection leaves. Returns soon: what takes time goes on in a task of its own.
pub(super) async fn settle(left: Left<'_>) {
    let Left { shared, session, account, end, mut line, registration, takeover, word } = left;
    let mut lasting = session.session_expiry();
    if let Some(Line { source, .. }) = line.as_ref().filter(|_| session.expiry_is_news()) {
        // The client said so with its goodbye. An error means that the node is gone.
        let logged = session.logged_expiry();
        let _ = source.session(logged, logged.is_zero()).await;
    }
    let place = session.subscriber().map(Subscriber::id);
    let mut will = last_will(session, end);
    // Its will goes before a session that ends now, so that a crash between the two finds it.
    if session.session_expiry().is_zero()
        && let Some((will, _)) = will.take()
    {
        offer(&line, will.into(), place).await;
    }
    let mut memory = session.leave();
    if let Some(memory) = &mut memory {
        publish_accepted(memory, shared.intake.hub());
    }
    let is_clean = takeover.as_ref().is_some_and(|takeover| takeover.is_clean);
    if will.as_ref().is_some_and(|(_, delay)| delay.is_zero() || is_clean)
        && let Some((will, _)) = will.take()
    {
        offer(&line, will.into(), place).await;
    }
    let Some(mut memory) = memory.filter(|_| *end != End::Stopping) else { return };
    if let Some(takeover) = takeover {
        return bequeath(takeover, memory, line);
    }
    if !lasting.is_zero()
        && let Err(refusal) = memory.book(account)
    {
        shared.complain(registration.client(), &refusal);
        memory.subscriber = None;
        lasting = Duration::ZERO;
    }
    if let Some(subscriber) = memory.subscriber.as_ref().filter(|_| !lasting.is_zero()) {
        subscriber.away(lasting, will.as_ref().map(|(_, delay)| *delay));
    }
    if memory.owes() || will.is_some() {
        if let Ok(permit) = shared.afterlives.clone().try_acquire_owned() {
            let now = Instant::now();
            let will = will.and_then(|(will, delay)| Some((will.into(), now.checked_add(delay)?)));
            let until = now.checked_add(lasting).unwrap_or(now);
            let afterlife = Afterlife {
                registration,
                memory,
                line,
                will,
                until,
                ending: Ending::Listener(word.clone()),
                permit: Some(permit),
            };
            tokio::spawn(afterlife.run());
            return;
        }
        tracing::warn!(client = &**registration.client(), "too many sessions wait for answers");
        memory.forgive();
        if let Some((will, _)) = will {
            offer(&line, will.into(), place).await;
        }
    }
    line.take();
    shared.keep(registration, memory, lasting);
    shared.tell_gone().await;
}

/// The will of a connection that ends so, if that is to be published.
fn last_will(session: &mut Session, end: &End) -> Option<(Will, Duration)> {
    session.take_will().filter(|_| end.publishes_will())
}

/// The source goes along only where answers are to come by it: else a new one begins for the newer
/// connection, as for any other.
fn bequeath(takeover: Takeover, memory: Memory, line: Option<Line>) {
    let line = line.filter(|_| memory.owes());
    if !takeover.is_clean {
        // An heir that is gone has no use for it.
        let _ = takeover.heir.send(Estate { memory, line });
    }
}

/// Hands to subscribers here what the node has accepted meanwhile.
fn publish_accepted(memory: &mut Memory, hub: &Hub) {
    let mut publisher = hub.publisher();
    if let Some(subscriber) = &memory.subscriber {
        publisher.speak_for(subscriber.id());
    }
    for published in memory.take_accepted() {
        publisher.publish_once(published);
    }
}

/// A will that is to be published.
#[derive(Debug)]
pub(super) struct Parting {
    pub(super) record: Offered,
    pub(super) qos: u8,
}

impl std::convert::From<Will> for Parting {
    fn from(will: Will) -> Parting {
        let qos = will.qos();
        Parting { record: will.record(SourceId(0), Time::ZERO), qos }
    }
}

/// Publishes the will of a session.
async fn offer(line: &Option<Line>, will: Parting, session: Option<SessionId>) {
    if let Some(Line { source, .. }) = line {
        let Parting { record, qos } = will;
        let mut records = vec![Offered { source: source.id(), read_at: source.now(), ..record }];
        let mut door = Door::new(source.hub());
        door.publisher().speak_as_will(session);
        // On a disk that is full the client's next connection would wait for it.
        let admitted = door.let_in(source, From::Outside, &mut records, &mut Plain::new(qos)).await;
        if admitted.is_ok() && !records.is_empty() {
            // An error means that the node is gone.
            let _ = source.offer(records).await;
        }
        if let Some((session, journal)) = session.zip(source.hub().journal()) {
            journal.write_soon(&Note::WillOver(session));
        }
    }
}

/// A session whose client is away, while something is to be done for it.
pub(super) struct Afterlife {
    pub(super) registration: Registration,
    pub(super) memory: Memory,
    pub(super) line: Option<Line>,
    pub(super) will: Option<(Parting, Instant)>,
    /// When the session ends.
    pub(super) until: Instant,
    pub(super) ending: Ending,
    /// None for a session of an earlier process.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl Afterlife {
    pub(super) async fn run(mut self) {
        // Without its listener a session waits for the client at the others.
        let mut is_removed = false;
        while self.memory.owes() || self.will.is_some() {
            let due = self.will.as_ref().map_or(self.until, |(_, due)| self.until.min(*due));
            let Some(Line { source, paused }) = &mut self.line else { break };
            let takeover = tokio::select! {
                biased;
                end = self.ending.over(), if !is_removed => match end {
                    End::Stopping => return,
                    _ => { is_removed = true; continue; }
                },
                takeover = &mut self.registration.kicked => takeover.ok(),
                notice = source.notice() => {
                    match notice {
                        Some(Notice::Accept(token, result)) => {
                            self.memory.answer(token, result);
                            publish_accepted(&mut self.memory, source.hub());
                        }
                        Some(Notice::Pause) => *paused = true,
                        Some(Notice::Resume) => *paused = false,
                        // A release whose answer the client did not hear comes again.
                        Some(Notice::Released(_) | Notice::Ready) => {}
                        None => return,
                    }
                    continue;
                }
                () = sleep_until(due) => None,
            };
            if let Some(takeover) = takeover {
                return self.taken_over(takeover).await;
            }
            if let Some((will, _)) = self.will.take() {
                let place = self.memory.subscriber.as_ref().map(Subscriber::id);
                offer(&self.line, will, place).await;
            }
            if Instant::now() >= self.until {
                break;
            }
        }
        let Afterlife { registration, memory, line, until, permit, .. } = self;
        let counts = line.as_ref().map(|line| line.source.counts().clone());
        drop((line, permit));
        let ended = registration.keep(memory, until.saturating_duration_since(Instant::now()));
        counts.iter().for_each(|counts| (0..ended).for_each(|_| counts.over_quota("sessions")));
    }

    /// The client is back: its will is void, unless it was due, or the client wants a new session and so ends this one.
    async fn taken_over(self, takeover: Takeover) {
        let now = Instant::now();
        if let Some((will, due)) = self.will
            && (takeover.is_clean || due <= now)
        {
            let place = self.memory.subscriber.as_ref().map(Subscriber::id);
            offer(&self.line, will, place).await;
        }
        // One whose time is over is nobody's.
        if self.until > now {
            bequeath(takeover, self.memory, self.line);
        }
    }
}
