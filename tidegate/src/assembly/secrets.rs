//! Secrets that a configuration names and never holds: from environment variables and from files.

use std::path::Path;

use anyhow::Context;
use tidegate_log::Key;

use crate::support::tls::private;

/// The password of an environment variable or of a file.
pub(super) fn password(
    variable: Option<&str>,
    file: Option<&Path>,
) -> anyhow::Result<Option<String>> {
    secret("password", variable, file)
}

/// A secret of an environment variable or of a file, whose last line end does not belong to it. `what` is
/// how their keys begin.
pub(super) fn secret(
    what: &str,
    variable: Option<&str>,
    file: Option<&Path>,
) -> anyhow::Result<Option<String>> {
    if let Some(name) = variable {
        let value = std::env::var(name);
        return value.map(Some).with_context(|| format!("{what}_env: variable {name}"));
    }
    let Some(file) = file else { return Ok(None) };
    let text = private::look_at(file)
        .and_then(|()| std::fs::read_to_string(file))
        .with_context(|| format!("{what}_file: {}", file.display()))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// The key in a file.
///
/// # Errors
/// There is none.
pub(crate) fn key_of_file(file: &Path) -> anyhow::Result<Key> {
    log_key(&secret("key", None, Some(file))?.unwrap_or_default())
}

/// 64 hexadecimal digits.
pub(crate) fn log_key(text: &str) -> anyhow::Result<Key> {
    const WANTED: &str = "64 hexadecimal digits (head -c 32 /dev/urandom | xxd -p -c 32)";
    let text = text.trim();
    anyhow::ensure!(text.len() == 64 && text.is_ascii(), "needs {WANTED}");
    let mut secret = [0; 32];
    for (place, byte) in secret.iter_mut().enumerate() {
        let digits = &text[2 * place..2 * place + 2];
        *byte = u8::from_str_radix(digits, 16).with_context(|| format!("needs {WANTED}"))?;
    }
    Ok(Key::new(&secret))
}
