//! `tidegate user` and `tidegate keys`: the files of users and of the private authority.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;

use crate::cli::{KeysCommand, UserCommand};
use crate::support::access::users::Users;
use crate::support::tls::authority::Authority;

/// Longest password, in bytes.
const PASSWORD_MAX: usize = 1024;

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

/// Makes and uses the private authority of a folder.
///
/// # Errors
/// The folder cannot be used for it.
pub fn keys(command: &KeysCommand) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout();
    match command {
        KeysCommand::Init { folder } => {
            Authority::at(folder).init()?;
            let folder = folder.display();
            writeln!(
                out,
                "{folder}/ca.pem is the authority to trust; keep {folder}/ca.key secret"
            )?;
        }
        KeysCommand::Issue { folder, name, hosts, roles, days } => {
            let issued = Authority::at(folder).issue_as(name, roles, hosts, *days)?;
            let (certificate, key) = (issued.certificate.display(), issued.key.display());
            writeln!(out, "{certificate} and {key}, for {} days", issued.days)?;
        }
        KeysCommand::Rotate { folder } => {
            Authority::at(folder).rotate()?;
            let folder = folder.display();
            writeln!(
                out,
                "{folder}/ca.pem holds a new authority beside the old. Now copy it to everybody, issue \
                 every certificate anew, and then: tidegate keys forget {folder}"
            )?;
        }
        KeysCommand::Forget { folder } => {
            let forgotten = Authority::at(folder).forget()?;
            writeln!(out, "{}: {forgotten} old authorities forgotten", folder.display())?;
        }
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
