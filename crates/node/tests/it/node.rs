//! The promises of a node, each with a test that fails without it. Those of its log and its neighbours
//! stand above both, and so do those of scripts, in `crates/testing/tests/it/`.

mod accepting;
mod choosing;
mod ending;
mod filling;
mod granting;
mod owning;
mod reloading;
