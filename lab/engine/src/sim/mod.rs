//! Virtual time: the whole core node over an emulated link, seeded and bit-for-bit repeatable.
//!
//! A `scenario` describes a node, its loads and its link; `world` is the loop that joins the parts; `file` plays a world
//! of a file by it.

mod agenda;
mod build;
mod connection;
mod cubic;
mod feedback;
pub mod file;
pub mod ledger;
mod link;
pub mod links;
mod load;
mod loss_based;
pub mod parallel;
pub mod quantity;
pub mod random;
pub mod report;
pub mod scenario;
pub mod world;

pub use self::file::{Played, play};
pub use self::quantity::{Amount, QuantityError, Span, Speed};
