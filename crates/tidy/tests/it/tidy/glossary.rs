//! Rules about words: a public type has a name of its own, and the glossary names types that exist.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::files::{File, text_of};
use crate::tidy::manifests::ROOMS;

const GLOSSARY: &str = "docs/GLOSSARY.md";
/// The part of the glossary for the program, which is no room.
const PROGRAM: &str = "tidegate";
/// Names that several types may have: each is the field's word for the same thing in another place.
const SHARED: &[&str] = &["Counts", "Error", "Event", "Input", "Options", "Output", "Refusal"];

/// Names that a type within one room has beside another room's public type: the node and a link have an outbox each.
const SHARED_INSIDE: &[&str] = &["Outbox"];

/// Public types by name: the files that declare each.
fn declarations(files: &[File]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (room, _) in ROOMS {
        let folder = format!("crates/{room}/src/");
        let inside = |file: &&File| file.path.starts_with(&folder) && file.is_rust();
        for file in files.iter().filter(inside).filter(|file| !file.is_test()) {
            for name in file.product_lines().into_iter().filter_map(declared) {
                all.entry(name.into()).or_default().push(file.path.clone());
            }
        }
    }
    all
}

/// The name of the public type that a line declares, at any depth: a macro may stand around it.
fn declared(line: &str) -> Option<&str> {
    named_type(line.trim_start().strip_prefix("pub ")?)
}

fn named_type(rest: &str) -> Option<&str> {
    const KINDS: [&str; 4] = ["struct ", "enum ", "trait ", "type "];
    let rest = KINDS.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let is_of_word = |char: char| char.is_alphanumeric() || char == '_';
    rest.split(|char| !is_of_word(char)).next().filter(|name| !name.is_empty())
}

/// The name of the type that a line declares for its own room only, at the file's outermost level.
fn declared_inside(line: &str) -> Option<&str> {
    if line.starts_with("pub ") || line.starts_with(' ') {
        return None;
    }
    let rest = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => line,
    };
    named_type(rest)
}

/// No two public types of the rooms have one name, but for the few that are shared.
pub(crate) fn types_have_names_of_their_own(files: &[File]) -> Vec<String> {
    let all = declarations(files);
    let double = all.iter().filter(|(name, at)| at.len() > 1 && !SHARED.contains(&name.as_str()));
    double.map(|(name, at)| format!("{name} is declared in {}", at.join(" and "))).collect()
}

/// No type within a room has the name of another room's public type: the word would have two meanings.
pub(crate) fn inner_types_leave_public_names_alone(files: &[File]) -> Vec<String> {
    let public = declarations(files);
    let rooms = ROOMS.iter().map(|(room, _)| format!("crates/{room}/src/"));
    let inside = |folder: String| {
        let of_room = move |file: &&File| file.path.starts_with(&folder) && file.is_rust();
        files.iter().filter(of_room).filter(|file| !file.is_test())
    };
    let mut problems = Vec::new();
    for file in rooms.flat_map(inside) {
        let room = file.path.split('/').nth(1);
        for name in file.product_lines().into_iter().filter_map(declared_inside) {
            let is_other = |path: &&String| path.split('/').nth(1) != room;
            let known = SHARED.contains(&name) || SHARED_INSIDE.contains(&name);
            let other = public.get(name).and_then(|at| at.iter().find(is_other));
            if let Some(other) = other.filter(|_| !known) {
                problems.push(format!("{name} of {} is a public type of {other}", file.path));
            }
        }
    }
    problems
}

/// Types of the program, for whomever they are declared.
fn of_the_program(files: &[File]) -> BTreeSet<&str> {
    let is_its = |file: &&File| file.path.starts_with("tidegate/src/") && !file.is_test();
    let lines = files.iter().filter(is_its).flat_map(File::product_lines);
    lines.filter_map(|line| declared(line).or_else(|| declared_inside(line))).collect()
}

