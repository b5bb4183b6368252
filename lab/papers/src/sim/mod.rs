//! Experiments of papers in virtual time.

pub mod adapt;
pub mod beside;
pub mod fleet;
pub mod frames;
pub mod l4s;
pub mod links;
pub mod optimum;
pub mod paper;
pub mod place;
pub mod start;
pub mod traces;

pub(crate) use tidegate_lab_engine::sim::{
    Played, Span, file, ledger, parallel, play, quantity, random, report, scenario, world,
};
