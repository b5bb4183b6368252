//! One client's connection: moves bytes between the socket and the session, and records and answers
//! between the session and the node. It decides nothing about the protocol.

mod arrival;
mod farewell;
mod leaving;
mod lending;
mod local;
mod review;
mod safety;
mod turn;

use std::future::{poll_fn, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tidegate_log::SessionOwner;
use tidegate_mqtt::Violation;
use tidegate_types::account::Account;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use self::arrival::payer;
use self::leaving::Leaving;
use self::local::{Wants, roomy, rung};
use self::safety::{Gates, safe};
use self::turn::Turn;
use super::afterlife::{Left, settle};
use super::buffer::Buffer;
use super::clients::{Caller, Line, Registration, Taken};
use super::listener::{Call, Shared};
use super::options::MqttOptions;
use super::pulse::{Pulse, arm};
use super::room::Held;
use super::session::{Effects, End, Session, SessionStep as Step};
use super::terms::{Orders, Word, over};
use super::transport::{Broken, Transport};
use crate::node::broker::{LineOwner, Seat};
use crate::node::contract::{Notice, Source};
use crate::node::door::Door;
use crate::support::access::{Grants, Quota};
use crate::support::places::address;
use crate::support::tls::Callers;

/// Write buffer that a connection keeps.
const KEPT: usize = 1024;

/// Serves one connection until it ends. Idle connections are mostly this future: what it holds across
/// a wait is kept small.
pub(super) async fn run(call: Call) {
    let Call { stream, peer, shared, mut word, look, place, arrival } = call;
    let mut connection = Connection {
        stream: Transport::new(stream, shared.options.clients.traffic().clone()),
        peer,
        session: Session::new(shared.limits),
        effects: Effects::default(),
        buffer: Buffer::new(shared.options.clients.woken().bell()),
        grants: Grants::default(),
        door: Door::new(shared.intake.hub()),
        crowded: None,
        referral: None,
        gates: Gates::default(),
        lends: false,
        line: None,
        mark: 0,
        room: None,
        account: shared.account_of(&address(peer.ip())),
        quota: Quota::default(),
        callers: shared.options.callers.as_ref().map_or(0, Callers::edition),
        shared: &shared,
    };
    let greeted = tokio::select! {
        biased;
        end = over(&mut word) => Err(end),
        greeted = timeout(shared.options.connect_timeout, connection.enter(&arrival)) => {
            greeted.unwrap_or(Err(End::ConnectTimeout))
        }
        () = place.needed() => Err(End::ConnectTimeout),
    };
    let end = match greeted {
        Ok(()) => {
            if word.borrow().look != look {
                word.mark_changed();
            }
            connection.live(&mut word).await
        }
        Err(end) => {
            connection.finish(&end, &mut None).await;
            end
        }
    };
    shared.report(&end, connection.session.client(), connection.peer);
    connection.linger(&end).await;
    drop(place);
}

struct Connection<'a> {
    stream: Transport,
    /// From where the client comes: a load balancer may say so.
    peer: SocketAddr,
    session: Session,
    effects: Effects,
    buffer: Buffer,
    /// What the client may publish to.
    grants: Grants,
    door: Door,
    /// A subscriber that this client's publishes came too fast for.
    crowded: Option<Arc<Seat>>,
    /// Which server the client is to use instead, when it has its answers.
    referral: Option<Arc<str>>,
    /// Words to the client that wait for the journal of sessions.
    gates: Gates,
    /// Others may write to the client.
    lends: bool,
    /// By which they are lent its socket, once they were; however this ends, they have it no more.
    line: Option<Box<LineOwner>>,
    /// What must be safe there before any word of this connection.
    mark: u64,
    /// Held while a large packet is read.
    room: Option<Held>,
    /// Of what the client makes the node hold: its address's until it is known who it is.
    account: Account,
    /// What the user may have, once it is known who it is.
    quota: Quota,
    /// The authorities by which its certificate was looked at last.
    callers: u64,
    shared: &'a Arc<Shared>,
}

