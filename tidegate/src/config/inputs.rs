//! The `[[input]]` tables of the configuration, and every kind that an input can be.
//!
//! A new kind is a file in this folder with its keys and what they mean, a folder in `input/` with its driver, and here
//! a module, a key and a line in the list.

mod link;
mod mqtt;
mod mqtt_client;
mod replay;

use super::{LinkInputConfig, MqttClientConfig, MqttInputConfig, ReplayConfig};
use crate::input::kind::InputKind;
use crate::keys::table::keys;

keys! {
    /// `[[input]]`: exactly one of its kinds.
    pub struct InputConfig {
        /// Clients of MQTT 3.1.1 and 5, which publish and subscribe (docs/BROKER.md).
        pub mqtt: Option<MqttInputConfig>; standing(),
        /// The topics of an existing broker, as a client of it.
        pub mqtt_client: Option<MqttClientConfig>,
        /// Other nodes of Tidegate, by several paths each: they have a link output.
        pub link: Option<LinkInputConfig>; restarts(),
        /// A file that is played as if its records came now.
        pub replay: Option<ReplayConfig>,
    }
}

impl InputConfig {
    /// Every kind that is given; a right input has one.
    pub fn kinds(&self) -> impl Iterator<Item = &dyn InputKind> {
        [given(&self.mqtt), given(&self.mqtt_client), given(&self.link), given(&self.replay)]
            .into_iter()
            .flatten()
    }

    /// The one kind that a right input has.
    pub fn kind(&self) -> Option<&dyn InputKind> {
        self.kinds().next()
    }
}

fn given<K: InputKind>(keys: &Option<K>) -> Option<&dyn InputKind> {
    keys.as_ref().map(|keys| keys as &dyn InputKind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use crate::keys::table::Table;

    #[test]
    fn every_kind_is_listed() {
        for kind in InputConfig::keys() {
            let text = format!("[[input]]\n{} = {{}}\n", kind.name);
            let config = read(&text).config;
            let given: Vec<&str> = config.input[0].kinds().map(InputKind::name).collect();
            assert_eq!(given, [kind.name]);
        }
    }
}
