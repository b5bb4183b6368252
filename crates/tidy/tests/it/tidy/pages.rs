//! Rules about opening pages: each room's `lib.rs` has a table of the files of its folder, and an example.

use std::collections::BTreeSet;

use crate::tidy::files::{File, text_of};
use crate::tidy::manifests::ROOMS;

/// The table of a room's `lib.rs` names each file and folder beside it, and nothing else.
pub(crate) fn tables_name_every_file(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for (room, _) in ROOMS {
        let folder = format!("crates/{room}/src/");
        let page = text_of(files, &format!("{folder}lib.rs"));
        let (listed, exist) = (listed(page), modules(files, &folder));
        let gone = listed.difference(&exist).map(|name| format!("names {name}, which is gone"));
        let missing = exist.difference(&listed).map(|name| format!("does not name {name}"));
        let at = |what: String| format!("the table of {folder}lib.rs {what}");
        problems.extend(gone.chain(missing).map(at));
    }
    problems
}

/// The page of each room shows how the room is used.
pub(crate) fn pages_have_an_example(files: &[File]) -> Vec<String> {
    let pages = ROOMS.iter().map(|(room, _)| format!("crates/{room}/src/lib.rs"));
    let without = pages.filter(|page| !text_of(files, page).contains("\n//! ```\n"));
    without.map(|page| format!("{page} has no example")).collect()
}

/// The files and folders that the first column of the table names; what lies deeper counts as its folder.
fn listed(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("//! | "));
    let cells = rows.filter_map(|row| row.split('|').next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let first = names.map(|name| name.split('/').next().unwrap_or_default());
    first.map(|name| name.trim_end_matches(".rs").to_string()).collect()
}

/// The modules of a folder, tests left out.
fn modules(files: &[File], folder: &str) -> BTreeSet<String> {
    let inside = files.iter().filter(|file| file.is_rust() && !file.is_test());
    let names = inside.filter_map(|file| file.path.strip_prefix(folder)?.split('/').next());
    let modules = names.map(|name| name.trim_end_matches(".rs").to_string());
    modules.filter(|name| name != "lib").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_a_file_or_with_one_that_is_gone_is_found() {
        let page = "//! A log.\n//!\n//! | file | what |\n//! |---|---|\n//! | `scan`, `walk/deep.rs` | reads |\n";
        let names = ["lib.rs", "scan.rs", "walk/deep.rs", "tests.rs"];
        let mut files: Vec<File> =
            names.iter().map(|name| File::new(&format!("crates/log/src/{name}"), "")).collect();
        files[0].text = page.into();
        let of_log = |files: &[File]| -> Vec<String> {
            let all = tables_name_every_file(files).into_iter();
            all.filter(|problem| problem.contains("crates/log/")).collect()
        };
        assert!(of_log(&files).is_empty(), "{:?}", of_log(&files));
        files[1].path = "crates/log/src/preallocation.rs".into();
        assert_eq!(of_log(&files).len(), 2);
        assert_eq!(pages_have_an_example(&files).len(), ROOMS.len());
    }
}
