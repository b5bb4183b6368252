//! What the keys of all sections of the configuration have in common: how they are declared (`table`, `key`, `values`),
//! quantities with their units, urls, files of TLS, passwords, the place of a value in the text, and what is found wrong
//! there.
//!
//! A section or a kind of output is made of these, so they stand below all that has keys
//! (docs/decisions/0102-one-folder-a-kind.md, docs/decisions/0103-a-key-is-declared-once.md).

pub(crate) mod both_ends;
pub mod far_end;
pub mod findings;
pub mod key;
pub mod mqtt;
mod names;
pub mod network;
pub mod places;
pub(crate) mod secrets;
pub mod table;
pub mod units;
pub mod url;
pub mod values;

pub(crate) use self::names::by_name;
