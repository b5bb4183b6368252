//! Rules about Rust files: their size, their header, and calls that should be rare.

use crate::tidy::files::{File, code_of, has_word, text_of};
use crate::tidy::registry;

/// Non-test lines at which a file must be split, whatever it holds.
const LINES_MAX: usize = 600;
/// Above this a file needs a place in `OVERSIZED`.
const LINES_REVIEW: usize = 400;
/// Files above `LINES_REVIEW`, and the non-test lines that they may have: `SLACK` above what they
/// have, at most.
pub(crate) const OVERSIZED: &[(&str, usize)] = &[];
const SLACK: usize = 20;
/// Calls of `unwrap` and `expect` outside tests, for a thousand lines of a crate; a number may only fall.
pub(crate) const UNWRAPS_PER_KLOC: &[(&str, f64)] =
    &[("crates", 3.0), ("tidegate", 3.0), ("lab", 3.0)];
/// The files that may hold the word, each for one system call that no crate offers as a safe one.
const UNSAFE_FILES: &[&str] = &["lab/engine/src/net/tun.rs", "tidegate/src/support/tcp_info.rs"];
/// Files, and folders (with a slash), that hold algorithms.
const ALGORITHMS: &[&str] = &[
    "crates/schedule/src/allocate.rs",
    "crates/capacity/src/",
    "crates/schedule/src/estimate.rs",
    "crates/fleet/src/matching/",
    "crates/frames/src/",
    "crates/link/src/predict/",
    "crates/link/src/path_scheduler/",
    "crates/evaluation/src/optimum/",
    "crates/cluster/src/place/",
    "crates/schedule/src/baselines/",
    "crates/schedule/src/shares.rs",
    "crates/schedule/src/throttle.rs",
    "crates/schedule/src/tidegate.rs",
];
/// What in these folders is composition or a helper.
const NO_ALGORITHMS: &[&str] = &[
    "delivery_rate.rs",
    "baselines.rs",
    "capped.rs",
    "controller.rs",
    "route_change.rs",
    "error.rs",
    "judge.rs",
    "learn.rs",
    "lib.rs",
    "max_rate.rs",
    "mod.rs",
    "names.rs",
    "predictor.rs",
    "round_trip.rs",
    "scheduler.rs",
    "measured.rs",
    "series.rs",
    "standing_queue.rs",
    "swing.rs",
    "target.rs",
    "tests.rs",
    "test_link.rs",
    "uplink.rs",
    "window_filter.rs",
];

pub(crate) fn file_sizes(files: &[File], oversized: &[(&str, usize)]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let lines = file.product_lines().len();
        let recorded = oversized.iter().find(|(path, _)| *path == file.path).map(|(_, size)| *size);
        let problem = match recorded {
            _ if lines > LINES_MAX => {
                format!("has {lines} lines, {LINES_MAX} is the end: split it")
            }
            None if lines > LINES_REVIEW => {
                format!("has {lines} lines, more than {LINES_REVIEW}: split it")
            }
            Some(size) if lines > size => format!("grew to {lines} lines from {size}: split it"),
            Some(size) if lines <= LINES_REVIEW => {
                format!("fell to {lines} lines from {size}: take it off OVERSIZED")
            }
            Some(size) if lines + SLACK < size => {
                format!("fell to {lines} lines from {size}: record that in OVERSIZED")
            }
            _ => continue,
        };
        problems.push(format!("{} {problem}", file.path));
    }
    let gone = |path: &str| files.iter().all(|file| file.path != path);
    let missing = oversized.iter().filter(|(path, _)| gone(path));
    problems.extend(missing.map(|(path, _)| format!("{path} is gone: take it off OVERSIZED")));
    problems
}

