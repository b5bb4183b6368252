//! `[[script]]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::Otherwise;
use tidegate_types::units::Size;

use super::units::{ByteSize, Period};
use super::{Config, FarTlsConfig};
use crate::keys::table::{choices, keys};
use crate::keys::values::{Shape, quoted, values};
use crate::script::spec::{Dialect, Parameter, ScriptSpec};
use crate::script::vm::{Limits, SOURCE_MAX};
use crate::support::files;

keys! {
    /// `[[script]]`: a program that edits what waits.
    pub struct ScriptConfig {
        /// What streams call it by.
        pub name: Option<String>; required() sample("shed"),
        /// Its text.
        pub file: Option<PathBuf>; required() sample("/etc/tidegate/shed.luau"),
        /// Texts that are run before it.
        pub helpers: Vec<PathBuf> = Vec::new(); sample(r#"["/etc/tidegate/ladder.luau"]"#),
        /// Bound on one call; nothing else is sent meanwhile. A call that takes longer changes nothing.
        pub time: Period = Period(Limits::default().time);
            above_zero(TIME) at_most(Period(Duration::from_millis(100)), TIME),
        /// Bound on what it holds.
        pub memory: ByteSize = ByteSize(Size(Limits::default().memory as u64));
            at_least(ByteSize(Size(1 << 20)), "too little for any script"),
        /// Its global values: numbers, texts, true and false, lists, tables.
        pub parameters: BTreeMap<String, Parameter> = BTreeMap::new();
            sample("{ required = 250000, ladder = [240, 480, 720] }"),
        /// A Lua pattern: header():get("path") gives its captures. Default: the whole topic.
        pub path: Option<String>; sample("^(%d+)/(.+)$"),
        /// Where transform("180p") posts the payload; the answer takes its place. http:// or https://.
        pub transform: BTreeMap<String, String> = BTreeMap::new();
            sample(r#"{ "180p" = "http://127.0.0.1:8080/180p" }"#),
        /// Where notify(text) posts to.
        pub notify: Vec<String> = Vec::new(); sample(r#"["http://127.0.0.1:8080/notify"]"#),
        /// Where notify("slow", text) posts to: addresses for each notification that the script names.
        pub notifications: BTreeMap<String, Vec<String>> = BTreeMap::new();
            sample(r#"{ slow = ["http://127.0.0.1:8080/slow"] }"#),
        /// TLS to addresses that are https://, as an upstream has it; name, certificate and key where they are needed.
        pub tls: Option<FarTlsConfig>; sample(r#"{ ca = "/etc/ssl/certs/ca-certificates.crt" }"#),
        /// Whether nothing of a queue passes a record that is being transformed.
        pub ordered: bool = false,
        /// How long a transformation may take; then the original goes, or what on_failure says.
        pub timeout: Period = Period(Duration::from_secs(1));
            above_zero("no endpoint is that fast: give at least \"10ms\""),
        /// What becomes of a record on which it fails. Default: "drop" where its text changes a payload or a header
        /// other than the path, which may hide something; else "pass".
        pub on_failure: Option<OnFailure>; sample("drop"),
    }
}

values! {
    Parameter: Shape::Any(&["boolean", "number", "string", "array", "object"]), |value| match value {
        Parameter::Switch(flag) => flag.to_string(),
        Parameter::Whole(number) => number.to_string(),
        Parameter::Number(number) => format!("{number:?}"),
        Parameter::Text(text) => quoted(text),
        Parameter::List(list) => list.written()?,
        Parameter::Table(table) => table.written()?,
    };
}

/// What a script is told whose calls may take too long, or no time at all.
const TIME: &str = "nothing else is sent while a script runs: give 1us to 100ms";

choices! {
    /// `on_failure` of a `[[script]]`.
    pub enum OnFailure: Copy, Eq {
        /// It goes as it is; a script that keeps failing is switched off.
        Pass = "pass",
        /// It is dropped with the reason script; the script is never switched off.
        Drop = "drop",
        /// It waits until the script is changed, 16,384 records at most; further ones are dropped. The script is never switched off.
        Hold = "hold",
    }
}

impl ScriptConfig {
    /// Its name, or nothing.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Its files, in the order of running.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.helpers.iter().chain(&self.file).map(PathBuf::as_path)
    }

    /// The script with the texts of its files.
    ///
    /// # Errors
    /// A file cannot be read; the text names it.
    pub fn spec(&self) -> Result<ScriptSpec, String> {
        let texts = self.files().map(read_text).collect::<Result<_, _>>()?;
        let transform = self.transform.iter().map(|(name, url)| (name.clone(), url.clone()));
        Ok(ScriptSpec {
            texts,
            limits: Limits {
                time: self.time.0,
                memory: usize::try_from(self.memory.0.0).unwrap_or(usize::MAX),
                ..Limits::default()
            },
            parameters: self.parameters.clone(),
            path: self.path.clone(),
            transform: transform.collect(),
            notify: self.notify.clone(),
            notifications: self.notifications.clone().into_iter().collect(),
            tls: self.tls.as_ref().and_then(|tls| Some((tls.files()?, tls.name.clone()))),
            ordered: self.ordered,
            dialect: Dialect::Records,
            timeout: self.timeout.0,
            on_failure: self.on_failure.map(|told| match told {
                OnFailure::Pass => Otherwise::Pass,
                OnFailure::Drop => Otherwise::Drop,
                OnFailure::Hold => Otherwise::Hold,
            }),
            ..ScriptSpec::new(self.label(), "")
        })
    }
}

impl Config {
    /// Every script with the texts of its files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn script_specs(&self) -> Result<Vec<Arc<ScriptSpec>>, String> {
        self.script.iter().map(|script| script.spec().map(Arc::new)).collect()
    }
}

/// The name of a file without its folders, and its text.
fn read_text(path: &Path) -> Result<(String, String), String> {
    let file = path.display();
    let text = files::read_text(path, SOURCE_MAX as u64);
    let text = text.map_err(|error| format!("{file}: {error}"))?;
    let name =
        path.file_name().map_or_else(|| file.to_string().into(), |name| name.to_string_lossy());
    Ok((name.into_owned(), text))
}
