//! All that comes before the node hears of a client: TLS, its CONNECT, who it is.

use std::io;
use std::net::IpAddr;

use tidegate_mqtt::Violation;
use tidegate_types::record::{Owner, RefuseReason};

use super::{Connection, failed};
use crate::input::mqtt::clients::{Estate, Heritage, Line, Taken};
use crate::input::mqtt::listener::{Arrival, Shared};
use crate::input::mqtt::session::{End, SessionStep};
use crate::node::contract::{Source, Stopping};
use crate::support::access::Quota;
use crate::support::places::address;
use crate::support::{proxy_header, tls};

impl Connection<'_> {
    /// All that comes before the node hears of the client.
    pub(super) async fn enter(&mut self, arrival: &Arrival) -> Result<(), End> {
        self.greet().await?;
        arrival.becomes_known();
        let Shared { options, intake, .. } = &**self.shared;
        let certificate = self.stream.stream.peer_certificate().map(AsRef::as_ref);
        match options.access.login(self.session.take_claim(), certificate, self.peer.ip()).await {
            Ok(grants) => {
                self.quota = options.quotas.of(grants.user());
                if let Some(user) = grants.user() {
                    self.account = self.shared.account_of(user);
                }
                self.door.publisher().charge_to(&self.account);
                self.grants = grants;
                if self.quota.session_expiry.is_some_and(|most| self.session.restrict_expiry(most))
                {
                    intake.counts().over_quota("session-expiry");
                }
            }
            Err(denied) => {
                intake.counts().denied(denied.name());
                self.session.deny(denied, &mut self.effects.out);
                return Err(denied.into());
            }
        }
        if self.session.will_topic().is_some_and(|topic| !self.grants.allows(topic)) {
            // Its client comes in nevertheless: no version has words for it.
            intake.counts().dropped(RefuseReason::Forbidden.name());
            self.session.take_will();
        }
        Ok(())
    }

    /// Says on whose account all that comes by the connection is.
    pub(super) async fn charge(&self, source: &Source) -> Result<(), Stopping> {
        let Quota { streams, log, .. } = self.quota;
        let owner = match self.grants.user() {
            Some(user) => Owner::User(user.into()),
            None => Owner::Address(address(self.peer.ip()).into()),
        };
        source.charge(owner, tidegate_types::record::Quota { streams, log }).await
    }

    /// Takes what is left of an older session. An older connection ends soon, so the wait is short; and
    /// what it leaves must not be lost to a newer one still.
    pub(super) async fn inherit(&mut self, heritage: Heritage) -> Option<Line> {
        match heritage {
            Heritage::Nothing => None,
            Heritage::Kept(memory) => {
                self.session.resume(memory);
                None
            }
            Heritage::Awaited(left) => {
                // An error is the answer: the older connection dropped its end.
                let Estate { memory, line } = left.await.ok()?;
                self.session.resume(memory);
                line
            }
        }
    }

    /// Tells the client that its id is not for it, or that its user has too many connections.
    pub(super) async fn refuse_client(&mut self, taken: Taken) -> End {
        let end = match taken {
            Taken::Reserved => End::Reserved,
            Taken::Foreign => {
                self.shared.intake.counts().denied("session");
                End::Foreign
            }
            Taken::Share => {
                self.shared.intake.counts().denied("quota");
                self.shared.intake.counts().over_quota("connections");
                End::TooManyOfUser
            }
        };
        match taken {
            Taken::Share => self.session.refuse_quota(&mut self.effects.out),
            _ => self.session.refuse_client(&mut self.effects.out),
        }
        self.finish(&end, &mut None).await;
        end
    }

    /// Hears from where the client comes, agrees on TLS and WebSocket, then reads until the CONNECT is there.
    async fn greet(&mut self) -> Result<(), End> {
        let peer = self.peer.ip().to_canonical();
        if self.shared.options.proxies.iter().any(|proxy| proxy.has(peer)) {
            let tcp = self.stream.stream.tcp();
            let heard = Box::pin(proxy_header::hear(tcp)).await.map_err(failed)?;
            if let Some(source) = heard.map_err(Violation::protocol)? {
                self.peer = source;
                self.account = self.shared.account_of(&address(source.ip()));
            }
        }
        if self.stream.stream.is_agreeing() {
            self.agree().await?;
        }
        if let Some(options) = &self.shared.options.websocket {
            // Boxed: every connection would have the room for it.
            let upgraded = Box::pin(self.stream.upgrade(options)).await;
            if let Err(End::NoWebSocket(_)) = upgraded {
                self.shared.intake.counts().denied("websocket");
            }
            upgraded?;
        }
        loop {
            self.fill().await?;
            match self.receive(self.shared.intake.now()) {
                SessionStep::Connect => break,
                SessionStep::End(end) => return Err(end),
                SessionStep::Read(_)
                | SessionStep::Offer
                | SessionStep::Wait
                | SessionStep::Ask(_) => {}
            }
            if let Some(excess) = self.buffer.excess().filter(|_| self.room.is_none()) {
                // Who waits here may wait for who waits here: so nobody does.
                let room = self.shared.room.take(&self.account, excess);
                self.room = Some(room.map_err(End::NoRoom)?);
            }
        }
        self.room = None;
        self.session.charge_will(&self.account).map_err(|refusal| {
            self.session.refuse_quota(&mut self.effects.out);
            End::NoRoom(refusal)
        })
    }

    /// Agrees on TLS. A turn is for one step, whose bytes are there: who stalls stalls nobody.
    async fn agree(&mut self) -> Result<(), End> {
        let handshakes = &self.shared.handshakes;
        let asker = handshakes.asker(self.peer.ip(), "");
        let stream = &mut self.stream.stream;
        while stream.is_agreeing() {
            stream.agreeable().await.map_err(failed)?;
            let _turn = handshakes.turn(asker).await.map_err(|_| End::ConnectTimeout)?;
            let agreed = stream.agree().map_err(untrusted);
            if let Err(End::Untrusted(_)) = agreed {
                self.shared.intake.counts().denied("tls");
            }
            agreed?;
        }
        Ok(())
    }
}

/// What went wrong in a handshake.
fn untrusted(error: io::Error) -> End {
    match tls::explain(&error) {
        Some(words) => End::Untrusted(words.into()),
        None => failed(error),
    }
}

/// Among whose connections, sessions and subscriptions a client counts: the user, or the address where nobody says
/// who he is.
pub(super) fn payer(user: Option<&str>, peer: IpAddr) -> String {
    user.map_or_else(|| address(peer), str::to_owned)
}
