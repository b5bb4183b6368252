//! The beginning of a session: CONNECT, and the answer to it.

use std::sync::Arc;
use std::time::Duration;

use tidegate_types::account::{Account, Refusal};
use tidegate_types::record::SourceId;

use super::{Denied, Effects, End, Outward, Phase, Session, SessionStep, SessionSubscriber, Will};
use crate::connect::{self, Connect};
use crate::frame::ControlPacket;
use crate::reader::FieldReader;
use crate::{Reason, Version, Violation, write};

/// Longest client id: streams are named by it, and it stands in every log line.
const CLIENT_ID_MAX: usize = 256;

/// What a client says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// User name.
    pub user: Option<String>,
    /// Password, any bytes.
    pub password: Option<Vec<u8>>,
}

impl<S: SessionSubscriber> Session<S> {
    /// Takes a CONNECT; it is answered by `opened`.
    pub(super) fn connect(&mut self, frame: ControlPacket<'_>) -> Result<SessionStep, Violation> {
        let mut reader = FieldReader::new(frame.body);
        let version = connect::version(&mut reader)?;
        self.version = Some(version);
        if frame.first & 0x0F != 0 && version != Version::V31 {
            return Err(Violation::malformed("a connect packet with wrong flags"));
        }
        let connect = self.note(Connect::read(version, reader)?);
        let Connect { clean, keepalive, client_id, will, user, password, session_expiry, .. } =
            connect;
        let empty_is_wrong = match version {
            Version::V31 => true,
            Version::V311 => !clean,
            Version::V5 => false,
        };
        if client_id.len() > CLIENT_ID_MAX || client_id.is_empty() && empty_is_wrong {
            return Err(Violation::new(
                Reason::ClientIdNotValid,
                "the client id is too long, or empty where the protocol wants one",
            ));
        }
        if let Some(will) = will {
            self.will = Some(Box::new(Will::read(will)?));
        }
        if user.is_some() || password.is_some() {
            let (user, password) = (user.map(Into::into), password.map(Into::into));
            self.claim = Some(Box::new(Claim { user, password }));
        }
        // Before MQTT 5 a session that is not clean lasts as long as the server wants.
        self.asked_expiry = if version == Version::V5 {
            session_expiry
        } else if clean {
            0
        } else {
            u32::MAX
        };
        self.is_clean = clean;
        self.session_expiry = self.asked_expiry.min(self.limits.session_expiry_max);
        self.client = client_id.into();
        self.keepalive = self.bounded(version, keepalive);
        self.asked_keepalive = keepalive;
        self.phase = Phase::Connecting;
        Ok(SessionStep::Connect)
    }

    /// What the CONNECT said of the user, once.
    pub fn take_claim(&mut self) -> Claim {
        self.claim.take().map(|claim| *claim).unwrap_or_default()
    }

    /// Refuses the CONNECT that waits for its answer.
    pub fn deny(&mut self, why: Denied, out: &mut Vec<u8>) {
        let (reason, code) = match why {
            Denied::Password | Denied::Token(_) => (Reason::BadUserNameOrPassword, 4),
            Denied::Busy => (Reason::ServerBusy, 3),
            Denied::Unasked => (Reason::ServerUnavailable, 3),
            Denied::Anonymous | Denied::Certificate => (Reason::NotAuthorized, 5),
        };
        match self.version {
            Some(Version::V5) => write::refused_v5(out, reason),
            _ => write::refused(out, code),
        }
        self.phase = Phase::Ended;
    }

    /// Keeps the session no longer than this; true where its client asked for more. The answer to the CONNECT
    /// says so.
    pub fn restrict_expiry(&mut self, most: Duration) -> bool {
        let most = u32::try_from(most.as_secs()).unwrap_or(u32::MAX);
        self.limits.session_expiry_max = self.limits.session_expiry_max.min(most);
        let before = self.session_expiry;
        self.session_expiry = before.min(most);
        self.session_expiry < before
    }

    /// Reserves the memory of the client's will, if it has one.
    pub fn charge_will(&mut self, account: &Account) -> Result<(), Refusal> {
        self.will.as_mut().map_or(Ok(()), |will| will.charge(account))
    }

    /// Refuses the CONNECT for want of memory, or because its user has too much already.
    pub fn refuse_quota(&mut self, out: &mut Vec<u8>) {
        match self.version {
            Some(Version::V5) => write::refused_v5(out, Reason::QuotaExceeded),
            _ => write::refused(out, 3),
        }
        self.phase = Phase::Ended;
    }

    /// Refuses the CONNECT for its client id.
    pub fn refuse_client(&mut self, out: &mut Vec<u8>) {
        match self.version {
            Some(Version::V5) => write::refused_v5(out, Reason::ClientIdNotValid),
            _ => write::refused(out, 2),
        }
        self.phase = Phase::Ended;
    }

    /// The keepalive that holds. Clients before MQTT 5 cannot be told of another one.
    fn bounded(&self, version: Version, keepalive: u16) -> u16 {
        match self.limits.keepalive_max {
            most if most > 0 && version == Version::V5 && (keepalive == 0 || keepalive > most) => {
                most
            }
            _ => keepalive,
        }
    }

    fn note<'a>(&mut self, connect: Connect<'a>) -> Connect<'a> {
        self.outward = Outward::new(connect.receive_maximum, connect.topic_alias_maximum);
        self.client_maximum = connect.maximum_packet_size;
        self.problem_information = connect.problem_information;
        connect
    }

    /// Answers the CONNECT: the node knows the client as `client` and its records by `source`.
    ///
    /// # Errors
    /// The client's maximum packet size is too small for the answer.
    pub fn opened(
        &mut self,
        source: SourceId,
        client: Arc<str>,
        effects: &mut Effects,
    ) -> Result<(), End> {
        let assigned = self.client.is_empty();
        self.client = client;
        self.source = source;
        self.phase = Phase::Open;
        let before = effects.out.len();
        if self.version == Some(Version::V5) {
            let announcement = write::Announcement {
                receive_maximum: self.limits.receive_maximum,
                maximum_packet_size: self.limits.max_packet_size,
                topic_alias_maximum: self.limits.topic_alias_maximum,
                session_present: self.is_resumed,
                session_expiry: (self.session_expiry != self.asked_expiry)
                    .then_some(self.session_expiry),
                keepalive: (self.keepalive != self.asked_keepalive).then_some(self.keepalive),
                assigned_client_id: assigned.then_some(&*self.client),
            };
            write::accepted_v5(&mut effects.out, &announcement);
        } else {
            // MQTT 3.1 has no such flag.
            let session_present = self.is_resumed && self.version == Some(Version::V311);
            write::accepted(&mut effects.out, session_present);
        }
        self.fits(before, &mut effects.out).map_err(|violation| {
            self.phase = Phase::Ended;
            End::from(violation)
        })?;
        self.begin_delivery();
        Ok(())
    }
}
