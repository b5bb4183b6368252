//! Rules about documents: every relative link leads to a file and a heading that exist, and every
//! block of TOML, JSON or shell parses. What a block of Luau is, `tidegate/tests/it/documents.rs` asks Luau.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use crate::tidy::files::File;

/// What the rules looked at, so that a run can say how much it was.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Looked {
    pub(crate) links: usize,
    pub(crate) anchors: usize,
    pub(crate) blocks: usize,
}

/// A document taken apart, by the rules that GitHub draws it with.
#[derive(Default)]
struct Parts {
    /// Targets of links and pictures.
    links: Vec<String>,
    /// What `#...` can name.
    anchors: BTreeSet<String>,
    /// Language, text and first line of each fenced block.
    blocks: Vec<(String, String, usize)>,
}

pub(crate) fn links_lead_somewhere(files: &[File]) -> Vec<String> {
    links(files).0
}

pub(crate) fn blocks_parse(files: &[File]) -> Vec<String> {
    blocks(files).0
}

pub(crate) fn looked(files: &[File]) -> Looked {
    let of_links = links(files).1;
    Looked { blocks: blocks(files).1, ..of_links }
}

/// Stations of the walk that a reader remembers.
const STATIONS_MAX: usize = 12;

/// The walk in docs/ARCHITECTURE.md: each station is a function in a file of a room, no file comes twice, and the
/// files of a room come in the order in which its opening page names them.
pub(crate) fn the_walk_is_true(files: &[File]) -> Vec<String> {
    const WALK: &str = "docs/ARCHITECTURE.md";
    let text_of = |path: &str| files.iter().find(|file| file.path == path).map(|file| &*file.text);
    let Some(walk) = text_of(WALK) else { return Vec::new() };
    let mut problems = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for section in walk.split("\n## ").skip(1) {
        let Some((number, rest)) = section.split_once(". `") else { continue };
        let Ok(number) = number.parse::<usize>() else { continue };
        let quoted: Vec<&str> = rest.split('`').collect();
        let (name, file) = (quoted[0], quoted.get(2).copied().unwrap_or_default());
        let function = name.rsplit("::").next().unwrap_or_default();
        let is_there = text_of(file).is_some_and(|text| text.contains(&format!("fn {function}(")));
        let page = file.split_once("/src/").map(|(room, _)| format!("{room}/src/lib.rs"));
        let page = page.and_then(|page| text_of(&page)).unwrap_or_default();
        let line_of = |file: &str| {
            let name = file.split_once("/src/").map(|(_, name)| format!("`{name}`"))?;
            page.lines().position(|line| line.contains(&name))
        };
        let room = file.split("/src/").next();
        let before = seen.iter().rev().find(|other| other.split("/src/").next() == room);
        for (is_so, problem) in [
            (number == seen.len() + 1, "is not the next number"),
            (number <= STATIONS_MAX, "is one too many"),
            (is_there, "is not in the file that it names"),
            (!seen.contains(&file), "is in a file that was read before"),
            (
                before.is_none_or(|before| line_of(before) < line_of(file)),
                "comes in another order than the room's opening page says",
            ),
        ] {
            if !is_so {
                problems.push(format!("{WALK}: station {number}, {name}, {problem}"));
            }
        }
        seen.push(file);
    }
    problems
}

fn documents(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path.ends_with(".md"))
}

fn links(files: &[File]) -> (Vec<String>, Looked) {
    let parts: BTreeMap<&str, Parts> =
        documents(files).map(|file| (file.path.as_str(), parts_of(&file.text))).collect();
    let exists = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    };
    let (mut problems, mut looked) = (Vec::new(), Looked::default());
    for (document, of_it) in &parts {
        for link in of_it.links.iter().filter(|link| is_relative(link)) {
            looked.links += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let Some(target) = place(document, path).filter(|target| exists(target)) else {
                problems.push(format!("{document} links to {link}: there is no such file"));
                continue;
            };
            if anchor.is_empty() {
                continue;
            }
            looked.anchors += 1;
            if !parts.get(target.as_str()).is_some_and(|parts| parts.anchors.contains(anchor)) {
                problems.push(format!("{document} links to {link}: there is no such heading"));
            }
        }
    }
    (problems, looked)
}

