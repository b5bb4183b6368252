//! One row for many: sum, mean, smallest, largest, count, distinct values or second moment of a field.
//!
//! Windows stand side by side. One that has its rows ends with the last of them; one that has a time ends with
//! the first row after it, for nothing here has a clock of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_types::codec::{Reader, Sink};
use tidegate_types::units::Time;

use super::chain::StepInstance;
use super::keyed::By;
use super::memory::{MemoryError, Saver, finite};
use super::value::{Item, ItemContent, Row, StepError, Value};

/// Values that are told apart in one window.
const DISTINCT_MAX: usize = 100_000;

/// What is told of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Sum of all.
    Sum,
    /// Their mean.
    Average,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// How many.
    Count,
    /// How many different ones; any value counts, not only numbers.
    Distinct,
    /// Sum over the different ones of the square of how often each came (AMS, 1996; exact here).
    SecondMoment,
}

/// How long a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowLength {
    /// So many rows.
    Rows(u64),
    /// So long, by the arrival of records at the node.
    Span(Duration),
}

#[derive(Clone, Debug, Default)]
struct State {
    begun: Option<Time>,
    /// How long it had been open on another node, where `begun` is when it came here.
    before: Duration,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    values: BTreeMap<Arc<str>, u64>,
}

/// Windows of one field.
#[derive(Clone, Debug)]
pub struct Window {
    field: Arc<str>,
    into: Arc<str>,
    of: Aggregate,
    extent: WindowLength,
    all: By<State>,
}

impl Window {
    /// Of a field; the result goes `into` a field of a new row, beside that of `by`, whose values have windows of
    /// their own.
    pub fn new(
        field: Arc<str>,
        into: Arc<str>,
        of: Aggregate,
        extent: WindowLength,
        by: Option<Arc<str>>,
    ) -> Self {
        Window { field, into, of, extent, all: By::new(by, State::default()) }
    }
}

impl StepInstance for Window {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let (of, extent, at) = (self.of, self.extent, item.at);
        let row = item.row_mut()?;
        let wants_numbers =
            !matches!(of, Aggregate::Count | Aggregate::Distinct | Aggregate::SecondMoment);
        let value = row.find(&self.field).ok_or(StepError::Field)?.clone();
        let number = match value.number() {
            None if wants_numbers => return Err(StepError::Number),
            number => number.unwrap_or(0.0),
        };
        let key = self.all.field().and_then(|by| Some((by.clone(), row.find(by)?.clone())));
        let state = self.all.of(row)?;
        let begun = *state.begun.get_or_insert(at);
        let mut ended = None;
        if let WindowLength::Span(span) = extent
            && at.since(begun) + state.before >= span
        {
            ended = Some(result(of, state));
            *state = State { begun: Some(at), ..State::default() };
        }
        add(of, state, number, &value)?;
        if extent == WindowLength::Rows(state.count) {
            ended = Some(result(of, state));
            *state = State::default();
        }
        if let Some(result) = ended {
            let mut row: Row = key.into_iter().collect();
            row.set(self.into.clone(), Value::Number(result));
            out.push(Item { at, content: ItemContent::Row(row) });
        }
        Ok(())
    }

    fn save(&self, to: &mut Saver) {
        self.all.save(to, |state, to| {
            to.flag(state.begun.is_some());
            let Some(begun) = state.begun else { return };
            to.age(begun, state.before);
            to.u64(state.count);
            [state.sum, state.min, state.max].iter().for_each(|number| to.f64(*number));
            to.count(state.values.len());
            for (value, count) in &state.values {
                to.bytes(value.as_bytes());
                to.u64(*count);
            }
        });
    }

    fn load(&mut self, now: Time, from: &mut Reader<'_>) -> Result<(), MemoryError> {
        let (of, extent) = (self.of, self.extent);
        self.all.load(from, |from| state(of, extent, now, from))
    }
}

fn state(
    of: Aggregate,
    extent: WindowLength,
    now: Time,
    from: &mut Reader<'_>,
) -> Result<State, MemoryError> {
    if !from.flag()? {
        return Ok(State::default());
    }
    let (begun, before, count) = (Some(now), Duration::from_nanos(from.u64()?), from.u64()?);
    // One that has all its rows would never end.
    let is_full = matches!(extent, WindowLength::Rows(rows) if count >= rows);
    from.must(!is_full, "a window that is not full")?;
    let (sum, min, max) = (from.f64()?, finite(from)?, finite(from)?);
    from.must(min <= max, "a maximum above the minimum")?;
    let mut values = BTreeMap::new();
    let mut counted = 0_u64;
    for _ in 0..from.count(DISTINCT_MAX)? {
        let (value, count) = (from.text()?.into(), from.u64()?);
        counted = counted.saturating_add(count);
        let is_new = count > 0 && values.insert(value, count).is_none();
        from.must(is_new, "a value that did not come before, and how often it came")?;
    }
    let expected = if keeps_values(of) { count } else { 0 };
    from.must(counted == expected, "the values of all rows")?;
    Ok(State { begun, before, count, sum, min, max, values })
}

/// Whether it tells values apart.
fn keeps_values(of: Aggregate) -> bool {
    matches!(of, Aggregate::Distinct | Aggregate::SecondMoment)
}

fn add(of: Aggregate, state: &mut State, number: f64, value: &Value) -> Result<(), StepError> {
    if keeps_values(of) {
        let text = value.text();
        if state.values.len() >= DISTINCT_MAX && !state.values.contains_key(&text) {
            return Err(StepError::Bound);
        }
        *state.values.entry(text).or_default() += 1;
    }
    let is_first = state.count == 0;
    state.min = if is_first { number } else { state.min.min(number) };
    state.max = if is_first { number } else { state.max.max(number) };
    state.count += 1;
    state.sum += number;
    Ok(())
}

fn result(of: Aggregate, state: &State) -> f64 {
    match of {
        Aggregate::Sum => state.sum,
        Aggregate::Average => state.sum / state.count.max(1) as f64,
        Aggregate::Min => state.min,
        Aggregate::Max => state.max,
        Aggregate::Count => state.count as f64,
        Aggregate::Distinct => state.values.len() as f64,
        Aggregate::SecondMoment => state.values.values().map(|count| (*count as f64).powi(2)).sum(),
    }
}
