//! From the steps of a configuration to a chain.

use std::path::Path;
use std::sync::Arc;

use tidegate_stream::{
    Aggregate, Annotate, Anonymise, BlockAverage, Bloom, BloomFilter, Chain, CsvFormat,
    DecisionTree, Deduplicate, ErrorEstimate, Format, Interpolate, Join, Kalman, Linear,
    OperatorStep, ParseRows, RangeFilter, Regression, Row, Table, Value, Window, WindowLength,
    WriteRows,
};

use super::luau::LuauStep;
use super::process::ProcessStep;
use super::spin::Spin;
use crate::config::OperatorConfig;
use crate::config::operators::{
    AnonymiseConfig, BloomConfig, FormatConfig, LuauConfig, StepConfig, StepValue, WindowConfig,
    WindowOf,
};
use crate::script::vm::Limits;
use crate::support::files;

/// Longest file of a step.
const FILE_MAX: u64 = 64 << 20;
/// Shortest key of hashes, in bytes.
const KEY_MIN: usize = 16;

/// The chain of an operator, with the files that it names.
///
/// # Errors
/// A file cannot be used; the text names it.
pub fn chain(config: &OperatorConfig) -> Result<Chain, String> {
    let steps = config.steps.iter().map(step);
    Ok(Chain::new(steps.collect::<Result<_, _>>()?))
}

fn step(config: &StepConfig) -> Result<Arc<dyn OperatorStep>, String> {
    let text = |name: &String| -> Arc<str> { name.as_str().into() };
    let by = |by: &Option<String>| by.as_ref().map(text);
    Ok(match config {
        StepConfig::Parse(with) => Arc::new(ParseRows(format(with))),
        StepConfig::Write(with) => Arc::new(WriteRows(format(with))),
        StepConfig::Range(with) => Arc::new(RangeFilter {
            field: text(&with.field),
            min: with.min.unwrap_or(f64::NEG_INFINITY),
            max: with.max.unwrap_or(f64::INFINITY),
        }),
        StepConfig::Bloom(with) => bloom(with)?,
        StepConfig::Interpolate(with) => {
            Arc::new(Interpolate::new(text(&with.field), with.window as usize, by(&with.by)))
        }
        StepConfig::Join(with) => {
            let table = Table::read(&read(&with.table)?, &with.column);
            let file = with.table.display();
            Arc::new(Join {
                field: text(&with.field),
                table: table.map_err(|error| format!("{file}: {error}"))?,
                add: with.add.iter().map(text).collect(),
                drops_unknown: with.drop_unknown,
            })
        }
        StepConfig::Annotate(fields) => {
            let fields = fields.iter().map(|(name, field)| (text(name), value(field)));
            Arc::new(Annotate(Arc::new(fields.collect::<Row>())))
        }
        StepConfig::Window(with) => Arc::new(window(with)),
        other => model(other)?,
    })
}

/// A step that computes, or that works outside.
fn model(config: &StepConfig) -> Result<Arc<dyn OperatorStep>, String> {
    let text = |name: &String| -> Arc<str> { name.as_str().into() };
    let by = |by: &Option<String>| by.as_ref().map(text);
    let into = |into: &Option<String>, field: &String| text(into.as_ref().unwrap_or(field));
    Ok(match config {
        StepConfig::Kalman(with) => Arc::new(Kalman::new(
            text(&with.field),
            into(&with.into, &with.field),
            with.drift,
            with.noise,
            by(&with.by),
        )),
        StepConfig::Regression(with) => Arc::new(Regression::new(
            text(&with.field),
            into(&with.into, &with.field),
            with.window as usize,
            with.ahead,
            by(&with.by),
        )),
        StepConfig::Linear(with) => Arc::new(Linear {
            intercept: with.intercept,
            weights: with.weights.iter().map(|(name, weight)| (text(name), *weight)).collect(),
            into: text(&with.into),
        }),
        StepConfig::Tree(with) => {
            let tree = DecisionTree::read(&read(&with.file)?, text(&with.into));
            Arc::new(tree.map_err(|error| format!("{}: {error}", with.file.display()))?)
        }
        StepConfig::BlockAverage(with) => Arc::new(BlockAverage::new(
            text(&with.field),
            into(&with.into, &with.field),
            with.rows,
            by(&with.by),
        )),
        StepConfig::Error(with) => Arc::new(ErrorEstimate {
            field: text(&with.field),
            predicted: text(&with.predicted),
            average: text(&with.average),
            into: text(&with.into),
        }),
        StepConfig::Anonymise(with) => Arc::new(anonymise(with)?),
        StepConfig::Luau(with) => Arc::new(luau(with)?),
        StepConfig::Process(with) => {
            Arc::new(ProcessStep { command: with.command.clone(), timeout: with.timeout.0 })
        }
        StepConfig::Spin(time) => Arc::new(Spin(time.0)),
        other => return Err(format!("{other:?} is no model")),
    })
}

