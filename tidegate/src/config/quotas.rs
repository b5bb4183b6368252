//! `[[quota]]`: what one user may have.

use serde::Deserialize;

use super::units::{ByteSize, Period};
use crate::config::Config;
use crate::support::access::{Quota, QuotaRule, Quotas};

/// `[[quota]]`; the first whose `user` covers a client's holds for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaConfig {
    /// Pattern of user names; everybody if left out, each address where clients have no name.
    pub user: Option<String>,
    /// Clients that are connected at a time.
    pub connections: Option<u32>,
    /// Sessions that are kept while their clients are away.
    pub sessions: Option<u32>,
    /// Subscriptions of all his sessions.
    pub subscriptions: Option<u32>,
    /// How long a session is kept at most.
    pub session_expiry: Option<Period>,
    /// Streams that are fed or hold something.
    pub streams: Option<u32>,
    /// Bytes of the log.
    pub log: Option<ByteSize>,
}

impl Config {
    /// The rules of all quotas.
    pub fn quotas(&self) -> Quotas {
        let rule = |spec: &QuotaConfig| QuotaRule {
            user: spec.user.clone(),
            quota: Quota {
                connections: spec.connections,
                sessions: spec.sessions,
                subscriptions: spec.subscriptions,
                session_expiry: spec.session_expiry.map(|time| time.0),
                streams: spec.streams,
                log: spec.log.map(|bytes| bytes.0),
            },
        };
        Quotas(self.quota.iter().map(rule).collect())
    }
}
