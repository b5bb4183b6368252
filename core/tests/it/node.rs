//! The promises of a node, each with a test that fails without it.

mod support;

mod accepting;
mod adapting;
mod changing;
mod choosing;
mod ending;
mod filling;
mod granting;
mod limiting;
mod logging;
mod marking;
mod owning;
mod patient;
mod preparing;
mod redirecting;
mod relaying;
mod reloading;
mod remembering;
mod sharing;
