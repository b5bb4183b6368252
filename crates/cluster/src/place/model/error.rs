//! What can be wrong with a file of a model or of measurements.

/// Of the format of models and measurements.
pub const VERSION: u32 = 1;

/// What a file of a model, or of measurements, has wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No JSON, or not of this shape.
    #[error("no latency model: {0}")]
    Shape(String),
    /// Another version.
    #[error(
        "version {0}, and this program reads {VERSION}: train it again, or take a newer program"
    )]
    Version(u64),
    /// A parameter that cannot be.
    #[error("machine: {0} is {1}, which cannot be")]
    Parameter(&'static str, String),
    /// The trees.
    #[error("residual: {0}")]
    Residual(String),
    /// A network of the paper, by its number of topics.
    #[error("paper: the layers of the network for {0} topics do not fit together")]
    Network(usize),
    /// A model that the file has not.
    #[error("the file has no model {0}: it was not trained with it")]
    Missing(&'static str),
    /// A line of measurements.
    #[error("line {number}: {what}")]
    Line {
        /// Which one, from 1.
        number: usize,
        /// What it has wrong.
        what: String,
    },
}
