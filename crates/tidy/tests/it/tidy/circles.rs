//! Rules about the files of a room: they use each other without a circle, so that they can be read in an order.
//!
//! A file uses another one where it names an item of it: by `use`, or by a path in its code. Re-exports are followed
//! to the file that declares the item. A parent that only declares its children or exports their items uses none.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::files::{File, code_of};
use crate::tidy::manifests::ROOMS;

/// A path of names, such as `["crate", "units", "Time"]`.
type Names = Vec<String>;

/// What a `use` brings into a file.
struct Import {
    /// The name by which the file knows it.
    name: String,
    path: Names,
    is_export: bool,
}

/// The code of one file, as far as it says what the file uses.
#[derive(Default)]
struct Module {
    file: String,
    imports: Vec<Import>,
    /// Paths in the code outside `use`.
    paths: Vec<Names>,
}

/// The files of one room, by the path of their module from the root of the crate.
type Modules = BTreeMap<Names, Module>;

/// Each room's files use each other without a circle.
pub(crate) fn files_make_no_circle(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for (room, _) in ROOMS {
        let circles = circles(&arrows(files, room)).into_iter();
        problems.extend(circles.map(|way| format!("{room}: {} is a circle", way.join(" -> "))));
    }
    problems
}

fn in_room(file: &File, room: &str) -> bool {
    file.path.starts_with(&format!("crates/{room}/src/"))
}

/// For each file of a room, the files that it uses.
fn arrows(files: &[File], room: &str) -> BTreeMap<String, BTreeSet<String>> {
    let folder = format!("crates/{room}/src/");
    let mut modules = Modules::new();
    let mut only_for_tests = Vec::new();
    for file in files.iter().filter(|file| in_room(file, room) && file.is_rust()) {
        let path = file.path[folder.len()..].trim_end_matches(".rs");
        let mut names: Names = path.split('/').map(String::from).collect();
        if names.last().is_some_and(|name| name == "lib" || name == "mod") {
            names.pop();
        }
        let product = file.product_lines();
        for pair in product.windows(2).filter(|pair| pair[0].trim() == "#[cfg(test)]") {
            let child = pair[1].strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
            only_for_tests.extend(child.map(|child| [names.clone(), vec![child.into()]].concat()));
        }
        if !file.is_test() {
            modules.insert(names, read(&file.path, &product));
        }
    }
    modules.retain(|names, _| !only_for_tests.contains(names));
    let used = |(names, module): (&Names, &Module)| {
        let imports = module
            .imports
            .iter()
            .filter(|import| !import.is_export || !is_below(&modules, names, &import.path));
        let paths = imports.map(|import| &import.path).chain(&module.paths);
        let mut used: BTreeSet<String> =
            paths.filter_map(|path| declaring_file(&modules, names, path, 0)).collect();
        used.remove(&module.file);
        (module.file.clone(), used)
    };
    modules.iter().map(used).collect()
}

/// Whether a path leads to a child of the module.
fn is_below(modules: &Modules, module: &Names, path: &Names) -> bool {
    let first = path.iter().find(|name| *name != "self");
    first.is_some_and(|name| modules.contains_key(&[module.clone(), vec![name.clone()]].concat()))
}

/// The imports and paths of a file's code.
fn read(file: &str, product: &[&str]) -> Module {
    let mut lines = Vec::new();
    let mut is_for_tests = false;
    for line in product {
        if !is_for_tests {
            lines.push(code_of(line));
        }
        is_for_tests = line.trim() == "#[cfg(test)]";
    }
    let mut module = Module { file: file.into(), ..Module::default() };
    let mut code = String::new();
    let mut lines = lines.iter();
    while let Some(line) = lines.next() {
        let plain = line.trim_start();
        let after = plain
            .strip_prefix("pub")
            .map(|rest| rest.trim_start_matches("(crate)").trim_start_matches("(super)"));
        let Some(tree) = after.unwrap_or(plain).trim_start().strip_prefix("use ") else {
            code.push_str(line);
            code.push('\n');
            continue;
        };
        let mut tree = tree.to_string();
        while !tree.contains(';') {
            let Some(more) = lines.next() else { break };
            tree.push_str(more.trim());
        }
        let tree = tree.split(';').next().unwrap_or_default();
        expand(&mut module.imports, &[], tree.trim(), after.is_some());
    }
    module.paths = paths(&code);
    module
}

/// The single imports of a tree such as `a::{b, c as d}`.
fn expand(imports: &mut Vec<Import>, before: &[String], tree: &str, is_export: bool) {
    if let Some((head, rest)) = tree.split_once('{') {
        let head = head.trim().split("::").filter(|name| !name.is_empty()).map(String::from);
        let before: Names = before.iter().cloned().chain(head).collect();
        let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
        let mut depth = 0;
        let parts = inner.split(|char| {
            depth += i32::from(char == '{') - i32::from(char == '}');
            char == ',' && depth == 0
        });
        parts.filter(|part| !part.trim().is_empty()).for_each(|part| {
            expand(imports, &before, part.trim(), is_export);
        });
        return;
    }
    let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
    let mut path: Names =
        before.iter().cloned().chain(path.split("::").map(|name| name.trim().into())).collect();
    if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    let last = path.last().cloned().unwrap_or_default();
    let name = if alias.is_empty() { last } else { alias.trim().into() };
    imports.push(Import { name, path, is_export });
}

