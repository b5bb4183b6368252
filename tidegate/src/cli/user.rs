//! `tidegate user`: the file of users of an MQTT listener.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use clap::Subcommand;

use crate::support::access::users::Users;

/// Longest password, in bytes.
const PASSWORD_MAX: usize = 1024;

/// What can be done with a file of users.
#[derive(Clone, Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user, or give one another password; the password is read from standard input
    Add {
        /// The file, as in users = "FILE"; made if it is not there
        file: PathBuf,
        /// The user
        name: String,
    },
    /// Remove a user
    Remove {
        /// The file
        file: PathBuf,
        /// The user
        name: String,
    },
    /// Print the names of all users
    List {
        /// The file
        file: PathBuf,
    },
}

pub(super) const USER_HELP: &str = "\
Examples:
  tidegate user add /etc/tidegate/users plc-7           asks for the password
  base64 </dev/urandom | head -n 1 | tidegate user add users plc-7   takes it from a program
  tidegate user list users

A running node reads the file again when it has changed. Clients that are connected stay.";

/// Adds, removes or lists users.
///
/// # Errors
/// The file or the password cannot be used.
pub fn user(command: &UserCommand) -> anyhow::Result<ExitCode> {
    match command {
        UserCommand::Add { file, name } => {
            let mut users = if file.exists() { Users::read(file)? } else { Users::default() };
            let is_new = !users.names().any(|known| known == name);
            users.add(name, password()?.as_bytes())?;
            users.write(file)?;
            let what = if is_new { "added" } else { "has a new password" };
            writeln!(io::stdout(), "{}: {name} {what}", file.display())?;
        }
        UserCommand::Remove { file, name } => {
            let mut users = Users::read(file)?;
            anyhow::ensure!(users.remove(name), "{}: no user {name:?}", file.display());
            users.write(file)?;
            writeln!(io::stdout(), "{}: {name} removed", file.display())?;
        }
        UserCommand::List { file } => list(file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(file: &Path) -> anyhow::Result<()> {
    for name in Users::read(file)?.names() {
        writeln!(io::stdout(), "{name}")?;
    }
    Ok(())
}

/// One line of standard input; from a terminal twice and unseen.
fn password() -> anyhow::Result<String> {
    if !io::stdin().is_terminal() {
        return line();
    }
    let unseen = Unseen::begin();
    write!(io::stderr(), "Password: ")?;
    let first = line()?;
    write!(io::stderr(), "\nThe same again: ")?;
    let second = line()?;
    drop(unseen);
    writeln!(io::stderr())?;
    anyhow::ensure!(first == second, "the two passwords differ");
    Ok(first)
}

fn line() -> anyhow::Result<String> {
    let mut text = String::new();
    io::stdin().read_line(&mut text).context("reading the password from standard input")?;
    let password = text.trim_end_matches(['\r', '\n']);
    anyhow::ensure!(!password.is_empty(), "no password: give it on standard input, as one line");
    anyhow::ensure!(password.len() <= PASSWORD_MAX, "longer than {PASSWORD_MAX} bytes");
    Ok(password.to_owned())
}

/// A terminal that does not show what is typed, while this lives.
struct Unseen;

impl Unseen {
    fn begin() -> Unseen {
        echo("-echo");
        Unseen
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        echo("echo");
    }
}

/// Where there is no `stty` the password is seen by who types it: no reason to fail.
fn echo(mode: &str) {
    let _ = Command::new("stty").arg(mode).stdin(Stdio::inherit()).stderr(Stdio::null()).status();
}
