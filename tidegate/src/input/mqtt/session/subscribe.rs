//! SUBSCRIBE and UNSUBSCRIBE: what is asked for, and the answers.

use super::Session;
use crate::mqtt::control::Filters;
use crate::mqtt::{Reason, Version, write};

/// What a client asks of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) filters: Filters,
    /// Else it unsubscribes.
    pub(crate) subscribes: bool,
}

/// What became of one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    /// A subscription with this QoS.
    Qos(u8),
    /// No subscription any more.
    Ended,
    /// There was none.
    None,
    /// It is no filter.
    Invalid,
    /// The client has no right to it.
    Forbidden,
    /// The session has too many.
    TooMany,
}

impl Granted {
    fn code(self, version: Version) -> u8 {
        let is_new = version == Version::V5;
        match self {
            Granted::Qos(qos) => qos,
            Granted::Ended => 0,
            Granted::None => Reason::NoSubscriptionExisted as u8,
            // Before MQTT 5 there is one word for all of these.
            Granted::Invalid | Granted::Forbidden | Granted::TooMany if !is_new => 0x80,
            Granted::Invalid => Reason::TopicFilterInvalid as u8,
            Granted::Forbidden => Reason::NotAuthorized as u8,
            Granted::TooMany => Reason::QuotaExceeded as u8,
        }
    }
}

impl Session {
    /// Answers a request, each filter by its own word.
    pub(crate) fn grant(&mut self, request: &Request, granted: &[Granted], out: &mut Vec<u8>) {
        let Some(version) = self.version else { return };
        let beyond = std::iter::repeat_n(&Granted::TooMany, request.filters.beyond);
        let codes = granted.iter().chain(beyond).map(|granted| granted.code(version));
        let id = request.filters.id;
        if request.subscribes {
            write::subscribed(out, version, id, codes, None);
        } else {
            write::unsubscribed(out, version, id, codes);
        }
    }

    /// Answers a request of which nothing is granted.
    pub(crate) fn refuse(&mut self, request: &Request, out: &mut Vec<u8>) {
        let granted = if request.subscribes { Granted::Forbidden } else { Granted::None };
        self.grant(request, &vec![granted; request.filters.entries.len()], out);
    }
}