/// Every path of at least two names in code.
fn paths(code: &str) -> Vec<Names> {
    let of_path = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
    let words = code.split(|char| !of_path(char)).filter(|word| word.contains("::"));
    let names = |word: &str| -> Names {
        let names = word.trim_matches(':').split("::");
        names.filter(|name| !name.is_empty()).map(String::from).collect()
    };
    words.filter(|word| !word.starts_with("::")).map(names).collect()
}

/// The file of the room that declares what `path` names in `module`; none for what is not of the room.
fn declaring_file(
    modules: &Modules,
    module: &Names,
    path: &[String],
    depth: usize,
) -> Option<String> {
    const DEPTH_MAX: usize = 16;
    let mut at = module.clone();
    let mut has_begun = false;
    for (index, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            _ => {
                let child: Names = [at.clone(), vec![name.clone()]].concat();
                if modules.contains_key(&child) {
                    at = child;
                    has_begun = true;
                    continue;
                }
                let here = modules.get(&at)?;
                let import = here.imports.iter().find(|import| import.name == *name);
                let Some(import) = import.filter(|_| depth < DEPTH_MAX) else {
                    return has_begun.then(|| here.file.clone());
                };
                // A name that stands in the path as in the import would lead here again.
                let whole: Names = [&import.path[..], &path[index + 1..]].concat();
                let is_same = at == *module && whole == path;
                return if is_same {
                    None
                } else {
                    declaring_file(modules, &at, &whole, depth + 1)
                };
            }
        }
        has_begun = true;
    }
    has_begun.then(|| modules.get(&at).map(|module| module.file.clone()))?
}

/// A shortest circle through each knot of files that use each other.
fn circles(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut in_circle: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for start in arrows.keys() {
        let Some(circle) = shortest_circle(arrows, start) else { continue };
        if circle.iter().all(|file| !in_circle.contains(file)) {
            found.push(circle.clone());
        }
        in_circle.extend(circle);
    }
    found
}

/// The shortest way from a file over others back to itself.
fn shortest_circle(
    arrows: &BTreeMap<String, BTreeSet<String>>,
    start: &str,
) -> Option<Vec<String>> {
    let mut ways = vec![vec![start.to_string()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in way.last().and_then(|last| arrows.get(last)).into_iter().flatten() {
                let whole = [way.clone(), vec![next.clone()]].concat();
                if next == start {
                    return Some(whole);
                }
                if seen.insert(next.clone()) {
                    longer.push(whole);
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| File::new(&format!("crates/log/src/{path}"), text);
        let files: Vec<File> = texts.iter().map(file).collect();
        files_make_no_circle(&files)
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use self::a::A;");
        let a = ("a.rs", "use crate::b::{\n    B,\n};\npub struct A;");
        assert!(check(&[root, a, ("b.rs", "pub struct B;")]).is_empty());
        for text in
            ["use super::a::A;", "use crate::A;", "fn f(a: crate::a::A) {}", "use super::{a as c};"]
        {
            let problems = check(&[root, a, ("b.rs", text)]);
            assert_eq!(
                problems,
                [
                    "log: crates/log/src/a.rs -> crates/log/src/b.rs -> crates/log/src/a.rs is a circle"
                ],
                "{text}"
            );
        }
    }

    #[test]
    fn a_child_may_use_its_parent_or_be_used_by_it_but_not_both() {
        let child = ("a.rs", "use super::Root;\npub struct A;");
        assert!(check(&[("lib.rs", "mod a;\npub use a::A;\npub struct Root;"), child]).is_empty());
        let used = "mod a;\nuse self::a::A;\npub struct Root(A);";
        assert_eq!(check(&[("lib.rs", used), child]).len(), 1);
        let inline = "mod a;\npub struct Root(a::A);";
        assert_eq!(check(&[("lib.rs", inline), child]).len(), 1);
        assert!(check(&[("lib.rs", used), ("a.rs", "pub struct A;")]).is_empty());
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let a = ("a.rs", "use crate::b::B;");
        let b = ("b.rs", "#[cfg(test)]\nuse crate::a;\n\n#[cfg(test)]\nmod tests {\nuse crate::a;");
        assert!(check(&[("lib.rs", "mod a;\nmod b;"), a, b]).is_empty());
        let trial = [("lib.rs", "mod a;\n#[cfg(test)]\nmod b;"), a, ("b.rs", "use crate::a;")];
        assert!(check(&trial).is_empty());
    }

    #[test]
    fn a_parent_that_exports_a_child_does_not_use_it() {
        let child = ("a.rs", "use super::Root;\npub struct A;");
        for how in ["pub", "pub(crate)", "pub(super)"] {
            let root = format!("mod a;\n{how} use self::a::A;\npub struct Root;");
            assert!(check(&[("lib.rs", &root), child]).is_empty(), "{how}");
        }
    }
}
