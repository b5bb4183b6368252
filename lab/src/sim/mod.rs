//! Scenarios in virtual time: `lab sim NAME --seed N`.

mod catalogue;
mod command;
mod links;
mod nodes;
mod seeds;

pub use self::command::{Options, SCENARIOS, Scenario, run};
pub(crate) use tidegate_lab_engine::sim::links::{scene, statistics::mean};
pub use tidegate_lab_engine::sim::play;
pub(crate) use tidegate_lab_engine::sim::{
    Amount, Played, file, quantity, random, report, scenario, world,
};
pub(crate) use tidegate_lab_papers::sim::fleet::{Point, four_g};