/// Each room and the program have a part of the glossary, each word one row, and each type of a row is the room's.
pub(crate) fn glossary_names_types_that_exist(files: &[File]) -> Vec<String> {
    let (all, program) = (declarations(files), of_the_program(files));
    let is_of = |name: &str, room: &str| {
        let folder = format!("crates/{room}/");
        let is_its =
            || all.get(name).is_some_and(|at| at.iter().any(|path| path.starts_with(&folder)));
        if room == PROGRAM { program.contains(name) } else { is_its() }
    };
    let (mut room, mut rooms, mut words) = ("", BTreeSet::new(), BTreeSet::new());
    let mut problems = Vec::new();
    for line in text_of(files, GLOSSARY).lines() {
        if let Some(name) = line.strip_prefix("## ") {
            room = name;
            rooms.insert(name);
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, word, _, types, _] = cells[..] else { continue };
        if word == "word" || word.starts_with("---") {
            continue;
        }
        if !words.insert(word) {
            problems.push(format!("{GLOSSARY} explains \"{word}\" twice"));
        }
        let names = types.split('`').skip(1).step_by(2);
        let gone = names.filter(|name| !is_of(name, room));
        problems.extend(gone.map(|name| format!("{GLOSSARY}: {room} has no type {name}")));
    }
    let all = ROOMS.iter().map(|(room, _)| *room).chain([PROGRAM]);
    let silent = all.filter(|room| !rooms.contains(room));
    problems.extend(silent.map(|room| format!("{GLOSSARY} has no words of {room}")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_inside_a_room_with_a_public_name_of_another_is_found() {
        let log = File::new("crates/log/src/seal.rs", "pub struct Key;");
        let inside =
            |path, text| [File::new("crates/log/src/seal.rs", &log.text), File::new(path, text)];
        let check = |path, text| inner_types_leave_public_names_alone(&inside(path, text)).len();
        assert_eq!(check("crates/fleet/src/grants.rs", "pub(super) type Key = u64;"), 1);
        assert_eq!(check("crates/fleet/src/grants.rs", "struct Key;"), 1);
        assert_eq!(check("crates/fleet/src/grants.rs", "    type Key = u64;"), 0);
        assert_eq!(check("crates/log/src/keys.rs", "struct Key;"), 0);
    }

    #[test]
    fn two_types_of_one_name_are_found() {
        let file = |path: &str, text: &str| File::new(path, text);
        let log =
            || file("crates/log/src/scan.rs", "pub struct Frame {\n    pub enum_like: u8,\n}\n");
        let link = |text: &str| [log(), file("crates/link/src/packet.rs", text)];
        let check = |text: &str| types_have_names_of_their_own(&link(text)).len();
        assert_eq!(check("pub enum Frame<'a> {\n"), 1);
        assert_eq!(check("named! {\n    pub enum Frame: \"frame\" {\n"), 1);
        assert_eq!(check("pub(super) struct Frame;\nstruct Frame;\npub enum Frames {}\n"), 0);
        assert_eq!(check("#[cfg(test)]\nmod tests {\n    pub struct Frame;\n}\n"), 0);
    }

    #[test]
    fn a_word_of_a_type_that_is_gone_is_found() {
        let check = |row: &str| {
            let text = format!("## log\n\n| word | meaning | type |\n|---|---|---|\n{row}\n");
            let files = [
                File::new(GLOSSARY, &text),
                File::new("crates/log/src/scan.rs", "pub struct Run;\n"),
            ];
            let problems = glossary_names_types_that_exist(&files);
            problems.len() - ROOMS.len()
        };
        assert_eq!(check("| run | Numbers in a row. | `Run` |"), 0);
        assert_eq!(check("| run | Numbers in a row. | `Run`, `Runs` |"), 1);
        assert_eq!(check("| run | One. | `Run` |\n| run | Another. | |"), 1);
        let program = [
            File::new(
                GLOSSARY,
                "## tidegate\n\n| desk | A place. | `Desk` |\n| hall | A room. | `Hall` |\n",
            ),
            File::new("tidegate/src/a.rs", "pub(super) struct Desk;\n"),
        ];
        let problems = glossary_names_types_that_exist(&program);
        assert!(problems.contains(&"docs/GLOSSARY.md: tidegate has no type Hall".to_owned()));
        assert_eq!(problems.len() - ROOMS.len(), 1, "{problems:?}");
    }
}