impl Connection<'_> {
    /// From an accepted CONNECT to the end: takes the client id over, opens the source, serves.
    async fn live(&mut self, word: &mut watch::Receiver<Word>) -> End {
        let mut client = self.session.client().clone();
        if client.is_empty() {
            client = self.shared.options.clients.assign();
        }
        // Boxed, as what is only at the begin or the end of a connection: all have the room of the largest part.
        let (mut registration, mut line) = match Box::pin(self.register(&client)).await {
            Ok(registered) => registered,
            Err(taken) => return Box::pin(self.refuse_client(taken)).await,
        };
        let (orders, patience) = (Orders::default(), self.shared.options.stop_grace);
        let (end, takeover) = {
            let mut serving = pin!(async {
                if line.is_none() {
                    let Ok(source) = self.shared.intake.open(client.clone()).await else {
                        return End::Stopping;
                    };
                    line = Some(Line { source, paused: false });
                }
                match &mut line {
                    Some(line) => self.serve(client, line, &orders).await,
                    None => End::Stopping,
                }
            });
            loop {
                tokio::select! {
                    biased;
                    // An error means that the sender is gone, and with it whoever runs this listener.
                    heard = word.changed() => {
                        let Word { over, terms, .. } = word.borrow_and_update().clone();
                        if let Some(end) = over.or(heard.is_err().then_some(End::Stopping)) {
                            break (end, None);
                        }
                        orders.review(terms);
                    }
                    kicked = &mut registration.kicked => {
                        orders.is_replaced.store(true, Ordering::Relaxed);
                        // Boxed: few connections ever come here, and all would have the room for it.
                        let end = Box::pin(timeout(patience, serving)).await;
                        break (end.unwrap_or(End::TakenOver), kicked.ok());
                    }
                    end = &mut serving => break (end, None),
                }
            }
        };
        self.lend_no_more();
        // The connection may have ended while the node was busy: what it never heard of comes again.
        self.session.withdraw(&mut self.effects.records);
        self.session.take_back(&mut self.effects.again);
        self.effects.releases.clear();
        Box::pin(self.forget_will(&end)).await;
        Box::pin(self.finish(&end, &mut line)).await;
        let (shared, session) = (self.shared, &mut self.session);
        let account = &self.account;
        let left = Left { shared, session, account, end: &end, line, registration, takeover, word };
        Box::pin(settle(left)).await;
        end
    }

    /// Makes it the connection of its client, with what an older one left.
    async fn register(&mut self, client: &Arc<str>) -> Result<(Registration, Option<Line>), Taken> {
        let is_clean = self.session.is_clean();
        let MqttOptions { clients, sessions_max, .. } = &self.shared.options;
        let caller = Caller {
            owner: SessionOwner::new(self.grants.user()),
            payer: payer(self.grants.user(), self.peer.ip()).into(),
            quota: self.quota,
            door: self.shared.door,
        };
        let (registration, heritage) = clients.register(client, caller, is_clean, *sessions_max)?;
        self.shared.tell_gone().await;
        Ok((registration, self.inherit(heritage).await))
    }

    async fn serve(&mut self, client: Arc<str>, line: &mut Line, orders: &Orders) -> End {
        let patience = self.shared.options.connect_timeout;
        let Line { source, paused } = line;
        if self.charge(source).await.is_err() {
            return End::Stopping;
        }
        match timeout(patience, self.begin_session(source, paused)).await {
            Ok(Ok(())) => {}
            Ok(Err(end)) => return end,
            Err(_) => return End::Unready,
        }
        tracing::debug!(%client, peer = %self.peer, "connected");
        self.resume_subscriptions();
        self.endure(&client);
        match self.session.opened(line.source.id(), client, &mut self.effects) {
            Ok(()) => self.exchange(line, orders).await.err().unwrap_or(End::Closed),
            Err(end) => end,
        }
    }

    /// Tells the node of the session, and waits until the client may be let in.
    async fn begin_session(&mut self, source: &mut Source, paused: &mut bool) -> Result<(), End> {
        let lasts = self.session.logged_expiry();
        let is_new = !self.session.is_resumed() || lasts.is_zero();
        source.session(lasts, is_new).await.map_err(|_| End::Stopping)?;
        loop {
            match source.notice().await {
                Some(Notice::Ready) => return Ok(()),
                Some(notice) => self.heed(notice, paused),
                None => return Err(End::Stopping),
            }
        }
    }

    /// The loop of a connection. Returns by its error only.
    async fn exchange(&mut self, line: &mut Line, orders: &Orders) -> Result<(), End> {
        let mut pulse =
            Pulse::new(self.session.keepalive(), &self.shared.options).until(self.grants.end());
        let mut timer = pin!(sleep_until(pulse.never()));
        let mut leaving = Leaving::new(orders, self.shared.options.stop_grace);
        loop {
            self.reclaim();
            let Turn { step, held, has_more } = self.turn(line, orders, &mut leaving).await?;
            let Line { source, paused } = &mut *line;
            match step {
                Step::End(end) => return Err(end),
                Step::Offer | Step::Ask(_) => continue,
                // An answer or a resume came since `step` was taken: nothing else would wake us.
                Step::Wait if !held && !*paused && !self.session.must_wait() => continue,
                Step::Read(_) | Step::Wait | Step::Connect => {}
            }
            if leaving.is_so() && self.read_rest(&step, &mut leaving)? {
                continue;
            }
            let Wants { blocked, seat, excess } = self.wants(&mut leaving);
            let may_read = !held
                && !blocked
                && matches!(step, Step::Read(_))
                && !leaving.is_so()
                && !self.holds_much();
            let (journal, mark) = (self.door.hub().journal().cloned(), self.gates.awaited());
            let crowded = may_read && self.lacks_room(excess);
            let reading = may_read && !crowded;
            pulse.holds_room(self.room.is_some());
            let deadline = leaving.deadline().or_else(|| pulse.deadline(reading, blocked));
            arm(timer.as_mut(), deadline);
            let full = self.crowded.clone();
            if !blocked && !has_more && !leaving.is_so() {
                self.lend(seat.as_ref());
            }
            tokio::select! {
                biased;
                notice = source.notice() => match notice {
                    Some(notice) => self.heed(notice, paused),
                    None => return Err(End::Stopping),
                },
                () = leaving.ordered() => {}
                writable = seldom(blocked, || self.stream.writable()) => writable.map_err(failed)?,
                room = seldom(crowded, || self.shared.room.wait(&self.account, excess.unwrap_or(0))) => {
                    self.room = Some(room);
                }
                readable = self.buffer.readable(&self.stream), if reading => {
                    readable.map_err(failed)?;
                    if let Some(count) = self.buffer.read(&mut self.stream).map_err(failed)? {
                        heard(Ok(count))?;
                        pulse.heard();
                    }
                }
                () = rung(seat.as_ref()), if !blocked => {}
                () = seldom(full.is_some(), || roomy(full.as_ref())) => self.crowded = None,
                () = timer.as_mut(), if deadline.is_some() => match leaving.deadline() {
                    Some(until) if until <= Instant::now() => return Err(leaving.end()),
                    Some(_) => {}
                    None => pulse.check(deadline, self.shared.room.is_awaited())?,
                },
                () = seldom(mark.is_some(), || safe(journal.as_ref(), mark)) => {}
                () = ready(()), if has_more && !blocked && mark.is_none() => {}
            }
        }
    }

    /// Takes room for the rest of a large packet; says whether there is none, and it must be waited for.
    fn lacks_room(&mut self, excess: Option<usize>) -> bool {
        if let Some(excess) = excess.filter(|_| self.room.is_none()) {
            self.room = self.shared.room.take(&self.account, excess).ok();
        }
        excess.is_some() && self.room.is_none()
    }

    fn heed(&mut self, notice: Notice, paused: &mut bool) {
        match notice {
            Notice::Accept(token, result) => self.session.answer(token, result),
            Notice::Pause => *paused = true,
            Notice::Resume => *paused = false,
            Notice::Released(ids) => self.session.released(&ids, &mut self.effects.out),
            Notice::Ready => {}
        }
    }

    fn receive(&mut self, now: tidegate_types::units::Time) -> Step {
        let (done, step) = self.session.receive(now, self.buffer.bytes(), &mut self.effects);
        self.buffer.handled(done, if let Step::Read(size) = step { size } else { 0 });
        step
    }

    async fn fill(&mut self) -> Result<(), End> {
        heard(self.buffer.fill(&mut self.stream).await)
    }
}

/// A wait that is only sometimes one: boxed, so that connections without it have no room for it.
fn seldom<F: Future>(is_on: bool, wait: impl FnOnce() -> F) -> impl Future<Output = F::Output> {
    let mut wait = is_on.then(|| Box::pin(wait()));
    poll_fn(move |context| match &mut wait {
        Some(wait) => wait.as_mut().poll(context),
        None => Poll::Pending,
    })
}

fn failed(error: io::Error) -> End {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(Broken(what)) => Violation::protocol(what).into(),
        None => End::Failed(error.kind()),
    }
}

fn heard(filled: io::Result<usize>) -> Result<(), End> {
    match filled {
        Ok(0) => Err(End::Closed),
        Ok(_) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