fn format(config: &FormatConfig) -> Format {
    match config {
        FormatConfig::Json => Format::Json,
        FormatConfig::Senml => Format::Senml,
        FormatConfig::Csv(csv) => Format::Csv(CsvFormat {
            columns: csv.columns.iter().map(|name| name.as_str().into()).collect(),
            separator: csv.separator,
        }),
    }
}

fn value(value: &StepValue) -> Value {
    match value {
        StepValue::Flag(flag) => Value::Flag(*flag),
        StepValue::Number(number) => Value::Number(*number),
        StepValue::Text(text) => Value::Text(text.as_str().into()),
    }
}

fn bloom(with: &BloomConfig) -> Result<Arc<dyn OperatorStep>, String> {
    let field: Arc<str> = with.field.as_str().into();
    let Some(file) = &with.file else {
        let members = with.repeats.unwrap_or_default();
        return Ok(Arc::new(Deduplicate::new(field, members, with.false_positives)));
    };
    let text = read(file)?;
    let members: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut filter = BloomFilter::new(members.len() as u64, with.false_positives);
    members.iter().for_each(|member| _ = filter.insert(member));
    Ok(Arc::new(Bloom { field, members: Arc::new(filter) }))
}

fn window(with: &WindowConfig) -> Window {
    let of = match with.of {
        WindowOf::Sum => Aggregate::Sum,
        WindowOf::Avg => Aggregate::Average,
        WindowOf::Min => Aggregate::Min,
        WindowOf::Max => Aggregate::Max,
        WindowOf::Count => Aggregate::Count,
        WindowOf::Distinct => Aggregate::Distinct,
        WindowOf::SecondMoment => Aggregate::SecondMoment,
    };
    let extent = match (with.rows, with.span) {
        (Some(rows), _) => WindowLength::Rows(rows),
        (None, span) => WindowLength::Span(span.unwrap_or_default().0),
    };
    let into = with.into.as_ref().unwrap_or(&with.field);
    let by = with.by.as_ref().map(|by| by.as_str().into());
    Window::new(with.field.as_str().into(), into.as_str().into(), of, extent, by)
}

fn anonymise(with: &AnonymiseConfig) -> Result<Anonymise, String> {
    let names = |all: &Vec<String>| all.iter().map(|name| name.as_str().into()).collect();
    let key = match (&with.key_file, &with.key_env) {
        (Some(file), _) => read(file)?.trim().to_owned(),
        (None, Some(name)) => std::env::var(name).map_err(|error| format!("{name}: {error}"))?,
        (None, None) => String::new(),
    };
    if !with.hash.is_empty() && key.len() < KEY_MIN {
        return Err(format!("the key of hashes has {} bytes: at least {KEY_MIN}", key.len()));
    }
    let coarsen = with.coarsen.iter().map(|(name, step)| (name.as_str().into(), *step));
    Ok(Anonymise::new(names(&with.drop), names(&with.hash), key.as_bytes(), coarsen.collect()))
}

fn luau(with: &LuauConfig) -> Result<LuauStep, String> {
    let name = with.file.file_name().unwrap_or_default().to_string_lossy();
    let memory = usize::try_from(with.memory.0.0).unwrap_or(usize::MAX);
    LuauStep::load(
        &name,
        read(&with.file)?,
        Limits { time: with.time.0, memory, ..Limits::default() },
    )
}

fn read(path: &Path) -> Result<String, String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    files::read_text(path, FILE_MAX).map_err(named)
}
