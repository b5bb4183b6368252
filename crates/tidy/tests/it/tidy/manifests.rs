//! Rules about manifests: who may depend on what, and that lints reach every crate.

use crate::tidy::files::{File, text_of};

/// The rooms of the house: each decision crate, and the crates that it may use. An arrow that is not here needs a
/// record in docs/decisions/.
pub(crate) const ROOMS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("capacity", &["types"]),
    ("log", &["types"]),
    ("schedule", &["types"]),
    ("node", &["types", "capacity", "log", "schedule"]),
    ("link", &["types", "capacity"]),
    ("fleet", &["types"]),
    ("cluster", &["types"]),
    ("stream", &["types"]),
    ("broker", &["types"]),
    ("mqtt", &["types", "broker"]),
    ("frames", &["types"]),
];
/// Libraries that a room may use: none that knows a clock, a socket or a file.
const LIBRARIES: &[&str] = &[
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
/// Lines of a room, tests included, above which it is to be parted.
const ROOM_LINES_MAX: usize = 12_000;
/// Rooms above it, and the lines that they may have: a number may only fall.
const LARGE_ROOMS: &[(&str, usize)] = &[("node", 13_530)];

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

/// Arrows between rooms are those of `ROOMS`. Tests may use any room, and what tests share.
pub(crate) fn arrows_lead_down(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for (room, below) in ROOMS {
        let path = format!("crates/{room}/Cargo.toml");
        let allowed = |name: &str| match name.strip_prefix("tidegate-") {
            Some(other) => below.contains(&other),
            None => LIBRARIES.contains(&name),
        };
        for (name, for_tests) in dependencies(text_of(files, &path)) {
            let is_fine =
                allowed(name) || for_tests && (name == "proptest" || name.starts_with("tidegate-"));
            if !is_fine {
                problems.push(format!("{path}: the room must not depend on {name}"));
            }
        }
    }
    problems
}

/// A room is read in an afternoon.
pub(crate) fn rooms_are_small(files: &[File]) -> Vec<String> {
    let lines = |room: &str| -> usize {
        let folder = format!("crates/{room}/");
        let of_room = files.iter().filter(|file| file.is_rust() && file.path.starts_with(&folder));
        of_room.map(|file| file.text.lines().count()).sum()
    };
    let sizes = ROOMS.iter().map(|(room, _)| (room, lines(room)));
    let limit = |room: &str| {
        let recorded = LARGE_ROOMS.iter().find(|(large, _)| *large == room);
        recorded.map_or(ROOM_LINES_MAX, |(_, lines)| *lines)
    };
    let large = sizes.filter(|(room, lines)| *lines > limit(room));
    large
        .map(|(room, lines)| format!("crates/{room} has {lines} lines, more than {}", limit(room)))
        .collect()
}

/// Without its own clippy.toml a room would not know the bans on clocks, sockets and files.
pub(crate) fn rooms_have_the_same_bans(files: &[File]) -> Vec<String> {
    let bans = |room: &str| text_of(files, &format!("crates/{room}/clippy.toml"));
    let first = bans(ROOMS[0].0);
    let others = ROOMS.iter().filter(|(room, _)| bans(room) != first || first.is_empty());
    others
        .map(|(room, _)| format!("crates/{room}/clippy.toml differs from that of {}", ROOMS[0].0))
        .collect()
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
    fn an_arrow_that_leads_up_is_found() {
        let check =
            |text: &str| arrows_lead_down(&[File::new("crates/log/Cargo.toml", text)]).len();
        let tests = "[dev-dependencies]\nproptest = \"1\"\ntidegate-node.workspace = true";
        assert_eq!(check(&format!("[dependencies]\nbytes.workspace = true\n{tests}")), 0);
        assert_eq!(check("[dependencies]\ntidegate-types.workspace = true"), 0);
        assert_eq!(check("[dependencies]\ntidegate-node.workspace = true"), 1);
        assert_eq!(check("[dependencies]\ntokio = { version = \"1\" }"), 1);
        assert_eq!(check("[dependencies.tokio]\nversion = \"1\""), 1);
        assert_eq!(check("[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\""), 1);
        assert_eq!(check("[build-dependencies]\ncc = \"1\"\n[dependencies]\nproptest = \"1\""), 2);
    }

    #[test]
    fn a_room_that_grew_or_lost_its_bans_is_found() {
        let room = |lines| [File::new("crates/log/src/a.rs", &"x\n".repeat(lines))];
        assert_eq!(rooms_are_small(&room(ROOM_LINES_MAX)).len(), 0);
        assert_eq!(rooms_are_small(&room(ROOM_LINES_MAX + 1)).len(), 1);
        let mut bans: Vec<File> = ROOMS
            .iter()
            .map(|(room, _)| File::new(&format!("crates/{room}/clippy.toml"), "bans"))
            .collect();
        assert_eq!(rooms_have_the_same_bans(&bans).len(), 0);
        bans[3].text.clear();
        assert_eq!(rooms_have_the_same_bans(&bans).len(), 1);
        assert_eq!(rooms_have_the_same_bans(&[]).len(), ROOMS.len());
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
        let check = |text: &str| {
            clippy_keys_agree(&[root(), File::new("crates/log/clippy.toml", text)]).len()
        };
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
