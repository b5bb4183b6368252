//! The steps of an `[[operator]]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate_types::units::Size;

use crate::config::units::{ByteSize, Period};
use crate::script::vm::Limits;

/// One step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepConfig {
    /// Reads the payload.
    Parse(FormatConfig),
    /// Writes the payload.
    Write(FormatConfig),
    /// Lets pass what is within a range.
    Range(RangeConfig),
    /// Lets pass who is in a set, or who was not seen before.
    Bloom(BloomConfig),
    /// Fills what is missing.
    Interpolate(InterpolateConfig),
    /// Adds what a table knows.
    Join(JoinConfig),
    /// Adds what is always the same.
    Annotate(BTreeMap<String, StepValue>),
    /// One row for many.
    Window(WindowConfig),
    /// Smooths a field.
    Kalman(KalmanConfig),
    /// Foretells a field.
    Regression(RegressionConfig),
    /// A linear model.
    Linear(LinearConfig),
    /// A decision tree.
    Tree(TreeConfig),
    /// Averages of blocks.
    BlockAverage(BlockConfig),
    /// How far a prediction is off.
    Error(ErrorConfig),
    /// Says less of people.
    Anonymise(AnonymiseConfig),
    /// A script.
    Luau(LuauConfig),
    /// A process.
    Process(ProcessConfig),
    /// A measuring tool: time on a processor.
    Spin(Period),
}

impl StepConfig {
    /// The file that it names.
    pub fn file(&self) -> Option<&Path> {
        match self {
            StepConfig::Bloom(with) => with.file.as_deref(),
            StepConfig::Join(with) => Some(&with.table),
            StepConfig::Tree(with) => Some(&with.file),
            StepConfig::Luau(with) => Some(&with.file),
            StepConfig::Anonymise(with) => with.key_file.as_deref(),
            _ => None,
        }
    }

    /// The same with the name only of its file.
    pub fn without_folder(&self) -> StepConfig {
        let mut step = self.clone();
        let file = match &mut step {
            StepConfig::Bloom(with) => with.file.as_mut(),
            StepConfig::Join(with) => Some(&mut with.table),
            StepConfig::Tree(with) => Some(&mut with.file),
            StepConfig::Luau(with) => Some(&mut with.file),
            StepConfig::Anonymise(with) => with.key_file.as_mut(),
            _ => None,
        };
        if let Some(file) = file
            && let Some(name) = file.file_name()
        {
            *file = name.into();
        }
        step
    }
}

/// How rows stand in a payload.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FormatConfig {
    /// One object, or a list.
    Json,
    /// RFC 8428, or the older form.
    Senml,
    /// Lines.
    Csv(CsvConfig),
}

/// Lines.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvConfig {
    /// Names of the fields.
    pub columns: Vec<String>,
    /// Between them.
    #[serde(default = "comma")]
    pub separator: char,
}

fn comma() -> char {
    ','
}

/// A value of `annotate`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum StepValue {
    /// True or false.
    Flag(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

/// `range`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeConfig {
    /// The field.
    pub field: String,
    /// At least.
    pub min: Option<f64>,
    /// At most.
    pub max: Option<f64>,
}

/// `bloom`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BloomConfig {
    /// The field.
    pub field: String,
    /// Members, one a line: only they pass.
    pub file: Option<PathBuf>,
    /// In place of it: what was among so many values before does not pass.
    pub repeats: Option<u64>,
    /// Part of those that it takes for members wrongly.
    #[serde(default = "one_percent")]
    pub false_positives: f64,
}

fn one_percent() -> f64 {
    0.01
}

/// `interpolate`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterpolateConfig {
    /// The field.
    pub field: String,
    /// Of how many values the mean is.
    pub window: u32,
    /// Rows with one value of this field belong together.
    pub by: Option<String>,
}

/// `join`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinConfig {
    /// The field with the key.
    pub field: String,
    /// The table: CSV, its first line names the columns.
    pub table: PathBuf,
    /// The column with the keys.
    pub column: String,
    /// Columns to add; all if left out.
    #[serde(default)]
    pub add: Vec<String>,
    /// Whether rows end here that the table does not know.
    #[serde(default)]
    pub drop_unknown: bool,
}

/// `of` of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WindowOf {
    /// Sum.
    Sum,
    /// Mean.
    Avg,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Rows.
    Count,
    /// Different values.
    Distinct,
    /// Sum of squares of how often each value came.
    SecondMoment,
}

/// `window`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowConfig {
    /// The field.
    pub field: String,
    /// What of it.
    pub of: WindowOf,
    /// Rows of a window.
    pub rows: Option<u64>,
    /// Its time, in place of rows.
    pub span: Option<Period>,
    /// Where the result goes; the field itself if left out.
    pub into: Option<String>,
    /// Rows with one value of this field belong together.
    pub by: Option<String>,
}

/// `kalman`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KalmanConfig {
    /// The field.
    pub field: String,
    /// Where the estimate goes; the field itself if left out.
    pub into: Option<String>,
    /// Variance from one value to the next.
    pub drift: f64,
    /// Variance of a measurement.
    pub noise: f64,
    /// Rows with one value of this field belong together.
    pub by: Option<String>,
}

/// `regression`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegressionConfig {
    /// The field.
    pub field: String,
    /// Where what is foretold goes; the field itself if left out.
    pub into: Option<String>,
    /// Values that the line goes through.
    pub window: u32,
    /// How many steps ahead.
    #[serde(default = "one")]
    pub ahead: f64,
    /// Rows with one value of this field belong together.
    pub by: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// `linear`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearConfig {
    /// Value where all fields are 0.
    #[serde(default)]
    pub intercept: f64,
    /// What one of each field adds.
    pub weights: BTreeMap<String, f64>,
    /// Where the value goes.
    pub into: String,
}

/// `tree`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeConfig {
    /// The tree, as JSON.
    pub file: PathBuf,
    /// Where its leaf goes.
    pub into: String,
}

/// `block-average`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockConfig {
    /// The field.
    pub field: String,
    /// Rows of a block.
    pub rows: u64,
    /// Where the mean goes; the field itself if left out.
    pub into: Option<String>,
    /// Rows with one value of this field belong together.
    pub by: Option<String>,
}

/// `error`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorConfig {
    /// What was measured.
    pub field: String,
    /// What was predicted.
    pub predicted: String,
    /// What the difference is measured by.
    pub average: String,
    /// Where the error goes.
    pub into: String,
}

/// `anonymise`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnonymiseConfig {
    /// Fields that go.
    pub drop: Vec<String>,
    /// Fields of which a keyed hash takes the place.
    pub hash: Vec<String>,
    /// File with the key.
    pub key_file: Option<PathBuf>,
    /// Variable with it.
    pub key_env: Option<String>,
    /// Fields that are rounded down, and to what.
    pub coarsen: BTreeMap<String, f64>,
}

/// `luau`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuauConfig {
    /// Its text.
    pub file: PathBuf,
    /// Bound on the time of one call.
    #[serde(default = "call_time")]
    pub time: Period,
    /// Bound on what it holds.
    #[serde(default = "call_memory")]
    pub memory: ByteSize,
}

fn call_time() -> Period {
    Period(Limits::default().time)
}

fn call_memory() -> ByteSize {
    ByteSize(Size(Limits::default().memory as u64))
}

/// `process`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// Program and arguments.
    pub command: Vec<String>,
    /// How long an answer may take.
    #[serde(default = "answer_time")]
    pub timeout: Period,
}

fn answer_time() -> Period {
    Period(Duration::from_secs(1))
}
