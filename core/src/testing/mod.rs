//! What tests of a node share: a driver that checks every step, and random operations with a model that
//! knows what must hold after each. Only with the feature `testing`.

mod wire;

pub use self::wire::{Answer, Cut, Wire, offer};
