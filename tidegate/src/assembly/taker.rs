//! Which command takes a file, and what of the file it leaves aside.

use std::path::Path;

use anyhow::bail;

use crate::config::FileKind;

/// A command that runs what a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// `tidegate run`.
    Node,
    /// `tidegate proxy` and `tidegate ext-proc`.
    Proxy,
}

impl Taker {
    /// Sections of the text that the command does not look at, and what to do about each.
    pub(super) fn leaves_aside(self, text: &str) -> Vec<(&'static str, String)> {
        let told = |section: &'static str| {
            let text = match self {
                Taker::Node => {
                    "`tidegate run` leaves this section aside: `tidegate proxy FILE` runs it"
                }
                Taker::Proxy => {
                    "`tidegate proxy` leaves this section aside: `tidegate run FILE` runs it"
                }
            };
            (section, text.to_owned())
        };
        FileKind::sections(text, self == Taker::Node).into_iter().map(told).collect()
    }

    /// That the file is for this command at all.
    ///
    /// # Errors
    /// It is for another one, which is named.
    pub fn takes(self, file: &Path, text: &str) -> anyhow::Result<()> {
        match FileKind::of(file, text) {
            FileKind::Node | FileKind::Proxy | FileKind::NodeAndProxy => Ok(()),
            other => bail!("{}: this is the file of {}", file.display(), other.words()),
        }
    }
}
