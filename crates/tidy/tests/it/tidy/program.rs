//! Rules about the folders of the program: each uses those below it only, so that one is read without those above.

use std::collections::BTreeSet;

use crate::tidy::circles::{Arrows, arrows, circles};
use crate::tidy::files::File;

const PROGRAM: &str = "tidegate/src/";

/// The folders of the program from the bottom up, and those that each may use (docs/decisions/0106).
pub(crate) const FOLDERS: &[(&str, &[&str])] = &[
    ("support", &[]),
    ("keys", &["support"]),
    ("link", &["support"]),
    ("script", &["support", "link"]),
    ("node", &["support", "link", "script"]),
    ("input", &["support", "keys", "link", "node"]),
    ("output", &["support", "keys", "link", "node"]),
    ("config", &["support", "keys", "link", "script", "input", "output"]),
    ("services", &["support", "keys", "link", "script", "node", "input", "config"]),
    (
        "observe",
        &["support", "keys", "link", "script", "node", "input", "output", "config", "services"],
    ),
    (
        "assembly",
        &[
            "support", "keys", "link", "script", "node", "input", "output", "config", "services",
            "observe",
        ],
    ),
    (
        "cli",
        &[
            "support", "keys", "link", "script", "node", "input", "output", "config", "services",
            "observe", "assembly",
        ],
    ),
];

/// Files that use a folder which theirs may not, and that folder. The list may only get shorter.
pub(crate) const NOT_YET: &[(&str, &str)] = &[];

/// The folder of the program that a file is in, or gives its name to: that of `input/replay.rs` and of `input.rs`.
fn folder_of(path: &str) -> Option<&str> {
    let inner = path.strip_prefix(PROGRAM)?;
    let folder = inner.split('/').next()?.trim_end_matches(".rs");
    FOLDERS.iter().map(|(known, _)| *known).find(|known| *known == folder)
}

/// Every folder uses those that are listed for it.
pub(crate) fn folders_use_what_is_below(files: &[File], not_yet: &[(&str, &str)]) -> Vec<String> {
    let arrows = arrows(files, PROGRAM);
    let mut problems = Vec::new();
    let mut excused = BTreeSet::new();
    for (path, used) in &arrows {
        let Some(folder) = folder_of(path) else { continue };
        let below =
            FOLDERS.iter().find(|(known, _)| *known == folder).map_or(&[][..], |(_, below)| below);
        let others: BTreeSet<&str> = used.iter().filter_map(|other| folder_of(other)).collect();
        for other in others.into_iter().filter(|other| *other != folder && !below.contains(other)) {
            let exception = (&path[PROGRAM.len()..], other);
            match not_yet.contains(&exception) {
                true => drop(excused.insert(exception)),
                false => problems.push(format!("{path} uses {other}, which is not below {folder}")),
            }
        }
    }
    let over = not_yet.iter().filter(|exception| !excused.contains(*exception));
    problems.extend(
        over.map(|(path, other)| format!("{path} does not use {other}: take it off the list")),
    );
    problems
}

/// With all exceptions, the folders make no circle.
pub(crate) fn folders_make_no_circle(files: &[File]) -> Vec<String> {
    let mut of_folders = Arrows::new();
    for (path, used) in arrows(files, PROGRAM) {
        let Some(folder) = folder_of(&path) else { continue };
        let others =
            used.iter().filter_map(|other| folder_of(other)).filter(|other| *other != folder);
        of_folders.entry(folder.into()).or_default().extend(others.map(String::from));
    }
    circles(&of_folders)
        .iter()
        .map(|circle| format!("{} is a circle", circle.join(" -> ")))
        .collect()
}

/// The contract between the node and its drivers, and what it may use beside itself.
const CONTRACT: &str = "tidegate/src/node/contract";
/// Scripts are below the node, and no drivers.
const BELOW_CONTRACT: &[&str] =
    &["tidegate/src/support", "tidegate/src/script", "tidegate/src/node/broker"];

