//! The `[[input]]` tables of the configuration, and every kind that an input can be.
//!
//! A new kind is a file in this folder with its keys and what they mean, a folder in `input/` with its driver, and here
//! a module, a field and a line in each of the two lists.

mod link;
mod mqtt;
mod mqtt_client;
mod replay;

use serde::Deserialize;

use super::{LinkInputConfig, MqttClientConfig, MqttInputConfig, ReplayConfig};
use crate::input::kind::InputKind;

/// `[[input]]`: exactly one of its kinds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InputConfig {
    /// A listener for MQTT 3.1.1 and 5 clients.
    pub mqtt: Option<MqttInputConfig>,
    /// A client of an existing broker.
    pub mqtt_client: Option<MqttClientConfig>,
    /// Other nodes, by links.
    pub link: Option<LinkInputConfig>,
    /// A file that is played.
    pub replay: Option<ReplayConfig>,
}

impl InputConfig {
    /// An input of every kind, each with its defaults.
    pub fn of_every_kind() -> InputConfig {
        InputConfig {
            mqtt: Some(MqttInputConfig::default()),
            mqtt_client: Some(MqttClientConfig::default()),
            link: Some(LinkInputConfig::default()),
            replay: Some(ReplayConfig::default()),
        }
    }

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
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_lists_name_every_kind_that_a_file_may_give() {
        let every = InputConfig::of_every_kind();
        let names: Vec<&str> = every.kinds().map(InputKind::name).collect();
        // What the derived parser knows: a key that is none is answered by all that are.
        let error = serde_json::from_value::<InputConfig>(Value::from_iter([("none", 1)]));
        let told = error.unwrap_err().to_string();
        let known: Vec<&str> = told.split('`').skip(3).step_by(2).collect();
        assert_eq!(names, known, "{told}");
    }
}
