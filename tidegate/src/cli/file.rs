//! How every command is told its file: as an argument, as in `tidegate check node.toml`, or by `-c`.

use std::path::{Path, PathBuf};

use clap::Args;

/// A file that a command cannot do without.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct RequiredFile {
    /// The configuration
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same by a name, as other commands take it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl RequiredFile {
    /// As if it was named.
    #[cfg(test)]
    pub(crate) fn of(file: PathBuf) -> RequiredFile {
        RequiredFile { file: Some(file), config: None }
    }

    /// The file, however it was named.
    pub fn path(&self) -> &Path {
        let named = self.file.as_deref().or(self.config.as_deref());
        named.expect("the group is required")
    }
}

/// A file that a command can do without.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub struct OptionalFile {
    /// The configuration
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same by a name, as other commands take it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl OptionalFile {
    /// The file, however it was named.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.as_deref())
    }
}
