//! The `[[output]]` tables of the configuration, and every kind that an output can be.
//!
//! A new kind is a folder beside this file, and here a key and a line in `kinds`.

use tidegate_capacity::RateControllerName;

use super::amqp::AmqpConfig;
use super::frames::Frames;
use super::http::HttpOutputConfig;
use super::kind::{Below, OutputKind, UNCONFIRMED_MAX};
use super::link::LinkOutputConfig;
use super::mqtt::MqttOutputConfig;
use super::sink::SinkConfig;
use crate::keys::table::keys;
use crate::keys::units::{OutputQueue, OutputRate};

keys! {
    /// `[[output]]`: exactly one of its kinds.
    pub struct OutputConfig {
        /// As in to = ["cloud"]. Default: its kind.
        pub name: Option<String>; sample("cloud"),
        /// "auto": the capacity is measured. Or a cap on what is measured, such as "18mbit". It counts records with
        /// framing and TLS; TCP and IP headers (3 to 4 % of full packets) are not counted.
        pub rate: OutputRate = OutputRate::Auto;
            above_zero("nothing could be sent: give a rate, or \"auto\"") reloads(),
        /// How the capacity is found. Default for a sink: unlimited.
        pub law: Option<RateControllerName>; usually(RateControllerName::default()) reloads(),
        /// How long a queue stands below the scheduler. "auto": 3 to 20 ms, by the path, and more where its rate swings.
        /// Or a duration such as "20ms". For the law tide only.
        pub queue: OutputQueue = OutputQueue::Auto;
            above_zero("the link would be idle while a round trip lasts: give a duration, or \"auto\""),
        /// Outputs that name the same uplink share its capacity. Default: one for all, and for each sink its own.
        pub uplink: Option<String>; sample("uplink"),
        /// Records sent and not confirmed at once: what a lost connection sends twice at most.
        pub unconfirmed_max: Option<u32>;
            usually(UNCONFIRMED_MAX) at_least(1, "nothing could be sent"),
        /// An AMQP 0-9-1 broker such as RabbitMQ.
        pub amqp: Option<AmqpConfig>; reloads(),
        /// An MQTT broker, or another node of Tidegate.
        pub mqtt: Option<MqttOutputConfig>; called("site") reloads(),
        /// An HTTP endpoint: each record is a POST, confirmed by an answer of 2xx.
        pub http: Option<HttpOutputConfig>; called("hook") reloads(),
        /// Another node of Tidegate, by several paths at once: it has a link input.
        pub link: Option<LinkOutputConfig>; called("hq"),
        /// JSON lines files on this machine: sink = {} has all defaults.
        pub sink: Option<SinkConfig>; called("archive") standing(),
        inner {
            /// Subscribers of frames at this node: of no file, but of `[frames]`.
            pub frames: bool,
            /// A reload took it away: it keeps its place until the next start, and gets nothing.
            pub is_gone: bool,
        }
    }
}

impl OutputConfig {
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

    /// Whether an output with these keys can begin anew with those others while the node runs: what the node knows of it,
    /// beside its rate and law, is the same.
    pub(crate) fn can_become(&self, other: &OutputConfig) -> bool {
        let known = |output: &OutputConfig| {
            let kind = output.kind().filter(|kind| kind.begins_anew())?;
            let own = (kind.name(), kind.overhead(), kind.confirms(), output.unconfirmed_max());
            Some((own, kind.is_one_connection(), output.queue, output.uplink().to_owned()))
        };
        self.label() == other.label() && known(self).is_some_and(|own| known(other) == Some(own))
    }

    /// Whether it can begin and end while the node runs. Links are dialled by others too, and frames are of cameras.
    pub(crate) fn comes_and_goes(&self) -> bool {
        self.below() != Below::Paths && !self.frames
    }

    /// Whether one connection carries all classes.
    pub fn is_one_connection(&self) -> bool {
        self.kind().is_some_and(OutputKind::is_one_connection)
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
        let default = || self.kind().map_or(UNCONFIRMED_MAX, OutputKind::unconfirmed_max);
        self.unconfirmed_max.unwrap_or_else(default) as usize
    }
}

fn given<K: OutputKind>(keys: &Option<K>) -> Option<&dyn OutputKind> {
    keys.as_ref().map(|keys| keys as &dyn OutputKind)
}
