//! What a script is given by the configuration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::vm::Limits;
use crate::tls::ClientFiles;

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
    /// Where `notify` goes.
    pub notify: Vec<String>,
    /// Of those that are `https://`: whom to trust, and the name that their certificate must have, if not the host.
    pub tls: Option<(ClientFiles, Option<String>)>,
    /// Whether nothing of a queue passes a record that is being transformed.
    pub ordered: bool,
    /// How long an endpoint may take.
    pub timeout: Duration,
    /// What it sees.
    pub dialect: Dialect,
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
            tls: None,
            ordered: false,
            timeout: Duration::from_secs(1),
            dialect: Dialect::Records,
        }
    }
}
