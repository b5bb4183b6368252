//! The last will: what is published for a client that goes without a word.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::account::{Account, Kind, Refusal, Reservation};
use tidegate_types::record::{Offered, SourceId};
use tidegate_types::units::Time;

use super::record::Facts;
use super::{Session, SessionSubscriber};
use crate::property::{self as p, PropertyWalk};
use crate::{Violation, connect as wire};

/// A will as it stands in the CONNECT.
#[derive(Clone, Debug)]
pub struct Will {
    facts: Facts,
    key: Bytes,
    payload: Bytes,
    qos: u8,
    /// How long the client may take to come back.
    delay: Duration,
    /// Reserved for it where it is large.
    held: Option<Arc<Reservation>>,
}

/// A will that a connection pays for.
const FREE: usize = 1024;

impl Will {
    /// Reserves its memory.
    pub(super) fn charge(&mut self, account: &Account) -> Result<(), Refusal> {
        let bytes = self.key.len() + self.payload.len() + self.facts.size();
        if bytes > FREE {
            self.held = Some(Arc::new(account.reserve(Kind::Wills, bytes)?));
        }
        Ok(())
    }

    pub(super) fn read(will: wire::Will<'_>) -> Result<Self, Violation> {
        let mut delay = 0;
        let mut walk = PropertyWalk::new(will.properties, p::IN_WILL);
        while let Some((id, value)) = walk.next()? {
            if id == p::WILL_DELAY {
                delay = value.number();
            }
        }
        Ok(Will {
            facts: Facts::read(will.properties, p::IN_WILL, will.retain)?,
            key: Bytes::copy_from_slice(will.topic.as_bytes()),
            payload: Bytes::copy_from_slice(will.payload),
            qos: will.qos,
            delay: Duration::from_secs(delay.into()),
            held: None,
        })
    }

    /// With which QoS subscribers get it, at most.
    pub fn qos(&self) -> u8 {
        self.qos
    }

    /// The record to offer by `source`, as if it was read at `now`.
    pub fn record(self, source: SourceId, now: Time) -> Offered {
        let Will { facts, key, payload, .. } = self;
        facts.record(source, None, key, payload, now)
    }
}

impl<S: SessionSubscriber> Session<S> {
    /// The topic of the client's will.
    pub fn will_topic(&self) -> Option<&Bytes> {
        self.will.as_ref().map(|will| &will.key)
    }

    /// The client's will, and how long to wait with it.
    pub fn will(&self) -> Option<(&Will, Duration)> {
        let will = self.will.as_ref()?;
        Some((will, will.delay.min(Duration::from_secs(self.session_expiry.into()))))
    }

    /// The client's will, once, and how long to wait with it: a session that ends sends it at once.
    pub fn take_will(&mut self) -> Option<(Will, Duration)> {
        let will = *self.will.take()?;
        let delay = will.delay.min(Duration::from_secs(self.session_expiry.into()));
        Some((will, delay))
    }
}
