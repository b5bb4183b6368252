//! Rules about any text: reminders, what only one machine has, and documents that tell the truth.

use crate::tidy::files::{File, has_word, text_of};

/// Folders of one machine, and servers that cargo, pip and apt know by themselves. Written in two
/// parts, so that this file obeys its own rule.
const UNPORTABLE: &[(&str, &str)] = &[
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("/ho", "me/"),
    ("/tm", "p/"),
    ("crates", ".io"),
    ("pypi", ".org"),
    ("pythonhosted", ".org"),
    ("proxy.golang", ".org"),
    ("registry.npm", "js"),
    ("debian", ".org"),
    ("static.rust-", "lang"),
    ("docker", ".io"),
    ("ghcr", ".io"),
];
/// The one source that a lock file may name: cargo's default, whatever mirror a machine uses.
const CARGO_SOURCE: (&str, &str) = ("registry+https://github.com/rust-lang/crates", ".io-index");

pub(crate) fn reminders_name_an_issue(files: &[File]) -> Vec<String> {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let names_issue = |line: &str| {
        let numbered = |mark: &str| {
            let after = line.split(mark).skip(1);
            after.into_iter().any(|rest| rest.starts_with(|char: char| char.is_ascii_digit()))
        };
        numbered("#") || numbered("issue ")
    };
    let mut problems = Vec::new();
    for file in files {
        for (at, line) in file.text.lines().enumerate() {
            let word = words.into_iter().find(|word| has_word(line, word));
            if let Some(word) = word.filter(|_| !names_issue(line)) {
                problems.push(format!("{}:{}: {word} without an issue", file.path, at + 1));
            }
        }
    }
    problems
}

pub(crate) fn files_are_portable(files: &[File]) -> Vec<String> {
    let source = format!("source = \"{}{}\"", CARGO_SOURCE.0, CARGO_SOURCE.1);
    let bad: Vec<String> = UNPORTABLE.iter().map(|(head, tail)| format!("{head}{tail}")).collect();
    let mut problems = Vec::new();
    for file in files {
        for (at, line) in file.text.lines().enumerate() {
            if file.name() == "Cargo.lock" && line == source {
                continue;
            }
            let found = bad.iter().find(|bad| line.contains(*bad));
            let strange = file.name() == "Cargo.lock" && line.starts_with("source = ");
            if let Some(what) = found.map(String::as_str).or(strange.then_some("this source")) {
                problems.push(format!("{}:{}: {what} is not for all", file.path, at + 1));
            }
        }
    }
    problems
}

/// Every text `tidegate_...` of the file that declares the metrics stands in the guide.
pub(crate) fn metrics_are_documented(files: &[File]) -> Vec<String> {
    let is_metric = |text: &&str| {
        let plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
        text.starts_with("tidegate_") && text.chars().all(plain)
    };
    let guide = text_of(files, "docs/reference/metrics.md");
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("tidegate/src/metrics")) {
        let lines = file.product_lines();
        let texts = lines.iter().flat_map(|line| line.split('"').skip(1).step_by(2));
        let unknown = texts.filter(is_metric).filter(|name| !has_word(guide, name));
        problems.extend(unknown.map(|name| format!("{name} is not in docs/reference/metrics.md")));
    }
    problems
}

/// Rules for alerts ask for metrics that the guide knows.
pub(crate) fn alerts_ask_for_metrics(files: &[File]) -> Vec<String> {
    let guide = text_of(files, "docs/reference/metrics.md");
    let rules = text_of(files, "packaging/alerts.yaml");
    let words = rules.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
    let unknown = words.filter(|word| word.starts_with("tidegate_") && !has_word(guide, word));
    unknown.map(|name| format!("packaging/alerts.yaml asks for {name}")).collect()
}

/// Documents name files by their path from the root, in backquotes.
pub(crate) fn documents_name_real_files(files: &[File]) -> Vec<String> {
    const FOLDERS: [&str; 7] =
        ["crates/", "docs/", "examples/", "fuzz/", "lab/", "scripts/", "tidegate/"];
    let is_path = |text: &&str| {
        let begins = FOLDERS.iter().any(|folder| text.starts_with(folder));
        begins && !text.contains([' ', '*', '<', '{', ':'])
    };
    let exists = |path: &str| {
        files
            .iter()
            .any(|file| file.path == path || path.ends_with('/') && file.path.starts_with(path))
    };
    let mut problems = Vec::new();
    for document in files.iter().filter(|file| file.path.ends_with(".md")) {
        let names = document.text.split('`').skip(1).step_by(2).filter(is_path);
        let missing = names.filter(|name| !exists(name));
        problems.extend(missing.map(|name| format!("{} names {name}", document.path)));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_for_a_metric_of_the_past_is_found() {
        let check = |metric: &str| {
            let guide = File::new("docs/reference/metrics.md", "| `tidegate_late_total` |");
            let rules = format!("- expr: rate({metric}{{a=\"b\"}}[5m]) > 0\n");
            alerts_ask_for_metrics(&[guide, File::new("packaging/alerts.yaml", &rules)]).len()
        };
        assert_eq!([check("tidegate_late_total"), check("tidegate_late")], [0, 1]);
    }

    #[test]
    fn a_reminder_without_an_issue_is_found() {
        let check = |text: &str| reminders_name_an_issue(&[File::new("a.rs", text)]).len();
        let word = concat!("TO", "DO");
        assert_eq!(check(&format!("// {word}: later")), 1);
        assert_eq!(check(&format!("// {word}(#12): later\n// {word}, issue 12")), 0);
        assert_eq!(check(concat!("// MAS", "TO", "DON")), 0);
    }

    #[test]
    fn what_one_machine_has_is_found() {
        let check = |path: &str, text: &str| files_are_portable(&[File::new(path, text)]).len();
        assert_eq!(check("a.md", concat!("see /ro", "ot/x")), 1);
        assert_eq!(check("a.sh", concat!("curl https://pypi", ".org/simple")), 1);
        assert_eq!(check("a.md", "see docs/x"), 0);
        let source = format!("source = \"{}{}\"", CARGO_SOURCE.0, CARGO_SOURCE.1);
        assert_eq!([check("Cargo.lock", &source), check("a.md", &source)], [0, 1]);
        assert_eq!(check("Cargo.lock", "source = \"registry+https://mirror.example\""), 1);
    }

    #[test]
    fn an_undocumented_metric_is_found() {
        let declared =
            || File::new("tidegate/src/metrics.rs", "counter(\"tidegate_a_total\", \"Help\");");
        let check = |guide: &str| {
            metrics_are_documented(&[declared(), File::new("docs/reference/metrics.md", guide)])
                .len()
        };
        assert_eq!([check("`tidegate_a_total` counts"), check("`tidegate_a_totals`")], [0, 1]);
    }

    #[test]
    fn a_document_that_names_a_file_of_the_past_is_found() {
        let check = |text: &str| {
            let code = File::new("crates/capacity/src/pace.rs", "");
            documents_name_real_files(&[code, File::new("README.md", text)]).len()
        };
        assert_eq!(
            check(
                "`crates/capacity/src/pace.rs`, `crates/capacity/src/`, `lab sim`, `types::units`"
            ),
            0
        );
        assert_eq!(check("`crates/gone.rs` and `crates/gone/`"), 2);
    }
}
