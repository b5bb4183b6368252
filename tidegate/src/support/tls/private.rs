//! Files that hold secrets: who else can use them.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Bits of a mode: others may write.
const OTHERS_WRITE: u32 = 0o002;
/// Others may read, or the group may write. That a group may read is how daemons share a key on purpose.
const EXPOSED: u32 = 0o024;

/// Whether a secret's file keeps it, by its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It does.
    Well,
    /// Others may read it, or its group replace it.
    Exposed,
    /// Everybody may put another one in its place.
    Open,
}

/// What a mode means for a secret.
pub(crate) fn kept(mode: u32) -> Kept {
    match mode {
        open if open & OTHERS_WRITE != 0 => Kept::Open,
        exposed if exposed & EXPOSED != 0 => Kept::Exposed,
        _ => Kept::Well,
    }
}

/// Warns of a secret that others can read.
///
/// # Errors
/// Everybody can write it, or it cannot be looked at.
pub(crate) fn look_at(file: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(file)?.permissions().mode() & 0o777;
    let (file, cure) = (file.display(), format!("chmod 600 {}", file.display()));
    match kept(mode) {
        Kept::Well => Ok(()),
        Kept::Exposed => {
            tracing::warn!(
                "{file} has the mode {mode:04o}: others can read it, or replace it: {cure}"
            );
            Ok(())
        }
        Kept::Open => {
            let text =
                format!("mode {mode:04o}: everybody could put another key in its place: {cure}");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_owners_and_perhaps_its_groups_to_read() {
        for mode in [0o400, 0o600, 0o640] {
            assert_eq!(kept(mode), Kept::Well, "{mode:o}");
        }
        for mode in [0o604, 0o644, 0o660, 0o444] {
            assert_eq!(kept(mode), Kept::Exposed, "{mode:o}");
        }
        for mode in [0o666, 0o602, 0o777] {
            assert_eq!(kept(mode), Kept::Open, "{mode:o}");
        }
    }

    #[test]
    fn a_key_that_everybody_can_replace_is_not_used_and_the_cure_is_named() {
        let file = std::env::temp_dir().join(format!("tidegate-private-{}", std::process::id()));
        std::fs::write(&file, "secret").unwrap();
        let set = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        set(0o644);
        assert!(look_at(&file).is_ok());
        set(0o666);
        let told = look_at(&file).unwrap_err().to_string();
        assert!(told.contains("mode 0666") && told.contains("chmod 600"), "{told}");
        std::fs::remove_file(file).unwrap();
    }
}
