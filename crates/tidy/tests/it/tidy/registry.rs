//! Rules about algorithms that are chosen by name: `docs/reference/algorithms.md` is written from the lists in the code,
//! so that a new algorithm is one file and one line.

use std::fmt::Write;

use crate::tidy::files::{File, text_of};

pub(crate) const PAGE: &str = "docs/reference/algorithms.md";
/// The files that hold a list, and the heading of each.
const LISTS: &[(&str, &str)] = &[
    ("Schedulers: the key `scheduler` of `[node]`", "crates/schedule/src/lib.rs"),
    ("Rate controllers: the key `law` of an output", "crates/capacity/src/lib.rs"),
    ("Matchings: the key `matching` of a fleet", "crates/fleet/src/matching.rs"),
    ("Schedulers of paths: the key `schedule` of a link", "crates/link/src/path_scheduler.rs"),
];

/// One line of a list.
#[derive(Debug, PartialEq)]
struct Algorithm<'a> {
    name: &'a str,
    /// Its file, without the ending.
    module: String,
    about: &'a str,
}

/// The lines of the list that a file holds.
fn algorithms(list: &File) -> Vec<Algorithm<'_>> {
    let root = list.path.trim_end_matches(".rs").trim_end_matches("/lib");
    let mut folder = String::new();
    let lines = list.text.lines().skip_while(|line| !line.contains("algorithms! {"));
    let mut found = Vec::new();
    for line in lines.map(str::trim) {
        if let Some(name) = line.strip_suffix('{').and_then(|line| line.strip_prefix("mod ")) {
            folder = format!("{root}/{}", name.trim()).trim_end_matches('/').into();
        }
        if line == "unlisted {" {
            break;
        }
        let Some((left, about)) = line.split_once(": \"") else { continue };
        let Some((variant, module)) = left.split_once(" in ") else { continue };
        let name = variant.split('"').nth(1).unwrap_or_default();
        let about = about.trim_end_matches("\",");
        found.push(Algorithm { name, module: format!("{folder}/{module}"), about });
    }
    found
}

/// What the header of an algorithm's file says of its source.
fn source(text: &str) -> String {
    let header = text.lines().map_while(|line| line.strip_prefix("//! "));
    let lines = header.skip_while(|line| !line.starts_with("Source: "));
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("Inputs: ")).collect();
    lines.join(" ").trim_start_matches("Source: ").trim_end_matches('.').into()
}

/// The page as it must be.
pub(crate) fn page(files: &[File]) -> String {
    let mut text = "# Algorithms by name\n\nWhat a configuration can name. This page is written by \
                    `TIDEGATE_WRITE_DOCS=1 cargo test -p tidegate-tidy`; the lists stand in the code.\n"
        .to_string();
    for (heading, path) in LISTS {
        let list = files.iter().find(|file| file.path == *path);
        let _ = write!(text, "\n## {heading}\n\n| name | what it does | file | source |\n");
        text += "|---|---|---|---|\n";
        for Algorithm { name, module, about } in list.map(algorithms).unwrap_or_default() {
            let file = format!("{module}.rs");
            let source = source(text_of(files, &file));
            let _ = writeln!(
                text,
                "| `{name}` | {about} | `{file}` | {} |",
                source.replace('|', "\\|")
            );
        }
    }
    text
}

/// The page says what the lists say.
pub(crate) fn page_is_that_of_the_lists(files: &[File]) -> Vec<String> {
    let is_same = text_of(files, PAGE) == page(files);
    let problem = || format!("{PAGE} is old: TIDEGATE_WRITE_DOCS=1 cargo test -p tidegate-tidy");
    if is_same { Vec::new() } else { vec![problem()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_list_is_a_row_of_the_page() {
        let list = "tidegate_types::algorithms! {\n    pub enum SchedulerName: \"scheduler\" -> Entry {\n        \
                    mod {\n            Tide = \"tide\" in tide: \"Ours.\",\n        }\n        mod baselines {\n            \
                    Newest = \"newest\" in newest: \"The newest first.\",\n        }\n    }\n}\n";
        let header = "//! The newest first.\n//! Source: own.\n";
        let files = [
            File::new("crates/schedule/src/lib.rs", list),
            File::new("crates/schedule/src/baselines/newest.rs", header),
        ];
        let row =
            "| `newest` | The newest first. | `crates/schedule/src/baselines/newest.rs` | own |";
        assert!(page(&files).contains(row), "{}", page(&files));
        assert_eq!(algorithms(&files[0])[0].module, "crates/schedule/src/tide");
        assert_eq!(page_is_that_of_the_lists(&files).len(), 1);
    }
}
