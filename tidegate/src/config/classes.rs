//! Classes, as the node is told of them.

use anyhow::Context;
use tidegate_types::class::{ClassSpec, Classes};
use tidegate_types::units::Ratio;

use super::{ClassConfig, Config};

impl Config {
    /// The node's own classes.
    ///
    /// # Errors
    /// A configuration that was not checked.
    pub(crate) fn classes(&self) -> anyhow::Result<Classes> {
        Classes::new(self.class.iter().map(ClassConfig::spec).collect()).context("[[class]]")
    }
}

impl ClassConfig {
    /// What the node is told of the self.
    pub(crate) fn spec(&self) -> ClassSpec {
        let latency = self.latency.unwrap_or_default().0;
        let default = ClassSpec::new(self.name.as_deref().unwrap_or_default(), latency);
        ClassSpec {
            min_share: Ratio::new(self.min_share),
            late_share: Ratio::new(self.late_share),
            cap: self.cap.map(|cap| cap.0),
            ..default
        }
    }
}
