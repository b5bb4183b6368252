//! The table of promises: every attack has a test or a command, and these exist.

use crate::tidy::files::{File, text_of};

/// The table.
const TABLE: &str = "docs/PROMISES.md";
/// Where attacks of `lab bench hostile` stand.
const ATTACKS: &str = "lab/src/bench/hostile/table.rs";
/// Fewer attacks than this are no table.
const ROWS_MIN: usize = 40;

pub(crate) fn attacks_have_tests(files: &[File]) -> Vec<String> {
    let text = text_of(files, TABLE);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
    let mut problems = Vec::new();
    if rows.len() < ROWS_MIN {
        problems.push(format!("{TABLE} has {} rows, fewer than {ROWS_MIN}", rows.len()));
    }
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        // The table's own head has no names in it.
        let [_, attack, tests] = cells[..] else {
            problems.push(format!("{TABLE}: not promise, attack and test: {row}"));
            continue;
        };
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if names.is_empty() && attack != "what a stranger tries" {
            problems.push(format!("{TABLE}: no test of {attack:?}"));
        }
        let missing = names.into_iter().filter(|name| !exists(files, name));
        problems.extend(missing.map(|name| format!("{TABLE} names {name}")));
    }
    problems
}

/// Whether there is a test of this name, or a command.
fn exists(files: &[File], name: &str) -> bool {
    if let Some(attack) = name.strip_prefix("lab bench hostile ") {
        return text_of(files, ATTACKS).contains(&format!("\"{attack}\""));
    }
    if let Some(target) = name.strip_prefix("make fuzz TARGET=") {
        return text_of(files, "fuzz/src/lib.rs").contains(&format!("(\"{target}\", "));
    }
    if name.starts_with("lab ") || name.starts_with("make ") {
        return true;
    }
    let (plain, waiting) = (format!("fn {name}("), format!("async fn {name}("));
    let is_test = |file: &&File| {
        let mut begins = false;
        file.text.lines().any(|line| {
            let line = line.trim_start();
            let is_it = begins && (line.starts_with(&plain) || line.starts_with(&waiting));
            begins = line.starts_with("#[test]")
                || line.starts_with("#[tokio::test")
                || begins && (line.starts_with("#[") || line.starts_with("///"));
            is_it
        })
    };
    files.iter().filter(|file| file.is_rust()).any(|file| is_test(&file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_without_a_test_is_found() {
        let check = |cell: &str| {
            let head = "| promise | what a stranger tries | test |\n|---|---|---|\n";
            let row = "| bounded | a `giant` | `it_is_refused` |\n".repeat(ROWS_MIN);
            let table = File::new(TABLE, &format!("{head}{row}| bounded | a dwarf | {cell} |\n"));
            let code = "#[tokio::test]\nasync fn it_is_refused() {\n}\nfn no_test() {}\n";
            let attacks = File::new(ATTACKS, "attack(\"wills\", MEMORY)");
            attacks_have_tests(&[table, attacks, File::new("a.rs", code)]).len()
        };
        assert_eq!(check("`it_is_refused`, `lab bench hostile wills`, `make test`"), 0);
        assert_eq!([check("`it_was_refused`"), check("`no_test`"), check("by hand")], [1, 1, 1]);
        assert_eq!([check("`lab bench hostile away`"), check("`a` | `b`")], [1, 1]);
        assert_eq!(attacks_have_tests(&[]).len(), 1);
    }
}
