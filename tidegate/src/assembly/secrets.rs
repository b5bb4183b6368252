//! The keys of logs, which a configuration names and never holds.

use std::path::Path;

use anyhow::Context;
use tidegate_log::Key;

use crate::keys::secrets::secret;

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
