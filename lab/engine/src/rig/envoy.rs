//! An Envoy, with the configuration that `tidegate envoy-config` writes.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use super::versions::Program;
use crate::net::process::Process;
use crate::net::scratch::Scratch;

/// How long it may take to start.
const START: Duration = Duration::from_secs(30);

/// Starts an Envoy in front of `tidegate ext-proc`, which has this configuration; clients come to `listen`.
///
/// # Errors
/// It is not installed, the configuration is not written, or it does not start.
pub async fn start(
    scratch: &Scratch,
    config: &Path,
    listen: SocketAddr,
) -> anyhow::Result<Process> {
    let mut command = Command::new(super::tidegate_program()?);
    command.args(["envoy-config", "--listen", &listen.to_string(), "-c"]).arg(config);
    let written = command.output()?;
    let said = String::from_utf8_lossy(&written.stderr);
    ensure!(written.status.success(), "tidegate envoy-config: {said}");
    let file = scratch.file("envoy.yaml", &String::from_utf8_lossy(&written.stdout))?;
    with_file(&file, 1).await
}

/// Starts an Envoy with this configuration and so many workers, without an access log.
pub async fn with_file(file: &Path, workers: u32) -> anyhow::Result<Process> {
    let mut command = Command::new(Program::Envoy.path()?);
    command.args(["--disable-hot-restart", "--log-level", "info", "--concurrency"]);
    command.arg(workers.to_string()).arg("-c").arg(file);
    let mut process = Process::start("envoy", command)?;
    process.says("starting main dispatch loop", START).await?;
    Ok(process)
}