fn blocks(files: &[File]) -> (Vec<String>, usize) {
    let (mut problems, mut looked) = (Vec::new(), 0);
    for document in documents(files) {
        for (language, text, line) in parts_of(&document.text).blocks {
            let error = match language.as_str() {
                "toml" => text.parse::<toml::Table>().err().map(|error| error.to_string()),
                "json" => serde_json::from_str::<serde_json::Value>(&text)
                    .err()
                    .map(|error| error.to_string()),
                "sh" => shell_error(&text),
                _ => continue,
            };
            looked += 1;
            let at = format!("{}:{line}", document.path);
            problems.extend(error.map(|error| format!("{at}: this {language} is wrong: {error}")));
        }
    }
    (problems, looked)
}

/// What bash says of commands that it only reads. Without bash nothing is said.
fn shell_error(text: &str) -> Option<String> {
    let piped = (Stdio::piped(), Stdio::null(), Stdio::piped());
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(piped.0)
        .stdout(piped.1)
        .stderr(piped.2)
        .spawn()
        .ok()?;
    let is_written = bash.stdin.take().is_some_and(|mut to| to.write_all(text.as_bytes()).is_ok());
    let said = bash.wait_with_output().ok()?;
    let is_right = is_written && said.status.success() && said.stderr.is_empty();
    (!is_right).then(|| String::from_utf8_lossy(&said.stderr).into_owned())
}

fn is_relative(link: &str) -> bool {
    !link.contains("://") && !link.starts_with("mailto:")
}

/// Where `path` leads from `document`; `None` when it leaves the repository.
fn place(document: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(document.into());
    }
    let mut folders: Vec<&str> = document.split('/').collect();
    folders.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(folders.pop()?),
            name => folders.push(name),
        }
    }
    Some(folders.join("/"))
}

fn parts_of(text: &str) -> Parts {
    let mut parts = Parts::default();
    let mut paragraph = String::new();
    let mut open: Option<(String, String, usize)> = None;
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, open.take()) {
            (Some(words), None) => {
                // Behind the language may stand what `scripts/blocks.py` reads.
                let language = words.split_whitespace().next().unwrap_or_default();
                open = Some((language.into(), String::new(), at + 1));
            }
            (Some(_), Some(block)) => parts.blocks.push(block),
            (None, Some((language, inside, from))) => {
                open = Some((language, inside + line + "\n", from));
            }
            (None, None) => {
                if let Some(name) = heading(line) {
                    let seen = names.entry(name.clone()).or_default();
                    parts.anchors.insert(match *seen {
                        0 => name,
                        again => format!("{name}-{again}"),
                    });
                    *seen += 1;
                }
                let given = line.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next());
                parts.anchors.extend(given.map(String::from));
                if line.trim().is_empty() {
                    parts.links.extend(targets(&paragraph));
                    paragraph.clear();
                }
                paragraph.push_str(line);
                paragraph.push('\n');
            }
        }
    }
    parts.links.extend(targets(&paragraph));
    parts
}

/// The anchor of a heading: its words in small letters, joined by dashes.
fn heading(line: &str) -> Option<String> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let words = line.get(level..)?.strip_prefix(' ').filter(|_| (1..=6).contains(&level))?;
    let mut name = String::new();
    for char in words.trim().to_lowercase().chars() {
        match char {
            ' ' => name.push('-'),
            '-' | '_' => name.push(char),
            letter if letter.is_alphanumeric() => name.push(letter),
            _ => {}
        }
    }
    Some(name)
}

