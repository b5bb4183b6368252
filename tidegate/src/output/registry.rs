//! The `[[output]]` tables of the configuration, and every kind that an output can be.
//!
//! A new kind is a folder beside this file, and here a field and a line in each of the two lists.

use serde::{Deserialize, Deserializer};
use tidegate_capacity::RateControllerName;

use super::amqp::AmqpConfig;
use super::frames::Frames;
use super::http::HttpOutputConfig;
use super::kind::{Below, OutputKind};
use super::link::LinkOutputConfig;
use super::mqtt::MqttOutputConfig;
use super::sink::SinkConfig;
use crate::keys::by_name;
use crate::keys::units::OutputRate;

/// `[[output]]`: exactly one of its kinds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputConfig {
    /// Its name, as in `to = ["cloud"]`; its kind if left out.
    pub name: Option<String>,
    /// An AMQP 0-9-1 broker such as RabbitMQ.
    pub amqp: Option<AmqpConfig>,
    /// An MQTT broker, or another node.
    pub mqtt: Option<MqttOutputConfig>,
    /// An HTTP endpoint.
    pub http: Option<HttpOutputConfig>,
    /// Another node, by several paths at once.
    pub link: Option<LinkOutputConfig>,
    /// Files on this machine, or nothing.
    pub sink: Option<SinkConfig>,
    /// Subscribers of frames at this node: of no file, but of `[frames]`.
    #[serde(skip)]
    pub frames: bool,
    /// `"auto"`, or a cap on what is measured.
    pub rate: OutputRate,
    /// How the capacity of its uplink is found.
    #[serde(deserialize_with = "law")]
    pub law: Option<RateControllerName>,
    /// The uplink that it shares with the other outputs that name it.
    pub uplink: Option<String>,
    /// Records that may be sent and not confirmed at once.
    pub unconfirmed_max: Option<u32>,
}

impl OutputConfig {
    /// An output of every kind that a file may name, each with its defaults, in the order of the reference.
    pub fn of_every_kind() -> OutputConfig {
        OutputConfig {
            amqp: Some(AmqpConfig::default()),
            mqtt: Some(MqttOutputConfig::default()),
            http: Some(HttpOutputConfig::default()),
            link: Some(LinkOutputConfig::default()),
            sink: Some(SinkConfig::default()),
            ..OutputConfig::default()
        }
    }

    /// Every kind that is given; a right output has one.
    pub fn kinds(&self) -> impl Iterator<Item = &dyn OutputKind> {
        [
            given(&self.amqp),
            given(&self.mqtt),
            given(&self.http),
            given(&self.link),
            given(&self.sink),
            self.frames.then_some(&Frames),
        ]
        .into_iter()
        .flatten()
    }

    /// The one kind that a right output has.
    pub fn kind(&self) -> Option<&dyn OutputKind> {
        self.kinds().next()
    }

    /// The given name, or the name of its kind.
    pub fn label(&self) -> &str {
        let kind = || self.kind().map_or("output", OutputKind::name);
        self.name.as_deref().unwrap_or_else(kind)
    }

    /// Its name and where it leads, in words.
    pub fn destination(&self) -> String {
        let place = self.kind().map_or_else(|| "nowhere".into(), OutputKind::destination);
        format!("{} ({place})", self.label())
    }

    /// When it confirms a record, which the log then forgets.
    pub fn confirms(&self) -> &'static str {
        self.kind().map_or("at once: nothing is kept", OutputKind::confirms)
    }

    /// What is below it.
    pub fn below(&self) -> Below {
        let mut all = self.kinds().map(OutputKind::below);
        all.find(|below| *below != Below::Uplink).unwrap_or(Below::Uplink)
    }

    /// The uplink it is on: the given one; for what has no network or several paths below its own; for the
    /// others the one that they share.
    pub fn uplink(&self) -> &str {
        match (&self.uplink, self.below()) {
            (Some(name), _) => name,
            (None, Below::Uplink) => "uplink",
            (None, Below::Paths | Below::Nothing) => self.label(),
        }
    }

    /// The given law, or the default of its kind.
    pub fn law(&self) -> RateControllerName {
        let usual = match self.below() {
            Below::Nothing => RateControllerName::Unlimited,
            Below::Uplink | Below::Paths => RateControllerName::default(),
        };
        self.law.unwrap_or(usual)
    }

    /// How the node finds the capacity of its uplink.
    pub fn controller(&self) -> RateControllerName {
        if self.below() == Below::Paths {
            return RateControllerName::Reported;
        }
        self.law()
    }

    /// Records that may be sent and not confirmed at once.
    pub fn unconfirmed_max(&self) -> usize {
        let default =
            || self.kind().map_or(super::kind::UNCONFIRMED_MAX, OutputKind::unconfirmed_max);
        self.unconfirmed_max.unwrap_or_else(default) as usize
    }
}

fn given<K: OutputKind>(keys: &Option<K>) -> Option<&dyn OutputKind> {
    keys.as_ref().map(|keys| keys as &dyn OutputKind)
}

/// Reads a `law` that is given.
fn law<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RateControllerName>, D::Error> {
    by_name(deserializer).map(Some)
}
