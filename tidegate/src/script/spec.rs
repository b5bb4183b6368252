//! What a script is given by the configuration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::Otherwise;

use super::vm::Limits;
use crate::support::tls::ClientFiles;

/// A value of a script's parameters.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// True or false.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Parameter>),
    /// A table.
    Table(BTreeMap<String, Parameter>),
}

/// What the messages are that a script sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Records: a path is a topic, headers are properties.
    #[default]
    Records,
    /// Requests and responses of HTTP: a path is that of a request, names of headers are in small letters.
    Http,
}

/// A script, read and bound.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptSpec {
    /// What streams call it by.
    pub name: Arc<str>,
    /// Its texts, each with the name of its file, in the order of running: helpers first.
    pub texts: Vec<(String, String)>,
    /// Bounds of its machine.
    pub limits: Limits,
    /// Its global values.
    pub parameters: BTreeMap<String, Parameter>,
    /// How `header():get("path")` comes apart: a Lua pattern with captures.
    pub path: Option<String>,
    /// Where `transform(name)` goes.
    pub transform: Vec<(String, String)>,
    /// Where `notify(text)` goes.
    pub notify: Vec<String>,
    /// Where `notify(name, text)` goes, by name.
    pub notifications: Vec<(String, Vec<String>)>,
    /// Of those that are `https://`: whom to trust, and the name that their certificate must have, if not the host.
    pub tls: Option<(ClientFiles, Option<String>)>,
    /// Whether nothing of a queue passes a record that is being transformed.
    pub ordered: bool,
    /// How long an endpoint may take.
    pub timeout: Duration,
    /// What it sees.
    pub dialect: Dialect,
    /// What becomes of a record on which it fails; by its kind where that is not said.
    pub on_failure: Option<Otherwise>,
}

impl ScriptSpec {
    /// A script of this text, with nothing else.
    pub fn new(name: &str, text: &str) -> ScriptSpec {
        ScriptSpec {
            name: name.into(),
            texts: vec![(name.to_owned(), text.to_owned())],
            limits: Limits::default(),
            parameters: BTreeMap::new(),
            path: None,
            transform: Vec::new(),
            notify: Vec::new(),
            notifications: Vec::new(),
            tls: None,
            ordered: false,
            timeout: Duration::from_secs(1),
            dialect: Dialect::Records,
            on_failure: None,
        }
    }

    /// What becomes of a record on which it fails. A script that changes what is sent may be there to hide
    /// something: what it could not look at does not go. One that only chooses when and where, or leads a request
    /// elsewhere, or has an endpoint make something smaller, is there to help: what it could not help goes as it is.
    pub fn otherwise(&self) -> Otherwise {
        let changes = self.texts.iter().any(|(_, text)| changes_content(text));
        let by_kind = if changes { Otherwise::Drop } else { Otherwise::Pass };
        self.on_failure.unwrap_or(by_kind)
    }

    /// Whether its calls are about queues alone, so that one can serve all that came since the last: it goes
    /// through queues, and asks for nothing of the one record that a call is for. Where that cannot be told, or a
    /// call shows otherwise, each record has a call of its own.
    pub(super) fn is_for_queues(&self) -> bool {
        let has = |name: &str| self.texts.iter().any(|(_, text)| text.contains(name));
        let views = has(":Queues(") || has(":arrivals(");
        views && !has(":message(") && self.texts.iter().all(|(_, text)| asks_for_none(text))
    }
}

/// Functions that see what comes or answers: ours, and those of the paper.
pub(super) const ENTRIES: [&str; 4] =
    ["on_message", "on_response", "envoy_on_request", "envoy_on_response"];

/// Whether no entry point of a text calls a function that is about the record that came.
fn asks_for_none(text: &str) -> bool {
    let asks = |root: &str| {
        let functions = ["header", "drop", "redirect", "transform"];
        functions.iter().any(|function| text.contains(&format!("{root}:{function}(")))
    };
    let entries = ENTRIES.iter().flat_map(|entry| text.split(entry).skip(1));
    entries.map(|rest| rest.trim_start().strip_prefix('(')).all(|rest| {
        let name = rest.and_then(|rest| rest.split([')', ',', ':']).next()).map(str::trim);
        name.is_some_and(|name| !name.is_empty() && !asks(name))
    })
}

/// Whether a text names a function that changes a payload, or a header other than the path.
fn changes_content(text: &str) -> bool {
    let is_of_path = |rest: &str| {
        let argument = rest.trim_start().trim_start_matches('(').trim_start();
        ["\"path\"", "'path'"].iter().any(|path| argument.starts_with(path))
    };
    let names = |function: &str| text.split(function).skip(1).any(|rest| !is_of_path(rest));
    text.contains("setBody") || [":replace", ":set(", ":remove"].into_iter().any(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_content_fails_closed_and_what_only_orders_fails_open() {
        let otherwise = |text: &str| ScriptSpec::new("s", text).otherwise();
        for text in [
            "h:message():setBody(clean)",
            "h:header():replace('authorization', '')",
            "hdr:set( \"card\", masked)",
            "hdr:remove('card')",
            "hdr:replace('path', p) hdr:replace('card', '')",
        ] {
            assert_eq!(otherwise(text), Otherwise::Drop, "{text}");
        }
        for text in ["h:message():moveToFront()", "hdr:replace(\"path\", p)", "h:transform('half')"]
        {
            assert_eq!(otherwise(text), Otherwise::Pass, "{text}");
        }
        let told = |on_failure| ScriptSpec { on_failure, ..ScriptSpec::new("s", "setBody") };
        assert_eq!(told(Some(Otherwise::Hold)).otherwise(), Otherwise::Hold);
        assert_eq!(told(Some(Otherwise::Pass)).otherwise(), Otherwise::Pass);
    }

    #[test]
    fn of_the_scripts_that_come_along_none_hides_anything() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/lua");
        let files = [folder.to_owned(), format!("{folder}/paper")]
            .into_iter()
            .flat_map(|folder| std::fs::read_dir(folder).unwrap());
        let mut count = 0;
        for file in files.map(|file| file.unwrap().path()) {
            let is_script = file.extension().is_some_and(|ending| ending == "luau");
            if is_script && !file.ends_with("prelude.luau") {
                let text = std::fs::read_to_string(&file).unwrap();
                let otherwise = ScriptSpec::new("s", &text).otherwise();
                assert_eq!(otherwise, Otherwise::Pass, "{}", file.display());
                count += 1;
            }
        }
        assert!(count >= 10, "{count}");
    }
}
