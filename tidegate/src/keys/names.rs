//! Values that are one of a list of names.

use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tidegate_types::names::NamedVariants;

/// Reads an algorithm by its name: the crate that declares the algorithms has the only list.
pub(crate) fn by_name<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: NamedVariants + FromStr<Err = String>,
{
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(|text| match T::GONE.iter().any(|(was, _)| *was == name) {
        true => D::Error::custom(text),
        false => D::Error::unknown_variant(&name, T::NAMES),
    })
}
