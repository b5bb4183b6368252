//! `[[quota]]`: what one user may have.

use super::units::{ByteSize, Period};
use crate::config::Config;
use crate::keys::table::keys;
use crate::support::access::{Quota, QuotaRule, Quotas};

keys! {
    /// `[[quota]]`; the first whose `user` covers a client's holds for it.
    pub struct QuotaConfig: Eq {
        /// User names, * for any characters. Default: everybody.
        pub user: Option<String>; sample("plc-*"),
        /// Clients that are connected at a time. Default: the share.
        pub connections: Option<u32>;
            sample("100") above_zero("nobody could connect: give at least 1, or take the user out of the file of users"),
        /// Sessions that are kept while their clients are away; beyond, one of the same user makes room. Default: no
        /// bound but that of all.
        pub sessions: Option<u32>; sample("100"),
        /// Subscriptions of all sessions. Default: 10000 for each session, and what memory allows.
        pub subscriptions: Option<u32>; sample("1000"),
        /// How long a session is kept at most; MQTT 5 clients are told. Default: that of the listener.
        pub session_expiry: Option<Period>; sample("1h"),
        /// Streams that are fed or hold something: one for each client and [[stream]]. Default: the share.
        pub streams: Option<u32>; sample("1000") at_least(1, "nothing could be published"),
        /// Bytes of the log that durable records take until they are sent. Default: the share.
        pub log: Option<ByteSize>; sample("100MiB"),
    }
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