/// The driver contract uses nothing of those who keep to it.
pub(crate) fn the_contract_knows_no_driver(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, used) in arrows(files, PROGRAM) {
        let may = |other: &&String| {
            other.starts_with(CONTRACT)
                || BELOW_CONTRACT.iter().any(|below| other.starts_with(below))
        };
        for other in used.iter().filter(|other| path.starts_with(CONTRACT) && !may(other)) {
            problems.push(format!("{path} uses {other}: the contract knows no driver"));
        }
    }
    problems
}

/// Every file of the program is in a listed folder, and a module that has children is `a.rs` beside `a/`.
pub(crate) fn files_have_a_place(files: &[File]) -> Vec<String> {
    let of_program = files.iter().filter(|file| file.is_rust() && file.path.starts_with(PROGRAM));
    let roots = ["tidegate/src/lib.rs", "tidegate/src/main.rs"];
    let mut problems = Vec::new();
    for file in of_program.filter(|file| !roots.contains(&file.path.as_str())) {
        if folder_of(&file.path).is_none() {
            problems.push(format!("{} is in no folder of the list", file.path));
        }
        if file.name() == "mod.rs" {
            problems.push(format!("{}: name it after its folder, and beside it", file.path));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(texts: &[(&str, &str)]) -> Vec<File> {
        texts.iter().map(|(path, text)| File::new(&format!("{PROGRAM}{path}"), text)).collect()
    }

    #[test]
    fn the_list_leads_down() {
        let mut seen: Vec<&str> = Vec::new();
        for (folder, below) in FOLDERS {
            assert!(below.iter().all(|other| seen.contains(other)), "{folder}: {below:?}");
            seen.push(folder);
        }
    }

    #[test]
    fn an_arrow_that_leads_up_is_found() {
        let root = ("lib.rs", "pub mod node;\npub mod output;");
        let node = ("node.rs", "pub struct Order;");
        let right = program(&[root, node, ("output.rs", "use crate::node::Order;")]);
        assert!(folders_use_what_is_below(&right, &[]).is_empty());
        let output = ("output.rs", "pub struct Amqp;");
        let wrong = program(&[root, ("node.rs", "use crate::output::Amqp;"), output]);
        assert_eq!(
            folders_use_what_is_below(&wrong, &[]),
            ["tidegate/src/node.rs uses output, which is not below node"]
        );
        assert!(folders_use_what_is_below(&wrong, &[("node.rs", "output")]).is_empty());
        assert_eq!(folders_use_what_is_below(&right, &[("node.rs", "output")]).len(), 1);
    }

    #[test]
    fn exceptions_that_make_a_circle_are_found() {
        let files = program(&[
            ("lib.rs", "pub mod node;\npub mod output;"),
            ("node.rs", "use crate::output::Amqp;\npub struct Order;"),
            ("output.rs", "use crate::node::Order;\npub struct Amqp;"),
        ]);
        assert_eq!(folders_make_no_circle(&files), ["node -> output -> node is a circle"]);
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let files = program(&[
            ("lib.rs", "pub mod node;\npub mod output;"),
            ("node.rs", "#[cfg(test)]\nmod trial;"),
            ("node/trial.rs", "mod world;"),
            ("node/trial/world.rs", "use crate::output::Amqp;"),
            ("output.rs", "pub struct Amqp;"),
        ]);
        assert!(folders_use_what_is_below(&files, &[]).is_empty());
    }

    #[test]
    fn a_contract_that_knows_a_driver_is_found() {
        let files = program(&[
            ("lib.rs", "pub mod link;\npub mod node;\npub mod support;"),
            ("link.rs", "pub struct Links;"),
            ("node.rs", "pub mod contract;"),
            ("node/contract.rs", "use crate::link::Links;\nuse crate::support::Clock;"),
            ("support.rs", "pub struct Clock;"),
        ]);
        assert_eq!(
            the_contract_knows_no_driver(&files),
            [
                "tidegate/src/node/contract.rs uses tidegate/src/link.rs: the contract knows no driver"
            ]
        );
    }

    #[test]
    fn a_file_without_a_place_is_found() {
        let files = program(&[("lib.rs", ""), ("drive.rs", ""), ("node/contract/mod.rs", "")]);
        assert_eq!(files_have_a_place(&files).len(), 2);
    }
}
