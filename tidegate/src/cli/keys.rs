//! `tidegate keys`: certificates and keys of a small private authority.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::support::tls::Role;
use crate::support::tls::authority::Authority;

/// What can be done with a private authority.
#[derive(Clone, Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a folder with an authority: ca.pem, which everybody trusts, and ca.key, which signs
    Init {
        /// The folder
        folder: PathBuf,
    },
    /// Make NAME.pem and NAME.key: a certificate that the authority signs, and its key
    Issue {
        /// The folder
        folder: PathBuf,
        /// Whose: the common name, which can be the user name of an MQTT client
        name: String,
        /// A name or address at which it serves; may be given often. Without one it is a client's only
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// What its holder may be, and nothing else; may be given often. Without one it may be all that
        /// need not be asked for: no operator, and nothing where roles are required
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<Role>,
        /// How long it is valid
        #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=3650))]
        days: u64,
    },
    /// Make a new authority that signs from now on; ca.pem then holds both
    Rotate {
        /// The folder
        folder: PathBuf,
    },
    /// Keep the newest authority in ca.pem only
    Forget {
        /// The folder
        folder: PathBuf,
    },
}

pub(super) const KEYS_HELP: &str = "\
Examples:
  tidegate keys init pki
  tidegate keys issue pki gate-7 --role node --host gate-7.example --host 10.0.0.7   for a listener
  tidegate keys issue pki plc-7 --role client --days 90                  for a client
  tidegate keys issue pki ops --role operator                            for who drains nodes
  tidegate keys rotate pki       ca.pem with both authorities; copy it to everybody, issue anew
  tidegate keys forget pki       the old authority is no longer trusted

Keys are readable by their owner only.";

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
