//! Rows as lines with separators (RFC 4180), and tables of such lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ROWS_MAX;
use super::value::{Row, StepError, Value};

/// How lines are read and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvFormat {
    /// Names of the fields, in order.
    pub columns: Arc<[Arc<str>]>,
    /// Between two fields.
    pub separator: char,
}

impl CsvFormat {
    /// One row a line; an empty field is none.
    ///
    /// # Errors
    /// It is not UTF-8, has a quote that does not end, or a line with more fields than there are columns.
    pub(super) fn read(&self, payload: &[u8]) -> Result<Vec<Row>, StepError> {
        let text = std::str::from_utf8(payload).map_err(|_| StepError::Parse)?;
        let mut rows = Vec::new();
        for fields in lines(text, self.separator) {
            let fields = fields?;
            if fields.len() > self.columns.len() {
                return Err(StepError::Parse);
            }
            if rows.len() >= ROWS_MAX {
                return Err(StepError::Bound);
            }
            let named = self.columns.iter().zip(fields).filter(|(_, field)| !field.is_empty());
            rows.push(named.map(|(name, field)| (name.clone(), value(&field))).collect());
        }
        Ok(rows)
    }

    /// One line, without its end. A field that is missing is empty.
    pub(super) fn write(&self, row: &Row) -> Vec<u8> {
        let odd = |c: char| c == self.separator || c == '"' || c == '\n' || c == '\r';
        let field = |name: &Arc<str>| {
            let text = row.find(name).map(Value::text).unwrap_or_default();
            if text.contains(odd) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_string()
            }
        };
        let fields: Vec<String> = self.columns.iter().map(field).collect();
        fields.join(self.separator.to_string().as_str()).into_bytes()
    }
}

/// A number, or the text as it is: what a number would not show again, as a leading 0, stays text.
fn value(field: &str) -> Value {
    let number = field.parse().ok().filter(|number: &f64| number.is_finite());
    let is_code = field.len() > 1 && field.starts_with('0') && !field.starts_with("0.");
    let starts = field.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    match number.filter(|_| starts && !is_code) {
        Some(number) => Value::Number(number),
        None => Value::Text(field.into()),
    }
}

/// The fields of each line that has some.
fn lines(text: &str, separator: char) -> impl Iterator<Item = Result<Vec<String>, StepError>> {
    let mut rest = text.chars().peekable();
    std::iter::from_fn(move || {
        while rest.next_if(|c| matches!(c, '\n' | '\r')).is_some() {}
        rest.peek()?;
        let mut fields = vec![String::new()];
        let mut is_quoted = false;
        while let Some(c) = rest.next() {
            let field = fields.last_mut()?;
            match c {
                '"' if is_quoted && rest.next_if_eq(&'"').is_some() => field.push('"'),
                '"' if is_quoted => is_quoted = false,
                c if is_quoted => field.push(c),
                '"' if field.is_empty() => is_quoted = true,
                '\n' => break,
                '\r' => {}
                c if c == separator => fields.push(String::new()),
                c => field.push(c),
            }
        }
        Some(if is_quoted { Err(StepError::Parse) } else { Ok(fields) })
    })
}

/// A table, by one of its columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(Arc<BTreeMap<Arc<str>, Row>>);

/// Lines of a table.
const LINES_MAX: usize = 1_000_000;

impl Table {
    /// Reads lines, of which the first one names the columns; of two lines with one key the later one holds.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    pub fn read(text: &str, column: &str) -> Result<Table, String> {
        let mut all = lines(text, ',');
        let unreadable = |_| "a quote does not end".to_owned();
        let head = all.next().ok_or("nothing is in it")?.map_err(unreadable)?;
        let names: Vec<Arc<str>> = head.iter().map(|name| name.trim().into()).collect();
        let key = names.iter().position(|name| **name == *column);
        let key =
            key.ok_or_else(|| format!("no column {column:?}: it has {}", names.join(", ")))?;
        let mut table = BTreeMap::new();
        for (place, fields) in all.enumerate() {
            let fields = fields.map_err(unreadable)?;
            if place >= LINES_MAX {
                return Err(format!("more than {LINES_MAX} lines"));
            }
            let Some(found) = fields.get(key).map(|field| Arc::from(field.as_str())) else {
                continue;
            };
            let others = names.iter().zip(&fields).enumerate().filter(|(place, _)| *place != key);
            let others = others.filter(|(_, (_, field))| !field.is_empty());
            table.insert(
                found,
                others.map(|(_, (name, field))| (name.clone(), value(field))).collect(),
            );
        }
        Ok(Table(Arc::new(table)))
    }

    /// The other columns of a key's line.
    pub fn find(&self, key: &str) -> Option<&Row> {
        self.0.get(key)
    }
}
