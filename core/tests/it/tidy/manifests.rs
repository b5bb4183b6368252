//! Rules about manifests: who may depend on what, and that lints reach every crate.

use crate::tidy::files::{File, text_of};

/// What core may depend on: nothing that knows a clock, a socket or a file.
const CORE_DEPENDENCIES: &[&str] = &[
    "bytes",
    "chacha20",
    "crc32c",
    "hdrhistogram",
    "petgraph",
    "ring",
    "serde",
    "serde_json",
    "slotmap",
    "thiserror",
];
const CORE_DEV_DEPENDENCIES: &[&str] = &["proptest", "tidegate-testing"];

/// The dependencies that a manifest names, and whether each is for tests only. Both spellings count:
/// a line of `[dependencies]` and a table `[dependencies.name]`.
fn dependencies(manifest: &str) -> Vec<(&str, bool)> {
    let mut table = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']);
            if let Some((kind, name)) = table.split_once("dependencies.") {
                found.push((name, kind.ends_with("dev-")));
            }
        } else if table.ends_with("dependencies") && !line.starts_with('#') && line.contains('=') {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            found.push((name, table.ends_with("dev-dependencies")));
        }
    }
    found
}

pub(crate) fn core_dependencies(files: &[File]) -> Vec<String> {
    let allowed = |(name, for_tests): &(&str, bool)| {
        CORE_DEPENDENCIES.contains(name) || *for_tests && CORE_DEV_DEPENDENCIES.contains(name)
    };
    let found = dependencies(text_of(files, "core/Cargo.toml"));
    let strangers = found.iter().filter(|dependency| !allowed(dependency));
    strangers.map(|(name, _)| format!("core must not depend on {name}")).collect()
}

/// `fuzz/` is a workspace of its own, which has no lints to inherit.
pub(crate) fn crates_inherit_lints(files: &[File]) -> Vec<String> {
    let is_crate = |file: &&File| {
        file.name() == "Cargo.toml"
            && file.path != "fuzz/Cargo.toml"
            && file.text.contains("[package]")
    };
    let inherits = |file: &File| file.text.contains("[lints]\nworkspace = true");
    let without = files.iter().filter(is_crate).filter(|file| !inherits(file));
    without.map(|file| format!("{} does not say [lints] workspace = true", file.path)).collect()
}

/// A crate's clippy.toml replaces the root's, so it repeats what the root says.
pub(crate) fn clippy_keys_agree(files: &[File]) -> Vec<String> {
    let shared = text_of(files, "clippy.toml").lines().filter(|line| line.contains(" = "));
    let mut problems = Vec::new();
    for line in shared {
        for file in files.iter().filter(|file| file.path.ends_with("/clippy.toml")) {
            if !file.text.lines().any(|other| other == line) {
                problems.push(format!("{} replaces the root's: repeat {line}", file.path));
            }
        }
    }
    problems
}

/// The bans of deny.toml, checked without the tool that reads it.
pub(crate) fn banned_crates_stay_out(files: &[File]) -> Vec<String> {
    let quoted = |line: &'_ str| line.split('"').nth(1).unwrap_or_default().to_owned();
    let entries = text_of(files, "deny.toml").lines().filter(|line| line.contains("{ crate = "));
    let bans: Vec<String> = entries.map(quoted).collect();
    let locked = text_of(files, "Cargo.lock").lines().filter(|line| line.starts_with("name = "));
    let banned = locked.map(quoted).filter(|name| bans.contains(name));
    let mut problems: Vec<String> = banned.map(|name| format!("{name} is locked")).collect();
    if bans.is_empty() {
        problems.push("deny.toml bans nothing".into());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_dependency_of_core_is_found() {
        let check = |text: &str| core_dependencies(&[File::new("core/Cargo.toml", text)]).len();
        assert_eq!(
            check("[dependencies]\nbytes.workspace = true\n[dev-dependencies]\nproptest = \"1\""),
            0
        );
        assert_eq!(check("[dependencies]\ntokio = { version = \"1\" }"), 1);
        assert_eq!(check("[dependencies.tokio]\nversion = \"1\""), 1);
        assert_eq!(check("[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\""), 1);
        assert_eq!(check("[build-dependencies]\ncc = \"1\"\n[dependencies]\nproptest = \"1\""), 2);
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let check = |text: &str| crates_inherit_lints(&[File::new("lab/Cargo.toml", text)]).len();
        assert_eq!(check("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(check("[package]\nname = \"a\"\n"), 1);
    }

    #[test]
    fn a_forgotten_clippy_key_is_found() {
        let root = || File::new("clippy.toml", "lines = 70\nallow = true");
        let check =
            |text: &str| clippy_keys_agree(&[root(), File::new("core/clippy.toml", text)]).len();
        assert_eq!(check("lines = 70\nallow = true\nother = [\n]"), 0);
        assert_eq!(check("lines = 90\nallow = true"), 1);
    }

    #[test]
    fn a_banned_crate_in_the_lock_file_is_found() {
        let bans =
            || File::new("deny.toml", "deny = [\n  { crate = \"openssl\", reason = \"x\" },\n]");
        let check =
            |text: &str| banned_crates_stay_out(&[bans(), File::new("Cargo.lock", text)]).len();
        assert_eq!(check("name = \"ring\""), 0);
        assert_eq!(check("name = \"openssl\""), 1);
        assert_eq!(banned_crates_stay_out(&[]).len(), 1);
    }
}
