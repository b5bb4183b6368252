//! `[[script]]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tidegate_node::adapt::Otherwise;
use tidegate_types::units::Size;

use super::units::{ByteSize, Period};
use super::{Config, FarTlsConfig};
use crate::script::spec::{Dialect, Parameter, ScriptSpec};
use crate::script::vm::{Limits, SOURCE_MAX};

/// `[[script]]`: a program that edits what waits.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptConfig {
    /// What streams call it by.
    pub name: Option<String>,
    /// Its text.
    pub file: Option<PathBuf>,
    /// Texts that are run before it, in order.
    pub helpers: Vec<PathBuf>,
    /// Bound on the time of one call.
    pub time: Period,
    /// Bound on what it holds.
    pub memory: ByteSize,
    /// Its global values.
    pub parameters: BTreeMap<String, Parameter>,
    /// How a path comes apart: a Lua pattern with captures.
    pub path: Option<String>,
    /// Endpoints of `transform(name)`.
    pub transform: BTreeMap<String, String>,
    /// Endpoints of `notify`.
    pub notify: Vec<String>,
    /// TLS to those of them that are `https://`.
    pub tls: Option<FarTlsConfig>,
    /// Whether nothing passes a record that is being transformed.
    pub ordered: bool,
    /// How long an endpoint may take.
    pub timeout: Period,
    /// What becomes of a record on which it fails; by its kind if left out.
    pub on_failure: Option<OnFailure>,
}

/// `on_failure` of a `[[script]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The record goes as it is.
    Pass,
    /// It is dropped.
    Drop,
    /// It waits until the script is changed.
    Hold,
}

impl Default for ScriptConfig {
    fn default() -> Self {
        ScriptConfig {
            name: None,
            file: None,
            helpers: Vec::new(),
            time: Period(Limits::default().time),
            memory: ByteSize(Size(Limits::default().memory as u64)),
            parameters: BTreeMap::new(),
            path: None,
            transform: BTreeMap::new(),
            notify: Vec::new(),
            tls: None,
            ordered: false,
            timeout: Period(Duration::from_secs(1)),
            on_failure: None,
        }
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
            },
            parameters: self.parameters.clone(),
            path: self.path.clone(),
            transform: transform.collect(),
            notify: self.notify.clone(),
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
    let size = std::fs::metadata(path).map_err(|error| format!("{file}: {error}"))?.len();
    if size > SOURCE_MAX as u64 {
        return Err(format!("{file}: {size} bytes are no script: at most {SOURCE_MAX}"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
    let name =
        path.file_name().map_or_else(|| file.to_string().into(), |name| name.to_string_lossy());
    Ok((name.into_owned(), text))
}
