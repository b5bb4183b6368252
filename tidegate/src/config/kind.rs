//! What a file is for, by the sections that stand in it.

use std::path::Path;

use super::places::Document;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// `tidegate run`.
    Node,
    /// `tidegate proxy`, and `tidegate ext-proc`.
    Proxy,
    /// Both: each of the two commands takes its own sections of it.
    NodeAndProxy,
    /// `tidegate orchestrate`.
    Orchestrator,
    /// `tidegate plan`.
    Plan,
    /// `lab sim` and `lab bench`.
    World,
    /// `tidegate script`.
    Script,
}

/// Sections of a node that a proxy does not look at.
const OF_NODES: [&str; 10] =
    ["input", "output", "stream", "operator", "quota", "log", "mirror", "group", "fleet", "camera"];

impl FileKind {
    /// By the file's ending, and where that leaves it open by its text. A text that says nothing is a node's.
    pub fn of(file: &Path, text: &str) -> FileKind {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("luau" | "lua") => FileKind::Script,
            Some("json" | "csv") => FileKind::Plan,
            _ => FileKind::of_text(text),
        }
    }

    /// By the sections of a text in TOML.
    pub fn of_text(text: &str) -> FileKind {
        let (document, _) = Document::parse(text);
        let has = |section: &str| document.has(section);
        let has_one_of_nodes = || OF_NODES.iter().any(|section| has(section));
        match () {
            () if has("orchestrator") => FileKind::Orchestrator,
            () if has("topic") => FileKind::Plan,
            () if has("hosts") || has("process") => FileKind::World,
            () if has("proxy") && has_one_of_nodes() => FileKind::NodeAndProxy,
            () if has("proxy") => FileKind::Proxy,
            () => FileKind::Node,
        }
    }

    /// The sections of a text that only a proxy looks at, or those that only a node looks at.
    pub(crate) fn sections(text: &str, of_proxies: bool) -> Vec<&'static str> {
        let (document, _) = Document::parse(text);
        let all = if of_proxies { &["proxy"][..] } else { &OF_NODES[..] };
        all.iter().copied().filter(|section| document.has(section)).collect()
    }

    /// In words, with the command that takes it.
    pub fn words(self) -> &'static str {
        match self {
            FileKind::Node => "a node (tidegate run)",
            FileKind::Proxy => "a proxy (tidegate proxy)",
            FileKind::NodeAndProxy => {
                "a node (tidegate run) and a proxy (tidegate proxy): each takes its own sections"
            }
            FileKind::Orchestrator => "an orchestrator (tidegate orchestrate)",
            FileKind::Plan => "topics and nodes to place (tidegate plan)",
            FileKind::World => "a world of the lab (lab sim)",
            FileKind::Script => "a script (tidegate script)",
        }
    }

    /// In one word, for machines.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Node => "node",
            FileKind::Proxy => "proxy",
            FileKind::NodeAndProxy => "node-and-proxy",
            FileKind::Orchestrator => "orchestrator",
            FileKind::Plan => "plan",
            FileKind::World => "world",
            FileKind::Script => "script",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_sections_or_its_ending() {
        for (text, kind) in [
            ("", FileKind::Node),
            ("[fleet]\n", FileKind::Node),
            ("not = [toml", FileKind::Node),
            ("[[proxy.listener]]\n[http]\n[limits]\n", FileKind::Proxy),
            ("[[input]]\n[[proxy.listener]]\n", FileKind::NodeAndProxy),
            ("[orchestrator]\n", FileKind::Orchestrator),
            ("[[topic]]\nname = \"a\"\n[[node]]\nname = \"b\"\n", FileKind::Plan),
            ("hosts = [\"edge\"]\n[[link]]\nname = \"wan\"\n", FileKind::World),
        ] {
            assert_eq!(FileKind::of_text(text), kind, "{text}");
        }
        assert_eq!(FileKind::of(Path::new("shed.luau"), "x = 1"), FileKind::Script);
        assert_eq!(FileKind::of(Path::new("topics.csv"), "name,rate\n"), FileKind::Plan);
    }
}
