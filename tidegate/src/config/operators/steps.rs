//! The steps of an `[[operator]]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidegate_types::units::Size;

use crate::config::units::{ByteSize, Period};
use crate::keys::table::{choices, keys};
use crate::keys::values::{Shape, quoted, values};
use crate::script::vm::Limits;

choices! {
    /// One step.
    pub enum StepConfig {
        /// Reads the payload.
        Parse(FormatConfig) = "parse",
        /// Writes the payload.
        Write(FormatConfig) = "write",
        /// Lets pass what is within a range.
        Range(RangeConfig) = "range",
        /// Lets pass who is in a set, or who was not seen before.
        Bloom(BloomConfig) = "bloom",
        /// Fills what is missing.
        Interpolate(InterpolateConfig) = "interpolate",
        /// Adds what a table knows.
        Join(JoinConfig) = "join",
        /// Adds what is always the same.
        Annotate(BTreeMap<String, StepValue>) = "annotate",
        /// One row for many.
        Window(WindowConfig) = "window",
        /// Smooths a field.
        Kalman(KalmanConfig) = "kalman",
        /// Foretells a field.
        Regression(RegressionConfig) = "regression",
        /// A linear model.
        Linear(LinearConfig) = "linear",
        /// A decision tree.
        Tree(TreeConfig) = "tree",
        /// Averages of blocks.
        BlockAverage(BlockConfig) = "block-average",
        /// How far a prediction is off.
        Error(ErrorConfig) = "error",
        /// Says less of people.
        Anonymise(AnonymiseConfig) = "anonymise",
        /// A script.
        Luau(LuauConfig) = "luau",
        /// A process.
        Process(ProcessConfig) = "process",
        /// A measuring tool: time on a processor.
        Spin(Period) = "spin",
    }
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

choices! {
    /// How rows stand in a payload.
    pub enum FormatConfig {
        /// One object, or a list.
        Json = "json",
        /// RFC 8428, or the older form.
        Senml = "senml",
        /// Lines.
        Csv(CsvConfig) = "csv",
    }
}

keys! {
    /// Lines.
    pub struct CsvConfig whole {
        /// Names of the fields.
        pub columns: Vec<String>,
        /// Between them.
        pub separator: char = ',',
    }
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

values! {
    StepValue: Shape::Any(&["boolean", "number", "string"]), |value| match value {
        StepValue::Flag(flag) => flag.to_string(),
        StepValue::Number(number) => format!("{number:?}"),
        StepValue::Text(text) => quoted(text),
    };
}

keys! {
    /// `range`.
    pub struct RangeConfig whole {
        /// The field.
        pub field: String,
        /// At least.
        pub min: Option<f64>,
        /// At most.
        pub max: Option<f64>,
    }
}

keys! {
    /// `bloom`.
    pub struct BloomConfig whole {
        /// The field.
        pub field: String,
        /// Members, one a line: only they pass.
        pub file: Option<PathBuf>,
        /// In place of it: what was among so many values before does not pass.
        pub repeats: Option<u64>,
        /// Part of those that it takes for members wrongly.
        pub false_positives: f64 = 0.01,
    }
}

keys! {
    /// `interpolate`.
    pub struct InterpolateConfig whole {
        /// The field.
        pub field: String,
        /// Of how many values the mean is.
        pub window: u32,
        /// Rows with one value of this field belong together.
        pub by: Option<String>,
    }
}

keys! {
    /// `join`.
    pub struct JoinConfig whole {
        /// The field with the key.
        pub field: String,
        /// The table: CSV, its first line names the columns.
        pub table: PathBuf,
        /// The column with the keys.
        pub column: String,
        /// Columns to add; all if left out.
        pub add: Vec<String> = Vec::new(),
        /// Whether rows end here that the table does not know.
        pub drop_unknown: bool = false,
    }
}

choices! {
    /// `of` of a window.
    pub enum WindowOf: Copy, Eq {
        /// Sum.
        Sum = "sum",
        /// Mean.
        Avg = "avg",
        /// Smallest.
        Min = "min",
        /// Largest.
        Max = "max",
        /// Rows.
        Count = "count",
        /// Different values.
        Distinct = "distinct",
        /// Sum of squares of how often each value came.
        SecondMoment = "second-moment",
    }
}

keys! {
    /// `window`.
    pub struct WindowConfig whole {
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
}

keys! {
    /// `kalman`.
    pub struct KalmanConfig whole {
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
}

keys! {
    /// `regression`.
    pub struct RegressionConfig whole {
        /// The field.
        pub field: String,
        /// Where what is foretold goes; the field itself if left out.
        pub into: Option<String>,
        /// Values that the line goes through.
        pub window: u32,
        /// How many steps ahead.
        pub ahead: f64 = 1.0,
        /// Rows with one value of this field belong together.
        pub by: Option<String>,
    }
}

keys! {
    /// `linear`.
    pub struct LinearConfig whole {
        /// Value where all fields are 0.
        pub intercept: f64 = 0.0,
        /// What one of each field adds.
        pub weights: BTreeMap<String, f64>,
        /// Where the value goes.
        pub into: String,
    }
}

keys! {
    /// `tree`.
    pub struct TreeConfig whole {
        /// The tree, as JSON.
        pub file: PathBuf,
        /// Where its leaf goes.
        pub into: String,
    }
}

keys! {
    /// `block-average`.
    pub struct BlockConfig whole {
        /// The field.
        pub field: String,
        /// Rows of a block.
        pub rows: u64,
        /// Where the mean goes; the field itself if left out.
        pub into: Option<String>,
        /// Rows with one value of this field belong together.
        pub by: Option<String>,
    }
}

keys! {
    /// `error`.
    pub struct ErrorConfig whole {
        /// What was measured.
        pub field: String,
        /// What was predicted.
        pub predicted: String,
        /// What the difference is measured by.
        pub average: String,
        /// Where the error goes.
        pub into: String,
    }
}

keys! {
    /// `anonymise`.
    pub struct AnonymiseConfig {
        /// Fields that go.
        pub drop: Vec<String> = Vec::new(),
        /// Fields of which a keyed hash takes the place.
        pub hash: Vec<String> = Vec::new(),
        /// File with the key.
        pub key_file: Option<PathBuf>,
        /// Variable with it.
        pub key_env: Option<String>,
        /// Fields that are rounded down, and to what.
        pub coarsen: BTreeMap<String, f64> = BTreeMap::new(),
    }
}

keys! {
    /// `luau`.
    pub struct LuauConfig whole {
        /// Its text.
        pub file: PathBuf,
        /// Bound on the time of one call.
        pub time: Period = Period(Limits::default().time),
        /// Bound on what it holds.
        pub memory: ByteSize = ByteSize(Size(Limits::default().memory as u64)),
    }
}

keys! {
    /// `process`.
    pub struct ProcessConfig whole {
        /// Program and arguments.
        pub command: Vec<String>,
        /// How long an answer may take.
        pub timeout: Period = Period(Duration::from_secs(1)),
    }
}
