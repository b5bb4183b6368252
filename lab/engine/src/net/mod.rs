//! Real processes on emulated links: network namespaces, what runs in them, and CPUs kept awake.
//!
//! It works by the programs `ip`, `tc` and `chrt`, and by TUN devices between which `pump` emulates a link.
//! Everything that is made is removed on drop, and what a killed run left behind by the next run.

pub mod crowd;
pub mod host;
pub mod namespace;
pub mod probe;
pub mod process;
pub mod pump;
pub mod scratch;
pub mod selftest;
pub mod senders;
pub mod spinner;
pub mod stage;
pub(crate) mod tun;
pub mod urgent;
pub mod usage;
pub mod wire;

use std::process::{Command, Stdio};

/// Why something below the lab did not work.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// A program that is not installed.
    #[error("needs {program}, not found (package {package})")]
    Missing {
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program that said no.
    #[error("`{command}` failed: {said}")]
    Refused {
        /// As it was called.
        command: String,
        said: String,
    },
    /// A process that did not do in time what it was started for.
    #[error("{name} {how} {expected:?}; its last lines:\n{said}")]
    Silent {
        name: String,
        /// Whether it ended or took too long.
        how: String,
        /// What it should have said.
        expected: String,
        /// What it said in its place.
        said: String,
    },
    /// The system could not start or read a process, or write a file.
    #[error("{doing}")]
    Io {
        doing: String,
        #[source]
        source: std::io::Error,
    },
}

/// The line `skipped: NAME: needs ..` where the program of a contestant is missing.
pub fn skipped(name: &str, error: anyhow::Error) -> anyhow::Result<String> {
    match error.downcast_ref::<NetError>() {
        Some(missing @ NetError::Missing { .. }) => Ok(format!("skipped: {name}: {missing}")),
        _ => Err(error.context(name.to_owned())),
    }
}

/// Runs a program to its end and returns what it printed.
pub fn run(program: &'static str, arguments: &[&str]) -> Result<String, NetError> {
    let command = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => {
            NetError::Missing { program: program.into(), package: package_of(program) }
        }
        _ => NetError::Io { doing: format!("could not start `{}`", command()), source },
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(NetError::Refused { command: command(), said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a process of this id is there.
fn is_alive(id: u32) -> bool {
    std::path::Path::new("/proc").join(id.to_string()).exists()
}

fn package_of(program: &str) -> &'static str {
    match program {
        "ip" | "tc" => "iproute2",
        "chrt" => "util-linux",
        "mosquitto" => "mosquitto",
        _ => "of the same name",
    }
}
