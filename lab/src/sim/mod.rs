//! Virtual time: the whole core node over an emulated link, seeded and bit-for-bit repeatable.
//!
//! `lab sim NAME --seed N` runs a scenario; `world` is the loop that joins the parts.

pub(crate) mod adapt;
mod agenda;
mod build;
mod catalogue;
mod command;
mod connection;
mod feedback;
mod file;
mod fleet;
mod frames;
mod ledger;
mod link;
mod links;
mod load;
mod nodes;
mod optimum;
mod paper;
mod parallel;
mod place;
mod quantity;
pub(crate) mod random;
mod reno;
mod report;
mod scenario;
mod seeds;
mod traces;
mod world;

pub use self::command::{Options, SCENARIOS, Scenario, run};
pub use self::file::{Played, play};
pub(crate) use self::fleet::{Point, four_g};
pub use self::quantity::{Amount, QuantityError, Span, Speed};
pub(crate) use self::traces::{
    FOLDER as RECORDED, Trace as RecordedLink, absent as no_recorded_links, keeps_beside_bbr,
    traces as recorded_links,
};
