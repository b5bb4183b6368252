//! The repository as rules see it: paths, texts, and what of a text is code.

use std::fs;
use std::path::Path;

/// A text file of the repository, by its path from the root.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        File { path: path.into(), text: text.into() }
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is a test.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.name();
        let is_named_so =
            name == "tests.rs" || name.ends_with("_tests.rs") || name.starts_with("test_");
        is_named_so || self.path.split('/').any(|part| part == "tests")
    }

    /// The lines above the unit tests, which stand at the bottom of a file.
    pub(crate) fn product_lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.text.lines().collect();
        let begins_tests = |pair: &[&str]| {
            pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
        };
        let end = lines.windows(2).position(begins_tests).unwrap_or(lines.len());
        lines.truncate(end);
        lines
    }
}

/// The file at `path`; an empty one where there is none.
pub(crate) fn text_of<'a>(files: &'a [File], path: &str) -> &'a str {
    files.iter().find(|file| file.path == path).map_or("", |file| &file.text)
}

/// The code of a line: without the content of strings and without the comment.
pub(crate) fn code_of(line: &str) -> String {
    let mut code = String::new();
    let mut inside = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' if inside => drop(chars.next()),
            '\'' if !inside && chars.peek() == Some(&'"') => drop(chars.next()),
            '"' => inside = !inside,
            '/' if !inside && chars.peek() == Some(&'/') => break,
            _ if inside => {}
            other => code.push(other),
        }
    }
    code
}

/// Whether `word` stands in `text` with nothing of a word beside it.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let of_word = |char: char| char.is_alphanumeric() || char == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(of_word) && !text[at + word.len()..].starts_with(of_word)
    })
}

/// Every text file that git would hold: what builds and runs leave behind is skipped.
pub(crate) fn repository() -> Vec<File> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = Vec::new();
    walk(root, root, &mut files);
    files
}

/// Writes a file of the repository, and puts it in the place of the old one.
pub(crate) fn write(files: &mut Vec<File>, path: &str, text: String) {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    fs::write(root.join(path), &text).expect("a file of the repository can be written");
    files.retain(|file| file.path != path);
    files.push(File { path: path.into(), text });
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<File>) {
    const LEFT_BEHIND: [&str; 4] = ["target", "artifacts", "tidegate-data", "__pycache__"];
    let entries = fs::read_dir(folder).expect("folders of the repository can be read");
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hidden = name.starts_with('.') && ![".ci", ".gitignore"].contains(&&*name);
        if hidden || LEFT_BEHIND.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let inside = path.strip_prefix(root).expect("the walk began at the root");
            files.push(File { path: inside.to_string_lossy().replace('\\', "/"), text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_ends_where_the_tests_begin() {
        let file =
            File::new("a.rs", "use b;\n#[cfg(test)]\nuse c;\n\n#[cfg(test)]\nmod tests {\n}");
        assert_eq!(file.product_lines().len(), 4);
        assert!(!file.is_test() && File::new("crates/log/tests/a.rs", "").is_test());
    }

    #[test]
    fn code_has_no_strings_and_no_comments() {
        assert_eq!(code_of(r#"say("a \" // b"); // c"#), "say(); ");
        assert_eq!(code_of(r#"split('"') / 2"#), "split(') / 2");
    }

    #[test]
    fn words_have_edges() {
        assert!(has_word("an unsafe thing", "unsafe") && has_word("unsafe{", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe") && !has_word("notunsafe", "unsafe"));
    }
}