pub(crate) fn algorithm_headers(files: &[File]) -> Vec<String> {
    const OPENINGS: [&str; 4] = ["Source: ", "Inputs: ", "Deviations: ", "Limits: "];
    let book = text_of(files, "docs/ALGORITHMS.md");
    let by_name = text_of(files, registry::PAGE);
    let is_algorithm = |file: &&File| {
        let covers = |place: &&str| {
            file.path == **place || place.ends_with('/') && file.path.starts_with(*place)
        };
        file.is_rust() && ALGORITHMS.iter().any(covers) && !NO_ALGORITHMS.contains(&file.name())
    };
    let mut problems = Vec::new();
    for file in files.iter().filter(is_algorithm) {
        let header = file.text.lines().map_while(|line| line.strip_prefix("//!"));
        let header: Vec<&str> = header.map(str::trim_start).collect();
        let place = |opening: &&str| header.iter().position(|line| line.starts_with(opening));
        let places: Vec<Option<usize>> = OPENINGS.iter().map(place).collect();
        if places[0].is_none_or(|at| at == 0) || !places.is_sorted() || places.contains(&None) {
            let names = OPENINGS.concat();
            let path = &file.path;
            problems
                .push(format!("{path}: its header needs a sentence, then {names}in this order"));
        }
        let entry = format!("`{}`", file.path);
        if !book.contains(&entry) && !by_name.contains(&entry) {
            problems.push(format!("{} has no entry in docs/ALGORITHMS.md", file.path));
        }
    }
    problems
}

pub(crate) fn unsafe_stays_in_its_file(files: &[File]) -> Vec<String> {
    let elsewhere =
        files.iter().filter(|file| file.is_rust() && !UNSAFE_FILES.contains(&&*file.path));
    let mut problems = Vec::new();
    for file in elsewhere {
        let at = file.text.lines().position(|line| has_word(&code_of(line), "unsafe"));
        problems.extend(at.map(|at| format!("{}:{}: not the place for it", file.path, at + 1)));
    }
    problems
}

/// Calls of `unwrap` and `expect`, and lines, outside the tests of a crate.
pub(crate) fn unwraps(files: &[File], name: &str) -> (usize, usize) {
    let folder = format!("{name}/");
    let product = files.iter().filter(|file| {
        file.path.starts_with(&folder)
            && file.path.contains("/src/")
            && file.is_rust()
            && !file.is_test()
    });
    let calls = |line: &&str| {
        let code = code_of(line);
        code.matches(".unwrap()").count() + code.matches(".expect(").count()
    };
    product.fold((0, 0), |(found, total), file| {
        let lines = file.product_lines();
        (found + lines.iter().map(calls).sum::<usize>(), total + lines.len())
    })
}

/// Lines of code of a crate: no blank line, no comment, nothing that only tests compile. Bodies of macros count.
pub(crate) fn lines_of_code(files: &[File], name: &str) -> usize {
    let folder = format!("crates/{name}/src/");
    let is_its = |file: &&File| file.path.starts_with(&folder) && file.is_rust() && !file.is_test();
    let (mut lines, mut of_tests) = (Vec::new(), Vec::new());
    for file in files.iter().filter(is_its) {
        let (count, modules) = count_code(&file.text);
        lines.push((file.name(), count));
        of_tests.extend(modules.into_iter().map(|module| format!("{module}.rs")));
    }
    let is_product = |(file, _): &&(&str, usize)| !of_tests.iter().any(|other| other == file);
    lines.iter().filter(is_product).map(|(_, count)| count).sum()
}

/// Lines of code of a file, and the modules that stand in files of their own and only tests compile.
fn count_code(text: &str) -> (usize, Vec<&str>) {
    let (mut count, mut modules) = (0, Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            let code = line.trim();
            count += usize::from(!code.is_empty() && !code.starts_with("//"));
            continue;
        }
        let Some(item) = lines.next() else { break };
        let module = item.trim().strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
        modules.extend(module);
        if item.ends_with('{') {
            let indent = &item[..item.len() - item.trim_start().len()];
            let is_end = |line: &str| line.strip_prefix(indent) == Some("}");
            lines.by_ref().find(|line| is_end(line));
        }
    }
    (count, modules)
}

