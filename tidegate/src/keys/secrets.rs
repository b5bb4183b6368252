//! Passwords and keys: they are never in the file, but in an environment variable or a file of their own.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tidegate_types::hidden::Hidden;

use super::findings::Findings;
use super::places::Place;
use crate::support::{files, tls};

/// A key that names a secret, and where that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret<'a> {
    /// In an environment variable.
    Variable(&'static str, &'a str),
    /// In a file.
    File(&'static str, &'a Path),
}

impl<'a> Secret<'a> {
    /// Those of the two keys for one secret that are given.
    pub fn given(
        (variable_key, variable): (&'static str, &'a Option<String>),
        (file_key, file): (&'static str, &'a Option<PathBuf>),
    ) -> impl Iterator<Item = Secret<'a>> {
        let variable = variable.as_deref().map(|name| Secret::Variable(variable_key, name));
        let file = file.as_deref().map(|file| Secret::File(file_key, file));
        variable.into_iter().chain(file)
    }

    /// The password, where it is given.
    pub fn password(
        variable: &'a Option<String>,
        file: &'a Option<PathBuf>,
    ) -> impl Iterator<Item = Secret<'a>> {
        Secret::given(("password_env", variable), ("password_file", file))
    }
}

/// A password comes from one place.
pub(crate) fn one_password(
    variable: &Option<String>,
    file: &Option<PathBuf>,
    place: &Place,
    findings: &mut Findings,
) {
    if variable.is_some() && file.is_some() {
        let text = "password_env is given too: keep one of the two";
        findings.error(place.to("password_file"), text);
    }
}

/// The password of an environment variable or of a file.
pub(crate) fn password(
    variable: Option<&str>,
    file: Option<&Path>,
) -> anyhow::Result<Option<Hidden>> {
    secret("password", variable, file)
}

/// A secret of an environment variable or of a file, whose last line end does not belong to it. `what` is
/// how their keys begin.
pub(crate) fn secret(
    what: &str,
    variable: Option<&str>,
    file: Option<&Path>,
) -> anyhow::Result<Option<Hidden>> {
    if let Some(name) = variable {
        let value = std::env::var(name);
        return value
            .map(|value| Some(value.into()))
            .with_context(|| format!("{what}_env: variable {name}"));
    }
    let Some(file) = file else { return Ok(None) };
    let text = tls::private::look_at(file)
        .and_then(|()| files::read_text(file, tls::FILE_MAX))
        .with_context(|| format!("{what}_file: {}", file.display()))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).into()))
}
