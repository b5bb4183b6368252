//! The JSON schema takes what the program takes, and refuses keys and types that nobody can read.

use std::fs;
use std::path::Path;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;
use tidegate::config::{FileKind, read, reference, schema};

/// A compiled schema.
struct Checker {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Checker {
    fn new(kind: FileKind) -> Checker {
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        let name = "http://localhost/schema.json";
        compiler.add_resource(name, schema::schema(kind)).unwrap();
        let index = compiler.compile(name, &mut schemas).expect("a right schema");
        Checker { schemas, index }
    }

    /// What the schema has against a text in TOML; nothing where that is right.
    fn complaint(&self, text: &str) -> Option<String> {
        let value: Value = toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        self.schemas.validate(&value, self.index).err().map(|error| format!("{error:#}"))
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn every_file_that_we_give_is_right() {
    let node = Checker::new(FileKind::Node);
    assert_eq!(node.complaint(&reference::with_samples()), None);
    assert_eq!(node.complaint(&reference::render()), None);
    assert_eq!(node.complaint(reference::MINIMAL), None);
    let mut seen = 0;
    for folder in ["examples", "packaging"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "toml") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let kind = FileKind::of(&path, &text);
            let of_orchestrator = (kind == FileKind::Orchestrator).then(|| Checker::new(kind));
            let complaint = of_orchestrator.as_ref().unwrap_or(&node).complaint(&text);
            assert_eq!(complaint, None, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen} files");
}

#[test]
fn wrong_types_and_unknown_keys_are_refused() {
    let node = Checker::new(FileKind::Node);
    for text in [
        "[log]\nbound = 3\n",
        "[log]\nbuond = \"1GiB\"\n",
        "[log]\ncommit_max = 0\n",
        "[log]\nbacklog = \"newest\"\n",
        "log = \"d\"\n",
        "[lgo]\n",
        "[stream]\n",
        "[[stream]]\ntopics = \"a\"\n",
        "[[stream]]\nlatency = \"50\"\n",
        "[[output]]\nsink = { file = \"x\" }\n",
        "[[output]]\namqp = {}\n",
        "[[input]]\nmqtt.listen = 1883\n",
        "[[operator]]\nname = \"a\"\nfrom = [\"a\"]\nto = \"b\"\ndo = [{ range = { fild = \"t\" } }]\n",
    ] {
        assert!(node.complaint(text).is_some(), "{text}");
        assert!(read(text).counts().0 > 0, "the program takes {text}");
    }
    let orchestrator = Checker::new(FileKind::Orchestrator);
    let files = "ca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\n";
    assert_eq!(orchestrator.complaint(&format!("[orchestrator]\n{files}")), None);
    for line in ["clases = 3", "classes = \"3\"", "matching = \"best\""] {
        assert!(
            orchestrator.complaint(&format!("[orchestrator]\n{files}{line}\n")).is_some(),
            "{line}"
        );
    }
}

/// Texts of quantities: the patterns agree with what is read.
#[test]
fn quantities_are_what_they_are_when_they_are_read() {
    let node = Checker::new(FileKind::Node);
    let files = |key: &str, texts: &[&str]| -> Vec<String> {
        texts.iter().map(|text| format!("{}= {text:?}\n", key)).collect()
    };
    let periods = files(
        "[[stream]]\nttl ",
        &[
            "50ms", "1.5 s", " 10m ", "1.s", ".5h", "50", "ms", "50msec", "-1s", "1e3s", "5M",
            "1,5s", "",
        ],
    );
    let rates = files(
        "[[output]]\nsink = {}\nrate ",
        &[
            "auto",
            "18mbit",
            "0.5 Mbit/s",
            "1Gbit",
            "8bit",
            "18",
            "18MB",
            "18mb",
            "mbit",
            "Auto",
            "1tbit",
        ],
    );
    let sizes = files(
        "[limits]\nsubscriber ",
        &["16MiB", "16mb", "1.5KiB", "200 B", "1kb", "16", "16 mebibytes", "16M", "1iB", "1TiB"],
    );
    for text in [periods, rates, sizes].concat() {
        let is_read = read(&text).counts().0 == 0;
        let complaint = node.complaint(&text);
        assert_eq!(complaint.is_none(), is_read, "{text}: {complaint:?}");
    }
}
