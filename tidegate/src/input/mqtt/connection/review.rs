//! Whether a client that is in may stay: its user, its certificate or the rules have changed since it came.

use std::sync::Arc;

use tidegate_mqtt::session::Denied;
use tidegate_types::record::RefuseReason;

use super::Connection;
use crate::input::mqtt::listener::Shared;
use crate::input::mqtt::session::End;

impl Connection<'_> {
    /// Looks at the client by these terms. Who keeps his rights notices nothing.
    ///
    /// # Errors
    /// It may not stay, or a subscription of its has no right any more: it is told by the end of its connection, for
    /// MQTT has no other word for that.
    pub(super) fn review(&mut self, terms: &Arc<Shared>) -> Result<(), End> {
        let reviewed = self.look_at(terms);
        if reviewed.is_err() {
            // Who may not stay has no last word either.
            self.session.take_will();
        }
        reviewed
    }

    fn look_at(&mut self, terms: &Arc<Shared>) -> Result<(), End> {
        if terms.options.tls.is_some() && !self.stream.stream.is_encrypted() {
            return Err(End::Revoked("clients must speak TLS here now"));
        }
        let chain = self.stream.stream.peer_certificates().unwrap_or_default();
        if let Some(callers) = &terms.options.callers {
            let edition = callers.edition();
            // What another listener than today's has counted says nothing.
            let is_known = Arc::ptr_eq(terms, self.shared) && edition == self.callers;
            if !is_known && callers.still_trust(chain).is_err() {
                return Err(End::Revoked("its certificate is not trusted any more"));
            }
            self.callers = edition;
        }
        let certificate = chain.first().map(AsRef::as_ref);
        let grants = terms.options.access.review(&self.grants, certificate);
        self.grants = grants.map_err(|denied| {
            End::Revoked(match denied {
                Denied::Anonymous => "clients without a user name are not let in any more",
                Denied::Certificate => "its certificate is of another user",
                _ => "its user or key is gone, or has another password",
            })
        })?;
        self.quota = terms.options.quotas.of(self.grants.user());
        if self.session.will_topic().is_some_and(|topic| !self.grants.allows(topic)) {
            self.shared.intake.counts().dropped(RefuseReason::Forbidden.name());
            self.session.take_will();
        }
        match self.restrict_subscriptions() {
            0 => Ok(()),
            _ => Err(End::Revoked("it may not have a subscription any more that it has")),
        }
    }
}
