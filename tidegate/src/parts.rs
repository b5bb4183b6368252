//! Which driver stands behind each kind of input and output.

use std::net::SocketAddr;

use tokio::task::JoinSet;

use crate::config::{Config, InputConfig, OutputConfig};
use crate::port::{Intake, OutputPort};

/// Drivers at work; one that fails ends with its error.
pub type Tasks = JoinSet<anyhow::Result<()>>;

/// Starts an input. Returns the addresses that it listens on.
///
/// # Errors
/// An address cannot be bound, or a file cannot be opened.
pub async fn start_input(
    input: &InputConfig,
    config: &Config,
    intake: Intake,
    tasks: &mut Tasks,
) -> anyhow::Result<Vec<SocketAddr>> {
    let _ = (input, config, intake, tasks);
    anyhow::bail!("this build has no inputs")
}

/// Starts an output on its port.
///
/// # Errors
/// A file or a password cannot be read.
pub fn start_output(
    output: &OutputConfig,
    config: &Config,
    port: OutputPort,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let _ = (output, config, port, tasks);
    anyhow::bail!("this build has no outputs")
}
