//! A record under way through operators: its payload, or the row that was read from it.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::units::Time;

/// One field of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any finite number.
    Number(f64),
    /// A text. One that reads as a number counts as one where a number is wanted: many sources quote theirs.
    Text(Arc<str>),
    /// True or false.
    Flag(bool),
}

impl Value {
    /// The number that it is or reads as; `None` for anything else, and for what is not finite.
    pub fn number(&self) -> Option<f64> {
        let number = match self {
            Value::Number(number) => *number,
            Value::Text(text) => text.trim().parse().ok()?,
            Value::Flag(_) => return None,
        };
        number.is_finite().then_some(number)
    }

    /// As text: whole numbers without a fraction.
    pub fn text(&self) -> Arc<str> {
        match self {
            Value::Number(number) => number.to_string().into(),
            Value::Text(text) => text.clone(),
            Value::Flag(flag) => flag.to_string().into(),
        }
    }
}

/// Fields by name, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row(Vec<(Arc<str>, Value)>);

impl Row {
    /// The field of this name.
    pub fn find(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// The number in the field of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn number(&self, name: &str) -> Result<f64, StepError> {
        self.find(name).ok_or(StepError::Field)?.number().ok_or(StepError::Number)
    }

    /// Puts a field in the place of one of the same name, or at the end.
    pub fn set(&mut self, name: Arc<str>, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes a field out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let place = self.0.iter().position(|(known, _)| **known == *name)?;
        Some(self.0.remove(place).1)
    }

    /// Every field.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

impl FromIterator<(Arc<str>, Value)> for Row {
    /// Of two fields with one name the later one holds.
    fn from_iter<T: IntoIterator<Item = (Arc<str>, Value)>>(fields: T) -> Self {
        let mut row = Row::default();
        fields.into_iter().for_each(|(name, value)| row.set(name, value));
        row
    }
}

/// What an item has.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemContent {
    /// Bytes that nobody has read, or that are written already.
    Payload(Bytes),
    /// Fields.
    Row(Row),
}

/// A record under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// When the node had read it; what was made of it keeps that.
    pub at: Time,
    /// What it has.
    pub content: ItemContent,
}

impl Item {
    /// Its row, for a change.
    ///
    /// # Errors
    /// Nobody has read its payload.
    pub fn row_mut(&mut self) -> Result<&mut Row, StepError> {
        match &mut self.content {
            ItemContent::Row(row) => Ok(row),
            ItemContent::Payload(_) => Err(StepError::Unread),
        }
    }
}

tidegate_types::named! {
    /// Why a step could not do its work. The record then ends there, and is counted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
    pub enum StepError {
        /// The payload is not what it should be.
        #[error("the payload cannot be read")]
        Parse = "parse",
        /// There is no such field.
        #[error("a field is missing")]
        Field = "field",
        /// A field is not a finite number.
        #[error("a field is no number")]
        Number = "number",
        /// A step wants fields, and there is only a payload.
        #[error("nobody has read the payload")]
        Unread = "unread",
        /// A bound of the step.
        #[error("more than the step holds")]
        Bound = "bound",
        /// A script failed.
        #[error("the script failed")]
        Script = "script",
        /// An external process gave no answer, or is not there.
        #[error("the process did not answer")]
        Process = "process",
        /// A mistake of ours.
        #[error("the step panicked")]
        Panic = "panic",
    }
}