/// Where the links and pictures of a paragraph lead, but for what stands in backquotes.
fn targets(paragraph: &str) -> Vec<String> {
    let prose: String = paragraph.split('`').step_by(2).collect();
    let mut targets = Vec::new();
    for (before, after) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        for rest in prose.split(before).skip(1) {
            let target = rest.split([after, ' ', '\n']).next().unwrap_or_default();
            targets.push(target.to_string());
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_is_not_true_is_found() {
        let check = |walk: &str| {
            let page = "//! | `a.rs` | |\n//! | `b.rs` | |";
            let files = [
                File::new("docs/ARCHITECTURE.md", walk),
                File::new("crates/node/src/lib.rs", page),
                File::new("crates/node/src/a.rs", "fn one() {}"),
                File::new("crates/node/src/b.rs", "fn two() {}"),
            ];
            the_walk_is_true(&files)
        };
        let a = "\n## 1. `A::one`\n\n`crates/node/src/a.rs`: it comes.";
        let b = "\n## 2. `B::two`\n\n`crates/node/src/b.rs`: it goes.";
        assert!(check(&format!("{a}\n\n## Elsewhere\n{b}")).is_empty());
        let other = a.replace("one", "gone");
        let twice = a.replace("1.", "2.");
        let (late, early) = (a.replace("1.", "2."), b.replace("2.", "1."));
        for (walk, problem) in [
            (b.to_string(), "is not the next number"),
            (other, "is not in the file that it names"),
            (format!("{a}\n{twice}"), "is in a file that was read before"),
            (format!("{early}\n{late}"), "comes in another order than the room's"),
        ] {
            assert!(check(&walk).iter().any(|line| line.contains(problem)), "{walk}: {problem}");
        }
    }

    fn check(text: &str) -> (Vec<String>, Looked) {
        let files = [
            File::new("docs/a.md", text),
            File::new("docs/b.md", "# One `two`: three\n\n## Again\n\n## Again\n"),
            File::new("LICENSE", ""),
        ];
        (links_lead_somewhere(&files), looked(&files))
    }

    #[test]
    fn a_link_to_a_file_of_the_past_is_found() {
        let (problems, looked) =
            check("[a](b.md), ![b](../LICENSE), [c](https://x.org/y), [d](../docs/)");
        assert_eq!((problems, looked.links), (vec![], 3));
        assert_eq!(check("[a](c.md) and <img src=\"d.svg\">").0.len(), 2);
        assert_eq!(check("[a](../../b.md)").0.len(), 1);
        assert_eq!(check("`[a](c.md)`\n\n```\n[a](c.md)\n```\n").0.len(), 0);
    }

    #[test]
    fn a_link_to_a_heading_of_the_past_is_found() {
        let (problems, looked) =
            check("# Own\n[a](#own), [b](b.md#one-two-three), [c](b.md#again-1)");
        assert_eq!((problems, looked.anchors), (vec![], 3));
        assert_eq!(check("[a](#own), [b](b.md#again-2), [c](../LICENSE#x)").0.len(), 3);
        assert_eq!(check("```\n# Own\n```\n[a](#own)").0.len(), 1);
        assert_eq!(check("| <a id=\"own\"></a> | [a](#own) |").0.len(), 0);
    }

    #[test]
    fn a_block_that_does_not_parse_is_found() {
        let check = |text: &str| blocks_parse(&[File::new("a.md", text)]).len();
        assert_eq!(check("```toml\na = 1\n```\n```json\n{\"a\": 1}\n```\n```sh\na = =\n```\n"), 0);
        assert_eq!(check("```toml\na = 1\na = 2\n```\n```json\n{a: 1}\n```\n"), 2);
        assert_eq!(looked(&[File::new("a.md", "```toml file=a\na = 1\n```\n")]).blocks, 1);
        assert_eq!(check("```sh run\nif true; then\n  echo 'a b' | cat\nfi\n```\n"), 0);
        assert_eq!(check("```sh\necho 'a b\n```\n```sh\nif true\n```\n"), 2);
    }
}
