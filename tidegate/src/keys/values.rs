//! What a key can hold: how it is read, what it may be, and how it is written.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::de::{Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess};

use super::findings::Findings;
use super::key::Key;
use super::places::Place;

/// What a value may be.
#[derive(Clone, Debug)]
pub enum Shape {
    /// True or false.
    Flag,
    /// A whole number, 0 or more.
    Whole,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A text of a form.
    Form(Form),
    /// One of several names, or a table of one key that is one of them.
    Choice(Vec<Choice>),
    /// Several values.
    List(Box<Shape>),
    /// One value, or a list of them.
    OneOrMore(Box<Shape>),
    /// Values by names that the file chooses.
    Map(Box<Shape>),
    /// Keys that are declared.
    Table(fn() -> Vec<Key>),
    /// A value of several types, by their names in JSON.
    Any(&'static [&'static str]),
}

impl Shape {
    /// Whether all its values are texts.
    pub fn is_text(&self) -> bool {
        match self {
            Shape::Text | Shape::Form(_) => true,
            Shape::Choice(all) => all.iter().all(|choice| choice.inner.is_none()),
            _ => false,
        }
    }

    /// The keys of it, where it is a table or a list of tables.
    pub fn table(&self) -> Option<Vec<Key>> {
        match self {
            Shape::Table(keys) => Some(keys()),
            Shape::List(inner) => inner.table(),
            _ => None,
        }
    }
}

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// What it is, in a word or two.
    pub name: &'static str,
    /// A regular expression, of those that all dialects share, for all of the text.
    pub pattern: &'static str,
}

/// A name that can be chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    /// As it is written.
    pub name: &'static str,
    /// What it means, in one line.
    pub about: String,
    /// What stands in the table of its name, where it is one.
    pub inner: Option<fn() -> Shape>,
}

impl Choice {
    /// A name alone.
    pub fn new(name: &'static str, about: &[&str]) -> Choice {
        let about = about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        Choice { name, about, inner: None }
    }

    /// A table of this name.
    #[must_use]
    pub fn of(self, inner: fn() -> Shape) -> Choice {
        Choice { inner: Some(inner), ..self }
    }
}

/// A value of a key.
pub trait Value: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// It is no such value.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// What it may be.
    fn shape() -> Shape;

    /// As TOML; nothing where it is left out.
    fn written(&self) -> Option<String>;

    /// How much it is, for bounds.
    fn amount(&self) -> Option<f64> {
        None
    }

    /// What a key without a default is where it is left out; `None` where it must be given.
    fn absent() -> Option<Self> {
        None
    }

    /// Finds what is wrong with the keys in it.
    fn check(&self, place: &Place, findings: &mut Findings) {
        let _ = (place, findings);
    }
}

/// A text between quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A table in one line, without what is left out.
pub(crate) fn inline_table<const N: usize>(parts: [(&str, Option<String>); N]) -> String {
    let given = parts.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}", value?)));
    format!("{{ {} }}", given.collect::<Vec<_>>().join(", "))
}

/// What serde reads: its shape, how it is written, and how much it is.
macro_rules! values {
    ($($Type:ty: $shape:expr, |$value:ident| $written:expr $(, $amount:expr)?;)+) => {$(
        impl $crate::keys::values::Value for $Type {
            fn read<'de, D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                ::serde::Deserialize::deserialize(deserializer)
            }

            fn shape() -> $crate::keys::values::Shape {
                $shape
            }

            fn written(&self) -> Option<String> {
                let $value = self;
                Some($written)
            }

            $(fn amount(&self) -> Option<f64> {
                let $value = self;
                $amount
            })?
        }
    )+};
}
pub(crate) use values;

const ADDRESS: Form = Form { name: "address and port", pattern: "^.+:[0-9]+$" };

values! {
    bool: Shape::Flag, |flag| flag.to_string();
    i32: Shape::Whole, |number| number.to_string(), Some(f64::from(*number));
    u8: Shape::Whole, |number| number.to_string(), Some(f64::from(*number));
    u16: Shape::Whole, |number| number.to_string(), Some(f64::from(*number));
    u32: Shape::Whole, |number| number.to_string(), Some(f64::from(*number));
    u64: Shape::Whole, |number| number.to_string(), Some(*number as f64);
    usize: Shape::Whole, |number| number.to_string(), Some(*number as f64);
    f64: Shape::Number, |number| format!("{number:?}"), Some(*number);
    char: Shape::Text, |letter| quoted(&letter.to_string());
    String: Shape::Text, |text| quoted(text);
    PathBuf: Shape::Text, |path| quoted(&path.display().to_string());
    SocketAddr: Shape::Form(ADDRESS), |address| quoted(&address.to_string());
}

/// Algorithms, which their crates list, each with its name and what it does.
macro_rules! algorithms {
    ($($Name:ty),+) => {$(
        impl $crate::keys::values::Value for $Name {
            fn read<'de, D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::keys::by_name(deserializer)
            }

            fn shape() -> $crate::keys::values::Shape {
                let choice = |one: Self| $crate::keys::values::Choice::new(one.name(), &[one.about()]);
                $crate::keys::values::Shape::Choice(Self::ALL.map(choice).to_vec())
            }

            fn written(&self) -> Option<String> {
                Some($crate::keys::values::quoted(self.name()))
            }
        }
    )+};
}

algorithms!(tidegate_schedule::SchedulerName, tidegate_capacity::RateControllerName);

impl<T: Value> Value for Option<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Some)
    }

    fn shape() -> Shape {
        T::shape()
    }

    fn written(&self) -> Option<String> {
        self.as_ref().and_then(T::written)
    }

    fn amount(&self) -> Option<f64> {
        self.as_ref().and_then(T::amount)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        self.iter().for_each(|value| value.check(place, findings));
    }
}

impl<T: Value + DeserializeOwned> Value for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer)
    }

    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }

    fn written(&self) -> Option<String> {
        let values: Vec<String> = self.iter().filter_map(T::written).collect();
        Some(format!("[{}]", values.join(", ")))
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        for (index, value) in self.iter().enumerate() {
            value.check(&place.to(index), findings);
        }
    }
}

impl<T: Value + DeserializeOwned> Value for BTreeMap<String, T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer)
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(T::shape()))
    }

    fn written(&self) -> Option<String> {
        let pair =
            |(name, value): (&String, &T)| Some(format!("{} = {}", quoted(name), value.written()?));
        Some(format!("{{ {} }}", self.iter().filter_map(pair).collect::<Vec<_>>().join(", ")))
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        for (name, value) in self {
            value.check(&place.to(name.as_str()), findings);
        }
    }
}
/// Reads a value of a type.
#[derive(Debug)]
struct Of<T>(PhantomData<T>);

impl<'de, T: Value> DeserializeSeed<'de> for Of<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }
}

/// Reads the value of a key, which may stand under one of its names only.
pub(crate) fn read_once<'de, T: Value, A: MapAccess<'de>>(
    field: &mut Option<T>,
    name: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    if field.is_some() {
        return Err(A::Error::duplicate_field(name));
    }
    *field = Some(map.next_value_seed(Of(PhantomData))?);
    Ok(())
}
