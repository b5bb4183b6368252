//! SUBSCRIBE and UNSUBSCRIBE: what is asked for, and the answers.

use super::{Session, SessionSubscriber};
use crate::control::Filters;
use crate::{Reason, Version, write};

/// What a client asks of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to.
    pub filters: Filters,
    /// Else it unsubscribes.
    pub subscribes: bool,
}

/// What became of one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterOutcome {
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

impl FilterOutcome {
    fn code(self, version: Version) -> u8 {
        let is_new = version == Version::V5;
        match self {
            FilterOutcome::Qos(qos) => qos,
            FilterOutcome::Ended => 0,
            FilterOutcome::None => Reason::NoSubscriptionExisted as u8,
            // Before MQTT 5 there is one word for all of these.
            FilterOutcome::Invalid | FilterOutcome::Forbidden | FilterOutcome::TooMany
                if !is_new =>
            {
                0x80
            }
            FilterOutcome::Invalid => Reason::TopicFilterInvalid as u8,
            FilterOutcome::Forbidden => Reason::NotAuthorized as u8,
            FilterOutcome::TooMany => Reason::QuotaExceeded as u8,
        }
    }
}

impl<S: SessionSubscriber> Session<S> {
    /// Answers a request, each filter by its own word.
    pub fn grant(&mut self, request: &Request, granted: &[FilterOutcome], out: &mut Vec<u8>) {
        let Some(version) = self.version else { return };
        let beyond = std::iter::repeat_n(&FilterOutcome::TooMany, request.filters.beyond);
        let codes = granted.iter().chain(beyond).map(|granted| granted.code(version));
        let id = request.filters.id;
        if request.subscribes {
            write::subscribed(out, version, id, codes, None);
        } else {
            write::unsubscribed(out, version, id, codes);
        }
    }

    /// Answers a request of which nothing is granted.
    pub fn refuse(&mut self, request: &Request, out: &mut Vec<u8>) {
        let granted =
            if request.subscribes { FilterOutcome::Forbidden } else { FilterOutcome::None };
        self.grant(request, &vec![granted; request.filters.entries.len()], out);
    }
}