/// A crate of less than a thousand lines counts as one of a thousand.
pub(crate) fn unwraps_are_rare(files: &[File], limits: &[(&str, f64)]) -> Vec<String> {
    let problem = |(name, limit): &(&str, f64)| {
        let (found, lines) = unwraps(files, name);
        (found as f64 * 1000.0 > limit * lines.max(1000) as f64)
            .then(|| format!("{name} has {found} in {lines} lines, at most {limit} in 1000"))
    };
    limits.iter().filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found_and_the_ratchet_only_falls() {
        let size = |lines: usize| [File::new("crates/log/src/a.rs", &"x\n".repeat(lines))];
        let check = |lines, oversized: &[(&str, usize)]| file_sizes(&size(lines), oversized).len();
        assert_eq!([check(400, &[]), check(401, &[]), check(601, &[])], [0, 1, 1]);
        let recorded = |size| [("crates/log/src/a.rs", size)];
        assert_eq!([check(450, &recorded(450)), check(451, &recorded(450))], [0, 1]);
        assert_eq!([check(601, &recorded(650)), check(429, &recorded(450))], [1, 1]);
        assert_eq!([check(400, &recorded(410)), check(1, &[("crates/log/src/b.rs", 450)])], [1, 1]);
        let tests = [File::new("crates/log/tests/a.rs", &"x\n".repeat(900))];
        assert!(file_sizes(&tests, &[]).is_empty());
    }

    #[test]
    fn an_algorithm_without_its_header_or_entry_is_found() {
        let header = "//! Paces.\n//! Source: own.\n//! Inputs: x.\n//! Deviations: none.\n//! Limits: none.";
        let book = || File::new("docs/ALGORITHMS.md", "| 1 | `crates/capacity/src/pace.rs` |");
        let check = |text: &str| {
            algorithm_headers(&[File::new("crates/capacity/src/pace.rs", text), book()]).len()
        };
        assert_eq!(check(header), 0);
        assert_eq!(check(&header.replace("Limits", "Bounds")), 1);
        assert_eq!(
            check("//! Source: own.\n//! Inputs: x.\n//! Deviations: none.\n//! Limits: none."),
            1
        );
        assert_eq!(
            check(
                "//! Paces.\n//! Inputs: x.\n//! Source: own.\n//! Deviations: n.\n//! Limits: n."
            ),
            1
        );
        let unlisted = [File::new("crates/capacity/src/tide.rs", header), book()];
        assert_eq!(algorithm_headers(&unlisted).len(), 1);
        let helper = [File::new("crates/capacity/src/window_filter.rs", "//! A maximum.")];
        assert!(algorithm_headers(&helper).is_empty());
    }

    #[test]
    fn unsafe_code_is_found() {
        let check = |path, text| unsafe_stays_in_its_file(&[File::new(path, text)]).len();
        assert_eq!(check("crates/log/src/a.rs", "let x = unsafe { y };"), 1);
        assert_eq!(
            check("crates/log/src/a.rs", "#![forbid(unsafe_code)] // unsafe\nlet x = \"unsafe\";"),
            0
        );
        assert_eq!(check(UNSAFE_FILES[0], "unsafe { y }"), 0);
    }

    #[test]
    fn lines_of_code_are_those_that_run() {
        let text = "//! Header.\n\nuse a;\n#[cfg(test)]\nmod trial;\n\nfn b() { // one\n    // two\n}\n\
                    impl B {\n    #[cfg(test)]\n    fn c() {\n        d();\n    }\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn d() {\n    }\n}\n";
        let files = [
            File::new("crates/log/src/lib.rs", text),
            File::new("crates/log/src/trial.rs", "fn a() {\n}\n"),
            File::new("crates/log/src/tests.rs", "fn a() {\n}\n"),
            File::new("crates/log/tests/it/main.rs", "fn a() {\n}\n"),
            File::new("crates/link/src/lib.rs", "fn a() {\n}\n"),
        ];
        assert_eq!(count_code(text), (5, vec!["trial"]));
        assert_eq!([lines_of_code(&files, "log"), lines_of_code(&files, "link")], [5, 2]);
    }

    #[test]
    fn unwraps_are_counted_outside_tests() {
        let text =
            "a.unwrap();\nb.expect(\"c\");\n#[expect(x)]\n#[cfg(test)]\nmod tests {\nd.unwrap();";
        let files = [File::new("crates/log/src/a.rs", text)];
        assert_eq!(unwraps(&files, "crates"), (2, 3));
        assert_eq!(unwraps_are_rare(&files, &[("crates", 2.0)]).len(), 0);
        assert_eq!(unwraps_are_rare(&files, &[("crates", 1.9)]).len(), 1);
    }
}
